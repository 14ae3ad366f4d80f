#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0

"""Holds the documentation to the tree: what it shows compiles, parses and runs.

Looks at every Markdown file of the tree:
  ```c        compiled with -std=c11 -Wall -Wextra -Werror; with a main it is also linked
  ```cpp      compiled as C++20
  ```yaml     passed to `weft config check`
  ```console  lines that start with "$ " and run weft, or a program compiled before, are executed,
              in a folder that looks like the top of the tree with its build in build/; each line
              shown below must be in the output, numbers aside; "..." marks a cut
  links       files, and headings after #, must exist
  `core/...`  names of files and folders of the tree must exist; {a,b} and * are expanded
A comment before a block changes that:
  <!-- snippet: name=first -->    the program's name, for console blocks further down
  <!-- snippet: file=weft.yaml --> a YAML block also becomes this file, for console blocks
  <!-- snippet: status=1 -->      what the block's last command ends with
  <!-- snippet: run -->           every command of the block is executed
  <!-- snippet: reads -->         not run where the kernel forbids processes to read each other's
                                  memory, which ends the whole as skipped if nothing else is wrong
  <!-- snippet: refused -->       YAML that `weft config check` must refuse
  <!-- snippet: skip -->          shown, not run

usage: snippets.py SOURCE BUILD C_COMPILER CXX_COMPILER
"""

import ctypes
import errno
import itertools
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

FENCE = re.compile(r"^```(\w*)\s*$")
OPTIONS = re.compile(r"^<!--\s*snippet:\s*(.*?)\s*-->$")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
TREE_PATH = re.compile(
    r"`((?:core|include|plugins|tests|tools|scripts|docs|examples|bench|\.ci)/[\w./{},*+-]*)`")
LIMIT_S = 120


class Block:
    def __init__(self, file, line, language, options):
        self.file, self.line, self.language, self.options = file, line, language, options
        self.lines = []

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"


def parse_options(text):
    return dict((word.split("=", 1) + [""])[:2] for word in text.split())


def blocks_of(file, lines):
    """The fenced blocks, and the lines outside of them."""
    blocks, prose, block, options = [], [], None, {}
    for number, line in enumerate(lines, 1):
        if block is not None:
            if line.strip() == "```":
                blocks.append(block)
                block = None
            else:
                block.lines.append(line)
        elif match := FENCE.match(line):
            block, options = Block(file, number, match[1], options), {}
        elif match := OPTIONS.match(line):
            options = parse_options(match[1])
        else:
            prose.append((number, line))
            if line.strip():
                options = {}
    if block is not None:
        raise ValueError(f"{file}:{block.line}: the block does not end")
    return blocks, prose


def anchor(heading):
    """A heading's name in links, as the usual renderers make it."""
    text = re.sub(r"[`*]", "", heading.lstrip("#").strip()).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def alternatives(pattern):
    """a/{b,c}.h -> a/b.h, a/c.h"""
    parts = re.split(r"\{([^}]*)\}", pattern)
    choices = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
    return ["".join(words) for words in itertools.product(*choices)]


def shape(line):
    """A line without what differs from run to run: numbers, and the spaces that line them up."""
    return re.sub(r"\s+", " ", re.sub(r"\d+(\.\d+)?", "#", line)).strip()


class Piece(ctypes.Structure):
    """struct iovec"""
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


def rule_against_reading():
    """Why the kernel's rules keep a process from reading a byte of a sibling; "" where they do not."""
    byte = ctypes.create_string_buffer(1)  # in both children, at one address
    piece = Piece(ctypes.addressof(byte), 1)
    read = ctypes.CDLL(None, use_errno=True).process_vm_readv
    waits, ends = os.pipe()
    sibling = os.fork()
    if sibling == 0:
        os.close(ends)
        os.read(waits, 1)
        os._exit(0)
    reader = os.fork()
    if reader == 0:
        done = read(sibling, ctypes.byref(piece), 1, ctypes.byref(piece), 1, 0)
        os._exit(0 if done == 1 else ctypes.get_errno())
    status = os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1])
    os.close(ends)
    os.close(waits)
    os.waitpid(sibling, 0)
    # By other errors the block is to fail.
    if status not in (errno.EPERM, errno.ENOSYS):
        return ""
    return f"the kernel forbids process_vm_readv of a sibling ({errno.errorcode[status]})"


