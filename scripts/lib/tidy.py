#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0
"""tidy.py BUILD JOBS [FOLDER]: clang-tidy over the sources of a configured build, each once; of those
below a folder alone, by its .clang-tidy.

The sources of a target are read as one unit, so that what they share is read once: a quarter of the
time. A unit is named UnifiedSource*, since the static analyzer follows paths through included
sources only then.
"""

import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys

# The analyzer gives a function up after so many states instead of 225000: half of the time.
CLANG_TIDY = ["clang-tidy-19", "-quiet",
              *(f"-extra-arg={a}" for a in ("-Xclang", "-analyzer-config", "-Xclang", "max-nodes=5000",
                                            "-Wreserved-identifier"))]


def write_units(build, folder, below):
    """Writes into the folder the units and their compile database; answers them, longest first."""
    members = {}
    seen = set()
    with open(os.path.join(build, "compile_commands.json")) as file:
        for entry in json.load(file):
            source = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
            if source not in seen and source.startswith(below):
                seen.add(source)
                target = os.path.dirname(entry["output"]), os.path.splitext(source)[1]
                members.setdefault(target, []).append((source, entry))
    database = []
    sizes = {}
    for (target, extension), sources in members.items():
        unit = os.path.join(folder, f"UnifiedSource-{re.sub(r'[^a-z0-9]+', '-', target)}{extension}")
        with open(unit, "w") as file:
            for source, _ in sources:
                file.write(f'#include "{source}"  // NOLINT(bugprone-suspicious-include)\n')
        entry = sources[0][1]
        command = [a for a in shlex.split(entry["command"]) if a not in ("ccache", entry["file"])]
        database.append({"directory": entry["directory"], "file": unit, "arguments": [*command, unit]})
        sizes[unit] = sum(os.path.getsize(source) for source, _ in sources)
    with open(os.path.join(folder, "compile_commands.json"), "w") as file:
        json.dump(database, file)
    print(f"{len(seen)} sources in {len(sizes)} units")
    return sorted(sizes, key=sizes.get, reverse=True)


def main():
    build, jobs = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    folder = os.path.join(build, "tidy")
    os.makedirs(folder, exist_ok=True)

    below = os.path.join(os.path.abspath(sys.argv[3]), "") if len(sys.argv) > 3 else ""
    options = []
    if below:
        with open(below + ".clang-tidy") as file:
            options.append("-config=" + file.read())

    def read(unit):
        return subprocess.run([*CLANG_TIDY, *options, "-p", folder, unit], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)

    bad = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for result in pool.map(read, write_units(build, folder, below)):
            if result.returncode != 0:
                bad += 1
                print(result.stdout, flush=True)
    print(f"{bad} units with findings")
    return 1 if bad else 0


sys.exit(main())
