#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0

"""Checks over every #include that the layers of the tree stand on each other in one direction.

    layers.py TREE         prints each include that breaks a rule; status 1 if there is one
    layers.py --self-test  plants each kind of violation in a tree of its own and wants it found

The rules: a layer of core/ includes itself and lower layers; schedule and transport include neither
the other; device includes base and model alone; model and device hold C++20, so nothing that they
include, however far down, may include <expected>; the ABI's headers stay out of base, model,
schedule and device; a plugin includes the ABI, the vocabulary, its own folder and what plugins
share (plugins/common, linked into each); the public headers include each other alone; and all but
the public headers include by full path.
"""

import pathlib
import re
import sys
import tempfile

LAYERS = ["base", "model", "config", "topology", "plugin", "bootstrap",
          "transport", "schedule", "device", "comm", "api"]  # Lowest first.
STRANGERS = {("schedule", "transport"), ("transport", "schedule")}
NARROW = {"device": {"base", "model", "device"}}
CXX20 = {"model", "device"}
NO_ABI = {"base", "model", "schedule", "device"}
# First folders of what core/ may include from outside; a header without a folder is the system's.
FOREIGN_ROOTS = {"arpa", "asio", "boost", "cuda", "fmt", "hwloc", "linux", "net", "netinet",
                 "nlohmann", "nvtx3", "sodium", "spdlog", "sys", "yaml-cpp"}
OWN_ROOTS = {"bench", "core", "examples", "include", "plugins", "tests", "tools"}
SUFFIXES = {".h", ".hpp", ".inc", ".c", ".cc", ".cu", ".cuh"}

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include(?:_next)?\b[ \t]*([^\n]*)", re.MULTILINE)


def includes_of(path):
    """(line, spelling, quoted) of each include; the spelling of a computed one is None."""
    text = path.read_text(encoding="utf-8", errors="replace")
    # Comments keep their lines, so that positions stay true.
    text = COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    found = []
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        target = match.group(1).strip()
        named = re.fullmatch(r'<([^>]+)>|"([^"]+)"', target)
        if named:
            found.append((line, named.group(1) or named.group(2), named.group(2) is not None))
        else:
            found.append((line, None, False))
    return found


