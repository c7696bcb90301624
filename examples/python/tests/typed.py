"""What a program with types asks; test_package.py has it checked."""

from pathlib import Path

import gpuplan


def layout(model: gpuplan.Model, gpus: int) -> str:
    plans: gpuplan.Plans = gpuplan.plan(
        model,
        gpu={"h100-sxm": gpus},
        batch=512,
        tokens="10B",
        recompute="full",
        precision=["bf16", "fp8"],
        goal="money",
    )
    best: gpuplan.Plan = plans.best
    cost: float | None = best.usd
    return f"{best.layout}: {best.micro_batch * best.accumulation}, {cost}"


def largest(config: dict[str, object]) -> list[int | None]:
    return [row.largest_micro_batch for row in gpuplan.fits(config, gpu=["4090", "h100-sxm"])]


def peak(folder: Path) -> float:
    step = gpuplan.memory(folder, zero=3, data_parallel=8, from_=["a.yml", Path("b.json")])
    first: gpuplan.Moment = step.moments[0]
    return max(step.peak_GiB, first.total_GiB)


def rates() -> list[float]:
    try:
        return [row.learning_rate for row in gpuplan.lr(tuned=(64, 3e-4), batch=[128, 256])]
    except gpuplan.PlanError as error:
        print(error.field, error.value, error.code, error.facts)
        return []


def days() -> list[tuple[float, float | None]]:
    runs: gpuplan.Runs = gpuplan.run(
        step=10, batch=512, samples=1e6, gpu={"h100-sxm": 64}, failures="none", deadline="20d"
    )
    return [(row.days, row.on_time_share) for row in runs]


def other_rows() -> tuple[bool, str, str, int, float | None]:
    engines: gpuplan.Engines = gpuplan.frameworks()
    explained = gpuplan.time("gpt2", gpu="4090", explain=True)
    schedule = gpuplan.lr(tuned=(64, 3e-4), batch=512, schedule="cosine", steps=100)
    counts = gpuplan.how_many("gpt2", gpu={"4090": 2}, batch=8, samples=1000)
    return (
        engines[0].steps_were_timed,
        gpuplan.gpus(systems=True)[0].system,
        explained[0].bound_by,
        schedule[0].step,
        counts[0].step_s,
    )


def longest(model: str) -> float:
    step: float = gpuplan.time(model, gpu="4090")[0].step_s
    return max(step, gpuplan.plan(model, gpu="4090", batch=8).best.step_s_high_by_host)


def table() -> int:
    return len(gpuplan.gpus("4090").to_pandas())
