"""Answers: rows with named fields, and what can be made of them."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

from . import _core, _html
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
    unknown,
)
from ._words import arguments_of, keyword_of, words_of

if TYPE_CHECKING:
    import pandas

R = TypeVar("R", bound=Row)


def ask(
    command: str, words: Sequence[str], formats: Sequence[str], given: Mapping[str, object]
) -> _core.Answered:
    """What the program answers. `given`: by keyword, for errors."""
    try:
        answered = _core.ask(command, list(words), list(formats))
    except PlanError as error:
        at_fault = re.match(r"--([a-z][a-z0-9-]*)|(MODEL)\b", str(error))
        if at_fault and error.field is None:
            error.field = keyword_of(at_fault[1]) if at_fault[1] else "model"
            error.value = given.get(error.field)
        raise error from None
    if answered.problems:
        raise PlanError("; ".join(answered.problems))
    return answered


class Answer(Sequence[R], Generic[R]):
    """What a command of gpuplan answers: a sequence of rows with named fields.

    ``print`` shows what the program prints, and a notebook its tables. ``remarks`` says how files
    or this machine were understood.
    """

    _row: ClassVar[type[Row]] = Row

    def __init__(
        self, command: str, arguments: Mapping[str, object], options: Mapping[str, object]
    ) -> None:
        self._command = command
        self._arguments = arguments_of(arguments)
        self._options = dict(options)
        self._words = words_of(command, self._arguments, options)
        answered = ask(command, self._words, ["json", "text"], {**arguments, **options})
        self._document: dict[str, Any] = json.loads(answered.texts[0])
        self._text = answered.texts[1]
        self.remarks: tuple[str, ...] = tuple(answered.remarks)
        self._rows: tuple[R, ...] = tuple(
            self._row(one)
            for one in self._document["answer"]  # type: ignore[misc]
        )

    def _again(self, *formats: str, **more: object) -> list[str]:
        """The answer in other formats."""
        given = {**self._options, **more}
        words = words_of(self._command, self._arguments, given)
        return ask(self._command, words, formats, given).texts

    @property
    def request(self) -> dict[str, Any]:
        """What was asked, as the program states it."""
        return dict(self._document["request"])

    @property
    def command_line(self) -> list[str]:
        """The words that ask the program the same."""
        return ["gpuplan", self._command, *self._words]

    @overload
    def __getitem__(self, at: int) -> R: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[R, ...]: ...
    def __getitem__(self, at: int | slice) -> R | tuple[R, ...]:
        return self._rows[at]

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Answer) and self._document == other._document

    def __hash__(self) -> int:
        return hash((self._command, self._rows))

    def __str__(self) -> str:
        return self._text.rstrip("\n")

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Version, command, request and answer, as ``--format json`` prints them."""
        return json.loads(json.dumps(self._document))

    def to_json(self, indent: int | None = 2) -> str:
        """The same as a text."""
        return json.dumps(self._document, indent=indent, ensure_ascii=False)

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a data frame, which needs pandas."""
        import pandas

        return pandas.DataFrame([row.to_dict() for row in self._rows])

    def to_markdown(self) -> str:
        """The tables in Markdown."""
        return self._again("markdown")[0]

    def _pictures(self) -> dict[str, str]:
        return {}

    def _repr_html_(self) -> str:
        tables = self._again("html")[0]
        return _html.fragment(tables, self._pictures())


def _drawn(answer: Answer[Any], option: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "picture"
        answer._again("json", **{option: file})
        return file.read_text()


class Fits(Answer[Method]):
    """Which ways to train fit which GPU."""

    _row = Method

    @property
    def fitting(self) -> tuple[Method, ...]:
        """Those that fit."""
        return tuple(row for row in self if row.fits)


class Plans(Answer[Plan]):
    """The best plans, then those that would be better without one of the limits."""

    _row = Plan

    def _planned_again(self, command: str, **more: object) -> list[dict[str, Any]]:
        given = {name: one for name, one in self._options.items() if name != "less_memory"}
        given.update(more)
        answered = ask(command, words_of(command, self._arguments, given), ["json"], given)
        rows: list[dict[str, Any]] = json.loads(answered.texts[0])["answer"]
        return rows

    @property
    def best(self) -> Plan:
        """The best plan."""
        return self[0]

    def files(self, *tools: str, **options: object) -> dict[str, str]:
        """What people run: the best plan in the files of these tools, by name.

        Tools are those of ``gpuplan plan --write``: "deepspeed", "accelerate", "hf", "axolotl",
        "llama-factory", "megatron", "bridge", "torchtitan", "torchrun", "slurm", "kubeflow",
        "skypilot", "ray". Options are ``hub``, ``script``, ``gpu_type``, ``learning_rate``,
        ``warm_up_steps``, ``schedule``, ``decay_steps`` and ``least_learning_rate``.

        >>> import gpuplan
        >>> plans = gpuplan.plan("llama-3-8b", gpu={"h100-sxm": 8}, batch=64)
        >>> sorted(plans.files("accelerate", script="train.py"))
        ['README.md', 'accelerate.yaml']
        """
        with tempfile.TemporaryDirectory() as folder:
            self.write(*tools, into=folder, **options)
            inside = sorted(one for one in Path(folder).rglob("*") if one.is_file())
            return {str(one.relative_to(folder)): one.read_text() for one in inside}

    def write(self, *tools: str, into: str | Path, **options: object) -> Path:
        """Writes the same into a folder, which it returns: all of the files, or none."""
        if not tools:
            raise TypeError("write() needs the name of a tool, such as 'accelerate'")
        self._planned_again("plan", write=list(tools), into=into, **options)
        return Path(into)

    def report(self, file: str | Path) -> Path:
        """Writes the plan as one HTML page, with pictures and every assumption."""
        self._planned_again("report", output=file)
        return Path(file)

    def _pictures(self) -> dict[str, str]:
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.html"
            written = self._planned_again("report", output=page, svg=folder)
            files = [one for one in written if one["file"] != str(page)]
            return {one["what"]: Path(one["file"]).read_text() for one in files}


class Counts(Answer[Count]):
    """The best plan on 1, 2, 4 and so on up to all GPUs of each kind."""

    _row = Count


class Tables(Answer[TableCell]):
    """Tables, cell by cell; ``table`` has one of them with its columns side by side."""

    _row = TableCell

    def table(self, name: str) -> tuple[Row, ...]:
        """The rows of one of the tables, whose columns end in their unit."""
        return self._table(name, Row)

    def _table(self, name: str, kind: type[R]) -> tuple[R, ...]:
        rows: dict[Any, dict[str, Any]] = {}
        for cell in self:
            if cell.table != name:
                continue
            unit = {"%": "pct"}.get(cell.unit, cell.unit)
            column = cell.column.replace(" ", "_") + (f"_{unit}" if unit else "")
            rows.setdefault(cell.row, {"name": cell.row})[column] = cell.value
        if not rows:
            names = ", ".join(dict.fromkeys(cell.table for cell in self))
            raise KeyError(f"{name}: the tables are {names}")
        return tuple(kind({**unknown(kind), **one}) for one in rows.values())


class Memory(Tables):
    """The memory of a training step over its moments, and the tensors of its peak."""

    @property
    def peak_GiB(self) -> float:
        """The most at any moment, before what the allocator cannot use."""
        return float(self.table("peak")[0]["total_GiB"])  # type: ignore[arg-type]

    @property
    def moments(self) -> tuple[Moment, ...]:
        """The step's moments, in order."""
        return self._table("step", Moment)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The tensors of the peak, the largest first."""
        return self._table("pieces", Piece)

    def svg(self) -> str:
        """The memory over the step, as a picture."""
        return _drawn(self, "svg")

    def snapshot(self, file: str | Path) -> Path:
        """Writes a snapshot for pytorch.org/memory_viz."""
        self._again("json", snapshot=file)
        return Path(file)

    def trace(self, file: str | Path) -> Path:
        """Writes a trace for Perfetto."""
        self._again("json", trace=file)
        return Path(file)

    def _pictures(self) -> dict[str, str]:
        return {"Memory over the step": self.svg()}


class Shape(Tables):
    """A model's parameters and FLOPs."""

    @property
    def parameters(self) -> int:
        """All of them."""
        return int(self.table("totals")[0]["parameters"])  # type: ignore[arg-type]


