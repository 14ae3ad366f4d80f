#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0
"""tidy.py BUILD JOBS [FOLDER]: clang-tidy over the sources of a configured build, each once; of those
below a folder alone, by its .clang-tidy.

What stands in one folder of core, plugins and tools is read as one unit, and so is what TOGETHER names; elsewhere
the sources of a target. What they share is then read once, and looked through by each check once: that alone takes
8 s of a unit of two sources. A unit is named UnifiedSource*, since the static analyzer follows paths through
included sources only then.
"""

import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys

# The analyzer gives a function up after so many states instead of 225000: less than half of the time.
CLANG_TIDY = ["clang-tidy-19", "-quiet",
              *(f"-extra-arg={a}" for a in ("-Xclang", "-analyzer-config", "-Xclang", "max-nodes=2500",
                                            "-Wreserved-identifier"))]

# Not of a program that takes words apart and ends: in a unit with CLI11, whose functions take strings by value, this
# check has more than half of the time, since it looks up the parents of all that the unit includes.
NOT_OF_TOOLS = "-checks=-performance-unnecessary-value-param"

# Folders in which no two sources give one name to different things of their own. Plugins each define the same entry.
TOGETHER = (("core/comm", "core/api", "plugins/p2p"), ("core/bootstrap", "core/base", "plugins/net-socket"),
            ("core/topology", "core/plugin"), ("core/schedule", "core/config", "core/transport", "plugins/shm"),
            ("tools/weft", "plugins/tuner"))


def unit_of(target):
    """The unit that a target's sources belong to, by its folder in the build."""
    if not target.startswith(("core/", "plugins/", "tools/")):
        return target
    folder = "/".join(target.split("/")[:2])
    return next((folders[0] for folders in TOGETHER if folder in folders), folder)


def merged(entries):
    """The compiler and its arguments for several sources: what each of them needs, once."""
    arguments = {}
    for entry in entries:
        words = iter(shlex.split(entry["command"]))
        for word in words:
            if word in ("-o", "-MF", "-MQ"):
                next(words)
            elif word in ("-include", "-isystem"):
                arguments[word, next(words)] = None
            elif word not in ("ccache", "-MD", entry["file"]):
                arguments[word,] = None
    return [word for words in arguments for word in words]


def write_units(build, folder, below):
    """Writes into the folder the units and their compile database; answers them, longest first."""
    members = {}
    seen = set()
    with open(os.path.join(build, "compile_commands.json")) as file:
        for entry in json.load(file):
            source = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
            if source not in seen and source.startswith(below):
                seen.add(source)
                unit = unit_of(os.path.dirname(entry["output"])), os.path.splitext(source)[1]
                members.setdefault(unit, []).append((source, entry))
    database = []
    sizes = {}
    for (name, extension), sources in members.items():
        unit = os.path.join(folder, f"UnifiedSource-{re.sub(r'[^a-z0-9]+', '-', name)}{extension}")
        with open(unit, "w") as file:
            for source, _ in sources:
                file.write(f'#include "{source}"  // NOLINT(bugprone-suspicious-include)\n')
        database.append({"directory": build, "file": unit,
                         "arguments": [*merged(entry for _, entry in sources), unit]})
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
        left_out = [NOT_OF_TOOLS] if os.path.basename(unit).startswith("UnifiedSource-tools-") else []
        return subprocess.run([*CLANG_TIDY, *options, *left_out, "-p", folder, unit], stdout=subprocess.PIPE,
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
