#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Weft authors
# SPDX-License-Identifier: Apache-2.0
"""That every function of the public header is called by the tests of the public API.

    check_coverage.py weft.h SOURCE...
    check_coverage.py --self-test
"""
import re
import sys


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)


def declared(header):
    return re.findall(r"^WEFT_API\b[^;(]*?\b(weft_\w+)\s*\(", without_comments(header), re.M)


def missing(header, sources):
    text = without_comments("\n".join(sources))
    return [name for name in declared(header) if not re.search(rf"\b{name}\s*\(", text)]


def self_test():
    header = """/* WEFT_API int weft_not(void); */
WEFT_API const char* weft_one(void);
WEFT_API weft_result weft_two(int,
                              int);"""
    assert declared(header) == ["weft_one", "weft_two"]
    assert missing(header, ["x = weft_one (); // weft_two(1, 2)"]) == ["weft_two"]
    assert missing(header, ["weft_one(); weft_two(weft_one_more)"]) == []
    assert missing(header, ["weft_one_more(); weft_two(1, 2)"]) == ["weft_one"]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    header, sources = read(sys.argv[1]), [read(path) for path in sys.argv[2:]]
    functions = declared(header)
    if len(functions) < 20:
        sys.exit(f"{sys.argv[1]}: only {len(functions)} functions were found; has its layout changed?")
    absent = missing(header, sources)
    if absent:
        sys.exit("no test of the public API calls " + ", ".join(absent))
    print(f"{len(functions)} public functions, each called by a test")


if __name__ == "__main__":
    main()
