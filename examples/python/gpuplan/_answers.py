"""Answers: rows with named fields, and what can be made of them."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

from . import _core, _html
from ._errors import PlanError
from ._words import arguments_of, keyword_of, words_of

if TYPE_CHECKING:
    import pandas

Cell = str | int | float | bool | None | tuple[Any, Any]

_YES_OR_NO = frozenset({"fits", "sequence_parallel", "is_next"})


def _cell(name: str, value: Any) -> Cell:
    if name in _YES_OR_NO and value in ("yes", "no"):
        return value == "yes"
    return tuple(value) if isinstance(value, list) else value


class Row(Mapping[str, Cell]):
    """A row of an answer: fields by name, which end in their unit where they have one.

    What is not known, or does not apply, is None; what may be several, a pair of low and high.
    """

    def __init__(self, cells: Mapping[str, Any]) -> None:
        self.__dict__.update((name, _cell(name, value)) for name, value in cells.items())

    def to_dict(self) -> dict[str, Cell]:
        """The fields, by name."""
        return dict(self.__dict__)

    def __getitem__(self, name: str) -> Cell:
        return self.__dict__[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__)

    def __len__(self) -> int:
        return len(self.__dict__)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name}: the rows of an answer do not change")

    def __setstate__(self, state: dict[str, Cell]) -> None:
        self.__dict__.update(state)

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__.items()))

    def __repr__(self) -> str:
        known = (f"{name}={value!r}" for name, value in self.items() if value is not None)
        return f"{type(self).__name__}({', '.join(known)})"


def _unknown(kind: type[Row]) -> dict[str, None]:
    """A row of which nothing is known."""
    return dict.fromkeys(kind.__annotations__)


class Method(Row):
    """A way to train, and whether it fits."""

    gpu: str
    usable_GiB: float
    method: str
    gpus: int
    recompute: str
    fits: bool | None
    memory_at_1_GiB: float | None
    largest_micro_batch: int | None
    memory_at_largest_GiB: float | None
    peak: str | None
    binding: str | None
    binding_GiB: float | None
    error: str | None


class Step(Row):
    """A step of one layout: what it needs, how long it takes, what its run costs."""

    gpu: str
    gpus: int
    framework: str
    sharding: str
    sequence_length: int
    precision: str
    layout: str
    recompute: str
    tensor_parallel: int
    sequence_parallel: bool
    context_parallel: int
    expert_parallel: int
    pipeline_parallel: int
    virtual_pipeline: int
    pipeline_split: str
    zero_stage: int
    data_parallel: int
    micro_batch: int
    accumulation: int
    memory_GiB: float
    fits: bool | None
    step_s: float
    step_s_low: float
    step_s_high: float
    tokens_per_s: float
    mfu_pct: float
    hfu_pct: float
    hours: float | None
    hours_low: float | None
    hours_high: float | None
    gpu_hours: float | None
    kWh: float | None
    CO2_kg: float | None
    usd: float | None
    usd_low: float | None
    usd_high: float | None
    data_s: float
    forward_s: float
    backward_s: float
    recompute_s: float
    tensor_communication_s: float
    context_communication_s: float
    expert_communication_s: float
    pipeline_communication_s: float
    gradient_communication_s: float
    parameter_communication_s: float
    bubble_s: float
    optimizer_s: float
    host_s: float


class Plan(Step):
    """A plan: "best", "2nd" and so on, or what would be better without a limit."""

    plan: str
    slower_pct: float


class Count(Step):
    """The best plan on so many GPUs; without one, `note` says why."""

    usd_per_hour_saved: float | None
    efficiency_pct: float | None
    note: str


class Batch(Row):
    """A micro-batch and accumulation, and what they need."""

    plan: str
    gpu: str
    gpus: int
    data_parallel: int
    micro_batch: int
    accumulation: int
    batch: int
    recompute: str
    memory_GiB: float
    usable_GiB: float
    fits: bool
    step_s: float | None
    tokens_per_s: float | None
    note: str


class Calibrated(Row):
    """A number that timed steps tell of (``what`` is "number"), or one of the steps ("step").

    ``value`` is the median and 80 % lie from ``low`` to ``high``, in ``unit``; ``before`` any step
    was timed.
    """

    what: str
    name: str
    unit: str
    line: int | None
    timed: float | None
    before: float
    value: float
    low: float | None
    high: float | None
    is_next: bool | None
    note: str


class Rate(Row):
    """A learning rate by one rule."""

    batch: int
    rule: str
    learning_rate: float
    times: float
    beta1: float | None
    beta2: float | None
    epsilon: float | None
    note: str
    warm_up_steps: int | None


class Cost(Row):
    """What a run costs on one cluster."""

    cluster: str
    gpu: str
    gpus: int
    batch: int | None
    micro_batch: int | None
    fits: bool | None
    step_s: float
    steps: int
    hours: float
    hours_low: float
    hours_high: float
    gpu_hours: float
    usd: float | None
    usd_low: float | None
    usd_high: float | None
    kWh: float | None
    CO2_kg: float | None
    checkpoint_GiB: float | None
    note: str


class Run(Row):
    """What a whole run takes on one cluster, failures included; `_low` and `_high`: 10 and 90 %."""

    cluster: str
    gpu: str
    gpus: int
    spare_nodes: int
    batch: int
    step_s: float
    steps: int
    days_low: float
    days: float
    days_high: float
    days_sure: float
    sure_percent: float
    usd_low: float | None
    usd: float | None
    usd_high: float | None
    goodput: float
    failures: float
    jobs: int
    queue_days: float
    between_failures_h: float | None
    on_time_share: float | None
    kept_share: float | None
    save_every_steps: int | None
    save_every_s: float | None
    checkpoint_GiB: float | None
    checkpoints: int
    disk_GiB: float | None
    stall_s: float
    write_s: float
    tokens: float | None
    draw_W: float | None
    host_W: float | None
    kWh_low: float | None
    kWh: float | None
    kWh_high: float | None
    CO2_kg: float | None
    of_least_steps: float | None
    of_least_samples: float | None
    epochs: float | None
    worth_unique_tokens: float | None
    training_days: float
    saving_days: float
    lost_days: float
    detection_days: float
    restart_days: float
    waiting_days: float
    note: str


class CatalogueModel(Row):
    """A model of the catalogue."""

    model: str
    kind: str | None
    layers: int | None
    hidden_size: int | None
    parameters: int | None
    active: int | None
    published: int | None
    note: str | None
    source: str | None


class Gpu(Row):
    """A GPU of the catalogue."""

    gpu: str
    name: str
    driver_names: str | None
    vendor: str
    architecture: str
    compute_capability: float | None
    year: int
    slice: str | None
    SMs: int
    clock_MHz: int | None
    memory_as_sold_GB: float
    memory_by_driver_GiB: float | None
    memory_for_training_GiB: float
    memory_bandwidth_GBps: float
    fp64_TFLOPS: float | None
    fp64_matrix_TFLOPS: float | None
    fp32_TFLOPS: float | None
    tf32_TFLOPS: float | None
    bf16_TFLOPS: float | None
    fp16_TFLOPS: float | None
    fp16_sum_fp16_TFLOPS: float | None
    fp8_TFLOPS: float | None
    fp4_TFLOPS: float | None
    int8_TOPS: float | None
    peer_link: str | None
    peer_link_each_direction_GBps: float | None
    host_link: str | None
    host_link_each_direction_GBps: float | None
    power_W: float | None
    MIG_profiles: str | None
    source: str
    trust: str


class Framework(Row):
    """A framework, with what it can train a model; where it cannot, `why_not`."""

    framework: str
    engines: str | None
    precisions: str | None
    parallelism: str | None
    recomputation: str | None
    adapters: str | None
    why_not: str | None


class Moment(Row):
    """The memory of a moment of a step, by what it is for."""

    name: str
    total_GiB: float
    weights_GiB: float
    optimizer_states_GiB: float
    gradients_GiB: float
    buffers_GiB: float
    activations_GiB: float
    working_memory_GiB: float
    workspace_GiB: float


class Piece(Row):
    """A tensor of the peak, or several that are alike."""

    kept_for: str | None
    kind: str
    count: int
    bytes_each_B: int
    bytes_B: int
    formula: str | None
    name: str


class TableCell(Row):
    """A cell of a table."""

    table: str
    row: str
    column: str
    value: str | float | None
    unit: str


class Finding(Row):
    """One thing that is said of a trainer's files."""

    gpu: str | None
    what: str
    key: str
    value: str | float | None


