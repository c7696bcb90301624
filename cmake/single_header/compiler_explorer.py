#!/usr/bin/env python3
"""Writes what a link of Compiler Explorer is made from: a source with the single header that it includes in it.

    python3 cmake/single_header/compiler_explorer.py SOURCE.cpp >state.json

The answer is a ClientState, as Compiler Explorer's shortener takes it; docs/compiler_explorer.md says how.
"""

import json
import pathlib
import re
import sys

import make

COMPILERS = ("g142", "clang1910")  # g++ 14.2, clang 19.1
OPTIONS = "-std=c++20 -O1"
BOOST = [{"id": "boost", "version": "183"}]


def with_header(source):
    """The source with the text of gpuplan_*.hpp in place of the line that includes it."""
    headers = dict(make.files())
    names = "|".join(re.escape(name) for name in headers)
    whole, count = re.subn(rf'^#include [<"]({names})[>"]\n',
                           lambda line: headers[line[1]].replace("#pragma once\n", "", 1), source, flags=re.MULTILINE)
    if count != 1:
        sys.exit(f"compiler_explorer.py: one line that includes {' or '.join(headers)} is taken, not {count}")
    return whole


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    source = with_header(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    compilers = [{"id": name, "options": OPTIONS, "libs": BOOST} for name in COMPILERS]
    session = {"id": 1, "language": "c++", "source": source, "compilers": compilers,
               "executors": [{"arguments": "", "stdin": "", "compiler": compilers[0]}]}
    json.dump({"sessions": [session]}, sys.stdout)


if __name__ == "__main__":
    main()
