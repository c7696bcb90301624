"""Single kernels on the device, what issuing operators costs the host, and profiled steps."""

import gzip
import json
import math
import os
import time

import torch
from torch.nn import functional

from . import traces
from .runner import NoKernel
from .statistics import summarise
from .work import StepJob, kernel_of

FORMATS = {
    "bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "tf32": torch.float32,
    "fp8": torch.float8_e4m3fn,
}  # fmt: skip
CACHE_BYTES = 128e6  # operands are exchanged for others until these do not fit a cache of the device
MOST_SETS = 24
BURST_SECONDS = 0.04
SUSTAINED_SECONDS = 1.2
WINDOW_SECONDS = 1.5e-3
MOST_LAUNCHES = 150  # of a window: a queue has room for them
HOST_SECONDS = 15e-6  # that launching one may take; the device is held up for so long


def drawn(*shape, like):
    """Normal numbers: of zeros a device computes faster."""
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16).to(like)


def windows(device, call, seconds, gated):
    """Seconds of one call, of windows of calls, with the clock and the power meanwhile."""
    for at in range(3):
        call(at)
    torch.cuda.synchronize()
    begin = device.event()
    for at in range(3):
        call(at)
    end = device.event()
    torch.cuda.synchronize()
    once = begin.seconds_until(end) / 3
    count = max(1, min(MOST_LAUNCHES, math.ceil(WINDOW_SECONDS / max(once, 1e-7))))
    times, clocks, powers = [], [], []
    start = time.perf_counter()
    while len(times) < 5 or (time.perf_counter() - start < seconds and len(times) < 400):
        if gated:
            device.sleep(count * HOST_SECONDS + 2e-5)
        begin = device.event()
        for at in range(count):
            call(at)
        end = device.event()
        clocks.append(device.clock_MHz())
        powers.append(device.power_W())
        torch.cuda.synchronize()
        times.append(begin.seconds_until(end) / count)
    late = times[len(times) // 3 :]  # the first are at the clock of what was before
    return {
        "kernel_s": summarise(late).median,
        "kernel_q1_s": summarise(late).first_quartile,
        "kernel_q3_s": summarise(late).third_quartile,
        "samples": len(late),
        "sm_clock_MHz": _median(clocks),
        "power_W": _median(powers[len(powers) // 2 :]),
    }


def _median(values):
    known = [value for value in values if value is not None]
    return summarise(known).median if known else None


def sets_of(make, bytes_of_one):
    count = max(1, min(MOST_SETS, math.ceil(CACHE_BYTES / bytes_of_one)))
    return [make() for _ in range(count)]


# ---- products


def stored(rows, columns, like, transposed):
    """(rows, columns) of a matrix, or of the transpose of one that lies the other way."""
    return drawn(columns, rows, like=like).t() if transposed else drawn(rows, columns, like=like)


def product_call(setting):
    like = FORMATS[setting.format]
    m, n, k, batch = setting.m, setting.n, setting.k, setting.batch
    size = torch.empty(0, dtype=like).element_size()
    torch.backends.cuda.matmul.allow_tf32 = setting.format == "tf32"
    if batch > 1:
        def make():
            b = drawn(batch, n, k, like=like).transpose(1, 2) if setting.op == "tn" else drawn(
                batch, k, n, like=like)  # fmt: skip
            return drawn(batch, m, k, like=like), b, torch.empty(batch, m, n, device="cuda", dtype=like)

        found = sets_of(make, size * batch * (m * k + k * n + m * n))
        return lambda at: torch.bmm(*found[at % len(found)][:2], out=found[at % len(found)][2])
    to = torch.bfloat16 if setting.format == "fp8" else like

    def make_one():
        a = stored(m, k, like, transposed=setting.op == "nt")
        b = stored(k, n, like, transposed=setting.op == "tn")
        return a, b, torch.empty(m, n, device="cuda", dtype=to)

    found = sets_of(make_one, size * (m * k + k * n) + 2 * m * n)
    if setting.format == "fp8":
        one = torch.ones((), device="cuda")

        def scaled(at):
            a, b, y = found[at % len(found)]
            torch._scaled_mm(a, b, one, one, out_dtype=to, use_fast_accum=True, out=y)

        return scaled
    return lambda at: torch.matmul(*found[at % len(found)][:2], out=found[at % len(found)][2])


# ---- attention


def attention_call(setting):
    aten = torch.ops.aten
    like = FORMATS[setting.format]
    b, h, kv, s, d = setting.batch, setting.heads, setting.kv_heads, setting.seq, setting.head_dim
    causal = bool(setting.causal)
    if setting.kernel == "cudnn":
        torch.backends.cudnn.enabled = True
    if kv != h and setting.kernel != "flash":
        raise NoKernel("fewer heads of keys than of queries")

    def make():
        q = drawn(b, s, h, d, like=like).transpose(1, 2)
        k, v = (drawn(b, s, kv, d, like=like).transpose(1, 2) for _ in range(2))
        return q, k, v, drawn(b, s, h, d, like=like).transpose(1, 2)

    found = sets_of(make, 2 * b * s * d * (2 * h + 2 * kv))

    def forward(at):
        q, k, v, _ = found[at % len(found)]
        if setting.kernel == "flash":
            return aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False)
        if setting.kernel == "efficient":
            return aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, causal)
        return aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal, False)

    if setting.op == "forward":
        return forward
    kept = [forward(at) for at in range(len(found))]

    def backward(at):
        q, k, v, gradient = found[at % len(found)]
        out = kept[at % len(found)]
        if setting.kernel == "flash":
            y, lse, cq, ck, mq, mk, seed, offset, _ = out
            return aten._scaled_dot_product_flash_attention_backward(
                gradient, q, k, v, y, lse, cq, ck, mq, mk, 0.0, causal, seed, offset)  # fmt: skip
        if setting.kernel == "efficient":
            y, lse, seed, offset = out
            return aten._scaled_dot_product_efficient_attention_backward(
                gradient, q, k, v, None, y, lse, seed, offset, 0.0, [True, True, True, False],
                causal)  # fmt: skip
        y, lse, cq, ck, mq, mk, seed, offset, _ = out
        return aten._scaled_dot_product_cudnn_attention_backward(
            gradient, q, k, v, y, lse, seed, offset, None, cq, ck, mq, mk, 0.0, causal)  # fmt: skip

    return backward


