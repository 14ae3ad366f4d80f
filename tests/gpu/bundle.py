# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0

"""Packs what a machine with GPUs needs to test Weft: bundle.py OUTPUT.tar.gz FILE...

Beside OUTPUT.tar.gz the same is laid out as a folder. Programs, libweft and run.sh lie in the
folder itself, plugins in plugins/, and in lib/ every library that one of them needs and that does
not come with libc or the driver; the compiler's own in lib/gcc, for machines with older ones.
Binaries are stripped. Nobody but the owner may write to any of
it, since Weft loads no plugin from such files.
"""

import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

# Of libc, and of the driver: both belong to the machine.
FOREIGN = re.compile(r"^(linux-vdso|ld-linux|lib(c|m|pthread|dl|rt|cuda)\.so)")


def is_elf(file):
    with open(file, "rb") as opened:
        return opened.read(4) == b"\x7fELF"


def needed(file, search):
    """The libraries that the loader finds for `file`, as paths."""
    text = subprocess.run(
        ["ldd", file], check=True, capture_output=True, text=True,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "LD_LIBRARY_PATH": search}).stdout
    found = {}
    for line in text.splitlines():
        match = re.match(r"\s*(\S+)(?: => (\S+| not found))?", line)
        name, path = Path(match[1]).name, match[2]
        if FOREIGN.match(name):
            continue
        if path is None or "not found" in line:
            sys.exit(f"bundle.py: {file} needs {name}, which is not found")
        found[name] = Path(path)
    return found


def place(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    if is_elf(source):
        subprocess.run(["strip", "--strip-unneeded", "-o", target, source], check=True)
    else:
        shutil.copyfile(source, target)
    target.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)


def main(output, sources):
    folder = output.parent / output.name.removesuffix(".tar.gz")
    shutil.rmtree(folder, ignore_errors=True)
    binaries = [file for file in sources if is_elf(file)]
    own = {re.sub(r"(libweft\.so\.\d+)\..*", r"\1", file.name): file for file in sources}
    search = ":".join({str(file.parent.resolve()) for file in binaries})
    libraries = {}
    for file in binaries:
        libraries |= needed(file, search)
    for name, file in own.items():
        place(file, folder / ("plugins" if name.startswith("weft-") else "") / name)
    for name, path in libraries.items():
        if name not in own:
            compiler = name.startswith(("libstdc++", "libgcc_s"))
            place(path, folder / ("lib/gcc" if compiler else "lib") / name)
    for path in [folder, *folder.rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o022)

    def owned_by_root(entry):
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        return entry

    with tarfile.open(output, "w:gz") as archive:
        archive.add(folder, folder.name, filter=owned_by_root)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size / 2**20:.1f} MiB, packed {output.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), [Path(name) for name in sys.argv[2:]])
