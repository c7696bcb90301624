"""Overrides a recipe of Megatron-Bridge with what is written, in both ways, and compares what came of it.

The recipe is the Bridge's own for pretraining, with a model of its that has as many layers as the plan divides.
Transformer Engine is not needed for that, though the Bridge's adapters import it.
"""

import builtins
import contextlib
import io
import logging
import os
import shlex

from written_cases import as_if_on_h100s, compare, each_case, skip


class anything(type):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return anything(name, (), {})


usual_import = builtins.__import__


def without_transformer_engine(name, globals=None, *rest, **named):
    asks = (globals or {}).get("__name__")
    if name.startswith("transformer_engine") and asks == "megatron.bridge.peft.lora_layers":
        return anything("transformer_engine", (), {})
    return usual_import(name, globals, *rest, **named)


builtins.__import__ = without_transformer_engine
try:
    import torch
    from megatron.bridge import __version__
    from megatron.bridge.models.gpt_provider import GPTModelProvider
    from megatron.bridge.recipes.common import _pretrain_common
    from megatron.bridge.training.config import runtime_config_update
    from megatron.bridge.training.utils.omegaconf_utils import process_config_with_overrides
    from megatron.core.transformer import transformer_config
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout
except Exception as missing:
    skip(f"Megatron-Bridge is not there: {missing}")
finally:
    builtins.__import__ = usual_import

logging.disable(logging.CRITICAL)
as_if_on_h100s(torch)
transformer_config.is_te_min_version = lambda version, **also: True


def layers_listed(layout):
    """How many decoder layers each chunk of a layout has, as Megatron-Core unfolds it."""
    if layout is None:
        return []
    if isinstance(layout, str):
        layout = PipelineParallelLayerLayout.parse_str_to_list(layout)
    layout = getattr(layout, "input_data", layout)
    return [sum(getattr(layer, "name", layer) == "decoder" for layer in chunk) for chunk in layout]


def layers_of(expected):
    """Layers that the stages of a plan may have."""
    stages = expected.get("pipeline_parallel", 1)
    chunks = expected.get("virtual_pipeline", 1)
    split = expected.get("split", {})
    if split.get("listed"):
        return sum(split["listed"])
    stated = [split[end] for end in ("first", "last") if split.get(end)]
    if stated:
        return sum(stated) + (stages - len(stated)) * chunks * 4
    return 4 * stages * chunks - split.get("embedding", 0) - split.get("head", 0)


def recipe(expected):
    made = _pretrain_common()
    made.model = GPTModelProvider(
        num_layers=layers_of(expected),
        hidden_size=4096,
        num_attention_heads=32,
        num_moe_experts=8 if "expert_parallel" in expected else None,
        vocab_size=1000,
        seq_length=4096,
        add_bias_linear=False,
    )
    return made


def found_in(config):
    model, train, rates = config.model, config.train, config.scheduler
    return {
        "sequence_length": model.seq_length,
        "micro_batch": train.micro_batch_size,
        "global_batch": train.global_batch_size,
        "data_parallel": config.data_parallel_size,
        "tensor_parallel": model.tensor_model_parallel_size,
        "pipeline_parallel": model.pipeline_model_parallel_size,
        "virtual_pipeline": model.virtual_pipeline_model_parallel_size,
        "context_parallel": model.context_parallel_size,
        "expert_parallel": model.expert_model_parallel_size,
        "expert_tensor_parallel": model.expert_tensor_parallel_size,
        "sequence_parallel": model.sequence_parallel,
        "zero_stage": int(config.ddp.use_distributed_optimizer),
        "split": {
            "embedding": int(model.account_for_embedding_in_pipeline_split),
            "head": int(model.account_for_loss_in_pipeline_split),
            "first": model.num_layers_in_first_pipeline_stage or 0,
            "last": model.num_layers_in_last_pipeline_stage or 0,
            "listed": layers_listed(model.pipeline_model_parallel_layout),
        },
        "shares_kept_inputs": model.distribute_saved_activations,
        "recompute": model.recompute_granularity or "none",
        "precision": "fp8" if model.fp8 else "bf16" if model.bf16 else "fp16" if model.fp16 else "fp32",
        "optimizer": {"adam": "adamw", "sgd": "sgd_momentum"}.get(config.optimizer.optimizer, config.optimizer.optimizer),
        "optimizer_on_host": config.optimizer.optimizer_cpu_offload,
        "dropout": model.hidden_dropout,
        "clip_norm": config.optimizer.clip_grad,
        "learning_rate": config.optimizer.lr,
        "least_learning_rate": config.optimizer.min_lr,
        "warm_up_steps": float(rates.lr_warmup_iters),
        "warm_up_share": rates.lr_warmup_fraction,
        "schedule": rates.lr_decay_style.lower(),
        "decay_steps": rates.lr_wsd_decay_iters,
        "weight_decay": config.optimizer.weight_decay,
        "steps": train.train_iters,
        "samples": train.train_samples,
    }


cases = 0
for folder, expected in each_case("bridge"):
    words = shlex.split((folder / "command.txt").read_text())
    os.environ["WORLD_SIZE"] = str(expected["gpus"])
    for ways in (
        {"cli_overrides": words[words.index("YOUR_TRAINING_SCRIPT.py") + 1 :]},
        {"config_filepath": str(folder / "megatron_bridge.yaml")},
    ):
        config = recipe(expected)
        process_config_with_overrides(config, **ways)
        with contextlib.redirect_stdout(io.StringIO()):
            runtime_config_update(config)
        compare(folder, expected, found_in(config))
    cases += 1
print(cases, "files, and as many commands, were read by Megatron-Bridge", __version__)
