#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0
"""precompile.py TARGET HEADER OUTPUT: precompiles a header as the sources of a target are compiled.

To be run where ninja runs. The compiler's arguments are those that Meson wrote into
compile_commands.json, so that they cannot come to differ. Beside the output stands its dependency file.
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


def main():
    target, header, output = sys.argv[1:]
    subprocess.run([*arguments_of(target), "-x", "c++-header", header, "-o", output,
                    "-MD", "-MF", output + ".d", "-MQ", output], check=True)
    with open(output + ".d") as file:
        made = file.read()
    # With other arguments it has to be made anew: its users could not read it.
    with open(output + ".d", "w") as file:
        file.write(made.replace(":", ": compile_commands.json", 1))
    # What ccache takes for the file's contents, since two precompilations of the same differ.
    read = made.replace("\\\n", " ").split(":", 1)[1].split()
    contents = hashlib.sha256()
    for name in read:
        with open(name, "rb") as file:
            contents.update(file.read())
    with open(output + ".sum", "w") as file:
        file.write(contents.hexdigest())


main()
