"""What is measured: training steps, single layers and matrix products, as plain data."""

import fnmatch
from dataclasses import asdict, dataclass, fields, replace


@dataclass(frozen=True)
class Step:
    """A training step, in the setting columns of the project's tables of PyTorch steps.

    code: plain_gpt, plain_llama, plain_bert or plain_vit (models.py). precision: fp32, bf16
    (weights, gradients and states too), autocast_bf16 or autocast_fp16 (weights in fp32).
    attention: the kernel, flash, efficient or math, or eager (products and a softmax). recompute:
    none, full (each block) or selective (the attention core).
    """

    family: str
    code: str
    base: str
    kind: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    gated_mlp: int = 0
    activation: str = "gelu"
    vocab: int = 0
    tied_embeddings: int = 1
    learned_positions: int = 0
    linear_bias: int = 1
    norm: str = "layernorm"
    qk_norm: int = 0
    experts: int = 0
    experts_per_token: int = 0
    image_size: int = 0
    patch_size: int = 0
    num_classes: int = 0
    seq_len: int = 0
    decoder_seq_len: int = 0
    sliding_window: int = 0
    micro_batch: int = 1
    encodings: int = 1
    accumulation: int = 1
    padding_mask: int = 0
    precision: str = "autocast_bf16"
    dropout: float = 0.0
    attention: str = "flash"
    recompute: str = "none"
    optimizer: str = "adamw"
    optimizer_impl: str = "fused"
    grad_clip: int = 0
    loss: str = "cross_entropy"
    trainable: str = "all"
    peft: str = "none"
    lora_rank: int = 0
    lora_targets: str = ""
    parallel: str = "single"
    world_size: int = 1
    ddp_bucket_view: int = 0
    fsdp_param_dtype: str = ""
    fsdp_reduce_dtype: str = ""

    @property
    def id(self):
        parts = [self.base, f"b{self.micro_batch}", f"s{self.seq_len}", self.precision]
        parts += [self.attention, f"{self.optimizer}-{self.optimizer_impl}"]
        if self.recompute != "none":
            parts.append(self.recompute)
        if self.accumulation != 1:
            parts.append(f"accumulate{self.accumulation}")
        if self.dropout:
            parts.append(f"dropout{self.dropout}")
        if self.grad_clip:
            parts.append("clip")
        if self.loss != "cross_entropy":
            parts.append(self.loss)
        return ".".join(parts)

    def columns(self):
        return {"id": self.id, **asdict(self)}


@dataclass(frozen=True)
class Layer:
    """One transformer block on its own: its forward and its backward, input gradient included."""

    code: str
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    gated_mlp: int
    activation: str
    linear_bias: int
    norm: str
    seq_len: int
    micro_batch: int
    precision: str = "bf16"
    attention: str = "flash"
    dropout: float = 0.0

    @property
    def id(self):
        return (
            f"{self.code}.h{self.hidden}.b{self.micro_batch}.s{self.seq_len}."
            f"{self.precision}.{self.attention}"
        )

    def columns(self):
        return {"id": self.id, **asdict(self)}


@dataclass(frozen=True)
class Matmul:
    """(m, k) times (k, n), the second the transpose of a matrix as a linear layer has it, of normal
    numbers: torch.matmul."""

    m: int
    n: int
    k: int
    precision: str = "bf16"

    @property
    def id(self):
        return f"{self.precision}.{self.m}x{self.n}x{self.k}"

    def columns(self):
        return {"id": self.id, **asdict(self)}


SETTING_COLUMNS = tuple(field.name for field in fields(Step))
LAYER_COLUMNS = tuple(field.name for field in fields(Layer))
MATMUL_COLUMNS = tuple(field.name for field in fields(Matmul))


# ---- models, by the shapes of published ones


def gpt(base, layers, hidden, heads, **more):
    return Step(
        family="gpt2", code="plain_gpt", base=base, kind="decoder", layers=layers, hidden=hidden,
        heads=heads, kv_heads=heads, head_dim=hidden // heads, ffn=4 * hidden, vocab=50257,
        learned_positions=1024, seq_len=1024, **more,
    )  # fmt: skip


def llama(base, layers, hidden, heads, kv_heads, ffn, vocab, tied, seq_len, **more):
    return Step(
        family="llama", code="plain_llama", base=base, kind="decoder", layers=layers,
        hidden=hidden, heads=heads, kv_heads=kv_heads, head_dim=hidden // heads, ffn=ffn,
        gated_mlp=1, activation="silu", vocab=vocab, tied_embeddings=tied, linear_bias=0,
        norm="rmsnorm", seq_len=seq_len, **more,
    )  # fmt: skip