def attention_flops(setting):
    products = 2 if setting.op == "forward" else 5
    share = 0.5 if setting.causal else 1
    return products * share * 2 * setting.batch * setting.heads * setting.seq**2 * setting.head_dim


# ---- elements: each with the bytes that it must read and write


def element_call(setting):
    """The call, and the bytes of one."""
    aten = torch.ops.aten
    like = FORMATS[setting.format]
    m, n = setting.m, setting.n
    size = torch.empty(0, dtype=like).element_size()
    whole = m * n * size
    other = torch.float32 if like == torch.bfloat16 else torch.bfloat16
    x_of = sets_of(lambda: drawn(m, n, like=like), whole)
    y_of = [drawn(m, n, like=like) for _ in x_of]
    out_of = [torch.empty_like(x) for x in x_of]
    count = len(x_of)
    weight = drawn(n, like=like)
    op = setting.op

    def each(call):
        return lambda at: call(x_of[at % count], y_of[at % count], out_of[at % count])

    if op == "copy":
        return each(lambda x, y, out: out.copy_(x)), 2 * whole
    if op == "cast":
        return each(lambda x, y, out: x.to(other)), whole + m * n * (6 - size)
    if op == "add":
        return each(lambda x, y, out: torch.add(x, y, out=out)), 3 * whole
    if op == "add_":
        return each(lambda x, y, out: x.add_(y)), 3 * whole
    if op == "mul_scalar":
        return each(lambda x, y, out: torch.mul(x, 0.5, out=out)), 2 * whole
    if op == "fill":
        return each(lambda x, y, out: out.zero_()), whole
    if op == "gelu":
        return each(lambda x, y, out: aten.gelu(x)), 2 * whole
    if op == "gelu_backward":
        return each(lambda x, y, out: aten.gelu_backward(y, x)), 3 * whole
    if op == "silu":
        return each(lambda x, y, out: aten.silu(x)), 2 * whole
    if op == "dropout":
        return each(lambda x, y, out: aten.native_dropout(x, 0.1, True)), 2 * whole + m * n
    if op == "layer_norm":
        return each(lambda x, y, out: aten.native_layer_norm(x, [n], weight, weight, 1e-5)), 2 * whole
    if op == "layer_norm_backward":
        _, mean, rstd = aten.native_layer_norm(x_of[0], [n], weight, weight, 1e-5)
        return each(lambda x, y, out: aten.native_layer_norm_backward(
            y, x, [n], mean, rstd, weight, weight, [True, True, True])), 3 * whole  # fmt: skip
    if op == "rms_norm":
        return each(lambda x, y, out: functional.rms_norm(x, (n,), weight, 1e-5)), 2 * whole
    if op == "softmax":
        return each(lambda x, y, out: aten._softmax(x, -1, False)), 2 * whole
    if op == "softmax_backward":
        return each(lambda x, y, out: aten._softmax_backward_data(y, x, -1, like)), 3 * whole
    if op == "sum_rows":
        return each(lambda x, y, out: x.sum(0)), whole
    if op in ("cross_entropy", "cross_entropy_backward"):
        target = torch.randint(0, n, (m,), device="cuda")
        if op == "cross_entropy":
            return each(lambda x, y, out: functional.cross_entropy(x, target)), 3 * whole
        leaves = [x.requires_grad_() for x in x_of]
        losses = [functional.cross_entropy(x, target) for x in leaves]
        return (lambda at: torch.autograd.grad(losses[at % count], leaves[at % count],
                                               retain_graph=True)), 5 * whole  # fmt: skip
    if op == "transpose":
        return each(lambda x, y, out: x.t().contiguous()), 2 * whole
    if op == "embedding":
        rows = torch.randint(0, m, (m,), device="cuda")
        return each(lambda x, y, out: aten.embedding(x, rows)), 2 * whole
    if op == "adamw_fused":
        states = [[torch.zeros_like(x) for _ in range(2)] for x in x_of]
        step = torch.ones((), device="cuda")

        def update(at):
            first, second = states[at % count]
            torch._fused_adamw_([x_of[at % count]], [y_of[at % count]], [first], [second], [], [step],
                                lr=1e-4, beta1=0.9, beta2=0.95, weight_decay=0.1, eps=1e-8,
                                amsgrad=False, maximize=False)  # fmt: skip

        return update, 7 * whole
    if op == "norm":
        return each(lambda x, y, out: torch.linalg.vector_norm(x)), whole
    raise ValueError(op)


