"""The models, in plain PyTorch: nothing is compiled, and nothing fused by hand.

Their forward takes the batch and returns the loss, so that the logits die with the call. What
gpuplan's replay keeps of `torch_gpt`, `torch_llama`, `torch_bert` and `torch_vit` are these
operators in this order, with the same names held through them: who changes one here changes what is
measured.
"""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

ACTIVATIONS = {"gelu": F.gelu, "silu": F.silu}


def again(function, *arguments):
    """Keeps the arguments alone, and computes the rest again in the backward."""
    return checkpoint(function, *arguments, use_reentrant=False)


def heads_of(flat, head_dim):
    """(batch, tokens, heads x head_dim) as (batch, tokens, heads, head_dim)."""
    return flat.view(*flat.shape[:2], -1, head_dim)


def joined(attended):
    """(batch, heads, tokens, head_dim) as (batch, tokens, heads x head_dim)."""
    batch, _, tokens, _ = attended.shape
    return attended.transpose(1, 2).contiguous().view(batch, tokens, -1)


def norm_of(setting):
    if setting.norm == "rmsnorm":
        return nn.RMSNorm(setting.hidden, eps=1e-6)
    return nn.LayerNorm(setting.hidden, bias=bool(setting.linear_bias))


def dropout_of(setting):
    return nn.Dropout(setting.dropout) if setting.dropout else nn.Identity()


class CausalAttention(nn.Module):
    """The core of a decoder's attention, of (batch, heads, tokens, head_dim)."""

    def __init__(self, setting):
        super().__init__()
        self.eager = setting.attention == "eager"
        self.dropout = setting.dropout
        self.selective = getattr(setting, "recompute", "none") == "selective"

    def forward(self, q, k, v):
        return again(self.core, q, k, v) if self.selective else self.core(q, k, v)

    def core(self, q, k, v):
        dropped = self.dropout if self.training else 0.0
        if not self.eager:
            grouped = q.size(1) > k.size(1)
            return F.scaled_dot_product_attention(
                q, k, v, dropout_p=dropped, is_causal=True, enable_gqa=grouped
            )
        scores = (q @ k.transpose(-2, -1)) * q.size(-1) ** -0.5
        tokens = q.size(-2)
        hidden = torch.ones(tokens, tokens, dtype=torch.bool, device=q.device).triu(1)
        weights = F.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)
        return F.dropout(weights, dropped, self.training) @ v


class EncoderAttention(nn.Module):
    """Every token sees all. Returns (batch, tokens, heads, head_dim), and the weights where they
    are written out: the block holds them until its end."""

    def __init__(self, setting, softmax_in_fp32):
        super().__init__()
        self.eager = setting.attention == "eager"
        self.softmax_in_fp32 = softmax_in_fp32
        self.dropout = setting.dropout

    def forward(self, q, k, v):
        dropped = self.dropout if self.training else 0.0
        weights = None
        if self.eager:
            weights = (q @ k.transpose(-2, -1)) * q.size(-1) ** -0.5
            if self.softmax_in_fp32:
                weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
            else:
                weights = F.softmax(weights, dim=-1)
            weights = F.dropout(weights, dropped, self.training)
            x = weights @ v
        else:
            x = F.scaled_dot_product_attention(q, k, v, dropout_p=dropped)
        x = x.transpose(1, 2).contiguous()
        return x, weights


class GptBlock(nn.Module):
    def __init__(self, setting):
        super().__init__()
        inner, bias = setting.heads * setting.head_dim, bool(setting.linear_bias)
        self.head_dim = setting.head_dim
        self.activation = ACTIVATIONS[setting.activation]
        self.norm1, self.norm2 = norm_of(setting), norm_of(setting)
        self.qkv = nn.Linear(setting.hidden, 3 * inner, bias)
        self.out = nn.Linear(inner, setting.hidden, bias)
        self.up = nn.Linear(setting.hidden, setting.ffn, bias)
        self.down = nn.Linear(setting.ffn, setting.hidden, bias)
        self.attention = CausalAttention(setting)
        self.drop = dropout_of(setting)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=2)
        q, k, v = (heads_of(flat, self.head_dim).transpose(1, 2) for flat in (q, k, v))
        attended = self.attention(q, k, v)
        x = x + self.drop(self.out(joined(attended)))
        return x + self.drop(self.down(self.activation(self.up(self.norm2(x)))))


