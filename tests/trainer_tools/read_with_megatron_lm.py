"""Loads what is written for Megatron-LM with the parser of megatron-core, and compares what it found.

Its own validation must take the arguments, and its configuration of a transformer be made of them; Transformer
Engine alone is not asked for.
"""

import argparse
import contextlib
import io
import os
import re
import typing

from written_cases import as_if_on_h100s, compare, each_case, skip, words_of_script

try:
    if not hasattr(typing, "override"):  # Python 3.11, for which there is no wheel of it
        typing.override = lambda function: function
    from megatron.core import __version__
    import torch
    from megatron.core.transformer import transformer_config
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout
    from megatron.training.arguments import (
        add_megatron_arguments,
        core_transformer_config_from_args,
        validate_args,
    )
    from torch.distributed.run import get_args_parser
except Exception as missing:
    skip(f"megatron-core with megatron.training, or torch, is not there: {missing}")

as_if_on_h100s(torch)
os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
transformer_config.is_te_min_version = lambda version, **also: True


def layers_listed(layout):
    """How many decoder layers each chunk of a layout has, as Megatron-Core unfolds it."""
    if layout is None:
        return []
    unfolded = PipelineParallelLayerLayout.parse_str_to_list(layout)
    return [sum(getattr(layer, "name", layer) == "decoder" for layer in chunk) for chunk in unfolded]


def chunks_of_stage(read):
    listed = layers_listed(read.pipeline_model_parallel_layout)
    if not listed:
        return read.num_virtual_stages_per_pipeline_rank
    return len(listed) // read.pipeline_model_parallel_size


parser = add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False))
cases = 0
for folder, expected in each_case("megatron"):
    script = (folder / "megatron_lm.sh").read_text()
    launch = get_args_parser().parse_args(words_of_script(script, {"HEAD_NODE": "head"}))
    assert launch.training_script == "pretrain_gpt.py", launch
    read = parser.parse_args(launch.training_script_args)
    found = {
        "nodes": int(launch.nnodes),
        "gpus_per_node": int(launch.nproc_per_node),
        "micro_batch": read.micro_batch_size,
        "global_batch": read.global_batch_size,
        "sequence_length": read.seq_length,
        "tensor_parallel": read.tensor_model_parallel_size,
        "pipeline_parallel": read.pipeline_model_parallel_size,
        "virtual_pipeline": chunks_of_stage(read),
        "context_parallel": read.context_parallel_size,
        "expert_parallel": read.expert_model_parallel_size,
        "expert_tensor_parallel": read.expert_tensor_parallel_size,
        "sequence_parallel": read.sequence_parallel,
        "zero_stage": int(read.use_distributed_optimizer),
        "split": {
            "embedding": int(read.account_for_embedding_in_pipeline_split),
            "head": int(read.account_for_loss_in_pipeline_split),
            "first": read.decoder_first_pipeline_num_layers or 0,
            "last": read.decoder_last_pipeline_num_layers or 0,
            "listed": layers_listed(read.pipeline_model_parallel_layout),
        },
        "shares_kept_inputs": read.distribute_saved_activations,
        "recompute": read.recompute_granularity or "none",
        "precision": "fp8" if read.fp8 else "bf16" if read.bf16 else "fp16" if read.fp16 else "fp32",
        "optimizer": {"adam": "adamw", "sgd": "sgd_momentum"}.get(read.optimizer, read.optimizer),
        "dropout": read.hidden_dropout,
        "clip_norm": read.clip_grad,
        "learning_rate": read.lr,
        "least_learning_rate": read.min_lr,
        "warm_up_steps": float(read.lr_warmup_iters),
        "warm_up_share": read.lr_warmup_fraction,
        "schedule": read.lr_decay_style.lower(),
        "decay_steps": read.lr_wsd_decay_iters,
        "weight_decay": read.weight_decay,
        "steps": read.train_iters,
        "samples": read.train_samples,
    }
    compare(folder, expected, found)
    layers = read.moe_layer_freq
    assert not isinstance(layers, list) or len(layers) == read.num_layers, layers
    rows = int(re.search(r"--vocab-size (\d+)", script).group(1))
    assert read.make_vocab_size_divisible_by == 1 and rows % (read.tensor_model_parallel_size or 1) == 0
    read.world_size, read.rank = expected["gpus"], 1
    with contextlib.redirect_stdout(io.StringIO()):
        validate_args(read)
    read.apply_rope_fusion = False  # Transformer Engine's, and the default
    core_transformer_config_from_args(read)
    assert read.data_parallel_size == expected["data_parallel"], folder
    cases += 1
print(cases, "scripts were read by megatron-core", __version__)
