"""Single kernels, and what issuing them costs the host, as plain data."""

import random
from dataclasses import asdict, dataclass, fields

FORMATS = ("bf16", "fp16", "tf32", "fp8")


@dataclass(frozen=True)
class Kernel:
    """One kind of kernel on the device. What does not describe it stays blank.

    kind: product, attention or elements. op: of a product how its operands lie in memory, `tn` as a
    linear layer's forward, `nn` as the gradient of its input, `nt` as that of its weight; of
    attention `forward` or `backward`; of elements the operator. product: (m, k) times (k, n), `batch`
    of them. attention: `kernel` flash, efficient or cudnn, of `batch` sequences of `seq` tokens.
    elements: rows of `n` elements, `m` of them.
    """

    kind: str
    op: str
    format: str
    m: int | None = None
    n: int | None = None
    k: int | None = None
    batch: int = 1
    kernel: str = ""
    heads: int | None = None
    kv_heads: int | None = None
    seq: int | None = None
    head_dim: int | None = None
    causal: int | None = None
    sustained: int = 0  # 1: for a second and back to back, 0: in bursts

    @property
    def id(self):
        if self.kind == "attention":
            shape = f"b{self.batch}.h{self.heads}.kv{self.kv_heads}.s{self.seq}.d{self.head_dim}"
            parts = [self.kind, self.kernel, self.op, self.format, shape]
            parts += ["causal"] if self.causal else []
        else:
            sides = [self.m, self.n] + ([self.k] if self.kind == "product" else [])
            parts = [self.kind, self.op, self.format, "x".join(map(str, sides))]
            parts += [f"b{self.batch}"] if self.batch > 1 else []
        return ".".join(parts + (["sustained"] if self.sustained else []))

    def columns(self):
        return {"id": self.id, **asdict(self)}


@dataclass(frozen=True)
class HostCall:
    """What issuing one operator costs the host; `op` is a key of kernel_work.HOST_CALLS."""

    op: str

    @property
    def id(self):
        return self.op

    def columns(self):
        return {"id": self.id, "op": self.op}


KERNEL_COLUMNS = tuple(field.name for field in fields(Kernel))


# ---- products

# (hidden, width of the MLP) of published models, and their vocabularies.
WIDTHS = ((768, 3072), (1024, 4096), (1600, 6400), (2048, 5632), (2048, 8192), (2560, 10240),
          (3072, 8192), (4096, 11008), (4096, 14336), (5120, 13824), (8192, 28672))  # fmt: skip
VOCABULARIES = (30522, 32000, 50257, 50304, 128256)
TOKENS = (256, 1024, 2048, 4096, 8192, 16384)
LARGEST = 2**33  # of products of two sides: 16 GiB of bf16 results and less