def measure_kernel(device, setting):
    if torch.cuda.memory_reserved() > 24e9:
        device.empty()
    flops = moved = None
    with torch.no_grad() if setting.op != "cross_entropy_backward" else torch.enable_grad():
        if setting.kind == "product":
            call = product_call(setting)
            flops = 2 * setting.m * setting.n * setting.k * setting.batch
        elif setting.kind == "attention":
            call = attention_call(setting)
            flops = attention_flops(setting)
        else:
            call, moved = element_call(setting)
        seconds = SUSTAINED_SECONDS if setting.sustained else BURST_SECONDS
        found = device.guarded(windows, device, call, seconds, not setting.sustained)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.enabled = False
    return {**found, "flops": flops, "bytes": moved}


# ---- the host


def host_call(op):
    """A call, how many operators of the kind one call issues, and what is called before, untimed."""
    like = {"device": "cuda", "dtype": torch.bfloat16}
    x, y, w = (torch.randn(64, 64, **like) for _ in range(3))
    out, bias = torch.empty_like(x), torch.randn(64, **like)
    wide = torch.randn(64, 64, device="cuda")
    q = torch.randn(1, 4, 64, 64, **like)
    rows = torch.randint(0, 64, (64,), device="cuda")
    flat = functional
    recorded = x.clone().requires_grad_()
    heads = q.clone().requires_grad_()
    chain = 64
    many = [torch.randn(1024, device="cuda", requires_grad=True) for _ in range(128)]
    for one in many:
        one.grad = torch.randn_like(one)
    from torch.utils.checkpoint import checkpoint

    def backward_of(step, start):
        """Nodes of autograd one behind the other; forward is not timed."""

        def before():
            value = start
            for _ in range(chain):
                value = step(value)
            return value.float().sum() if value.dim() else value

        return (lambda loss: loss.backward()), chain, before

    def optimizer_of(**options):
        stepping = torch.optim.AdamW(many, lr=1e-4, **options)
        return (lambda _: stepping.step()), len(many), lambda: None

    linear = torch.nn.Linear(64, 64, bias=False, **like)
    norm = torch.nn.LayerNorm(64, **like)
    identity = torch.nn.Identity()
    wide_linear = torch.nn.Linear(64, 64, bias=False, device="cuda")

    def autocast_linear(_):
        with torch.autocast("cuda", torch.bfloat16):
            for _ in range(16):
                wide_linear(wide)

    def attention(of):
        return flat.scaled_dot_product_attention(of, of, of, is_causal=True)

    free = {
        "nothing": lambda _: None,
        "launch": lambda _: torch.cuda._sleep(1),
        "allocate": lambda _: torch.empty(64, 64, device="cuda"),
        "view": lambda _: x.view(-1),
        "add_out": lambda _: torch.add(x, y, out=out),
        "add": lambda _: x + y,
        "add_": lambda _: out.add_(y),
        "cast": lambda _: x.to(torch.float32),
        "gelu": lambda _: flat.gelu(x),
        "matmul_out": lambda _: torch.matmul(x, y, out=out),
        "matmul": lambda _: x @ y,
        "linear": lambda _: flat.linear(x, w),
        "linear_with_bias": lambda _: flat.linear(x, w, bias),
        "layer_norm": lambda _: flat.layer_norm(x, (64,), bias, bias),
        "dropout": lambda _: flat.dropout(x, 0.1),
        "attention": lambda _: attention(q),
        "embedding": lambda _: flat.embedding(rows, x),
        "cross_entropy": lambda _: flat.cross_entropy(x, rows),
        "module_identity": lambda _: identity(x),
        "module_linear": lambda _: linear(x),
        "foreach_add": lambda _: torch._foreach_add_([one.grad for one in many], 1.0),
        "item": lambda _: out[0, 0].item(),
        "synchronize": lambda _: torch.cuda.synchronize(),
    }
    if op in free:
        return torch.no_grad(), free[op], 1, lambda: None
    if op == "autocast_linear":
        return torch.no_grad(), autocast_linear, 16, lambda: None
    with_graph = {
        "add_recorded": lambda _: recorded + y,
        "linear_recorded": lambda _: flat.linear(recorded, linear.weight),
        "layer_norm_recorded": lambda _: flat.layer_norm(recorded, (64,), norm.weight, norm.bias),
        "attention_recorded": lambda _: attention(heads),
        "module_linear_recorded": lambda _: linear(recorded),
        "module_layer_norm_recorded": lambda _: norm(recorded),
        "checkpoint": lambda _: checkpoint(identity, recorded, use_reentrant=False),
    }
    if op in with_graph:
        return torch.enable_grad(), with_graph[op], 1, lambda: None
    if op == "autocast_linear_recorded":
        return torch.enable_grad(), autocast_linear, 16, lambda: None
    with_bias = torch.nn.Linear(64, 64, **like)
    call, count, before = {
        "backward_add": lambda: backward_of(lambda of: of + y, recorded),
        "backward_linear": lambda: backward_of(linear, recorded),
        "backward_linear_with_bias": lambda: backward_of(with_bias, recorded),
        "backward_gelu": lambda: backward_of(flat.gelu, recorded),
        "backward_layer_norm": lambda: backward_of(norm, recorded),
        "backward_attention": lambda: backward_of(attention, heads),
        "backward_checkpoint": lambda: backward_of(
            lambda of: checkpoint(flat.gelu, of, use_reentrant=False), recorded
        ),
        "adamw_fused": lambda: optimizer_of(fused=True),
        "adamw_foreach": lambda: optimizer_of(foreach=True),
        "adamw_for_loop": lambda: optimizer_of(foreach=False),
    }[op]()
    return torch.enable_grad(), call, count, before


