"""Training steps that nobody chose: small models of random shapes, in random settings, by a seed."""

import json
import random
from dataclasses import replace

from .families import Family, ids, of_text
from .settings import OPTIMIZERS, bert, gpt, llama, vit

VOCABULARIES = (32768, 50257, 50304, 65024, 128256)
HEAD_DIMS = (32, 64, 80, 96, 128)

# Classes by the names that their configurations have for one shape. What is None they do not have.
LLAMA_NAMES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
               "intermediate_size")  # fmt: skip
BERT_NAMES = (*LLAMA_NAMES[:3], None, "intermediate_size")
DECODERS = {
    **dict.fromkeys((
        "ArceeForCausalLM", "Cohere2ForCausalLM", "CohereForCausalLM", "Ernie4_5ForCausalLM",
        "Exaone4ForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM", "GemmaForCausalLM",
        "Glm4ForCausalLM", "GlmForCausalLM", "GraniteForCausalLM", "HunYuanDenseV1ForCausalLM",
        "LlamaForCausalLM", "MistralForCausalLM", "NemotronForCausalLM", "Olmo2ForCausalLM",
        "Olmo3ForCausalLM", "OlmoForCausalLM", "Phi3ForCausalLM", "PhiForCausalLM", "Qwen2ForCausalLM",
        "Qwen3ForCausalLM", "SeedOssForCausalLM", "SmolLM3ForCausalLM", "StableLmForCausalLM",
        "Starcoder2ForCausalLM",
    ), LLAMA_NAMES),
    "GPT2LMHeadModel": ("n_embd", "n_layer", "n_head", None, "n_inner"),
    "GPTNeoXForCausalLM": BERT_NAMES,
    "OPTForCausalLM": (*BERT_NAMES[:4], "ffn_dim"),
    "GPTJForCausalLM": ("n_embd", "n_layer", "n_head", None, "n_inner"),
    "BloomForCausalLM": ("hidden_size", "n_layer", "n_head", None, None),
    "FalconForCausalLM": ("hidden_size", "num_hidden_layers", "num_attention_heads", None, None),
    "MptForCausalLM": ("d_model", "n_layers", "n_heads", None, None),
}  # fmt: skip
ENCODERS = {
    **dict.fromkeys(("BertForMaskedLM", "RobertaForMaskedLM", "XLMRobertaForMaskedLM", "ElectraForMaskedLM",
                     "AlbertForMaskedLM", "DebertaV2ForMaskedLM", "MPNetForMaskedLM", "ModernBertForMaskedLM"),
                    BERT_NAMES),
    "DistilBertForMaskedLM": ("dim", "n_layers", "n_heads", None, "hidden_dim"),
}  # fmt: skip
VISION = ("ViTForImageClassification", "DeiTForImageClassification", "Dinov2ForImageClassification")
# Heads of a dimension that is stated
HEADS_OF_THEIR_OWN = ("Ernie4_5ForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM", "GemmaForCausalLM", "Glm4ForCausalLM",
                      "GlmForCausalLM", "HunYuanDenseV1ForCausalLM", "Qwen3ForCausalLM",
                      "SeedOssForCausalLM")  # fmt: skip
WITHOUT_KERNEL = ("BloomForCausalLM", "DebertaV2ForMaskedLM", "Gemma2ForCausalLM", "MPNetForMaskedLM",
                  "MptForCausalLM")  # fmt: skip
DEBERTA_V3 = {"relative_attention": True, "position_buckets": 256, "norm_rel_ebd": "layer_norm",
              "share_att_key": True, "pos_att_type": "p2c|c2p", "position_biased_input": False,
              "type_vocab_size": 0}  # fmt: skip
WITHOUT_CHECKPOINTS = ("AlbertForMaskedLM", "MPNetForMaskedLM")
# What classes call the probabilities that they drop weights of attention and anything else by.
BERT_DROPOUTS = ("attention_probs_dropout_prob", "hidden_dropout_prob")
DROPOUTS = {
    **dict.fromkeys((*DECODERS, "DistilBertForMaskedLM", "ModernBertForMaskedLM"), ("attention_dropout",)),
    **dict.fromkeys((*ENCODERS, *VISION), BERT_DROPOUTS),
    **dict.fromkeys(("Phi3ForCausalLM", "PhiForCausalLM"), ("attention_dropout", "resid_pdrop", "embd_pdrop")),
    **dict.fromkeys(("GPT2LMHeadModel", "GPTJForCausalLM"), ("attn_pdrop", "resid_pdrop", "embd_pdrop")),
    **dict.fromkeys(("BloomForCausalLM", "FalconForCausalLM", "GPTNeoXForCausalLM", "StableLmForCausalLM"),
                    ("attention_dropout", "hidden_dropout")),
    **dict.fromkeys(("DistilBertForMaskedLM", "OPTForCausalLM"), ("attention_dropout", "dropout")),
    "Ernie4_5ForCausalLM": (),
    "ModernBertForMaskedLM": ("attention_dropout", "embedding_dropout", "mlp_dropout"),
    "MptForCausalLM": (),
    "SeedOssForCausalLM": ("attention_dropout", "residual_dropout"),
    "Starcoder2ForCausalLM": ("attention_dropout", "residual_dropout", "embedding_dropout"),
}  # fmt: skip


