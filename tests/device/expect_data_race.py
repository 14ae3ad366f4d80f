# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a program built with a thread sanitizer once with each further argument alone; succeeds when
the sanitizer reports a data race every time."""
import os
import subprocess
import sys

EXIT_CODE = 66

environment = dict(os.environ, TSAN_OPTIONS=f"exitcode={EXIT_CODE} halt_on_error=1")
program, *arguments = sys.argv[1:]
for argument in arguments:
    run = subprocess.run([program, argument], env=environment, capture_output=True, text=True,
                         check=False)
    if run.returncode != EXIT_CODE or "WARNING: ThreadSanitizer: data race" not in run.stderr:
        print(run.stdout, run.stderr, sep="\n")
        sys.exit(f"no data race was reported with {argument}; the program ended with "
                 f"{run.returncode}")
    print(f"the planted data race was found with {argument}")
if not arguments:
    sys.exit("nothing was run")
