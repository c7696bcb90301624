"""Keywords of Python as words of the program's command line."""

from __future__ import annotations

import difflib
import functools
import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from keyword import iskeyword

from . import _core


def keyword_of(name: str) -> str:
    """The keyword of an option: "sequence_length" of "--sequence-length", "from_" of "--from"."""
    word = name.lstrip("-").replace("-", "_")
    return word + "_" if iskeyword(word) else word


@functools.cache
def options_of(command: str) -> dict[str, _core.Option]:
    """By keyword; a flag's opposite is no keyword of its own."""
    named = [one for one in _core.describe(command).options if one.name.startswith("-")]
    return {keyword_of(one.name): one for one in named if not one.name.startswith("--no-")}


@functools.cache
def _opposites_of(command: str) -> set[str]:
    named = [one.name for one in _core.describe(command).options]
    return {name for name in named if name.startswith("--no-")}


def _text(keyword: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "__index__"):  # of numpy too
        return str(value.__index__())
    if hasattr(value, "__float__"):
        return repr(float(value))
    raise TypeError(f"{keyword}: a text or a number is wanted, not {type(value).__name__}")


def model_word(model: object) -> str:
    """What the program calls MODEL: a name, a path, or a config.json's text."""
    if isinstance(model, str):
        return model
    if isinstance(model, os.PathLike):
        # A path is no name of the catalogue, whatever it is called.
        return os.path.join(os.curdir, os.fspath(model))
    config = getattr(model, "config", model)  # of a model of transformers, its config
    to_dict = getattr(config, "to_dict", None)
    if callable(to_dict):
        said = dict(to_dict())
        said.setdefault("_name_or_path", getattr(config, "name_or_path", ""))
        config = said
    if isinstance(config, Mapping):
        return json.dumps(dict(config), default=str)
    raise TypeError(
        "a model is a name, a path, a dict as a config.json has it, or a config of transformers, "
        f"not {type(model).__name__}"
    )


def _of_gpus(options: dict[str, object]) -> dict[str, object]:
    """With gpu={"h100": 64} as gpu and gpus."""
    gpu = options.get("gpu")
    if not isinstance(gpu, Mapping):
        return options
    if options.get("gpus") is not None:
        raise TypeError("gpu says how many GPUs there are, so gpus may not")
    return {**options, "gpu": list(gpu), "gpus": list(gpu.values())}


# What nearly everybody means by a name that several devices have.
_USUAL_GPU = {"h100": "h100_sxm5_80gb"}


def _named_gpu(word: str) -> str:
    """The name of a device; where a usual one is taken for several, a warning says so."""
    usual = _USUAL_GPU.get(word.lower())
    if usual is None:
        return word
    warnings.warn(f"gpu {word!r} is taken as {usual!r}; name another one in full", stacklevel=6)
    return usual


def arguments_of(arguments: Mapping[str, object]) -> list[str]:
    """A model, or names or files, which stand behind options."""
    words: list[str] = []
    for name, value in arguments.items():
        if name == "model":
            words += [] if value is None else [model_word(value)]
        elif isinstance(value, Iterable):
            words += [_text(name, one) for one in value]
    return words


def words_of(command: str, arguments: Sequence[str], options: Mapping[str, object]) -> list[str]:
    """The command line that says the same."""
    known = options_of(command)
    words: list[str] = []
    for keyword, value in _of_gpus(dict(options)).items():
        option = known.get(keyword)
        if option is None:
            near = difflib.get_close_matches(keyword, known, n=3, cutoff=0.5)
            names = f"; did you mean {' or '.join(near)}?" if near else ""
            raise TypeError(f"gpuplan.{command} has no keyword {keyword}{names}")
        if value is None:
            continue
        name = option.name
        if not option.value:  # a flag
            if not isinstance(value, bool):
                raise TypeError(f"{keyword}: True or False is wanted, not {value!r}")
            opposite = "--no-" + name[2:]
            if value:
                words.append(name)
            elif opposite in _opposites_of(command):
                words.append(opposite)
            continue
        if isinstance(value, bool):
            raise TypeError(f"{keyword}: {option.value} is wanted, not {value}")
        if isinstance(value, Iterable) and not isinstance(value, (str, Mapping)):
            several = [_text(keyword, one) for one in value]
            if keyword == "gpu":
                several = [_named_gpu(one) for one in several]
            if option.separator:
                several = [option.separator.join(several)]
            elif not option.takes_several and len(several) != 1:
                raise TypeError(f"{keyword}: one value is wanted, not {len(several)}")
        else:
            several = [_text(keyword, value)]
            if keyword == "gpu":
                several = [_named_gpu(one) for one in several]
        words += [f"{name}={one}" for one in several]
    return [*words, "--", *arguments] if arguments else words