class Rotary(nn.Module):
    """Turns the two halves of each head by an angle that grows with the position."""

    def __init__(self, head_dim, tokens):
        super().__init__()
        rates = 10000.0 ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
        angles = torch.outer(torch.arange(tokens, dtype=torch.float32), rates)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x):
        cos, sin = self.cos[:, None].to(x.dtype), self.sin[:, None].to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class LlamaBlock(nn.Module):
    def __init__(self, setting, rotary):
        super().__init__()
        hidden, head_dim, bias = setting.hidden, setting.head_dim, bool(setting.linear_bias)
        self.head_dim = head_dim
        self.repeats = setting.heads // setting.kv_heads
        self.activation = ACTIVATIONS[setting.activation]
        self.rotary = [rotary]  # in a list it is shared by the blocks, and no child of any
        self.norm1, self.norm2 = norm_of(setting), norm_of(setting)
        self.query = nn.Linear(hidden, setting.heads * head_dim, bias)
        self.key = nn.Linear(hidden, setting.kv_heads * head_dim, bias)
        self.value = nn.Linear(hidden, setting.kv_heads * head_dim, bias)
        self.out = nn.Linear(setting.heads * head_dim, hidden, bias)
        self.gate = nn.Linear(hidden, setting.ffn, bias)
        self.up = nn.Linear(hidden, setting.ffn, bias)
        self.down = nn.Linear(setting.ffn, hidden, bias)
        self.attention = CausalAttention(setting)

    def attend(self, x):
        rotary = self.rotary[0]
        q, k, v = self.query(x), self.key(x), self.value(x)
        q, k, v = (heads_of(flat, self.head_dim) for flat in (q, k, v))
        q, k = rotary(q), rotary(k)
        q, k, v = (y.transpose(1, 2) for y in (q, k, v))
        if self.attention.eager and self.repeats > 1:
            k, v = (y.repeat_interleave(self.repeats, dim=1) for y in (k, v))
        attended = self.attention(q, k, v)
        return self.out(joined(attended))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        normed = self.norm2(x)
        return x + self.down(self.activation(self.gate(normed)) * self.up(normed))


class Decoder(nn.Module):
    """plain_gpt and plain_llama."""

    def __init__(self, setting):
        super().__init__()
        self.recomputes = setting.recompute == "full"
        self.logits_in_fp32 = setting.loss == "cross_entropy_fp32_logits"
        self.tokens = nn.Embedding(setting.vocab, setting.hidden)
        self.positions = None
        if setting.learned_positions:
            self.positions = nn.Embedding(setting.learned_positions, setting.hidden)
        self.drop = dropout_of(setting)
        if setting.code == "plain_gpt":
            self.blocks = nn.ModuleList(GptBlock(setting) for _ in range(setting.layers))
        else:
            self.rotary = Rotary(setting.head_dim, setting.seq_len)
            self.blocks = nn.ModuleList(
                LlamaBlock(setting, self.rotary) for _ in range(setting.layers)
            )
        self.norm = norm_of(setting)
        self.head = nn.Linear(setting.hidden, setting.vocab, bias=False)
        if setting.tied_embeddings:
            self.head.weight = self.tokens.weight

    def forward(self, ids, labels):
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions(torch.arange(ids.size(1), device=ids.device))
        x = self.drop(x)
        for block in self.blocks:
            x = again(block, x) if self.recomputes else block(x)
        logits = self.head(self.norm(x))
        if self.logits_in_fp32:
            logits = logits.float()
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))


class BertBlock(nn.Module):
    """Norms behind the sums."""

    def __init__(self, setting):
        super().__init__()
        hidden = setting.hidden
        self.head_dim = setting.head_dim
        self.activation = ACTIVATIONS[setting.activation]
        self.query, self.key = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.value, self.out = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.norm1 = nn.LayerNorm(hidden)
        self.up, self.down = nn.Linear(hidden, setting.ffn), nn.Linear(setting.ffn, hidden)
        self.norm2 = nn.LayerNorm(hidden)
        self.attention = EncoderAttention(setting, softmax_in_fp32=False)
        self.drop = dropout_of(setting)

    def project(self, layer, x):
        return heads_of(layer(x), self.head_dim).transpose(1, 2)

    def attend(self, x):
        q = self.project(self.query, x)
        k = self.project(self.key, x)
        v = self.project(self.value, x)
        x, weights = self.attention(q, k, v)
        return x.flatten(2), weights

    def summed(self, layer, norm, x, residual):
        x = layer(x)
        x = self.drop(x)
        return norm(x + residual)

    def forward(self, x):
        attended, _weights = self.attend(x)
        attended = self.summed(self.out, self.norm1, attended, x)
        fed = self.activation(self.up(attended))
        return self.summed(self.down, self.norm2, fed, attended)