class Tree:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.includes = {}  # Path from the root -> its includes.
        for top in ("core", "plugins", "include"):
            for path in sorted((self.root / top).rglob("*")):
                if path.suffix in SUFFIXES and path.is_file():
                    name = path.relative_to(self.root).as_posix()
                    self.includes[name] = includes_of(path)
        self.problems = []

    def report(self, name, line, text):
        self.problems.append(f"{name}:{line}: {text}")

    def resolve(self, spelling):
        """The file of the tree that an include by full path means, or None."""
        for candidate in (spelling, "include/" + spelling):
            if candidate in self.includes:
                return candidate
        return None

    def check(self):
        if not any(name.startswith("core/") for name in self.includes):
            self.problems.append(f"no sources under {self.root}/core: is this the top of the tree?")
        for name, includes in self.includes.items():
            for line, spelling, quoted in includes:
                if spelling is None:
                    self.report(name, line, "an include by macro cannot be checked")
                elif ".." in spelling.split("/") or spelling.startswith("/"):
                    self.report(name, line, f"\"{spelling}\" is not a full path from the top")
                elif name.startswith("core/"):
                    self.check_core(name, line, spelling, quoted)
                elif name.startswith("plugins/"):
                    self.check_plugin(name, line, spelling, quoted)
                else:
                    self.check_public(name, line, spelling)
        self.check_cxx20()
        return self.problems

    def check_core(self, name, line, spelling, quoted):
        parts = name.split("/")
        layer = parts[1]
        if len(parts) < 3 or layer not in LAYERS:
            self.report(name, line, f"core/{layer} is no layer that this test knows")
            return
        target = spelling.split("/")
        if target[0] == "core":
            self.check_layers(name, line, layer, target)
        elif target[0] in ("weft", "plugin_api"):
            if target[0] == "plugin_api" and layer in NO_ABI:
                self.report(name, line, f"{layer} must not read the plugin ABI ({spelling})")
            if self.resolve(spelling) is None:
                self.report(name, line, f"{spelling} does not exist under include/")
        elif target[0] in OWN_ROOTS:
            self.report(name, line, f"core must not include {spelling}")
        elif quoted:
            self.report(name, line, f"\"{spelling}\" is not a full path from the top")
        elif len(target) > 1 and target[0] not in FOREIGN_ROOTS:
            self.report(name, line, f"<{spelling}>: \"{target[0]}\" is no known root of headers")

    def check_layers(self, name, line, layer, target):
        spelling = "/".join(target)
        if len(target) < 3 or target[1] not in LAYERS:
            self.report(name, line, f"{spelling} is in no layer that this test knows")
            return
        other = target[1]
        if LAYERS.index(other) > LAYERS.index(layer):
            self.report(name, line, f"{layer} must not include the higher layer {other} ({spelling})")
        elif (layer, other) in STRANGERS:
            self.report(name, line, f"{layer} and {other} include neither the other ({spelling})")
        elif other not in NARROW.get(layer, LAYERS):
            self.report(name, line, f"{layer} must not include {other} ({spelling})")
        if self.resolve(spelling) is None:
            self.report(name, line, f"{spelling} does not exist")

    def check_plugin(self, name, line, spelling, quoted):
        own = "/".join(name.split("/")[:2]) + "/"
        target = spelling.split("/")
        if spelling.startswith((own, "plugins/common/")):
            return
        if target[0] == "plugin_api" or spelling == "weft/types.h":
            return
        if target[0] in OWN_ROOTS or target[0] == "weft":
            self.report(name, line, f"a plugin must not include {spelling}: plugin_api, "
                        "weft/types.h and its own folder are what it sees of this tree")
        elif quoted and own + spelling not in self.includes:
            self.report(name, line, f"\"{spelling}\" is not in {own}")

    def check_public(self, name, line, spelling):
        target = spelling.split("/")
        if target[0] in OWN_ROOTS:
            self.report(name, line, f"an installed header must not include {spelling}")
        elif target[0] == "plugin_api" and not name.startswith("include/plugin_api/"):
            self.report(name, line, f"the application's API must not include the ABI ({spelling})")
        elif (name.startswith("include/plugin_api/") and target[0] == "weft"
              and spelling != "weft/types.h"):
            self.report(name, line, f"the ABI shares weft/types.h alone with the API ({spelling})")

    def check_cxx20(self):
        for name in self.includes:
            if name.startswith("core/") and name.split("/")[1] in CXX20:
                self.seek_expected(name, [name], {name})

    def seek_expected(self, name, chain, seen):
        for line, spelling, _ in self.includes[name]:
            if spelling == "expected":
                # Reported once, where a C++20 file starts the chain.
                origin = chain[0]
                first = next((at for at, s, _ in self.includes[origin]
                              if len(chain) > 1 and self.resolve(s or "") == chain[1]), line)
                self.report(origin, first, "C++20 code must not reach <expected>: "
                            + " -> ".join(chain[1:] + ["<expected>"]))
            target = self.resolve(spelling or "")
            if target and target not in seen:
                seen.add(target)
                self.seek_expected(target, chain + [target], seen)


