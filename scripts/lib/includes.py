#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0
"""includes.py BUILD JOBS FOLDER...: whether each source below these folders compiles by itself.

The scripts' builds and clang-tidy read the sources of a target as one unit, where a source finds what
only another one includes. Here each is parsed alone; no code is made. The first source of a target
is not: its unit already begins with it.
"""

import concurrent.futures
import json
import os
import shlex
import subprocess
import sys


def parse(entry):
    """Parses one source of the compile database; answers what the compiler says, empty if all is well."""
    words = [word for word in shlex.split(entry["command"]) if word != "ccache"]
    output = words.index("-o")
    result = subprocess.run([*words[:output], *words[output + 2:], "-fsyntax-only", "-w"],
                            cwd=entry["directory"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    return result.stdout if result.returncode else ""


def main():
    build, jobs = sys.argv[1], int(sys.argv[2])
    below = tuple(os.path.join(os.path.abspath(folder), "") for folder in sys.argv[3:])
    entries = {}
    first = {}
    with open(os.path.join(build, "compile_commands.json")) as file:
        for entry in json.load(file):
            source = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
            if source.startswith(below):
                first.setdefault(os.path.dirname(entry["output"]), source)
                entries[source] = entry
    for source in first.values():
        entries.pop(source, None)
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for said in pool.map(parse, entries.values()):
            if said:
                bad += 1
                print(said, flush=True)
    print(f"{len(entries)} sources, {bad} do not compile by themselves; {len(first)} begin their unit")
    return 1 if bad or not entries else 0


sys.exit(main())
