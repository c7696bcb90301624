"""Loads what is written for LLaMA-Factory with its own get_train_args, where transformers' version is not asked for."""

import os

os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("DISABLE_VERSION_CHECK", "1")
os.environ.setdefault("LLAMAFACTORY_VERBOSITY", "ERROR")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

from written_cases import compare, each_case, skip

try:
    import transformers
    import yaml
    from llamafactory.hparams import parser
except Exception as missing:
    skip(f"LLaMA-Factory is not there: {missing}")

megatron_keys = {
    "tensor_model_parallel_size": "tensor_parallel",
    "pipeline_model_parallel_size": "pipeline_parallel",
    "virtual_pipeline_model_parallel_size": "virtual_pipeline",
    "context_parallel_size": "context_parallel",
    "expert_model_parallel_size": "expert_parallel",
    "sequence_parallel": "sequence_parallel",
    "use_distributed_optimizer": "",
    "recompute_granularity": "",
    "recompute_method": "",
    "recompute_num_layers": "",
}
# A GPU, packages and a launcher are asked for, which are not here.
parser.is_torch_bf16_gpu_available = lambda: True
parser._check_extra_dependencies = lambda *arguments: None
cases = with_megatron = 0
for folder, expected in each_case("llama-factory"):
    settings = yaml.safe_load((folder / "llama_factory.yaml").read_text())
    tf32 = settings.pop("tf32", False)
    settings["use_cpu"] = True
    settings.setdefault("model_name_or_path", "a/b")
    # They belong to a class of mcore_adapter, in which TrainingArguments' are again.
    of_megatron = {key: settings.pop(key) for key in megatron_keys if key in settings}
    deepspeed = settings.pop("deepspeed", None)  # which wants a launcher
    model, data, args, method, _ = parser.get_train_args(settings)
    fsdp = args.fsdp_config if args.fsdp else {}
    precision = "bf16" if args.bf16 else "fp16" if args.fp16 else "tf32" if tf32 else "fp32"
    found = {
        "sequence_length": data.cutoff_len + (1 if data.packing else 0),
        "packing": data.packing,
        "micro_batch": args.per_device_train_batch_size,
        "accumulation": args.gradient_accumulation_steps,
        "clip_norm": float(args.max_grad_norm),
        "learning_rate": args.learning_rate,
        "weight_decay": args.weight_decay,
        "epochs": float(args.num_train_epochs),
        "precision": "pure_bf16" if method.pure_bf16 and not args.bf16 else "fp8" if args.fp8 else precision,
        "optimizer": "muon"
        if method.use_muon
        else args.optim.value.replace("_bnb", "").replace("paged_", "").split("_")[0],
        "schedule": args.lr_scheduler_type.value.replace("warmup_stable_decay", "wsd").split("_")[0],
    }
    if "model" in expected:
        found["model"] = model.model_name_or_path
    if found["schedule"] == "wsd":
        found["decay_steps"] = args.lr_scheduler_kwargs["num_decay_steps"]
    if args.max_steps > 0:
        found["steps"] = args.max_steps
    if args.warmup_steps >= 1:
        found["warm_up_steps"] = float(args.warmup_steps)
    else:
        found["warm_up_share"] = float(args.warmup_steps)
    if of_megatron:
        found.update({megatron_keys[key]: value for key, value in of_megatron.items() if megatron_keys[key]})
        found["recompute"] = of_megatron.get("recompute_granularity", "none")
        found.pop("optimizer")
        with_megatron += 1
    else:
        recompute = not model.disable_gradient_checkpointing or fsdp.get("activation_checkpointing")
        found["recompute"] = "full" if recompute else "none"
        assert not (fsdp.get("activation_checkpointing") and not model.disable_gradient_checkpointing)
    if args.fsdp:
        found["engine"] = "fsdp2"
        found["zero_stage"] = 3 if fsdp.get("reshard_after_forward", True) else 2
        found["weights_on_host"] = bool(fsdp.get("cpu_offload"))
        assert fsdp["version"] == 2
    if deepspeed:
        config = transformers.integrations.HfDeepSpeedConfig(deepspeed)
        found["engine"] = "deepspeed"
        found["zero_stage"] = config._stage
        found["weights_on_host"] = config.get_value("zero_optimization.offload_param.device") == "cpu"
        del config  # While it lives, transformers takes it for every file's.
    if method.finetuning_type == "lora":
        found["adapters"] = {
            "rank": method.lora_rank,
            "magnitudes": method.use_dora,
            "four_bits": model.quantization_bit == 4,
        }
    assert (method.finetuning_type == "lora") == ("adapters" in expected), folder
    compare(folder, expected, found)
    cases += 1
print(cases, "files were read by LLaMA-Factory,", with_megatron, "of them but for Megatron's keys")