class Bert(nn.Module):
    """plain_bert: with the head for masked tokens, whose loss is of every token here."""

    TYPES = 2  # of segments

    def __init__(self, setting):
        super().__init__()
        hidden, rows = setting.hidden, setting.learned_positions
        self.recomputes = setting.recompute == "full"
        self.activation = ACTIVATIONS[setting.activation]
        self.tokens = nn.Embedding(setting.vocab, hidden)
        self.positions = nn.Embedding(rows, hidden)
        self.types = nn.Embedding(self.TYPES, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.register_buffer("places", torch.arange(rows)[None], persistent=False)
        self.register_buffer(
            "first_type", torch.zeros(1, rows, dtype=torch.long), persistent=False
        )
        self.drop = dropout_of(setting)
        self.blocks = nn.ModuleList(BertBlock(setting) for _ in range(setting.layers))
        self.head_dense = nn.Linear(hidden, hidden)
        self.head_norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, setting.vocab)
        if setting.tied_embeddings:
            self.head.weight = self.tokens.weight
        self.head.bias = nn.Parameter(torch.zeros_like(self.head.bias))

    def embed(self, ids):
        batch, tokens = ids.shape
        places = self.places[:, :tokens]
        types = torch.gather(self.first_type, 1, places).expand(batch, tokens)
        of_tokens, of_types = self.tokens(ids), self.types(types)
        x = of_tokens + of_types
        of_places = self.positions(places)
        x = x + of_places
        x = self.norm(x)
        return self.drop(x)

    def encode(self, ids):
        x = embedded = self.embed(ids)  # which lives until the last block is through
        for block in self.blocks:
            x = again(block, x) if self.recomputes else block(x)
        return x

    def forward(self, ids, labels):
        x = self.encode(ids)
        logits = self.head(self.head_norm(self.activation(self.head_dense(x))))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))


class VitBlock(nn.Module):
    def __init__(self, setting):
        super().__init__()
        hidden = setting.hidden
        self.head_dim = setting.head_dim
        self.activation = ACTIVATIONS[setting.activation]
        self.query, self.key = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.value, self.out = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.up, self.down = nn.Linear(hidden, setting.ffn), nn.Linear(setting.ffn, hidden)
        self.attention = EncoderAttention(setting, softmax_in_fp32=True)
        self.drop = dropout_of(setting)

    def project(self, layer, x):
        return heads_of(layer(x), self.head_dim).transpose(1, 2)

    def attend(self, x):
        q = self.project(self.query, x)
        k = self.project(self.key, x)
        v = self.project(self.value, x)
        x, weights = self.attention(q, k, v)
        x = x.flatten(2)
        x = self.out(x)
        return x, weights

    def feed(self, x):
        x = self.up(x)
        x = self.activation(x)
        return self.down(x)

    def forward(self, x):
        residual = x
        x = self.norm1(x)
        x, _weights = self.attend(x)
        x = self.drop(x)
        x = x + residual
        residual = x
        x = self.norm2(x)
        x = self.feed(x)
        x = self.drop(x)
        return x + residual


class Vit(nn.Module):
    """plain_vit: classifies by the first token."""

    def __init__(self, setting):
        super().__init__()
        hidden, patch = setting.hidden, setting.patch_size
        self.recomputes = setting.recompute == "full"
        self.first = nn.Parameter(torch.zeros(1, 1, hidden))
        self.positions = nn.Parameter(torch.zeros(1, setting.seq_len, hidden))
        self.patches = nn.Conv2d(3, hidden, kernel_size=patch, stride=patch)
        self.drop = dropout_of(setting)
        self.blocks = nn.ModuleList(VitBlock(setting) for _ in range(setting.layers))
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, setting.num_classes)
        for parameter in (self.positions, self.first):
            nn.init.trunc_normal_(parameter, std=0.02)

    def embed(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(images.size(0), -1, -1), x), dim=1)
        x = x + self.positions
        return self.drop(x)

    def encode(self, images):
        x = embedded = self.embed(images)  # which lives until the last block is through
        for block in self.blocks:
            x = again(block, x) if self.recomputes else block(x)
        return self.norm(x)

    def forward(self, images, labels):
        x = self.encode(images)
        return F.cross_entropy(self.head(x[:, 0]), labels)


def build_model(setting):
    """The model of a `settings.Step`, on the device that is current."""
    return {"plain_bert": Bert, "plain_vit": Vit}.get(setting.code, Decoder)(setting)


class Rotated(nn.Module):
    """A block with the tables that it shares in a model."""

    def __init__(self, setting):
        super().__init__()
        self.rotary = Rotary(setting.head_dim, setting.seq_len)
        self.block = LlamaBlock(setting, self.rotary)

    def forward(self, x):
        return self.block(x)


def build_layer(setting):
    """The block of a `settings.Layer`."""
    blocks = {
        "plain_gpt": GptBlock, "plain_llama": Rotated, "plain_bert": BertBlock,
        "plain_vit": VitBlock,
    }  # fmt: skip
    return blocks[setting.code](setting)
