"""Starts what is written for torchtitan as its command does, up to the devices, and compares what it found."""

import logging
import shlex
import sys

from written_cases import compare, each_case, skip

try:
    from importlib.metadata import version

    from torchtitan.config.manager import ConfigManager
    from torchtitan.distributed import ParallelDims
except Exception as missing:
    skip(f"torchtitan is not there: {missing}")

logging.disable(logging.CRITICAL)
cases = with_ranks = 0
for folder, expected in each_case("torchtitan", 200):
    words = shlex.split((folder / "command.txt").read_text())
    flags = words[words.index("torchtitan.train") + 1 :]
    sys.path.insert(0, str(folder))
    read = ConfigManager().parse_args(flags)
    sys.path.pop(0)
    del sys.modules["gpuplan_torchtitan"]
    # What the registry's dataclasses have no field for would have raised.
    ways = read.parallelism
    type(ways)(**{name: getattr(ways, name) for name in ways.__slots__})
    replicas = ways.data_parallel_shard_degree * ways.data_parallel_replicate_degree
    batch = read.training.global_batch_size
    found = {
        "sequence_length": read.training.seq_len,
        "steps": read.training.steps,
        "clip_norm": float(read.training.max_norm),
        "global_batch": batch,
        "tensor_parallel": ways.tensor_parallel_degree,
        "pipeline_parallel": ways.pipeline_parallel_degree,
        "context_parallel": ways.context_parallel_degree,
        "expert_parallel": ways.expert_parallel_degree,
        "sequence_parallel": ways.enable_sequence_parallel,
        "data_parallel": replicas,
        "zero_stage": {"always": 3, "never": 2}.get(ways.fsdp_reshard_after_forward),
        "weights_on_host": read.training.enable_cpu_offload,
        "warm_up_steps": float(read.lr_scheduler.warmup_steps),
        "loss_chunks": getattr(read.loss, "num_chunks", 0),
        "cuda_graphs": not read.training.disable_cuda_graphs,
        "learning_rate": read.optimizer.param_groups[0].optimizer_kwargs["lr"],
        "weight_decay": read.optimizer.param_groups[0].optimizer_kwargs["weight_decay"],
    }
    rates = read.lr_scheduler
    found["schedule"] = rates.decay_type if rates.decay_ratio is None else "wsd" if rates.decay_ratio else "constant"
    if rates.decay_ratio is not None and "steps" in expected:
        found["decay_steps"] = round(rates.decay_ratio * expected["steps"])
    compare(folder, expected, found)
    if ways.tensor_parallel_degree <= 4:  # as many key-value heads as Qwen3-30B-A3B has
        read.model_spec.model.update_from_config(config=read)
    if "gpus" in expected and "data_parallel" in expected:
        ranks = int(words[words.index("--nnodes") + 1]) * int(words[words.index("--nproc-per-node") + 1])
        divided = replicas * ways.tensor_parallel_degree * ways.pipeline_parallel_degree * ways.context_parallel_degree
        if divided == ranks:  # else the plan leaves a degree open
            ParallelDims.from_config(ways, ranks)
            with_ranks += 1
    if "accumulation" in expected:
        assert batch % (read.training.local_batch_size * replicas) == 0, folder
    cases += 1
print(cases, "modules were read by torchtitan", version("torchtitan"), "and", with_ranks, "made its ranks")