def linear_shapes():
    """(m, n, k) of linear layers: attention's and the MLP's, also as tensor parallelism cuts them."""
    found = {}
    for at, (hidden, width) in enumerate(WIDTHS):
        for tokens in TOKENS:
            for n, k in ((hidden, hidden), (width, hidden), (hidden, width)):
                found[tokens, n, k] = True
        for ways in (2, 4, 8):
            tokens = TOKENS[(at + ways) % len(TOKENS)]
            found[tokens, hidden // ways, hidden] = found[tokens, hidden, width // ways] = True
    for at, vocabulary in enumerate(VOCABULARIES):
        for tokens in (1024, 8192):
            found[tokens, vocabulary, WIDTHS[at + 1][0]] = True
    return list(found)


def odd_shapes(count=90, seed=2026):
    """Sides from 8 to 8192, spread by their logarithms; of three shapes one is odd somewhere, one
    even, one of multiples of 8."""
    draw = random.Random(seed)
    found = {}
    while len(found) < count:
        step = (1, 2, 8)[len(found) % 3]
        sides = tuple(max(step, round(2 ** draw.uniform(3, 13) / step) * step) for _ in range(3))
        found[sides] = True
    return list(found)


def small_shapes():
    return [(m, n, k) for m in (16, 128, 512) for n in (64, 256, 768) for k in (64, 768, 3072)]


def products():
    found = {}

    def add(op, number_format, shape, **more):
        one = Kernel("product", op, number_format, *shape, **more)
        found.setdefault(one.id, one)

    shapes = [*linear_shapes(), *odd_shapes(), *small_shapes()]
    for shape in shapes:
        for op in ("tn", "nn", "nt"):
            # Of a gradient of weights the tokens are what is summed over.
            add(op, "bf16", (shape[1], shape[2], shape[0]) if op == "nt" else shape)
    for number_format in ("fp16", "tf32"):
        for shape in shapes:
            add("tn", number_format, shape)
    for shape in shapes:  # what tensor cores take of fp8 has sides of multiples of 16
        add("tn", "fp8", tuple(-(-side // 16) * 16 for side in shape))
    for shape in odd_shapes(24, seed=7):
        add("tn", "fp32", shape)
    for seq, head_dim in ((128, 64), (512, 64), (1024, 64), (2048, 64), (1024, 128), (2048, 128)):
        for batch in (12, 96, 256):
            if batch * seq * seq <= 2**30:
                add("tn", "bf16", (seq, seq, head_dim), batch=batch)
                add("nn", "bf16", (seq, head_dim, seq), batch=batch)
    for shape in ((8192, 8192, 8192), (8192, 4096, 4096), (4096, 14336, 4096), (16384, 5120, 5120)):
        for number_format in FORMATS:
            add("tn", number_format, shape, sustained=1)
    return list(found.values())


# ---- attention


def attentions():
    found = []
    grid = [("flash", seq, head_dim, 1) for seq in (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
            for head_dim in (64, 128)]  # fmt: skip
    grid += [("flash", seq, head_dim, 0) for seq in (197, 512, 577, 2048, 8192)
             for head_dim in (64, 128)]  # fmt: skip
    grid += [("flash", seq, head_dim, 1) for seq in (1024, 4096) for head_dim in (32, 80, 96, 256)]
    grid += [("efficient", seq, head_dim, causal) for seq in (512, 1024, 2048, 4096, 8192)
             for head_dim in (64, 128) for causal in (0, 1)]  # fmt: skip
    grid += [("cudnn", seq, head_dim, 1) for seq in (1024, 4096, 16384) for head_dim in (64, 128)]
    for kernel, seq, head_dim, causal in grid:
        heads = 2048 // head_dim
        batch = max(1, 16384 // seq)
        shapes = [(batch, heads, heads)]
        if kernel == "flash" and seq in (1024, 4096) and head_dim in (64, 128):
            # Too few heads to fill the device, and fewer of keys than of queries.
            shapes += [(1, heads, heads), (1, heads // 8, heads // 8), (batch, heads, heads // 4)]
        for batch, all_heads, kv_heads in shapes:
            for op in ("forward", "backward"):
                found.append(Kernel("attention", op, "bf16", batch=batch, kernel=kernel,
                                    heads=all_heads, kv_heads=kv_heads, seq=seq,
                                    head_dim=head_dim, causal=causal))  # fmt: skip
    for head_dim in (64, 128):
        for op in ("forward", "backward"):
            found.append(Kernel("attention", op, "fp32", batch=8, kernel="efficient",
                                heads=16, kv_heads=16, seq=1024, head_dim=head_dim,
                                causal=1))  # fmt: skip
    return found


# ---- elements

ELEMENTS = (
    "copy", "cast", "add", "add_", "mul_scalar", "fill", "gelu", "gelu_backward", "silu", "dropout",
    "layer_norm", "layer_norm_backward", "rms_norm", "softmax", "softmax_backward", "sum_rows",
    "cross_entropy", "cross_entropy_backward", "transpose", "embedding", "adamw_fused", "norm",
)  # fmt: skip


def elements():
    """Each operator from 16 thousand to 268 million elements."""
    found = []
    for op in ELEMENTS:
        for number_format in ("bf16", "fp32"):
            for power in (14, 16, 18, 20, 22, 24, 26, 28):
                wide = op.startswith("cross_entropy")
                n = min(2**power, 32768 if wide else 1024)
                found.append(Kernel("elements", op, number_format, m=2**power // n, n=n))
    return found


HOST_CALLS = (
    "nothing", "launch", "allocate", "view", "add_out", "add", "add_", "cast", "gelu", "matmul_out",
    "matmul", "linear", "linear_with_bias", "layer_norm", "dropout", "attention", "embedding",
    "cross_entropy", "add_recorded", "linear_recorded", "layer_norm_recorded", "attention_recorded",
    "autocast_linear", "autocast_linear_recorded", "module_identity", "module_linear",
    "module_linear_recorded", "module_layer_norm_recorded", "backward_add", "backward_linear",
    "backward_linear_with_bias", "backward_gelu", "backward_layer_norm", "backward_attention",
    "foreach_add", "adamw_fused", "adamw_foreach", "adamw_for_loop", "checkpoint", "backward_checkpoint",
    "item", "synchronize",
)  # fmt: skip


def kernels(quick=False):
    found = [*products(), *attentions(), *elements()]
    return found[:: len(found) // 40] if quick else found


def host_calls(quick=False):
    return [HostCall(op) for op in (HOST_CALLS[:8] if quick else HOST_CALLS)]


# ---- whole steps under PyTorch's profiler

TRACED = (
    "gpt2.b1.s1024.autocast_bf16.flash.adamw-fused", "gpt2.b8.s1024.autocast_bf16.flash.adamw-fused",
    "gpt2.b8.s1024.autocast_bf16.eager.adamw-fused", "gpt2-xl.b4.s1024.autocast_bf16.flash.adamw-fused",
    "tinyllama-1.1b.b4.s2048.autocast_bf16.flash.adamw-fused",
    "llama-3.2-1b.b4.s2048.autocast_bf16.flash.adamw-fused",
    "llama-3.1-8b.b2.s2048.bf16.flash.adamw-fused.full",
    "bert-base.b16.s512.autocast_bf16.flash.adamw-fused",
    "bert-large.b32.s512.autocast_bf16.flash.adamw-fused",
    "vit-base.b64.s197.autocast_bf16.flash.adamw-fused",
)  # fmt: skip
