#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0

"""Compiles each header alone, in every dialect in which somebody includes it.

    headers.py installed TREE CC CXX    include/: as C11, C++17 and C++20, pedantic
    headers.py device TREE CXX          core/model and core/device: as C++20
    headers.py nvcc TREE NVCC|-         the same by nvcc, host/ aside; 77 (skipped) without one
"""

import concurrent.futures
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
NVCC_FLAGS = ["-std=c++20", "-arch=sm_90", "-x", "cu", "-c", "--expt-relaxed-constexpr",
              "-Werror", "all-warnings", "-ccbin", os.environ.get("NVCC_CCBIN", "g++")]


def headers_under(tree, *folders):
    found = sorted(path for folder in folders for path in (tree / folder).rglob("*.h"))
    missing = [folder for folder in folders
               if not any((tree / folder) in path.parents for path in found)]
    if missing:
        sys.exit(f"no header under {', '.join(missing)}: nothing was checked")
    return found


def compile_text(command, text, suffix):
    """The diagnostics of compiling `text`, empty when it compiled."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / f"alone{suffix}"
        source.write_text(text, encoding="utf-8")
        done = subprocess.run(command + [str(source)], cwd=folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", check=False)
    if done.returncode == 0:
        return ""
    return done.stdout or f"{command[0]} ended with status {done.returncode}"


def run(jobs):
    """jobs: (title, command, text, suffix). Prints what failed; answers the exit status."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        results = list(pool.map(lambda job: (job[0], compile_text(*job[1:])), jobs))
    failed = [(title, output) for title, output in results if output]
    for title, output in failed:
        print(f"{title}:\n{output}")
    print(f"{len(results) - len(failed)} of {len(results)} compilations succeeded")
    return 1 if failed else 0


def installed(tree, c_compiler, cxx_compiler):
    include = tree / "include"
    jobs = []
    for header in headers_under(tree, "include/weft", "include/plugin_api"):
        name = header.relative_to(include).as_posix()
        # Twice: a guard that guards nothing shows.
        text = f"#include <{name}>\n#include <{name}>\n"
        for compiler, language, dialect, suffix in (
                (c_compiler, "c", "c11", ".c"), (cxx_compiler, "c++", "c++17", ".cc"),
                (cxx_compiler, "c++", "c++20", ".cc")):
            command = shlex.split(compiler) + ["-x", language, f"-std={dialect}", "-fsyntax-only",
                                               *STRICT, "-I", str(include)]
            jobs.append((f"{name} as {dialect}", command,
                         text + ("int alone;\n" if language == "c" else ""), suffix))
    return run(jobs)


def device(tree, cxx_compiler):
    command = shlex.split(cxx_compiler) + ["-x", "c++", "-std=c++20", "-fsyntax-only", *STRICT,
                                           "-I", str(tree), "-I", str(tree / "include")]
    names = [header.relative_to(tree).as_posix()
             for header in headers_under(tree, "core/model", "core/device")
             if "cuda" not in header.relative_to(tree).parts]
    return run([(name, command, f'#include "{name}"\n', ".cc") for name in names])


def nvcc(tree, compiler):
    if compiler == "-":
        print("no nvcc was found: the device headers were not compiled by it")
        return 77
    # One translation unit: that each stands alone is the business of the faster compiler.
    names = [header.relative_to(tree).as_posix()
             for header in headers_under(tree, "core/model", "core/device")
             if "host" not in header.relative_to(tree).parts]
    text = "".join(f'#include "{name}"\n' for name in names)
    command = [compiler, *NVCC_FLAGS, "-o", os.devnull, "-I", str(tree), "-I",
               str(tree / "include")]
    return run([(f"{len(names)} headers by nvcc", command, text, ".cu")])


def main():
    modes = {"installed": (installed, 2), "device": (device, 1), "nvcc": (nvcc, 1)}
    if len(sys.argv) < 3 or sys.argv[1] not in modes:
        print(__doc__, file=sys.stderr)
        return 2
    mode, compilers = modes[sys.argv[1]]
    if len(sys.argv) != 3 + compilers:
        print(__doc__, file=sys.stderr)
        return 2
    return mode(pathlib.Path(sys.argv[2]).resolve(), *sys.argv[3:])


if __name__ == "__main__":
    sys.exit(main())
