"""Loads arguments with transformers' HfArgumentParser, TRL's classes where TRL's keys are in them."""

import os

os.environ.setdefault("DS_ACCELERATOR", "cpu")

from written_cases import compare, each_case, skip

try:
    import torch
    import transformers
    import trl
    import yaml
except Exception as missing:
    skip(f"transformers or TRL is not there: {missing}")

trl_classes = (trl.ScriptArguments, trl.SFTConfig, trl.ModelConfig)
cases = 0
for folder, expected in each_case("hf", 200):
    settings = yaml.safe_load((folder / "arguments.yaml").read_text())
    is_trl = "dataset_name" in settings
    # There is no GPU to ask, which bf16 and tf32 want.
    tf32 = settings.pop("tf32", False)
    settings["use_cpu"] = True
    classes = trl_classes if is_trl else (transformers.TrainingArguments,)
    parsed = transformers.HfArgumentParser(classes).parse_dict(settings)
    args = parsed[1] if is_trl else parsed[0]
    dtype = parsed[2].dtype if is_trl else None
    is_pure = dtype == "bfloat16" and not args.bf16
    precision = "bf16" if args.bf16 else "fp16" if args.fp16 else "tf32" if tf32 else "fp32"
    optim = args.optim.value.replace("_bnb", "").replace("paged_", "").split("_")[0]
    fsdp = args.fsdp_config if args.fsdp else {}
    recompute = args.gradient_checkpointing or fsdp.get("activation_checkpointing")
    found = {
        "micro_batch": args.per_device_train_batch_size,
        "accumulation": args.gradient_accumulation_steps,
        "clip_norm": float(args.max_grad_norm),
        "learning_rate": args.learning_rate,
        "weight_decay": args.weight_decay,
        "epochs": float(args.num_train_epochs),
        "precision": "pure_bf16" if is_pure else precision,
        "optimizer": optim,
        "schedule": args.lr_scheduler_type.value.replace("warmup_stable_decay", "wsd").split("_")[0],
    }
    if found["schedule"] == "wsd":
        from torch.optim import SGD

        # As the trainer makes it: the last steps before the end are half-way down.
        total, down = 10_000, args.lr_scheduler_kwargs["num_decay_steps"]
        by = SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
        made = transformers.get_scheduler(args.lr_scheduler_type, by, 0, total, args.lr_scheduler_kwargs)
        found["decay_steps"] = down
        least = args.lr_scheduler_kwargs.get("min_lr_ratio", 0)
        for step, rate in ((total - down, 1), (total - down / 2, (1 + least) / 2), (total, least)):
            assert abs(made.lr_lambdas[0](step) - rate) < 1e-12, (folder, step)
    if args.max_steps > 0:
        found["steps"] = args.max_steps
    if args.warmup_steps >= 1:
        found["warm_up_steps"] = float(args.warmup_steps)
    else:
        found["warm_up_share"] = float(args.warmup_steps)
    found["recompute"] = "full" if recompute else "none"
    if args.fsdp:
        found["engine"] = "fsdp2"
        found["zero_stage"] = 3 if fsdp.get("reshard_after_forward", True) else 2
        found["weights_on_host"] = bool(fsdp.get("cpu_offload"))
    if args.deepspeed:
        found["engine"] = "deepspeed"
        config = args.hf_deepspeed_config
        found["zero_stage"] = config._stage
        found["weights_on_host"] = config.get_value("zero_optimization.offload_param.device") == "cpu"
    if is_trl:
        script, _, model = parsed
        if model.model_name_or_path:
            found["model"] = model.model_name_or_path
        found["sequence_length"] = args.max_length
        found["weights"] = {"bfloat16": "bf16", "float16": "fp16"}.get(dtype, "fp32")
        found["packing"] = args.packing
        if model.use_peft:
            found["adapters"] = {
                "rank": model.lora_r,
                "magnitudes": model.use_dora,
                "four_bits": model.load_in_4bit,
            }
            from trl.trainer.utils import get_peft_config

            assert get_peft_config(model).r == model.lora_r
    compare(folder, expected, found)
    cases += 1
print(cases, "files were read by transformers", transformers.__version__, "and TRL", trl.__version__)