def measure_host(device, setting):
    """Seconds of the host for one operator, medians of loops that the device keeps up with."""
    context, call, count, before = host_call(setting.op)
    calls = max(1, 200 // count)
    times = []
    with context:
        begin = time.perf_counter()
        while len(times) < 12 or (len(times) < 100 and time.perf_counter() - begin < 1.0):
            arguments = [before() for _ in range(calls)]
            torch.cuda.synchronize()
            start = time.perf_counter()
            for argument in arguments:
                call(argument)
            times.append((time.perf_counter() - start) / (calls * count))
            torch.cuda.synchronize()
    late = summarise(times[2:])
    return {"host_s": late.median, "host_q1_s": late.first_quartile,
            "host_q3_s": late.third_quartile, "samples": late.count}  # fmt: skip


# ---- steps under the profiler


def measure_trace(device, setting, folder):
    """One profiled step after five others; the trace lies in `folder`. Returns its rows."""
    from torch.profiler import ProfilerActivity, profile

    device.empty()

    def measure():
        with kernel_of(setting):
            job = StepJob(setting)
            for _ in range(5):
                job.step()
            torch.cuda.synchronize()
            with profile(
                activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True
            ) as profiled:
                job.step()
                torch.cuda.synchronize()
            times = []
            for _ in range(10):
                begin = device.event()
                job.step()
                end = device.event()
                torch.cuda.synchronize()
                times.append(begin.seconds_until(end))
            return profiled, summarise(times).median

    profiled, step_seconds = device.guarded(measure)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{setting.id}.json")
    profiled.export_chrome_trace(path)
    del profiled
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    with open(path, "rb") as plain, gzip.open(path + ".gz", "wb") as packed:
        packed.write(plain.read())
    os.remove(path)
    return traces.rows(setting.id, events, step_seconds)
