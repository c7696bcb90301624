"""Rows of answers: their fields, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, NoReturn, TypeVar

Cell = str | int | float | bool | None | tuple[Any, Any]

_YES_OR_NO = frozenset({"fits", "sequence_parallel", "is_next", "steps_were_timed"})


def _cell(name: str, value: Any) -> Cell:
    if name in _YES_OR_NO and value in ("yes", "no"):
        return value == "yes"
    return tuple(value) if isinstance(value, list) else value


class Row(Mapping[str, Cell]):
    """A row of an answer: fields by name, which say their unit where they have one.

    What is not known, or does not apply, is None; what has a range has a field `_low` and one
    `_high` too.
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


Missing = TypeVar("Missing")  # NoReturn, or None


def unknown(kind: type[Row]) -> dict[str, None]:
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


class _OneStep(Row, Generic[Missing]):
    """The fields of a step; of one that may be missing, None."""

    gpu: str
    gpus: int
    framework: str | Missing
    sharding: str | Missing
    sequence_length: int | Missing
    precision: str | Missing
    layout: str | Missing
    recompute: str | Missing
    recompute_layers: int | None
    tensor_parallel: int | Missing
    sequence_parallel: bool | Missing
    context_parallel: int | Missing
    expert_parallel: int | Missing
    pipeline_parallel: int | Missing
    virtual_pipeline: int | Missing
    pipeline_split: str | Missing
    zero_stage: int | Missing
    data_parallel: int | Missing
    micro_batch: int | Missing
    accumulation: int | Missing
    memory_GiB: float | Missing
    fits: bool | None
    step_s: float | Missing
    step_s_low: float | Missing
    step_s_high: float | Missing
    tokens_per_s: float | Missing
    mfu_pct: float | Missing
    hfu_pct: float | Missing
    hours: float | None
    hours_low: float | None
    hours_high: float | None
    gpu_hours: float | None
    kWh: float | None
    CO2_kg: float | None
    usd: float | None
    usd_low: float | None
    usd_high: float | None
    data_s: float | Missing
    forward_s: float | Missing
    backward_s: float | Missing
    recompute_s: float | Missing
    tensor_communication_s: float | Missing
    context_communication_s: float | Missing
    expert_communication_s: float | Missing
    pipeline_communication_s: float | Missing
    gradient_communication_s: float | Missing
    parameter_communication_s: float | Missing
    bubble_s: float | Missing
    optimizer_s: float | Missing
    host_s: float | Missing
    step_s_low_by_products: float | Missing
    step_s_high_by_products: float | Missing
    step_s_low_by_elements: float | Missing
    step_s_high_by_elements: float | Missing
    step_s_low_by_host: float | Missing
    step_s_high_by_host: float | Missing
    step_s_low_by_contention: float | Missing
    step_s_high_by_contention: float | Missing


class Step(_OneStep[NoReturn]):
    """A step of one layout: what it needs, how long it takes, what its run costs."""


class Explanation(Row):
    """A piece of a step's time, or of ``table`` "better" what 10 % less of one bound saves."""

    table: str
    part: str | None
    what: str | None
    bound_by: str
    s: float
    pct: float
    saved_s: float | None
    saved_pct: float | None
    times: float | None
    amount: float | None
    unit: str | None
    rate_per_s: float | None
    calls: float | None
    latency_s: float | None
    hidden_s: float | None
    formula: str | None


class Operator(Row):
    """Operators of one kind and size in a profiled step, or of ``table`` "step" a total."""

    table: str
    what: str
    sizes: str | None
    measured_operators: int | None
    measured: float
    predicted_operators: int | None
    predicted: float
    ratio: float | None


class Plan(Step):
    """A plan: "best", "2nd" and so on, or what would be better without a limit."""

    plan: str
    slower_pct: float


class Count(_OneStep[None]):
    """The best plan on so many GPUs; without one the others are None, and `note` says why."""

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
    warm_up_from: float | None
    warm_up_of_five_epochs_steps: int | None


class ScheduledRate(Row):
    """The learning rate at one step of a schedule."""

    batch: int
    rule: str
    step: int
    learning_rate: float


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
    checkpoints: int | None
    save_every_within_storage_steps: int | None
    save_every_for_failures_s: float | None
    note: str


class Run(Row):
    """What a whole run takes on one cluster, failures included; `_low` and `_high`: 10 and 90 %."""

    cluster: str
    gpu: str
    gpus: int
    spare_nodes: int
    batch: int
    micro_batch: int | None
    fits: bool | None
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
    published_extra: int | None
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


class System(Row):
    """A node, as it is bought or rented."""

    system: str
    GPU: str
    GPUs: int
    link_domain: int | None
    network_GBps: float
    host_memory_GB: float
    source: str


class MeasuredNumber(Row):
    """What was measured of a GPU, beside what its data sheet says."""

    what: str
    measured: float
    data_sheet: float | None
    unit: str
    share_percent: float | None


class Engine(Row):
    """An engine of a framework."""

    framework: str
    what: str
    engine: str
    steps_were_timed: bool


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
    unit: str


class Verdict(Row):
    """What a training needs and takes on one kind of GPU."""

    gpu: str
    fits: bool
    memory_GiB: float
    usable_GiB: float
    peak: str
    largest_part: str
    largest_part_GiB: float
    largest_micro_batch: int
    step_s: float | None
    step_s_low: float | None
    step_s_high: float | None
    tokens_per_s: float | None
    mfu_pct: float | None