class Verdict(Row):
    """What a training needs and takes on one kind of GPU."""

    gpu: str
    fits: bool
    required_GiB: float
    usable_GiB: float
    peak: str
    largest_part: str
    largest_part_GiB: float
    largest_micro_batch: int
    step_s: float | None
    step_low_s: float | None
    step_high_s: float | None
    tokens_per_s: float | None
    mfu: float | None


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
    _file_options: ClassVar[frozenset[str]] = frozenset()

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

    def _again(
        self, *formats: str, without: frozenset[str] = frozenset(), **more: object
    ) -> list[str]:
        """The answer in other formats."""
        given = {name: one for name, one in self._options.items() if name not in without}
        given.update(more)
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
        return self._again("markdown", without=self._file_options)[0]

    def _pictures(self) -> dict[str, str]:
        return {}

    def _repr_html_(self) -> str:
        tables = self._again("html", without=self._file_options)[0]
        return _html.fragment(tables, self._pictures())


def _drawn(answer: Answer[Any], option: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "picture"
        answer._again("json", without=answer._file_options, **{option: file})
        return file.read_text()


class Fits(Answer[Method]):
    """Which ways to train fit which GPU."""

    _row = Method

    @property
    def fitting(self) -> tuple[Method, ...]:
        """Those that fit."""
        return tuple(row for row in self if row.fits)


class _Planned(Answer[R]):
    _file_options = frozenset(
        "write into hub script gpu_type learning_rate warm_up_steps schedule decay_steps "
        "least_learning_rate".split()
    )

    def _planned_again(self, command: str, **more: object) -> list[dict[str, Any]]:
        without = self._file_options | {"less_memory", "how_many"}
        given = {name: one for name, one in self._options.items() if name not in without}
        given.update(more)
        answered = ask(command, words_of(command, self._arguments, given), ["json"], given)
        rows: list[dict[str, Any]] = json.loads(answered.texts[0])["answer"]
        return rows


class Plans(_Planned[Plan]):
    """The best plans, then those that would be better without one of the limits."""

    _row = Plan

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


class Counts(_Planned[Count]):
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
        return tuple(kind({**_unknown(kind), **one}) for one in rows.values())


class Memory(Tables):
    """The memory of a training step over its moments, and the tensors of its peak."""

    _file_options = frozenset({"svg", "snapshot", "trace"})

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
        self._again("json", without=self._file_options, snapshot=file)
        return Path(file)

    def trace(self, file: str | Path) -> Path:
        """Writes a trace for Perfetto."""
        self._again("json", without=self._file_options, trace=file)
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
    _file_options = frozenset({"svg", "trace"})

    def svg(self) -> str:
        """The step over its time, as a picture."""
        return _drawn(self, "svg")

    def trace(self, file: str | Path) -> Path:
        """Writes a trace for Perfetto."""
        self._again("json", without=self._file_options, trace=file)
        return Path(file)


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
            said = of_gpus.setdefault(one.gpu, {**_unknown(Verdict), "gpu": one.gpu})
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


class Costs(Answer[Cost]):
    """Hours, money, energy and CO2 of a run."""

    _row = Cost


class Runs(Answer[Run]):
    """A whole run on each cluster, with failures, checkpoints and restarts."""

    _row = Run
    _file_options = frozenset({"svg"})

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


class Frameworks(Answer[Framework]):
    """The frameworks, and which of them can train a model."""

    _row = Framework
