#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0

"""Checks which symbols leave the binaries of a build.

    exports.py plugins BUILD            each plugin exports weft_plugin_entry and nothing else
    exports.py library BUILD TREE       libweft.so exports what weft.h declares and nothing else
"""

import pathlib
import re
import subprocess
import sys

DECLARATION = re.compile(r"\bWEFT_API\b[^;(]*?\b(weft_\w+)\s*\(")


def exported(binary):
    """The (type, name) of each symbol that `binary` defines for others."""
    done = subprocess.run(["nm", "-D", "--defined-only", "--format=posix", str(binary)],
                          stdout=subprocess.PIPE, text=True, check=True)
    symbols = set()
    for line in done.stdout.splitlines():
        name, kind = line.split()[:2]
        # An absolute symbol is the name of a version, not something to bind to.
        if kind != "A":
            symbols.add((kind, name.split("@")[0]))
    return symbols


def check(binary, wanted, build):
    names = {name for _, name in exported(binary)}
    problems = [f"exports {name}" for name in sorted(names - wanted)]
    problems += [f"does not export {name}" for name in sorted(wanted - names)]
    for problem in problems:
        print(f"{binary.relative_to(build)} {problem}")
    return not problems


def plugins(build):
    found = sorted((build / "plugins").rglob("*.so"))
    if not found:
        print(f"no plugin under {build}/plugins: nothing was checked")
        return 1
    good = [check(binary, {"weft_plugin_entry"}, build) for binary in found]
    for binary in found:
        # Data, so that it can be read without running code of the plugin.
        if any(kind not in "DRBV" for kind, name in exported(binary) if name == "weft_plugin_entry"):
            print(f"{binary.relative_to(build)}: weft_plugin_entry is not data")
            good.append(False)
    print(f"{len(found)} plugins: {', '.join(binary.name for binary in found)}")
    return 0 if all(good) else 1


def library(build, tree):
    declared = set(DECLARATION.findall((tree / "include/weft/weft.h").read_text(encoding="utf-8")))
    found = sorted({path.resolve() for path in (build / "core").rglob("libweft.so*")
                    if path.is_file() and not re.search(r"\.p/", path.as_posix())})
    if not found or not declared:
        print(f"{len(found)} libraries, {len(declared)} declarations: nothing was checked")
        return 1
    good = [check(binary, declared, build) for binary in found]
    print(f"{found[0].name}: {len(declared)} functions")
    return 0 if all(good) else 1


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "plugins":
        return plugins(pathlib.Path(sys.argv[2]).resolve())
    if len(sys.argv) == 4 and sys.argv[1] == "library":
        return library(pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3]).resolve())
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
