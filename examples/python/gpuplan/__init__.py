"""Plan GPU training: what fits, which plan, how long, how much.

    >>> import gpuplan
    >>> gpuplan.fits("llama-3-8b", gpu="4090", method="qlora").fitting[0].largest_micro_batch
    2

Each function is a command of the program gpuplan, and its keywords are the command's options with
_ for -: ``--sequence-length 2048`` is ``sequence_length=2048``, a flag is ``True``, several values
are a list. ``from`` and ``async`` are Python's own words, so ``--from`` is ``from_``. Numbers are
what the program prints with ``--format json``, to the last digit: it is the same code.

A model is a name ("llama-3-8b", "mistralai/Mistral-7B-v0.1"), the path of a config.json or of its
folder, a dict of what such a file holds, or a config of transformers. GPUs are names ("4090",
"h100-sxm"), with their number ``gpu={"h100-sxm": 64}``, or "auto": this machine's.

Answers are sequences of rows with named fields. ``print`` shows what the program prints, a
notebook shows tables and pictures, ``to_pandas()`` makes a data frame, ``to_dict()`` what the
program prints as JSON. What cannot be is a PlanError, which says what can.
"""

from __future__ import annotations

import functools
import os
import textwrap
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, cast, overload

from . import _core
from ._answers import (
    Answer,
    Batches,
    Calibration,
    Check,
    Costs,
    Counts,
    Engines,
    Explained,
    Fits,
    Frameworks,
    Gpus,
    MeasuredGpu,
    Memory,
    Models,
    Plans,
    Profiled,
    Rates,
    Runs,
    Schedule,
    Shape,
    Systems,
    Tables,
    Time,
)
from ._elsewhere import ELSEWHERE
from ._errors import PlanError
from ._rows import (
    Batch,
    Calibrated,
    CatalogueModel,
    Cost,
    Count,
    Engine,
    Explanation,
    Finding,
    Framework,
    Gpu,
    MeasuredNumber,
    Method,
    Moment,
    Operator,
    Piece,
    Plan,
    Rate,
    Row,
    Run,
    ScheduledRate,
    Step,
    System,
    TableCell,
    Verdict,
)
from ._words import options_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from . import _keywords as keywords

__version__: str = _core.version

__all__ = [
    "Answer",
    "Batch",
    "Batches",
    "Calibrated",
    "Calibration",
    "CatalogueModel",
    "Check",
    "Cost",
    "Costs",
    "Count",
    "Counts",
    "Engine",
    "Engines",
    "Explained",
    "Explanation",
    "Finding",
    "Fits",
    "Framework",
    "Frameworks",
    "Gpu",
    "Gpus",
    "MeasuredGpu",
    "MeasuredNumber",
    "Memory",
    "Method",
    "Model",
    "Models",
    "Moment",
    "Operator",
    "Piece",
    "Plan",
    "PlanError",
    "Plans",
    "Profiled",
    "Rate",
    "Rates",
    "Row",
    "Run",
    "Runs",
    "Schedule",
    "ScheduledRate",
    "Shape",
    "Step",
    "System",
    "Systems",
    "TableCell",
    "Tables",
    "Time",
    "Verdict",
    "batch",
    "calibrate",
    "check",
    "cost",
    "fits",
    "frameworks",
    "gpus",
    "how_many",
    "lr",
    "memory",
    "model",
    "models",
    "plan",
    "run",
    "time",
]


