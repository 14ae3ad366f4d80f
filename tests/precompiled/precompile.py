#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0
"""precompile.py TARGET HEADER OUTPUT [ARGUMENT...]: precompiles a header as the sources of a target are compiled,
with so many arguments more.

To be run where ninja runs. The compiler's arguments are those that Meson wrote into
compile_commands.json, so that they cannot come to differ. Beside the output stand its dependency file,
what it was made of (.made), and what ccache takes for its contents (.sum).
"""

import hashlib
import json
import os
import shlex
import subprocess
import sys

VALUES_APART = ("-o", "-MF", "-MQ", "-MT", "-include", "-c")


def arguments_of(target):
    """The compiler and its arguments for the first source of a target, without those of its files."""
    with open("compile_commands.json") as file:
        for entry in json.load(file):
            if os.path.dirname(entry["output"]) == target:
                break
        else:
            sys.exit(f"precompile.py: compile_commands.json has no source of {target}")
    arguments = []
    words = iter(shlex.split(entry["command"]))
    for word in words:
        if word in VALUES_APART:
            next(words)
        elif word not in ("ccache", "-MD") and not word.startswith("-I"):
            arguments.append(word)
    return arguments


def is_current(output, command):
    """Whether the output was made by this command, of files that have not changed since."""
    try:
        with open(output + ".made") as file:
            made = json.load(file)
        age = os.stat(output).st_mtime
        return made["command"] == command and all(os.stat(name).st_mtime <= age for name in made["read"])
    except (OSError, ValueError, KeyError):
        return False


def main():
    target, header, output, *more = sys.argv[1:]
    command = [*arguments_of(target), *more, "-x", "c++-header", header, "-o", output,
               "-MD", "-MF", output + ".d", "-MQ", output]
    if not is_current(output, command):
        subprocess.run(command, check=True)
        with open(output + ".d") as file:
            read = file.read().replace("\\\n", " ").split(":", 1)[1].split()
        # What ccache takes for the file's contents, since two precompilations of the same differ.
        contents = hashlib.sha256()
        for name in read:
            with open(name, "rb") as file:
                contents.update(file.read())
        with open(output + ".sum", "w") as file:
            file.write(contents.hexdigest())
        with open(output + ".made", "w") as file:
            json.dump({"command": command, "read": read}, file)
    # With other arguments it has to be made anew: its users could not read it. ninja takes this file away.
    with open(output + ".made") as file:
        read = json.load(file)["read"]
    with open(output + ".d", "w") as file:
        file.write(output + ": compile_commands.json " + " ".join(read) + "\n")


main()
