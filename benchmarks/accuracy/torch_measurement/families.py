"""Training steps of classes of transformers, as plain data: the shapes of published models."""

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """A step of a class. `config` is what its configuration is given, `inputs` the batch in the
    words of the project's tables: ids below `top`, float in the precision, value."""

    name: str
    model_class: str
    config: str  # JSON
    micro_batch: int
    sequence_length: int
    inputs: str  # JSON
    precision: str = "autocast_bf16"
    attention: str = ""  # eager, or as the class chooses
    decoder_seq_len: int = 0
    recompute: str = "none"
    accumulation: int = 1
    grad_clip: int = 0
    liger_kernels: int = 0  # Liger's functions in place of the class's own

    @property
    def id(self):
        parts = [self.name, f"b{self.micro_batch}", f"s{self.sequence_length}", self.precision]
        parts += [self.attention] if self.attention else []
        parts += ["liger"] if self.liger_kernels else []
        return ".".join(parts + ([self.recompute] if self.recompute != "none" else []))

    def columns(self):
        return {
            "id": self.id, "model_class": self.model_class, "precision": self.precision,
            "optimizer": "adamw", "optimizer_impl": "fused", "micro_batch": self.micro_batch,
            "sequence_length": self.sequence_length, "decoder_seq_len": self.decoder_seq_len,
            "recompute": self.recompute, "lora": "none", "attention": self.attention,
            "inputs": self.inputs, "wrap": "", "padding_mask": 0, "grad_clip": self.grad_clip,
            "accumulation": self.accumulation, "liger_kernels": self.liger_kernels,
        }  # fmt: skip


FAMILY_COLUMNS = (
    "model_type", "model_class", "config_file", "precision", "optimizer", "optimizer_impl",
    "micro_batch", "sequence_length", "decoder_seq_len", "recompute", "lora", "attention", "inputs",
    "wrap", "padding_mask", "grad_clip", "accumulation", "liger_kernels",
)  # fmt: skip

# Class, what its configuration is given (what it leaves out is that of the class), and the vocabulary.
DECODERS = {
    "gpt2": ("GPT2LMHeadModel", {}, 50257),
    "gpt2-medium": ("GPT2LMHeadModel", {"n_embd": 1024, "n_layer": 24, "n_head": 16}, 50257),
    "opt-350m": ("OPTForCausalLM", {"hidden_size": 1024, "num_hidden_layers": 24, "ffn_dim": 4096,
                                    "num_attention_heads": 16, "word_embed_proj_dim": 1024}, 50272),
    "pythia-410m": ("GPTNeoXForCausalLM", {"hidden_size": 1024, "num_hidden_layers": 24,
                                           "num_attention_heads": 16, "intermediate_size": 4096,
                                           "vocab_size": 50304}, 50304),
    "bloom-560m": ("BloomForCausalLM", {"hidden_size": 1024, "n_layer": 24, "n_head": 16,
                                        "vocab_size": 250880}, 250880),
    "llama-3.2-1b": ("LlamaForCausalLM", {"hidden_size": 2048, "num_hidden_layers": 16,
                                          "num_attention_heads": 32, "num_key_value_heads": 8,
                                          "intermediate_size": 8192, "vocab_size": 128256,
                                          "tie_word_embeddings": True}, 128256),
    "qwen2.5-0.5b": ("Qwen2ForCausalLM", {"hidden_size": 896, "num_hidden_layers": 24,
                                          "num_attention_heads": 14, "num_key_value_heads": 2,
                                          "intermediate_size": 4864, "vocab_size": 151936,
                                          "tie_word_embeddings": True}, 151936),
    "qwen3-0.6b": ("Qwen3ForCausalLM", {"hidden_size": 1024, "num_hidden_layers": 28,
                                        "num_attention_heads": 16, "num_key_value_heads": 8,
                                        "intermediate_size": 3072, "vocab_size": 151936,
                                        "head_dim": 128, "tie_word_embeddings": True}, 151936),
    "phi-1.5": ("PhiForCausalLM", {"hidden_size": 2048, "num_hidden_layers": 24,
                                   "num_attention_heads": 32, "intermediate_size": 8192}, 51200),
    "stablelm-1.6b": ("StableLmForCausalLM", {"hidden_size": 2048, "num_hidden_layers": 24,
                                              "num_attention_heads": 32, "num_key_value_heads": 32,
                                              "intermediate_size": 5632, "vocab_size": 100352}, 100352),
    "olmo2-1b": ("Olmo2ForCausalLM", {"hidden_size": 2048, "num_hidden_layers": 16,
                                      "num_attention_heads": 16, "num_key_value_heads": 16,
                                      "intermediate_size": 8192, "vocab_size": 100352}, 100352),
    "granite-1b": ("GraniteForCausalLM", {"hidden_size": 2048, "num_hidden_layers": 16,
                                          "num_attention_heads": 32, "num_key_value_heads": 8,
                                          "intermediate_size": 8192, "vocab_size": 49152}, 49152),
}  # fmt: skip
WITH_LIGER = ("llama-3.2-1b", "qwen2.5-0.5b", "qwen3-0.6b")
WITHOUT_KERNEL = ("bloom-560m",)  # its class adds to the scores what no kernel of PyTorch takes
ENCODERS = {
    "bert-base": ("BertForMaskedLM", {}, 30522),
    "bert-large": ("BertForMaskedLM", {"hidden_size": 1024, "num_hidden_layers": 24,
                                       "num_attention_heads": 16, "intermediate_size": 4096}, 30522),
    "roberta-base": ("RobertaForMaskedLM", {"vocab_size": 50265, "max_position_embeddings": 514}, 50265),
    "distilbert": ("DistilBertForMaskedLM", {}, 30522),
    "electra-base": ("ElectraForMaskedLM", {"embedding_size": 768, "hidden_size": 768,
                                            "num_attention_heads": 12, "intermediate_size": 3072}, 30522),
    "albert-base": ("AlbertForMaskedLM", {"hidden_size": 768, "num_attention_heads": 12,
                                          "intermediate_size": 3072}, 30000),
    "modernbert-base": ("ModernBertForMaskedLM", {}, 50368),
}  # fmt: skip
VISION = {
    "vit-base": ("ViTForImageClassification", {}),
    "vit-large": ("ViTForImageClassification", {"hidden_size": 1024, "num_hidden_layers": 24,
                                                "num_attention_heads": 16, "intermediate_size": 4096}),
    "dinov2-base": ("Dinov2ForImageClassification", {"image_size": 224}),
}  # fmt: skip


