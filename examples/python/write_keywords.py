"""Writes the keywords of gpuplan's functions as a stub: for each a TypedDict.

usage: write_keywords.py <folder of the module _core> <file>
"""

import sys
import textwrap
from keyword import iskeyword
from pathlib import Path

sys.dont_write_bytecode = True  # beside the sources
sys.path.insert(0, str(Path(__file__).parent / "gpuplan"))
from _elsewhere import ELSEWHERE, OTHER_ROWS  # noqa: E402

FUNCTIONS = [
    "fits", "plan", "how_many", "memory", "time", "calibrate", "check", "batch", "lr", "cost",
    "run", "model", "models", "gpus", "frameworks",
]  # fmt: skip

HEAD = '''"""The keywords that gpuplan's functions take: the options of the program's commands."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Literal, SupportsFloat, SupportsIndex, TypeAlias, TypedDict

_Number: TypeAlias = str | SupportsIndex | SupportsFloat
_File: TypeAlias = str | PathLike[str]
'''


def kind_of(option) -> str:
    if not option.value:
        return "bool"
    if option.name == "--gpu":
        return "str | Sequence[str] | Mapping[str, int]"
    if option.name == "--tuned":
        return "str | tuple[int, float]"
    if option.choices:
        kind = f"Literal[{', '.join(repr(one) for one in option.choices)}]"
        if option.separator:  # or several in one text
            kind = f"str | Sequence[{kind}]"
    elif option.value.startswith(("FILE", "FOLDER")):
        kind = "_File | Sequence[_File]" if option.takes_several else "_File"
    elif option.separator:
        kind = "_Number | Sequence[_Number]"
    else:
        kind = "_Number"
    return kind


def class_of(function: str, described) -> str:
    lines = [f"class {function.title().replace('_', '')}(TypedDict, total=False):"]
    without = {*ELSEWHERE.get(function, ()), *OTHER_ROWS.get(function, ())}
    for option in described.options:
        if not option.name.startswith("--") or option.name.startswith("--no-"):
            continue
        word = option.name[2:].replace("-", "_")
        if word in without:
            continue
        lines.append(f"    {word}{'_' * iskeyword(word)}: {kind_of(option)} | None")
        lines += textwrap.wrap(
            f'"""{option.meaning}."""', 96, initial_indent="    ", subsequent_indent="    "
        )
    return "\n".join(lines if len(lines) > 1 else [*lines, "    pass"]) + "\n"


def main() -> None:
    folder, file = sys.argv[1:]
    sys.path.insert(0, folder)
    import _core

    text = HEAD
    for function in FUNCTIONS:
        command = "plan" if function == "how_many" else function
        text += "\n" + class_of(function, _core.describe(command))
    with open(file, "w", encoding="utf-8") as out:
        out.write(text)


main()