class Checker:
    def __init__(self, source, build, c_compiler, cxx_compiler, scratch):
        self.source, self.build, self.scratch = source, build, scratch
        self.c, self.cxx = shlex.split(c_compiler), shlex.split(cxx_compiler)
        self.failures, self.checked, self.skipped = [], {}, []
        self.programs = set()
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")}
        self.environment.update(
            HOME=str(scratch), XDG_CONFIG_HOME=str(scratch / "config"), CCACHE_DISABLE="1",
            PATH=f"{build / 'tools/weft'}:{os.environ['PATH']}")

    def furnish(self):
        """Makes the scratch folder look like the top of the tree."""
        for entry in self.source.iterdir():
            if not entry.name.startswith(("build", ".")):
                (self.scratch / entry.name).symlink_to(entry)
        (self.scratch / "build").symlink_to(self.build)

    def complain(self, place, text):
        self.failures.append(f"{place}: {text}")

    def count(self, kind):
        self.checked[kind] = self.checked.get(kind, 0) + 1

    def run(self, command, **options):
        try:
            done = subprocess.run(command, cwd=self.scratch, env=self.environment, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=LIMIT_S, **options)
        except subprocess.TimeoutExpired as expired:
            output = expired.stdout or b""
            return 124, output.decode() if isinstance(output, bytes) else output
        return done.returncode, done.stdout

    def check_file(self, file):
        name = file.relative_to(self.source)
        lines = file.read_text(encoding="utf-8").splitlines()
        try:
            blocks, prose = blocks_of(name, lines)
        except ValueError as error:
            self.failures.append(str(error))
            return
        for number, line in prose:
            self.check_prose(file, f"{name}:{number}", line)
        for block in blocks:
            if "skip" in block.options:
                continue
            check = {"c": self.check_c, "cpp": self.check_cpp, "yaml": self.check_yaml,
                     "console": self.check_console}.get(block.language)
            if check is not None:
                check(block, f"{name}:{block.line}")
                self.count(block.language)

    def check_prose(self, file, place, line):
        for target in LINK.findall(line):
            if re.match(r"[a-z]+:", target):
                continue
            self.count("link")
            path, _, heading = target.partition("#")
            linked = (file.parent / path).resolve() if path else file
            if not linked.exists():
                self.complain(place, f"the link {target} leads nowhere")
            elif heading and linked.suffix == ".md":
                text = re.sub(r"^```.*?^```", "", linked.read_text(encoding="utf-8"),
                              flags=re.M | re.S)
                if heading not in {anchor(h) for h in re.findall(r"^#+ .*$", text, re.M)}:
                    self.complain(place, f"{path or file.name} has no heading #{heading}")
        for pattern in TREE_PATH.findall(line):
            for path in alternatives(pattern):
                self.count("name")
                if not any(self.source.glob(path.rstrip("/"))):
                    self.complain(place, f"the tree has no {path}")

    def compile(self, block, place, compiler, suffix, flags):
        name = block.options.get("name", f"snippet-{block.file.stem}-{block.line}")
        code = self.scratch / (name + suffix)
        code.write_text(block.text, encoding="utf-8")
        is_program = re.search(r"^int main\(", block.text, re.M) is not None
        library = self.build / "core/api"
        link = ["-o", name, f"-L{library}", "-lweft", f"-Wl,-rpath,{library}", "-pthread"]
        status, output = self.run(
            compiler + flags + ["-Wall", "-Wextra", "-Werror", f"-I{self.source / 'include'}",
                                code.name] + (link if is_program else ["-fsyntax-only"]))
        if status != 0:
            self.complain(place, f"does not compile:\n{output}")
        elif is_program:
            self.programs.add(name)

    def check_c(self, block, place):
        self.compile(block, place, self.c, ".c", ["-std=c11", "-D_GNU_SOURCE"])

    def check_cpp(self, block, place):
        self.compile(block, place, self.cxx, ".cc", ["-std=c++20"])

    def check_yaml(self, block, place):
        name = block.options.get("file", "snippet.yaml")
        (self.scratch / name).write_text(block.text, encoding="utf-8")
        status, output = self.run(["weft", "config", "check", name])
        if (status == 0) == ("refused" in block.options):
            self.complain(place, f"`weft config check` answers {status}:\n{output}")

    def runs(self, words):
        """Whether a command is one of those that are executed here."""
        while words and re.match(r"[A-Z_]+=", words[0]):
            words = words[1:]
        return bool(words) and (words[0] == "weft" or words[0].removeprefix("./") in self.programs)

    def check_console(self, block, place):
        if "reads" in block.options and (rule := rule_against_reading()):
            self.skipped.append(f"{place} was not run: {rule}")
            return
        commands = []
        for line in block.lines:
            if line.startswith("$ "):
                commands.append((line[2:], []))
            elif commands and commands[-1][0].endswith("\\"):
                commands[-1] = (commands[-1][0][:-1] + line.strip(), [])
            elif commands:
                commands[-1][1].append(line)
            else:
                self.complain(place, "a console block starts with a command: $ ...")
                return
        for position, (command, shown) in enumerate(commands):
            words = shlex.split(command, comments=True)
            script = self.source / words[0] if words else self.source
            if re.match(r"(scripts|\.ci|tests)/", command) and not os.access(script, os.X_OK):
                self.complain(place, f"{words[0]} cannot be run")
            if "run" not in block.options and not self.runs(words):
                continue
            status, output = self.run(["bash", "-c", command])
            last = position + 1 == len(commands)
            expected = int(block.options.get("status", 0)) if last else 0
            if status != expected:
                self.complain(place, f"`{command}` ends with {status}, not {expected}:\n{output}")
                continue
            there = {shape(line) for line in output.splitlines()}
            for line in shown:
                if not self.is_there(shape(line), there):
                    self.complain(place, f"`{command}` does not write\n{line}\nbut\n{output}")
                    break

    @staticmethod
    def is_there(line, there):
        if "..." not in line:
            return line == "" or line in there
        pattern = re.compile(".*".join(re.escape(part.strip()) for part in line.split("...")))
        return any(pattern.fullmatch(other) for other in there)


def documents(source):
    """Every Markdown file of the tree; build folders and what tools leave behind are no part."""
    for path in sorted(source.rglob("*.md")):
        top = path.relative_to(source).parts[0]
        if not top.startswith(("build", ".git", "subprojects")):
            yield path


def main():
    source, build = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory(prefix="weft-docs-") as scratch:
        checker = Checker(source, build, *sys.argv[3:5], pathlib.Path(scratch))
        checker.furnish()
        for document in documents(source):
            checker.check_file(document)
    print(", ".join(f"{count} x {kind}" for kind, count in sorted(checker.checked.items())))
    for line in checker.failures or checker.skipped:
        print(line)
    if checker.failures or not checker.checked:
        return 1
    return 77 if checker.skipped else 0


if __name__ == "__main__":
    sys.exit(main())