def bert(base, layers, hidden, heads, **more):
    return Step(
        family="bert", code="plain_bert", base=base, kind="encoder", layers=layers, hidden=hidden,
        heads=heads, kv_heads=heads, head_dim=hidden // heads, ffn=4 * hidden, vocab=30522,
        learned_positions=512, seq_len=512, **more,
    )  # fmt: skip


def vit(base, layers, hidden, heads, patch, image=224, **more):
    return Step(
        family="vit", code="plain_vit", base=base, kind="vision", layers=layers, hidden=hidden,
        heads=heads, kv_heads=heads, head_dim=hidden // heads, ffn=4 * hidden, tied_embeddings=0,
        image_size=image, patch_size=patch, num_classes=1000,
        seq_len=(image // patch) ** 2 + 1, **more,
    )  # fmt: skip


GPT2 = gpt("gpt2", 12, 768, 12)
GPT2_MEDIUM = gpt("gpt2-medium", 24, 1024, 16)
GPT2_XL = gpt("gpt2-xl", 48, 1600, 25)
TINY_LLAMA = llama("tinyllama-1.1b", 22, 2048, 32, 4, 5632, 32000, 0, 2048)
LLAMA_1B = llama("llama-3.2-1b", 16, 2048, 32, 8, 8192, 128256, 1, 2048)
LLAMA_8B = llama("llama-3.1-8b", 32, 4096, 32, 8, 14336, 128256, 0, 2048)
BERT_BASE = bert("bert-base", 12, 768, 12)
BERT_LARGE = bert("bert-large", 24, 1024, 16)
VIT_BASE = vit("vit-base", 12, 768, 12, 16)
VIT_LARGE = vit("vit-large", 24, 1024, 16, 16)

# The optimizers of torch.optim that the library knows, with the loops that each has.
OPTIMIZERS = (
    ("adamw", "foreach"), ("adamw", "for_loop"), ("sgd", "foreach"), ("sgd_momentum", "fused"),
    ("sgd_momentum", "foreach"), ("adagrad", "foreach"), ("rmsprop", "foreach"),
    ("adafactor", "foreach"),
)  # fmt: skip


def steps():
    """Each model over batches, some of which no card holds; then one thing changed at a time."""
    found = {}

    def add(step, **changes):
        changed = replace(step, **changes)
        found.setdefault(changed.id, changed)

    batches = (
        (GPT2, (1, 2, 4, 8, 16, 32, 64, 128)), (GPT2_MEDIUM, (1, 2, 4, 8, 16, 32)),
        (GPT2_XL, (1, 2, 4, 8, 16)), (TINY_LLAMA, (1, 2, 4, 8, 16)), (LLAMA_1B, (1, 2, 4, 8, 16)),
        (BERT_BASE, (4, 8, 16, 32, 64, 128)), (BERT_LARGE, (4, 8, 16, 32, 64, 128)),
        (VIT_BASE, (16, 32, 64, 128, 256)), (VIT_LARGE, (16, 32, 64, 128, 256, 512)),
    )  # fmt: skip
    for model, sizes in batches:
        for size in sizes:
            add(model, micro_batch=size)
    for size in (1, 2, 4, 8, 16, 32):  # weights, gradients and states in bf16: 64 GB
        add(LLAMA_8B, micro_batch=size, precision="bf16", recompute="full")
    add(LLAMA_8B, micro_batch=1, precision="bf16", optimizer="sgd", optimizer_impl="foreach")

    middle = ((GPT2, 8), (TINY_LLAMA, 2), (BERT_BASE, 16), (VIT_BASE, 64))
    for model, size in middle:
        for precision in ("bf16", "autocast_fp16"):
            add(model, micro_batch=size, precision=precision)
        add(model, micro_batch=size, precision="fp32", attention="efficient")
        for attention in ("efficient", "math", "eager"):
            add(model, micro_batch=size, attention=attention)
        for size_with_checkpoints in (size, 4 * size):
            add(model, micro_batch=size_with_checkpoints, recompute="full")
        add(model, micro_batch=size, grad_clip=1)
        add(model, micro_batch=size, accumulation=4)
        add(model, micro_batch=size, optimizer_impl="foreach")
    for model, size in ((GPT2, 8), (TINY_LLAMA, 2)):  # decoders alone have this in their code
        for attention in ("flash", "eager"):
            add(model, micro_batch=size, attention=attention, recompute="selective")
        add(model, micro_batch=size, loss="cross_entropy_fp32_logits")
    for model, size in ((GPT2, 8), (BERT_BASE, 16), (VIT_BASE, 64)):
        for attention in ("flash", "eager"):
            add(model, micro_batch=size, attention=attention, dropout=0.1)
    for optimizer, loop in OPTIMIZERS:
        add(GPT2, micro_batch=4, optimizer=optimizer, optimizer_impl=loop)
        add(LLAMA_1B, micro_batch=1, optimizer=optimizer, optimizer_impl=loop)
    for length, size in ((256, 32), (512, 16), (4096, 2), (8192, 1)):
        add(TINY_LLAMA, seq_len=length, micro_batch=size)
        add(TINY_LLAMA, seq_len=length, micro_batch=size, recompute="full")
    for length, size in ((128, 64), (256, 32)):
        add(BERT_BASE, seq_len=length, micro_batch=size)
        add(GPT2, seq_len=length, micro_batch=size)
    return list(found.values())


def quick_steps():
    """One of each kind, in minutes; small enough for 8 GB."""
    small = (
        (GPT2, 2), (replace(TINY_LLAMA, layers=4, base="tinyllama-4-layers"), 1),
        (BERT_BASE, 4), (VIT_BASE, 8),
    )  # fmt: skip
    found = []
    for model, size in small:
        found += [
            replace(model, micro_batch=size),
            replace(model, micro_batch=2 * size, recompute="full"),
            replace(model, micro_batch=size, precision="bf16"),
            replace(model, micro_batch=size, precision="fp32", attention="efficient"),
        ]
    return found


# ---- layers

MOST_TOKENS = 65_536  # of a layer at hidden 1024; less where it is wider


def layer(code, hidden, seq_len, micro_batch, **more):
    head_dim = 128 if code == "plain_llama" else 64
    heads = hidden // head_dim
    is_llama = code == "plain_llama"
    return Layer(
        code=code, hidden=hidden, heads=heads, kv_heads=max(1, heads // 4) if is_llama else heads,
        head_dim=head_dim, ffn=hidden * 7 // 2 if is_llama else 4 * hidden,
        gated_mlp=int(is_llama), activation="silu" if is_llama else "gelu",
        linear_bias=int(not is_llama), norm="rmsnorm" if is_llama else "layernorm",
        seq_len=seq_len, micro_batch=micro_batch, **more,
    )  # fmt: skip


def layers():
    """Blocks over hidden size, sequence and micro-batch, as far as a middling card holds them."""
    grid = {
        "plain_gpt": ((768, 1024, 1536, 2048, 4096, 8192), (512, 1024, 2048, 4096)),
        "plain_llama": ((1024, 2048, 3072, 4096, 5120, 8192), (1024, 2048, 4096, 8192)),
        "plain_bert": ((768, 1024), (128, 256, 512)),
        "plain_vit": ((768, 1024, 1280), (197, 577)),
    }
    found = []
    for code, (widths, lengths) in grid.items():
        sizes = (1, 2, 4, 8, 16) if code in ("plain_gpt", "plain_llama") else (8, 16, 32, 64)
        for hidden in widths:
            for length in lengths:
                for size in sizes:
                    if size * length * hidden <= MOST_TOKENS * 1024:
                        found.append(layer(code, hidden, length, size))
    # What the kernel of attention and the format change.
    for code in ("plain_gpt", "plain_llama"):
        for attention in ("efficient", "math", "eager"):
            found.append(layer(code, 2048, 2048, 2, attention=attention))
        for precision in ("autocast_bf16", "fp32"):
            attention = "efficient" if precision == "fp32" else "flash"
            found.append(layer(code, 2048, 2048, 2, precision=precision, attention=attention))
    return found


def quick_layers():
    return [
        layer("plain_gpt", 768, 1024, 4), layer("plain_llama", 2048, 2048, 1),
        layer("plain_bert", 768, 512, 8), layer("plain_vit", 768, 197, 32),
    ]  # fmt: skip


# ---- which of them


def chosen(items, patterns):
    """Those whose id holds one of the patterns, or matches it where it has wildcards."""
    if not patterns:
        return list(items)
    return [item for item in items if any(_matches(item.id, pattern) for pattern in patterns)]


def spread(items):
    """All of them, in an order whose beginning, wherever it ends, is spread over the whole list."""
    bits = max(0, len(items) - 1).bit_length()
    places = (int(f"{at:0{bits}b}"[::-1], 2) for at in range(2**bits))
    return [items[place] for place in places if place < len(items)]


def _matches(name, pattern):
    if set(pattern) & set("*?["):
        return fnmatch.fnmatchcase(name, pattern)
    return pattern in name
