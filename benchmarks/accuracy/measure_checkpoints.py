#!/usr/bin/env python3
"""Sizes of real checkpoints: small models of transformers by random configurations, one step of their
optimizer, saved as safetensors, by torch.save, and by torch.distributed.checkpoint from ranks that FSDP2
divided the model among. Needs PyTorch, transformers and safetensors, and no GPU.

    python3 measure_checkpoints.py 24 > checkpoint_files.jsonl

A line holds a setting and what it took: bytes of each file, and how many tensors are in it.
"""

import json
import os
import random
import sys
import tempfile
import warnings

import safetensors
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
import transformers
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gpt2", "gpt_neox", "opt", "phi", "gemma", "olmo2", "mixtral", "bert")


def random_setting(random_from, at):
    family = FAMILIES[at % len(FAMILIES)]
    heads = random_from.choice([2, 4, 8])
    width = 64 * heads * random_from.choice([1, 2])
    layers = random_from.randint(2, 6)
    config = {"model_type": family, "vocab_size": random_from.randint(5000, 40000)}
    if family == "gpt2":
        config |= {"n_embd": width, "n_layer": layers, "n_head": heads, "n_positions": 512}
    else:
        config |= {
            "hidden_size": width,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "max_position_embeddings": 512,
        }
        config["ffn_dim" if family == "opt" else "intermediate_size"] = width * random_from.choice([2, 3, 4])
    if family in ("llama", "mistral", "qwen2", "qwen3", "gemma", "olmo2", "mixtral"):
        config["num_key_value_heads"] = random_from.choice([h for h in (1, 2, 4, 8) if heads % h == 0])
    if family in ("llama", "qwen2", "qwen3", "mistral"):
        config["tie_word_embeddings"] = random_from.random() < 0.5
    if family in ("qwen3", "gemma"):
        config["head_dim"] = width // heads
    if family == "opt":
        config["word_embed_proj_dim"] = width
    if family == "mixtral":
        config |= {"num_local_experts": 4, "num_experts_per_tok": 2}
    ranks = random_from.choice([1, 1, 2, 4])
    return {
        "config": config,
        "dtype": "fp32" if ranks > 1 else random_from.choice(["fp32", "bf16"]),
        "optimizer": random_from.choice(["adamw", "adamw", "sgd_momentum"]),
        "ranks": ranks,
    }


def stepped(setting, mesh=None):
    """The model with its optimizer, after a step whose gradients are zero."""
    config = transformers.AutoConfig.for_model(**setting["config"])
    family = setting["config"]["model_type"]
    kind = transformers.AutoModelForMaskedLM if family == "bert" else transformers.AutoModelForCausalLM
    torch.manual_seed(0)
    model = kind.from_config(config).to(torch.bfloat16 if setting["dtype"] == "bf16" else torch.float32)
    if mesh is not None:
        lists = [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]
        for layer in next(one for one in lists if len(one) == config.num_hidden_layers):
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    if setting["optimizer"] == "adamw":
        optimizer = torch.optim.AdamW(model.parameters())
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    return model, optimizer


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        return 1
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return sum(tensors_in(item) for item in items)


def save_together(model, optimizer, folder):
    states, of_optimizer = get_state_dict(model, optimizer)
    dcp.save({"model": states, "optim": of_optimizer}, checkpoint_id=folder)
    return tensors_in(states) + tensors_in(of_optimizer)


def sizes_in(folder):
    return {name: os.path.getsize(os.path.join(folder, name)) for name in sorted(os.listdir(folder))}


def of_rank(rank, setting, folder, port):
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=setting["ranks"])
    model, optimizer = stepped(setting, init_device_mesh("cpu", (setting["ranks"],)))
    count = save_together(model, optimizer, folder)
    if rank == 0:
        with open(folder + ".count", "w") as file:
            file.write(str(count))
    dist.destroy_process_group()


def measured(setting, folder, port):
    model, optimizer = stepped(setting)
    took = dict(setting)
    took["config"] = {"architectures": [type(model).__name__], **setting["config"]}
    took["parameters"] = sum(parameter.numel() for parameter in model.parameters())
    took["parameter_tensors"] = sum(1 for _ in model.parameters())
    path = os.path.join(folder, "file")
    torch.save(optimizer.state_dict(), path)
    took["optimizer_tensors"] = tensors_in(optimizer.state_dict()["state"])
    took["optimizer_bytes"] = os.path.getsize(path)
    model.save_pretrained(os.path.join(folder, "model"))
    path = os.path.join(folder, "model", "model.safetensors")
    with safetensors.safe_open(path, "pt") as file:
        took["safetensors_tensors"] = len(file.keys())
    took["safetensors_bytes"] = os.path.getsize(path)
    together = os.path.join(folder, "together")
    if setting["ranks"] == 1:
        took["together_tensors"] = save_together(model, optimizer, together)
    else:
        mp.spawn(of_rank, (setting, together, port), nprocs=setting["ranks"])
        with open(together + ".count") as file:
            took["together_tensors"] = int(file.read())
    sizes = sizes_in(together)
    took["metadata_bytes"] = sizes[".metadata"]
    took["rank_bytes"] = [
        sum(size for name, size in sizes.items() if name.startswith(f"__{rank}_")) for rank in range(setting["ranks"])
    ]
    return took


def main():
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    random_from = random.Random(1)
    for at in range(int(sys.argv[1])):
        setting = random_setting(random_from, at)
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measured(setting, folder, 29500 + at)), flush=True)


if __name__ == "__main__":
    main()
