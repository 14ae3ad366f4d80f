#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0

"""Lets spin search all states of a model.

Without --plant there must be no error, all states must have been visited, and no statement may be
out of reach. With --plant NAME the model has that mistake, and spin must find it by what
the model's head says: `// PLANT_NAME: a deadlock` or `an assertion`. --trail also prints how it got
there, the shortest way. Ends with 77, skipped, where spin is not installed.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
MEMORY_MIB = 1000
FOUND_BY = {"a deadlock": "invalid end state", "an assertion": "assertion violated"}


def run(command, folder):
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def documented_plants(text):
    """Name to how it is found, as the head of the model says."""
    return dict(re.findall(r"^// (PLANT_\w+): (.+)$", text, re.MULTILINE))


def check_sources(model, text):
    """The sources that the head names name the model."""
    named = re.findall(r"\bcore/[\w/]+\.(?:h|cc|cuh|cu)\b", text)
    for source in sorted(set(named)):
        path = model.resolve().parents[2] / source
        if not path.exists() or f"models/{model.name}" not in path.read_text(encoding="utf-8"):
            sys.exit(f"{source} does not name its model, tests/models/{model.name}")
    if not named:
        sys.exit(f"{model} names no source")


def check_plants(text, tested):
    """What is planted, what is said of it and what is tested are the same."""
    said = documented_plants(text)
    planted = set(re.findall(r"^#.*?\b(PLANT_\w+)", text, re.MULTILINE))
    for line in re.findall(r"^#(?:el)?if .*$", text, re.MULTILINE):
        planted.update(re.findall(r"PLANT_\w+", line))
    for name, how in said.items():
        if how not in FOUND_BY:
            sys.exit(f"the head says that {name} is found by {how}: one of {', '.join(FOUND_BY)}")
    if not planted == set(said) == set(tested):
        sys.exit(f"the planted mistakes differ: in the model {sorted(planted)}, in its head "
                 f"{sorted(said)}, tested {sorted(tested)}")


def search(model, defines, compiler, folder):
    """The report of spin's verifier."""
    shutil.copy(model, folder)
    # -o3: statements are not merged, so that each out of reach is seen.
    status, output = run(["spin", "-a", "-o3", *defines, model.name], folder)
    if status != 0 or re.search(r"\berror\b", output, re.IGNORECASE):
        sys.exit(f"spin does not take {model}:\n{output}")
    # Breadth first: complete at any depth, and the first error has the shortest way to it.
    # Without optimization: it is compiled for longer than it runs.
    status, output = run([*compiler, "-O0", "-w", "-DSAFETY", "-DBFS", f"-DMEMLIM={MEMORY_MIB}",
                          "-o", "pan", "pan.c"], folder)
    if status != 0:
        sys.exit(f"spin's verifier does not compile:\n{output}")
    return run(["./pan", "-w22"], folder)


def problem_of(report, status, expected):
    """What is wrong with a search; None if it went as it must."""
    errors = re.search(r"errors: (\d+)", report)
    if status != 0 or errors is None:
        return f"the search broke off with status {status}"
    first = re.search(r"^pan:\d+: (.*)$", report, re.MULTILINE)
    if expected is not None:
        if first is None or int(errors[1]) == 0:
            return "the planted mistake was not found"
        if FOUND_BY[expected] not in first[1]:
            return f"the planted mistake was not found by {expected}, but: {first[1]}"
        return None
    if first is not None or int(errors[1]) != 0:
        return f"the model does not hold: {first[1] if first else report}"
    for sign in ("not completed", "too small", "MEMLIM", "out of memory"):
        if sign in report:
            return f"the search is not complete ({sign})"
    out_of_reach = re.findall(r"^\t(\S+:\d+), state \d+, \"(?!-end-)(.*)\"$", report, re.MULTILINE)
    if out_of_reach:
        return "out of reach: " + ", ".join(f"{where} {what}" for where, what in out_of_reach)
    if "unreached in" not in report:
        return "the report does not say what is out of reach"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--plant", help="the mistake to plant and to find")
    parser.add_argument("--plants", nargs="*", help="those that are tested: all must be")
    parser.add_argument("--define", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--compiler", nargs="+", default=["cc"])
    parser.add_argument("--trail", action="store_true", help="print the way to the error")
    options = parser.parse_args()
    text = options.model.read_text(encoding="utf-8")
    if options.plants is not None:
        check_plants(text, options.plants)
        check_sources(options.model, text)
    expected = None
    if options.plant:
        expected = documented_plants(text).get(options.plant)
        if expected not in FOUND_BY:
            sys.exit(f"{options.model} does not say how {options.plant} is found")
    if shutil.which("spin") is None:
        print("spin is not installed (Debian's package spin)")
        sys.exit(SKIPPED)

    defines = [f"-D{define}" for define in options.define]
    if options.plant:
        defines.append(f"-D{options.plant}")
    with tempfile.TemporaryDirectory(prefix="weft-model-") as folder:
        status, report = search(options.model, defines, options.compiler, folder)
        problem = problem_of(report, status, expected)
        trail = pathlib.Path(folder, options.model.name + ".trail")
        if trail.exists() and (options.trail or (problem is not None and expected is None)):
            print(run(["spin", "-o3", "-t", "-p", "-g", *defines, options.model.name], folder)[1])
    found = re.search(r"^pan:\d+: (.*)$", report, re.MULTILINE)
    states = re.search(r"(\d+) states, stored", report)
    print(f"{states[1] if states else '?'} states; {found[1] if found else 'no error'}")
    if problem is not None:
        print(report)
        sys.exit(problem)


if __name__ == "__main__":
    main()
