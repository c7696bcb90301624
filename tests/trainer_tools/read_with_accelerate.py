"""Loads what is written for Accelerate as `accelerate launch` does, and compares what it found."""

from written_cases import compare, each_case, skip

try:
    import accelerate
    import yaml
    from accelerate.commands.config.config_args import ClusterConfig
    from accelerate.commands.launch import launch_command_parser
except Exception as missing:
    skip(f"Accelerate is not there: {missing}")

# The nested keys are options of `accelerate launch`; the loader itself does not check them.
options = {option.lstrip("-") for action in launch_command_parser()._actions for option in action.option_strings}
engines = {"MULTI_GPU": "ddp", "FSDP": "fsdp2", "DEEPSPEED": "deepspeed", "MEGATRON_LM": "megatron"}
cases = 0
for folder, expected in each_case("accelerate"):
    path = folder / "accelerate.yaml"
    for part in yaml.safe_load(path.read_text()).values():
        for key in part if isinstance(part, dict) else ():
            assert key in options, f"{folder}: {key} is no option of accelerate launch"
    read = ClusterConfig.from_yaml_file(str(path))
    found = {"engine": engines[read.distributed_type.value], "zero_stage": 0}
    if read.num_processes != -1:
        found["gpus"] = read.num_processes
        found["nodes"] = read.num_machines
    found["precision"] = {"no": "fp32"}.get(read.mixed_precision, read.mixed_precision)
    sizes = {key.removeprefix("parallelism_config_"): size for key, size in read.parallelism_config.items()}
    if sizes:
        found["data_parallel"] = sizes["dp_shard_size"] * sizes["dp_replicate_size"]
        found["shard_group"] = sizes["dp_shard_size"]
        found["tensor_parallel"] = sizes.get("tp_size", 1)
        found["context_parallel"] = sizes.get("cp_size", 1)
        from accelerate.parallelism_config import ParallelismConfig

        assert ParallelismConfig(**sizes).total_size == expected.get("gpus", ParallelismConfig(**sizes).total_size)
    if found["engine"] == "fsdp2":
        found["zero_stage"] = 3 if read.fsdp_config.get("fsdp_reshard_after_forward", True) else 2
        found["weights_on_host"] = read.fsdp_config.get("fsdp_offload_params", False)
        found["recompute"] = "full" if read.fsdp_config.get("fsdp_activation_checkpointing") else "none"
    if found["engine"] == "deepspeed":
        found["zero_stage"] = read.deepspeed_config.get("zero_stage", 0)
        found["optimizer_on_host"] = read.deepspeed_config.get("offload_optimizer_device") == "cpu"
    if found["engine"] == "megatron":
        part = read.megatron_lm_config
        found["zero_stage"] = int(part.get("megatron_lm_use_distributed_optimizer", False))
        found["tensor_parallel"] = part.get("megatron_lm_tp_degree", 1)
        found["pipeline_parallel"] = part.get("megatron_lm_pp_degree", 1)
    compare(folder, expected, found)
    cases += 1
print(cases, "files were read by Accelerate", accelerate.__version__)