def shape_of(draw):
    """(heads, heads of keys and values, dimension of a head, layers, width of the MLP)"""
    kv_heads = draw.choice((1, 2, 3, 4))
    heads = kv_heads * draw.choice((1, 2, 3, 4))
    head_dim = draw.choice(HEAD_DIMS)
    width = 8 * draw.randint(4, heads * head_dim // 2)
    return heads, kv_heads, head_dim, draw.randint(1, 5), width


def random_step(draw, name):
    heads, kv_heads, head_dim, layers, width = shape_of(draw)
    hidden, image = heads * head_dim, 16 * draw.randint(2, 14)
    kind = draw.choice((gpt, llama, bert, vit))
    optimizer, loop = draw.choice((("adamw", "fused"), *OPTIMIZERS))
    precision = draw.choice(("fp32", "bf16", "autocast_bf16", "autocast_fp16"))
    kernels = ("efficient", "math", "eager") + (() if precision == "fp32" else ("flash",))
    is_decoder = kind in (gpt, llama)
    more = {
        "micro_batch": draw.randint(1, 12), "precision": precision, "attention": draw.choice(kernels),
        "recompute": draw.choice(("none", "full", "selective")[: 3 if is_decoder else 2]),
        "accumulation": draw.choice((1, 1, 2, 3)), "grad_clip": draw.randint(0, 1),
        "optimizer": optimizer, "optimizer_impl": loop,
    }  # fmt: skip
    if kind is not llama:
        more |= {"dropout": draw.choice((0.0, 0.1)), "ffn": width}
    if is_decoder:
        more["loss"] = draw.choice(("cross_entropy", "cross_entropy_fp32_logits"))
    if kind is vit:
        return replace(vit(name, layers, hidden, heads, 16, image), **more)
    length, vocabulary = draw.randint(8, 1024 if is_decoder else 512), draw.choice(VOCABULARIES)
    if kind is llama:
        if more["attention"] == "efficient":  # which takes as many heads of keys as of queries
            kv_heads = heads
        model = llama(name, layers, hidden, heads, kv_heads, width, vocabulary, draw.randint(0, 1), length)
        return replace(model, **more)
    return replace(kind(name, layers, hidden, heads), seq_len=length, vocab=vocabulary, **more)


def configuration(names, heads, kv_heads, hidden, layers, width):
    values = zip(names, (hidden, layers, heads, kv_heads, width), strict=True)
    return {name: value for name, value in values if name is not None}


def random_attention(draw, model_class, name):
    """Of GPT-J by a generator of its own, as of dropouts: before transformers 5.24 it had no kernel."""
    if model_class in WITHOUT_KERNEL:
        return "eager"
    if model_class == "GPTJForCausalLM":
        draw = random.Random(f"attention of {name}")
    return draw.choice(("", "", "eager"))


def random_dropouts(model_class, name):
    """By a generator of their own, so that a seed has the shapes that it had before there were any."""
    draw = random.Random(f"dropouts of {name}")
    attention, other = (draw.choice((0.0, 0.1)) for _ in range(2))
    return {field: other if at else attention for at, field in enumerate(DROPOUTS[model_class])}


def random_family(draw, name):
    heads, kv_heads, head_dim, layers, width = shape_of(draw)
    size = draw.randint(1, 12)
    model_class = draw.choice((*DECODERS, *ENCODERS, *VISION))
    if model_class == "GPTJForCausalLM":  # which rotates 64 elements of a head
        head_dim = max(64, head_dim)
    hidden = heads * head_dim
    more = {
        "precision": draw.choice(("fp32", "bf16", "autocast_bf16")),
        "attention": random_attention(draw, model_class, name),
        "recompute": draw.choice(("none", "full")[: 1 if model_class in WITHOUT_CHECKPOINTS else 2]),
        "accumulation": draw.choice((1, 1, 2)),
        "grad_clip": draw.randint(0, 1),
    }
    dropouts = random_dropouts(model_class, name)
    if model_class in VISION:
        side = 16 * draw.randint(2, 14)
        config = dropouts | configuration(BERT_NAMES, heads, kv_heads, hidden, layers, width)
        config |= {"image_size": side, "patch_size": 16}
        inputs = {
            "pixel_values": {"kind": "float", "shape": [size, 3, side, side]},
            "labels": ids([size], 2),
        }
        return Family(f"{model_class}-{name}", model_class, json.dumps(config), size, (side // 16) ** 2 + 1,
                      json.dumps(inputs), **more)  # fmt: skip
    vocabulary = draw.choice(VOCABULARIES)
    names = DECODERS.get(model_class) or ENCODERS[model_class]
    config = dropouts | configuration(names, heads, kv_heads, hidden, layers, width)
    config |= {"vocab_size": vocabulary}
    if model_class in DECODERS:
        config |= {"use_cache": False, "pad_token_id": 0}
    if model_class in HEADS_OF_THEIR_OWN:
        config["head_dim"] = head_dim
    if model_class == "DebertaV2ForMaskedLM":
        config |= DEBERTA_V3
    if model_class == "OPTForCausalLM":
        config["word_embed_proj_dim"] = hidden
    return of_text(f"{model_class}-{name}", model_class, config, vocabulary, size,
                   draw.randint(8, 512 if model_class in ENCODERS else 1024), **more)  # fmt: skip


def random_settings(count, seed):
    """So many steps of plain models and of classes of transformers, half of each."""
    draw = random.Random(seed)
    return {
        "steps": [random_step(draw, f"random-{seed}-{at}") for at in range(count - count // 2)],
        "families": [random_family(draw, f"{seed}-{at}") for at in range(count // 2)],
    }
