#!/usr/bin/env python3
"""Writes single headers, for who takes one file and no build system.

    python3 cmake/single_header/make.py [FOLDER]     (build/single_headers)

    gpuplan_solver.hpp   units, GPUs, the batch solver, require
    gpuplan_plan.hpp     the whole library with the memory of steps, without io/, measure/ and cuda/

Both need Boost.Units, as the library does, and may be included together. They are made of the headers
as these are, each where it is first included.
"""

import pathlib
import re
import sys

include = pathlib.Path(__file__).resolve().parents[2] / "include"
roots = {
    "gpuplan_solver.hpp": ["gpuplan/catalog/gpus.hpp", "gpuplan/require.hpp", "gpuplan/solver.hpp",
                           "gpuplan/units.hpp", "gpuplan/version.hpp"],
    "gpuplan_plan.hpp": ["gpuplan/gpuplan.hpp", "gpuplan/memory/layouts.hpp"],
}
own = re.compile(r"#include <(gpuplan/[^>]+)>\s*")
foreign = re.compile(r"#include <([^>]+)>\s*")


class single_header:
    def __init__(self):
        self.taken = set()
        self.foreign = set()
        self.text = []

    def take(self, name):
        """A header with what it includes before it; once, unless it is a list that macros read."""
        is_list = name.endswith(".inc")
        if name in self.taken and not is_list:
            return
        self.taken.add(name)
        body = []
        for line in (include / name).read_text(encoding="utf-8").splitlines(keepends=True):
            if line.strip() == "#pragma once":
                continue
            ours, other = own.match(line), foreign.match(line)
            if ours and ours.group(1).endswith(".inc"):
                body += self.lines_of_list(ours.group(1))
            elif ours:
                self.take(ours.group(1))
            elif other:
                self.foreign.add(other.group(1))
            else:
                body.append(line)
        guard = "GPUPLAN_HAS_" + re.sub(r"\W", "_", name[len("gpuplan/"):]).upper()
        text = re.sub(r"\n{3,}", "\n\n", "".join(body).strip("\n"))
        if text:
            self.text.append(f"// ---- {name}\n#ifndef {guard}\n#define {guard}\n\n{text}\n\n#endif\n")

    @staticmethod
    def lines_of_list(name):
        return (include / name).read_text(encoding="utf-8").splitlines(keepends=True)


def version():
    text = (include / "gpuplan/version.hpp").read_text(encoding="utf-8")
    return ".".join(re.search(rf"#define GPUPLAN_VERSION_{part} (\d+)", text).group(1)
                    for part in ("MAJOR", "MINOR", "PATCH"))


def files():
    """The single headers, name by name with their text."""
    licence = (include.parent / "LICENSE").read_text(encoding="utf-8")
    head = "".join(f"// {line}".rstrip() + "\n" for line in licence.splitlines())
    for file, names in roots.items():
        made = single_header()
        for name in names:
            made.take(name)
        includes = "".join(f"#include <{name}>\n" for name in sorted(made.foreign))
        yield file, (f"// gpuplan {version()} in one file: {', '.join(names)} and what they include.\n//\n{head}\n"
                     f"#pragma once\n\n{includes}\n" + "\n".join(made.text))


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else include.parent / "build/single_headers")
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files():
        (folder / file).write_text(text, encoding="utf-8")
        print(f"{folder / file}: {len(text)} bytes, {text.count(chr(10))} lines")


if __name__ == "__main__":
    main()