class _Config(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


Model: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | _Config"

_Function = TypeVar("_Function", bound=Callable[..., Answer[Any]])


def _as_command(command: str) -> Callable[[_Function], _Function]:
    """Gives a function the command's options: to complete them, and to read of them."""

    def finish(asks: _Function) -> _Function:
        name = asks.__name__
        elsewhere = ELSEWHERE.get(name, {})

        @functools.wraps(asks)
        def function(*arguments: Any, **options: Any) -> Answer[Any]:
            for keyword in options:
                if keyword in elsewhere:
                    raise TypeError(
                        f"gpuplan.{name} has no keyword {keyword}; {elsewhere[keyword]}"
                    )
            return asks(*arguments, **options)

        shown = {
            keyword: option
            for keyword, option in options_of(command).items()
            if option.is_shown and keyword not in elsewhere
        }
        said = signature(asks).parameters.values()
        parameters = [one for one in said if one.kind is not Parameter.VAR_KEYWORD]
        parameters += [Parameter(one, Parameter.KEYWORD_ONLY, default=None) for one in shown]
        function.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        lines = []
        for keyword, option in shown.items():
            value = option.value or "True"
            lines += textwrap.wrap(
                f"{keyword} ({value}): {option.meaning}",
                96,
                initial_indent="    ",
                subsequent_indent="        ",
                break_long_words=False,
            )
        function.__doc__ = (
            f"{textwrap.dedent('    ' + (asks.__doc__ or '')).strip()}\n\nKeywords:\n"
            + "\n".join(lines)
        )
        return cast(_Function, function)

    return finish


@_as_command("fits")
def fits(model: Model | None = None, /, **options: Unpack[keywords.Fits]) -> Fits:
    """Which ways to train a model fit which GPU.

    >>> rows = gpuplan.fits("llama-3-8b", gpu="h100-sxm", method="qlora")
    >>> [(row.method, row.recompute, row.largest_micro_batch) for row in rows]
    [('QLoRA 16', 'none', 2), ('QLoRA 16', 'full', 9)]
    """
    return Fits("fits", {"model": model}, options)


@_as_command("plan")
def plan(model: Model | None = None, /, **options: Unpack[keywords.Plan]) -> Plans:
    """The best ways to train a model on a cluster, or on one of several.

    >>> plans = gpuplan.plan("llama-3-8b", framework="torchtitan", gpu={"h100-sxm": 8}, batch=64)
    >>> best = plans.best
    >>> best.layout, best.micro_batch, best.accumulation, round(best.step_s, 2)
    ('ZeRO-2', 1, 8, 4.23)

    ``files``, ``write`` and ``report`` of the answer are what to run, and a page to read.
    """
    return Plans("plan", {"model": model}, options)


@_as_command("plan")
def how_many(model: Model | None = None, /, **options: Unpack[keywords.HowMany]) -> Counts:
    """The best plan on 1, 2, 4 and so on up to all GPUs, of a run of ``tokens`` or ``samples``.

    >>> counts = gpuplan.how_many("llama-3-8b", framework="torchtitan", gpu={"h100-sxm": 8},
    ...                           batch=64, tokens="1B", price=3)
    >>> [(row.gpus, row.note) for row in counts if row.hours]
    [(4, 'cheapest'), (8, 'fastest')]
    """
    return Counts("plan", {"model": model}, {**options, "how_many": True})


@_as_command("memory")
def memory(model: Model | None = None, /, **options: Unpack[keywords.Memory]) -> Memory:
    """The memory of a training step: over time, by purpose, tensor by tensor.

    >>> step = gpuplan.memory("gpt2", micro_batch=8, sequence_length=1024)
    >>> round(step.peak_GiB, 2), step.pieces[0].formula
    (12.17, '8 samples x 1024 tokens x 50257 vocabulary x 4 B')
    """
    return Memory("memory", {"model": model}, options)


@overload
def time(
    model: Model | None = None,
    /,
    *,
    explain: Literal[False] | None = None,
    measured: None = None,
    **options: Unpack[keywords.Time],
) -> Time: ...
@overload
def time(
    model: Model | None = None,
    /,
    *,
    explain: Literal[True],
    measured: None = None,
    **options: Unpack[keywords.Time],
) -> Explained: ...
@overload
def time(
    model: Model | None = None,
    /,
    *,
    explain: bool | None = None,
    measured: str | os.PathLike[str],
    **options: Unpack[keywords.Time],
) -> Profiled: ...
@_as_command("time")
def time(model: Model | None = None, /, **options: Any) -> Answer[Any]:
    """Where a step of one layout goes, and what its run takes.

    >>> step = gpuplan.time("llama-3-8b", gpu={"h100-sxm": 8}, zero=3, micro_batch=2)[0]
    >>> round(step.step_s, 2), round(step.mfu_pct, 1)
    (1.1, 38.9)

    With ``explain`` rows are the pieces of its parts, and what bounds them; with ``measured``, a
    trace of PyTorch's profiler, its operators beside those predicted.
    """
    if options.get("measured") is not None:
        return Profiled("time", {"model": model}, options)
    if options.get("explain"):
        return Explained("time", {"model": model}, options)
    return Time("time", {"model": model}, options)


@_as_command("calibrate")
def calibrate(
    file: str | os.PathLike[str], /, **options: Unpack[keywords.Calibrate]
) -> Calibration:
    """What a few timed steps, a table in CSV, say of a cluster and its software.

    Other functions go by them with ``timed_steps``.

    >>> learnt = gpuplan.calibrate("docs/tasks/steps.csv")
    >>> round(learnt.numbers["host_per_operator"].value * 1e6), learnt.next.line
    (97, 10)
    """
    return Calibration("calibrate", {"file": (file,)}, options)


@_as_command("check")
def check(
    file: str | os.PathLike[str],
    /,
    *more: str | os.PathLike[str],
    **options: Unpack[keywords.Check],
) -> Check:
    """What a trainer's own files configure: does it fit, how long, what is wrong.

    Several files of one training are read together. With ``must_fit`` it is an error where it does
    not fit.

    >>> checked = gpuplan.check("docs/tasks/axolotl.yml", gpu="4090")
    >>> checked.fits, checked.verdicts[0].largest_micro_batch
    (True, 2)
    """
    return Check("check", {"file": (file, *more)}, options)


@_as_command("batch")
def batch(model: Model | None = None, /, **options: Unpack[keywords.Batch]) -> Batches:
    """Micro-batch and accumulation of a batch; on other GPUs; after out of memory.

    >>> best = gpuplan.batch("gpt2", gpu="4090", batch=64)[0]
    >>> best.micro_batch, best.accumulation
    (8, 8)
    """
    return Batches("batch", {"model": model}, options)


@overload
def lr(*, schedule: None = None, **options: Unpack[keywords.Lr]) -> Rates: ...
@overload
def lr(*, schedule: str, **options: Unpack[keywords.Lr]) -> Schedule: ...
@_as_command("lr")
def lr(**options: Any) -> Answer[Any]:
    """The learning rate at another batch, and its warm-up.

    ``tuned`` is the batch that was tuned with its rate, as (64, 3e-4) or "64:3e-4". With
    ``schedule`` rows are steps, with the rate at each.

    >>> gpuplan.lr(tuned=(64, 3e-4), batch=512, optimizer="adamw")[0].learning_rate
    0.000848528137423857
    """
    given: dict[str, Any] = dict(options)
    if isinstance(given.get("tuned"), tuple):
        given["tuned"] = ":".join(str(one) for one in given["tuned"])
    if given.get("schedule") is not None:
        return Schedule("lr", {}, given)
    return Rates("lr", {}, given)


@_as_command("cost")
def cost(model: Model | None = None, /, **options: Unpack[keywords.Cost]) -> Costs:
    """Hours, money, energy, CO2 and checkpoints of a run.

    >>> run = gpuplan.cost(step="2.5s", batch=512, tokens="10B", sequence_length=4096,
    ...                    gpu={"h100-sxm": 64}, price=3)[0]
    >>> run.steps, round(run.hours, 2), round(run.usd, 2)
    (4769, 3.31, 635.87)
    """
    return Costs("cost", {"model": model}, options)


@_as_command("run")
def run(model: Model | None = None, /, **options: Unpack[keywords.Run]) -> Runs:
    """How long a whole run is, with failures, checkpoints and restarts: 10, 50 and 90 %.

    >>> whole = gpuplan.run(step="10s", batch=2048, tokens=1e12, sequence_length=4096, price=3,
    ...                     gpu={"h100-sxm": 1024}, checkpoint="980GB", failures="llama_3_405b")[0]
    >>> round(whole.days_low, 1), round(whole.days, 1), round(whole.days_high, 1)
    (13.9, 14.0, 14.1)
    """
    return Runs("run", {"model": model}, options)


@_as_command("model")
def model(model: Model | None = None, /, **options: Unpack[keywords.Model]) -> Shape:
    """A model's parameters and FLOPs.

    >>> gpuplan.model("gpt2").parameters
    124439808
    """
    return Shape("model", {"model": model}, options)


@_as_command("models")
def models(*names: str, **options: Unpack[keywords.Models]) -> Models:
    """The models of the catalogue, or those that the names may mean.

    >>> [row.model for row in gpuplan.models("mixtral-8x7b")]
    ['mixtral-8x7b-v0.1']
    """
    return Models("models", {"name": names}, options)


@overload
def gpus(
    *names: str,
    systems: Literal[False] | None = None,
    measured: None = None,
    **options: Unpack[keywords.Gpus],
) -> Gpus: ...
@overload
def gpus(
    *names: str,
    systems: Literal[True],
    measured: None = None,
    **options: Unpack[keywords.Gpus],
) -> Systems: ...
@overload
def gpus(
    *names: str,
    systems: Literal[False] | None = None,
    measured: str | os.PathLike[str],
    **options: Unpack[keywords.Gpus],
) -> MeasuredGpu: ...
@_as_command("gpus")
def gpus(*names: str, **options: Any) -> Answer[Any]:
    """The GPUs of the catalogue, or these.

    >>> gpuplan.gpus("4090")[0].bf16_TFLOPS
    165.2

    With ``systems`` the nodes that are sold and rented; with ``measured``, a file of measure_gpu,
    what was measured of one beside its data sheet.
    """
    if options.get("measured") is not None:
        return MeasuredGpu("gpus", {"name": names}, options)
    if options.get("systems"):
        return Systems("gpus", {"name": names}, options)
    return Gpus("gpus", {"name": names}, options)


@overload
def frameworks(model: None = None, /) -> Engines: ...
@overload
def frameworks(model: Model, /, **options: Unpack[keywords.Frameworks]) -> Frameworks: ...
@_as_command("frameworks")
def frameworks(model: Model | None = None, /, **options: Any) -> Answer[Any]:
    """The frameworks and their engines, or which of them can train a model, with what.

    >>> [row.framework for row in gpuplan.frameworks("gpt2") if not row.why_not][:2]
    ['torch-gpt', 'gpt2']
    """
    if model is None and not options:
        return Engines("frameworks", {}, {})
    return Frameworks("frameworks", {"model": model}, options)
