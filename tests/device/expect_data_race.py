# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a program built with a thread sanitizer; succeeds when the sanitizer reports a data race."""
import os
import subprocess
import sys

EXIT_CODE = 66

environment = dict(os.environ, TSAN_OPTIONS=f"exitcode={EXIT_CODE} halt_on_error=1")
run = subprocess.run(sys.argv[1:], env=environment, capture_output=True, text=True, check=False)
if run.returncode == EXIT_CODE and "WARNING: ThreadSanitizer: data race" in run.stderr:
    print("the planted data race was found")
    sys.exit(0)
print(run.stdout, run.stderr, sep="\n")
sys.exit(f"no data race was reported; the program ended with {run.returncode}")