def ids(shape, top):
    return {"kind": "ids", "shape": shape, "top": top}


def of_text(name, model_class, config, vocabulary, size, length, **more):
    text = ids([size, length], vocabulary)
    return Family(name, model_class, json.dumps({**config, **more.pop("also", {})}), size, length,
                  json.dumps({"input_ids": text, "labels": text}), **more)  # fmt: skip


def families():
    found = []
    for name, (model_class, config, vocabulary) in DECODERS.items():
        attention = "eager" if name in WITHOUT_KERNEL else ""
        for size, length in ((1, 512), (4, 1024)):
            found.append(of_text(name, model_class, config, vocabulary, size, length,
                                 attention=attention, also={"use_cache": False}))  # fmt: skip
    for name, precision, attention, size in (
        ("gpt2", "bf16", "", 8), ("gpt2", "autocast_bf16", "eager", 4),
        ("llama-3.2-1b", "bf16", "", 4), ("llama-3.2-1b", "autocast_bf16", "eager", 2),
        ("qwen2.5-0.5b", "bf16", "", 8),
    ):  # fmt: skip
        model_class, config, vocabulary = DECODERS[name]
        found.append(of_text(name, model_class, config, vocabulary, size, 1024, precision=precision,
                             attention=attention, also={"use_cache": False}))  # fmt: skip
    for name, (model_class, config, vocabulary) in ENCODERS.items():
        for size, length in ((8, 128), (32, 512)):
            if length < config.get("max_position_embeddings", 8192):
                found.append(of_text(name, model_class, config, vocabulary, size, length))
    for name, (model_class, config) in VISION.items():
        for size in (16, 64):
            inputs = {
                "pixel_values": {"kind": "float", "shape": [size, 3, 224, 224]},
                "labels": ids([size], 2),
            }
            found.append(Family(name, model_class, json.dumps(config), size, 197, json.dumps(inputs)))
    for size, length in ((8, 128), (16, 512)):
        text = ids([size, length], 32128)
        found.append(Family("t5-base", "T5ForConditionalGeneration",
                            json.dumps({"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12,
                                        "decoder_start_token_id": 0}),
                            size, length, json.dumps({"input_ids": text, "labels": text}),
                            decoder_seq_len=length))  # fmt: skip
    # Last, for what they put into the classes' modules stays there.
    for name in WITH_LIGER:
        model_class, config, vocabulary = DECODERS[name]
        for size, length, precision in ((1, 512, "autocast_bf16"), (4, 1024, "autocast_bf16"),
                                        (4, 1024, "bf16"), (8, 2048, "bf16")):  # fmt: skip
            found.append(of_text(name, model_class, config, vocabulary, size, length,
                                 precision=precision, liger_kernels=1,
                                 also={"use_cache": False}))  # fmt: skip
    return found
