"""Which options of the program a function does not take, and which it takes by itself.

It is read while the package is built too, so it imports nothing.
"""

_OF_FILES = dict.fromkeys(
    (
        "write",
        "into",
        "hub",
        "script",
        "gpu_type",
        "learning_rate",
        "warm_up_steps",
        "schedule",
        "decay_steps",
        "least_learning_rate",
    ),
    "write() and files() of its answer take it",
)
_SVG = {"svg": "svg() of its answer draws it"}
_TRACE = {"trace": "trace() of its answer writes it"}

# By function: what has it instead. An answer asks the program for several texts at once, so none of
# these may write a file.
ELSEWHERE: dict[str, dict[str, str]] = {
    "plan": {"how_many": "gpuplan.how_many() is a function", **_OF_FILES},
    "how_many": {
        "how_many": "it always says so",
        "less_memory": "gpuplan.plan() has it",
        **dict.fromkeys(_OF_FILES, "files are written by the answer of gpuplan.plan()"),
    },
    "memory": {**_SVG, **_TRACE, "snapshot": "snapshot() of its answer writes it"},
    "time": {**_SVG, **_TRACE},
    "run": _SVG,
}

# By function: options that give rows of another kind, which its overloads name.
OTHER_ROWS = {"time": ("explain", "measured"), "gpus": ("systems", "measured"), "lr": ("schedule",)}