# A tree that breaks no rule, and what each violation adds to it: (file, its text, what must be said).
SOUND = {
    "include/weft/types.h": "#include <stdint.h>\n",
    "include/weft/weft.h": "#include <weft/types.h>\n",
    "include/plugin_api/plugin.h": "#include <weft/types.h>\n",
    "core/base/error.h": "#include <expected>\n#include <weft/types.h>\n",
    "core/base/deadline.h": "#include <chrono>\n#include <sys/epoll.h>\n",
    "core/model/work_item.h": "/* #include \"core/api/x.h\" */\n#include <cstdint>\n",
    "core/topology/topology.h": "#include <hwloc.h>\n#include \"core/base/error.h\"\n",
    "core/plugin/loader.h": "#include <plugin_api/plugin.h>\n#include <boost/dll.hpp>\n",
    "core/transport/choice.h": "#include \"core/topology/topology.h\"\n",
    "core/schedule/plan.h": "#include \"core/topology/topology.h\"\n",
    "core/device/ring.h": "#include \"core/base/deadline.h\"\n#include \"core/model/work_item.h\"\n",
    "core/comm/comm.h": "#include \"core/schedule/plan.h\"\n#include \"core/transport/choice.h\"\n",
    "plugins/shm/shm.h": "// #include \"core/base/error.h\"\n#include <vector>\n",
    "plugins/shm/shm.cc": "#include \"plugins/shm/shm.h\"\n#include \"shm.h\"\n"
                          "#include <plugin_api/plugin.h>\n#include <asio.hpp>\n",
    "plugins/common/segment.h": "#include <cstddef>\n",
    "plugins/tcp/tcp.h": "#include <weft/types.h>\n#include \"plugins/common/segment.h\"\n",
}
VIOLATIONS = [
    ("core/base/a.h", '#include "core/model/work_item.h"', "higher layer model"),
    ("core/base/a.h", "#include <core/model/work_item.h>", "higher layer model"),
    ("core/base/a.h", '  #  include   "core/model/work_item.h"  // why', "higher layer model"),
    ("core/topology/a.cc", '#include "core/plugin/loader.h"', "higher layer plugin"),
    ("core/comm/a.h", '#include "core/api/a.h"', "higher layer api"),
    ("core/transport/a.h", '#include "core/schedule/plan.h"', "higher layer schedule"),
    ("core/schedule/a.h", '#include "core/transport/choice.h"', "include neither the other"),
    ("core/device/a.h", '#include "core/topology/topology.h"', "device must not include topology"),
    ("core/device/a.h", '#include "core/schedule/plan.h"', "device must not include schedule"),
    ("core/device/cuda/a.cuh", '#include "core/plugin/loader.h"', "device must not include plugin"),
    ("core/device/a.h", '#include "core/base/error.h"', "must not reach <expected>"),
    ("core/device/a.h", "#include <expected>", "must not reach <expected>"),
    ("core/model/a.h", '#include "core/base/error.h"', "must not reach <expected>"),
    ("core/base/deadline.h", '#include "core/base/error.h"', "core/device/ring.h:1: C++20"),
    ("core/schedule/a.h", "#include <plugin_api/plugin.h>", "must not read the plugin ABI"),
    ("core/base/a.h", '#include "error.h"', "not a full path"),
    ("core/base/a.h", '#include "../base/error.h"', "not a full path"),
    ("core/base/a.h", '#include "core/base/gone.h"', "does not exist"),
    ("core/base/a.h", "#include <weft/gone.h>", "does not exist"),
    ("core/base/a.h", "#include <absl/strings/str_cat.h>", "no known root"),
    ("core/base/a.h", "#include HEADER", "by macro"),
    ("core/base/a.h", '#include "plugins/shm/shm.h"', "core must not include plugins"),
    ("core/comm/a.h", '#include "tests/support/a.h"', "core must not include tests"),
    ("core/new/a.h", "#include <vector>", "no layer that this test knows"),
    ("core/comm/a.h", '#include "core/new/a.h"', "no layer that this test knows"),
    ("plugins/shm/a.cc", '#include "core/base/error.h"', "a plugin must not include core"),
    ("plugins/shm/a.cc", "#include <core/base/error.h>", "a plugin must not include core"),
    ("plugins/shm/a.cc", '#include "plugins/tcp/tcp.h"', "a plugin must not include plugins/tcp"),
    ("plugins/common/a.h", '#include "plugins/shm/shm.h"', "a plugin must not include plugins/shm"),
    ("plugins/common/a.h", '#include "core/base/error.h"', "a plugin must not include core"),
    ("plugins/shm/a.cc", "#include <weft/weft.h>", "a plugin must not include weft/weft.h"),
    ("plugins/shm/a.cc", '#include "../tcp/tcp.h"', "not a full path"),
    ("plugins/shm/a.cc", '#include "tcp.h"', "is not in plugins/shm/"),
    ("include/weft/a.h", '#include "core/base/error.h"', "an installed header must not"),
    ("include/weft/a.h", "#include <plugin_api/plugin.h>", "must not include the ABI"),
    ("include/plugin_api/a.h", "#include <weft/weft.h>", "weft/types.h alone"),
]


def problems_of(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return Tree(folder).check()


def self_test():
    failures = []
    if found := problems_of(SOUND):
        failures.append(f"a sound tree was refused: {found}")
    if not problems_of({"README": ""}):
        failures.append("a folder without sources was accepted")
    for name, text, expected in VIOLATIONS:
        found = problems_of({**SOUND, name: SOUND.get(name, "") + text + "\n"})
        if not any(expected in problem for problem in found):
            failures.append(f"{name} with {text}: wanted \"{expected}\", found {found}")
    for failure in failures:
        print(failure)
    print(f"{len(VIOLATIONS) + 2 - len(failures)} of {len(VIOLATIONS) + 2} planted trees were "
          "judged rightly")
    return 1 if failures else 0


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    if sys.argv[1] == "--self-test":
        return self_test()
    tree = Tree(sys.argv[1])
    problems = tree.check()
    for problem in problems:
        print(problem)
    print(f"{len(tree.includes)} files, {len(problems)} includes that break a rule")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
