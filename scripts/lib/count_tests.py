#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0

"""Counts what `meson test` ran: count_tests.py BUILD_FOLDER STATUS_OF_MESON_TEST.

A GoogleTest program counts as its cases, any other test as one. Prints each skip with its reason,
each failure with how it begins, and last `N passed, N failed, N skipped`. Ends non-zero when something failed, when
meson test did, or when nothing ran.
"""

import json
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP", "IGNORED"}


def gtest_cases(report):
    """(name, outcome, reason) of each case in a GoogleTest report; None where it is no report."""
    try:
        root = ElementTree.parse(report).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    cases = []
    for case in root.iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        skipped = case.find("skipped")
        failure = case.find("failure")
        if failure is not None:
            cases.append((name, "failed", " ".join((failure.get("message") or "").split())[:400]))
        elif skipped is not None:
            # GoogleTest puts the place in front of the reason.
            reason = re.sub(r"^\S+:\d+\s+", "", (skipped.get("message") or "").strip())
            cases.append((name, "skipped", reason))
        elif case.get("status") == "notrun":
            cases.append((name, "skipped", "disabled"))
        else:
            cases.append((name, "passed", ""))
    return cases


def skip_reason(record):
    """The last line a test wrote before it skipped itself."""
    lines = (record.get("stdout", "") + "\n" + record.get("stderr", "")).strip().splitlines()
    return lines[-1].strip() if lines else ""


def failure_reason(record):
    """How a test without cases failed: the outcome, and the line that says so or else the last one."""
    lines = (record.get("stdout", "") + "\n" + record.get("stderr", "")).strip().splitlines()
    said = next((line for line in lines if re.match(r"\W*FAILED\b", line)), lines[-1] if lines else "")
    return " ".join(f"{record['result'].lower()} {said}".split())[:400]


def count(build):
    """The totals by outcome, and a line for each case that did not pass."""
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    notes = []
    log = build / "meson-logs" / "testlog.json"
    if not log.exists():
        return totals, notes
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        record = json.loads(line)
        name, result = record["name"], record["result"]
        if result in PASSED:
            whole = "passed"
        elif result in SKIPPED:
            whole = "skipped"
        else:
            whole = "failed"
        cases = gtest_cases(build / (name.split(" / ")[-1] + ".xml")) or []
        for case, outcome, reason in cases:
            totals[outcome] += 1
            if outcome != "passed":
                notes.append(f"{outcome}: {name}: {case}" + (f": {reason}" if reason else ""))
        # A program may fail with no case to blame: a leak at exit, a crash, a time limit.
        if not cases or (whole == "failed" and all(o != "failed" for _, o, _ in cases)):
            totals[whole] += 1
            if whole != "passed":
                reason = skip_reason(record) if whole == "skipped" else failure_reason(record)
                notes.append(f"{whole}: {name}" + (f": {reason}" if reason else ""))
    return totals, notes


def main():
    build, status = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    totals, notes = count(build)
    print()
    for note in sorted(set(notes)):
        print(" ".join(note.split()))
    if not totals["passed"] and not totals["failed"]:
        print("no test ran", file=sys.stderr)
        status = status or 1
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**totals), flush=True)
    return 1 if totals["failed"] or status else 0


if __name__ == "__main__":
    sys.exit(main())
