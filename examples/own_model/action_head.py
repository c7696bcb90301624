#!/usr/bin/env python3
"""The action head of action_head.hpp in PyTorch, and the memory of its training steps.

    action_head.py > action_head.csv

GR00T N1's (arXiv 2503.14734) in short: state and actions through MLPs of the robot's own, a diffusion
transformer whose layers attend in turns to what the vision-language model gives and to themselves,
and flow matching. A line is the third step on a CUDA device: forward, backward, AdamW, zero_grad. What a
kernel computes is not read: a device without kernels, which only hands out memory, does as well.
"""
import contextlib
import gc

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

SEEN, SEEN_WIDTH = 64, 512        # tokens of the vision-language model
STATE, ACTION, ROBOTS = 64, 32, 8  # widths, and how many robots have weights
ACTIONS, FREE = 16, 32            # tokens of actions, and free ones
TIME = 256


def waves(t, width):
    """(...) to (..., width)"""
    exponent = torch.arange(width // 2, dtype=torch.float32, device=t.device) * (-9.21 / (width // 2))
    angle = t.unsqueeze(-1) * exponent.exp()
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


class LinearOfRobot(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.weight = nn.Embedding(ROBOTS, width * out)
        self.bias = nn.Embedding(ROBOTS, out)

    def forward(self, x, robot):
        weight = self.weight(robot).view(x.size(0), x.size(2), -1)
        return torch.bmm(x, weight) + self.bias(robot).unsqueeze(1)


class AdaLayerNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)

    def forward(self, x, time):
        scale, shift = self.linear(F.silu(time)).chunk(2, dim=1)
        return self.norm(x) * (1 + scale[:, None]) + shift[:, None]


class Attention(nn.Module):
    def __init__(self, width, heads, read, dropout):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(read, width), nn.Linear(read, width)
        self.out, self.dropout = nn.Linear(width, width), nn.Dropout(dropout)

    def forward(self, x, read):
        def apart(y):
            return y.view(y.size(0), y.size(1), self.heads, -1).transpose(1, 2)
        query, key, value = apart(self.query(x)), apart(self.key(read)), apart(self.value(read))
        y = F.scaled_dot_product_attention(query, key, value)
        return self.dropout(self.out(y.transpose(1, 2).reshape(x.shape)))


class Block(nn.Module):
    def __init__(self, width, heads, read, dropout):
        super().__init__()
        self.norm_1, self.attention = AdaLayerNorm(width), Attention(width, heads, read or width, dropout)
        self.norm_2 = nn.LayerNorm(width, elementwise_affine=False)
        self.up, self.down, self.dropout = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Dropout(dropout)
        self.reads_seen = bool(read)

    def forward(self, x, seen, time):
        y = self.norm_1(x, time)
        x = x + self.attention(y, seen if self.reads_seen else y)
        y = self.dropout(F.gelu(self.up(self.norm_2(x)), approximate="tanh"))
        return x + self.dropout(self.down(y))


class ActionHead(nn.Module):
    def __init__(self, layers, width, dropout, recompute):
        super().__init__()
        self.recompute = recompute
        self.time_1, self.time_2 = nn.Linear(TIME, width), nn.Linear(width, width)
        self.state_1, self.state_2 = LinearOfRobot(STATE, width), LinearOfRobot(width, width)
        self.action_1, self.action_2 = LinearOfRobot(ACTION, width), LinearOfRobot(2 * width, width)
        self.action_3 = LinearOfRobot(width, width)
        self.positions, self.free = nn.Embedding(ACTIONS, width), nn.Embedding(FREE, width)
        self.layers = nn.ModuleList(Block(width, width // 64, 0 if i % 2 else SEEN_WIDTH, dropout) for i in range(layers))
        self.last = AdaLayerNorm(width)
        self.out_1, self.out_2 = LinearOfRobot(width, width), LinearOfRobot(width, ACTION)

    def forward(self, seen, state, actions, robot):
        noise = torch.randn_like(actions)
        t = torch.rand(actions.size(0), device=actions.device)
        noisy = (1 - t[:, None, None]) * noise + t[:, None, None] * actions
        velocity = actions - noise
        steps = (t * 1000).long().float()

        time = self.time_2(F.silu(self.time_1(waves(steps, TIME))))
        x_state = self.state_2(F.relu(self.state_1(state, robot)), robot)
        x = self.action_1(noisy, robot)
        x = torch.cat([x, waves(steps, x.size(2)).unsqueeze(1).expand(-1, ACTIONS, -1)], dim=-1)
        x = self.action_3(F.silu(self.action_2(x, robot)), robot)
        x = x + self.positions(torch.arange(ACTIONS, device=x.device))
        x = torch.cat([x_state, self.free.weight.expand(x.size(0), -1, -1), x], dim=1)
        del x_state

        for layer in self.layers:
            if self.recompute:
                x = checkpoint(layer, x, seen, time, use_reentrant=False)
            else:
                x = layer(x, seen, time)

        x = self.last(x, time)
        x = self.out_2(F.relu(self.out_1(x, robot)), robot)
        return F.mse_loss(x[:, -ACTIONS:], velocity)


def data_parallel(model):
    """DistributedDataParallel among ranks that do not exist, and so agree to nothing: its buckets are at once
    those that it else makes behind the first step, and an all-reduce gives back what it was given."""
    class Reducer:
        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def _rebuild_buckets(self):
            return False

    def reduced(_, bucket):
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    assign = dist._compute_bucket_assignment_by_size
    dist._compute_bucket_assignment_by_size = lambda of, _, *rest: assign(of, [1 << 20, 25 << 20], *rest)
    model = nn.parallel.DistributedDataParallel(model, init_sync=False)
    dist._compute_bucket_assignment_by_size = assign
    model.register_comm_hook(None, reduced)
    model.reducer = Reducer(model.reducer)
    return model


def measure(batch, layers, width, dropout, autocast, recompute, ranks, zero, accumulation):
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() == 0
    cuda = torch.device("cuda")
    with cuda:
        model = ActionHead(layers, width, dropout, recompute)
    count = sum(p.numel() for p in model.parameters())
    if ranks > 1:
        from torch.testing._internal.distributed.fake_pg import FakeStore
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
        model = data_parallel(model)
    params = list(model.parameters())
    if zero:
        from torch.distributed.optim import ZeroRedundancyOptimizer
        optimizer = ZeroRedundancyOptimizer(params, torch.optim.AdamW, lr=1e-4)
    else:
        optimizer = torch.optim.AdamW(params, lr=1e-4)
    seen = torch.randn(batch, SEEN, SEEN_WIDTH, device=cuda)
    state = torch.randn(batch, 1, STATE, device=cuda)
    actions = torch.randn(batch, ACTIONS, ACTION, device=cuda)
    robot = torch.randint(0, ROBOTS, (batch,), device=cuda)
    for _ in range(3):
        torch.cuda.reset_peak_memory_stats()
        for micro in range(accumulation):
            hold = model.no_sync() if ranks > 1 and micro + 1 < accumulation else contextlib.nullcontext()
            with hold:
                with torch.autocast("cuda", torch.bfloat16, enabled=bool(autocast)):
                    loss = model(seen, state, actions, robot)
                    if accumulation > 1:
                        loss = loss / accumulation
                loss.backward()
                del loss
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        got = torch.cuda.memory_stats()
    with FlopCounterMode(display=False) as flops:
        with torch.autocast("cuda", torch.bfloat16, enabled=bool(autocast)):
            loss = model(seen, state, actions, robot)
        forward = flops.get_total_flops() * accumulation
        loss.backward()
    both = flops.get_total_flops() * accumulation
    if ranks > 1:
        dist.destroy_process_group()
    return [count, forward, both - forward, *(got[f"{what}.all.peak"] for what in ("requested_bytes", "allocated_bytes", "reserved_bytes"))]


SETTINGS = [  # batch, layers, width, dropout, autocast, recompute, ranks, ZeRO stage, accumulation
    (1, 2, 256, 0.0, 0, 0, 1, 0, 1), (64, 4, 256, 0.0, 0, 0, 1, 0, 1), (64, 5, 256, 0.1, 0, 0, 1, 0, 1),
    (1, 2, 256, 0.0, 1, 0, 1, 0, 1), (8, 4, 512, 0.0, 1, 0, 1, 0, 1), (32, 8, 512, 0.1, 1, 0, 1, 0, 1),
    (64, 9, 768, 0.1, 1, 0, 1, 0, 1), (300, 16, 1536, 0.1, 1, 0, 1, 0, 1), (48, 16, 1536, 0.0, 1, 0, 1, 0, 1),
    (128, 8, 512, 0.1, 1, 1, 1, 0, 1), (64, 5, 768, 0.0, 1, 1, 1, 0, 1), (96, 4, 512, 0.1, 0, 1, 1, 0, 1),
    (64, 4, 512, 0.1, 1, 0, 8, 0, 1), (200, 8, 512, 0.1, 1, 1, 8, 0, 1), (64, 4, 512, 0.1, 1, 0, 8, 1, 1),
    (64, 4, 512, 0.1, 1, 0, 1, 0, 2), (64, 4, 512, 0.1, 1, 0, 8, 0, 4), (100, 7, 1024, 0.1, 0, 0, 8, 1, 2)]

if __name__ == "__main__":
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)
    print("pytorch,batch,layers,width,dropout,autocast,recompute,ranks,zero,accumulation,parameters,forward,backward,requested,allocated,reserved")
    for setting in SETTINGS:
        print(torch.__version__.split("+")[0], *setting, *measure(*setting), sep=",", flush=True)
