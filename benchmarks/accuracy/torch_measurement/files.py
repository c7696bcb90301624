"""The files that are written: their columns, and the table of runs that follows from the steps'."""

import csv
import os

from .families import FAMILY_COLUMNS
from .kernels import KERNEL_COLUMNS
from .rows import text_of
from .settings import LAYER_COLUMNS, MATMUL_COLUMNS, SETTING_COLUMNS

TIMED = ("samples", "dropped", "steady", "sm_clock_MHz", "power_W")
FACTS = ("gpu", "capability", "multiprocessors", "driver", "cuda_version", "date")


def with_quartiles(name):
    return (f"{name}_s", f"{name}_q1_s", f"{name}_q3_s")


STEP_FILE = (
    "id", "torch_version", *SETTING_COLUMNS, "notes",
    "params", "trainable_params", "params_bytes", "grads_bytes", "optimizer_bytes",
    "buffers_bytes", "input_bytes", "allocated_before_step", "allocated_after_forward",
    "peak_forward", "peak_backward", "peak_optimizer", "peak_allocated", "peak_requested",
    "peak_reserved", "peak_moment", "workspace_bytes", "flops_forward", "flops_backward",
    "fits", "usable_bytes", *with_quartiles("step"), "forward_s", "backward_s", "optimizer_s",
    "launch_s", *TIMED, *FACTS,
)  # fmt: skip
LAYER_FILE = (
    "id", "torch_version", *LAYER_COLUMNS, "params", "fits", "usable_bytes",
    *with_quartiles("forward"), *with_quartiles("backward"), "launch_s", *TIMED, *FACTS,
)  # fmt: skip
MATMUL_FILE = (
    "id", "torch_version", *MATMUL_COLUMNS, "fits", "usable_bytes", *with_quartiles("matmul"),
    "tflops", *TIMED, *FACTS,
)  # fmt: skip

FAMILY_FILE = (
    "id", "torch_version", "transformers_version", *FAMILY_COLUMNS, "params_total",
    "params_trainable", "matmul_flops_forward_backward", "peak_requested", "peak_allocated",
    "peak_reserved", "fits", "usable_bytes", *with_quartiles("step"), "forward_s", "backward_s",
    "optimizer_s", "launch_s", *TIMED, *FACTS,
)  # fmt: skip
KERNEL_FILE = (
    "id", "torch_version", *KERNEL_COLUMNS, "flops", "bytes", "fits", "kernel_s", "kernel_q1_s",
    "kernel_q3_s", "samples", "sm_clock_MHz", "power_W", *FACTS,
)  # fmt: skip
HOST_FILE = ("id", "torch_version", "op", "fits", *with_quartiles("host"), "samples", *FACTS)
TRACE_FILE = (
    "id", "torch_version", "step", "operator", "calls", "kernels", "device_s", "step_s", "profiled_s",
    *FACTS,
)  # fmt: skip

# The columns of the tables of published runs, in their order.
RUN_FILE = (
    "id", "source", "gpu", "gpus", "gpus_per_node", "inter_node_GBps_per_gpu", "layers", "hidden",
    "heads", "kv_heads", "head_dim", "ffn", "gated_mlp", "vocab", "tied_embeddings",
    "learned_positions", "linear_bias", "norm", "causal", "experts", "experts_per_token",
    "shared_experts", "expert_ffn", "dense_layers", "attention", "q_lora_rank", "kv_lora_rank",
    "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "params_printed", "seq_len",
    "micro_batch", "grad_accum", "global_batch", "dp", "tp", "pp", "vpp", "cp", "ep",
    "sequence_parallel", "zero_stage", "precision", "master_weights", "grad_bytes", "optimizer",
    "recompute", "flash_attention", "compile", "fused_cross_entropy", "step_s",
    "tokens_per_s_per_gpu", "model_tflops_per_gpu", "tflops_kind", "flops_convention", "mfu_pct",
    "hfu_pct", "peak_alloc_GiB", "peak_reserved_GiB", "memory_rank", "fits", "notes",
)  # fmt: skip
RUN_SOURCE = "measure_torch"
# What a run's columns have no word for, and its notes say.
NOTED = (
    "code", "base", "activation", "accumulation", "dropout", "attention", "optimizer_impl",
    "grad_clip", "loss", "usable_bytes", "workspace_bytes", "multiprocessors", "torch_version",
    "driver", "date", "samples", "step_q1_s", "step_q3_s", "sm_clock_MHz",
)  # fmt: skip
# Compute, master weights beside the model's own, bytes of a gradient's element.
PRECISIONS = {
    "fp32": ("fp32", 0, 4),
    "bf16": ("bf16", 0, 2),
    "autocast_bf16": ("bf16", 0, 4),
    "autocast_fp16": ("fp16", 0, 4),
}
COPIED = (
    "id", "gpu", "layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "gated_mlp", "vocab",
    "tied_embeddings", "learned_positions", "linear_bias", "norm", "seq_len", "micro_batch",
    "optimizer", "recompute", "step_s", "fits",
)  # fmt: skip


def gibibytes(cell):
    """Exact: a number of bytes over a power of two reads back as it was."""
    return text_of(int(cell) / 2**30) if cell else ""


def run_of(step):
    """The row of a run for a row of the steps (text by column); None for an image model, for which
    these columns have no words."""
    if step["kind"] == "vision":
        return None
    precision, master_weights, gradient = PRECISIONS[step["precision"]]
    sequences = int(step["micro_batch"]) * int(step["accumulation"])
    notes = [f"{name}={step[name]}" for name in NOTED if step[name]]
    notes.append(f"precision_printed={step['precision']}")
    if step["notes"]:
        notes.append(step["notes"])
    run = {name: step[name] for name in COPIED}
    run |= {
        "source": RUN_SOURCE, "gpus": 1, "gpus_per_node": 1,
        "causal": int(step["kind"] == "decoder"),
        "attention": "mha" if step["kv_heads"] == step["heads"] else "gqa",
        "params_printed": step["params"], "grad_accum": step["accumulation"],
        "global_batch": sequences, "sequence_parallel": 0, "zero_stage": 0,
        "precision": precision, "master_weights": master_weights, "grad_bytes": gradient,
        "flash_attention": int(step["attention"] == "flash"), "compile": 0,
        "fused_cross_entropy": 0, "peak_alloc_GiB": gibibytes(step["peak_allocated"]),
        "peak_reserved_GiB": gibibytes(step["peak_reserved"]), "notes": "; ".join(notes),
    }  # fmt: skip
    run |= dict.fromkeys(("dp", "tp", "pp", "vpp", "cp", "ep"), 1)
    if step["step_s"]:
        run["tokens_per_s_per_gpu"] = sequences * int(step["seq_len"]) / float(step["step_s"])
    return run


def write_runs(steps_path, runs_path):
    """Writes the table of runs anew from the whole table of steps; returns how many it has."""
    with open(steps_path, newline="", encoding="utf-8") as file:
        runs = [run for run in map(run_of, csv.DictReader(file)) if run is not None]
    new = runs_path + ".new"
    with open(new, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(RUN_FILE)
        for run in runs:
            writer.writerow([text_of(run.get(column)) for column in RUN_FILE])
    os.replace(new, runs_path)
    return len(runs)