class Time(Answer[Step]):
    """Where a step of one layout goes."""

    _row = Step

    def svg(self) -> str:
        """The step over its time, as a picture."""
        return _drawn(self, "svg")

    def trace(self, file: str | Path) -> Path:
        """Writes a trace for Perfetto."""
        self._again("json", trace=file)
        return Path(file)


class Explained(Answer[Explanation]):
    """What each part of a step is made of, what bounds it, and what would make it shorter."""

    _row = Explanation


class Profiled(Answer[Operator]):
    """A step that PyTorch's profiler saw, beside the same as predicted."""

    _row = Operator


class Check(Answer[Finding]):
    """What a trainer's own files configure."""

    _row = Finding

    @property
    def fits(self) -> bool:
        """Whether it fits each kind of GPU that was asked about."""
        return all(one.fits for one in self.verdicts)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What it needs and takes, on each kind of GPU."""
        of_gpus: dict[Any, dict[str, Any]] = {}
        for one in self.about("verdict"):
            said = of_gpus.setdefault(one.gpu, {**unknown(Verdict), "gpu": one.gpu})
            said[one.key] = one.value
        return tuple(Verdict(one) for one in of_gpus.values())

    @property
    def training(self) -> dict[str, str | float | None]:
        """What the files configure."""
        return {one.key: one.value for one in self.about("training")}

    def about(self, what: str) -> tuple[Finding, ...]:
        """What is said of "training", "verdict", "better", "would fit", "assumed" and so on."""
        return tuple(one for one in self if one.what == what)


class Batches(Answer[Batch]):
    """Micro-batch and accumulation of a batch."""

    _row = Batch


class Calibration(Answer[Calibrated]):
    """What a few timed steps say of a cluster and its software."""

    _row = Calibrated

    @property
    def numbers(self) -> dict[str, Calibrated]:
        """The numbers of the cluster, by name."""
        return {row.name: row for row in self if row.what == "number"}

    @property
    def steps(self) -> tuple[Calibrated, ...]:
        """The steps of the file, in its order."""
        return tuple(row for row in self if row.what == "step")

    @property
    def next(self) -> Calibrated | None:
        """Of the steps that nobody timed the one that would tell most."""
        return next((row for row in self.steps if row.is_next), None)


class Rates(Answer[Rate]):
    """The learning rate at another batch, by each rule that holds."""

    _row = Rate


class Schedule(Answer[ScheduledRate]):
    """The learning rate at the steps of a schedule, by each rule that holds."""

    _row = ScheduledRate


class Costs(Answer[Cost]):
    """Hours, money, energy and CO2 of a run."""

    _row = Cost


class Runs(Answer[Run]):
    """A whole run on each cluster, with failures, checkpoints and restarts."""

    _row = Run

    def svg(self) -> str:
        """Where the days go, as a picture."""
        return _drawn(self, "svg")

    def _pictures(self) -> dict[str, str]:
        return {"Where the days go": self.svg()}


class Models(Answer[CatalogueModel]):
    """The models of the catalogue."""

    _row = CatalogueModel


class Gpus(Answer[Gpu]):
    """The GPUs of the catalogue."""

    _row = Gpu


class Systems(Answer[System]):
    """The nodes of the catalogue, of makers and of clouds."""

    _row = System


class MeasuredGpu(Answer[MeasuredNumber]):
    """What was measured of a GPU, beside its data sheet."""

    _row = MeasuredNumber


class Engines(Answer[Engine]):
    """The frameworks, with their engines."""

    _row = Engine


class Frameworks(Answer[Framework]):
    """The frameworks that can train a model, and why the others cannot."""

    _row = Framework
