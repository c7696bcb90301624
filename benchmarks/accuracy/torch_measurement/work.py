"""Steps, layers and products on the device: what one of each takes of memory and of time."""

import contextlib
import math

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from .device import is_out_of_memory
from .models import build_layer, build_model
from .runner import OutOfMemory
from .sampling import Windows, columns_of, series, spread_columns

KERNELS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
CASTS = {"autocast_bf16": torch.bfloat16, "autocast_fp16": torch.float16}
FORMATS = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
LEAST_SAMPLE_SECONDS = 1e-3  # shorter ones are of several products
LONG_PRODUCT_SECONDS = 50e-6  # of a device; its launch takes the host a tenth of that
STEPS_BEFORE = 2  # of the one whose memory counts: states exist, and blocks are cached

# The optimizers of torch.optim, by the words of the table; Muon needs a list of its own.
OPTIMIZERS = {
    "sgd": ("SGD", {}),
    "sgd_momentum": ("SGD", {"momentum": 0.9}),
    "adamw": ("AdamW", {}),
    "adagrad": ("Adagrad", {}),
    "rmsprop": ("RMSprop", {}),
    "adafactor": ("Adafactor", {}),
}
LOOPS = {"foreach": {"foreach": True}, "fused": {"fused": True}, "for_loop": {"foreach": False}}


def kernel_of(setting):
    """A context in which attention has no choice but the setting's kernel."""
    if setting.attention == "eager":
        return contextlib.nullcontext()
    return sdpa_kernel(KERNELS[setting.attention])


def cast_of(setting):
    to = CASTS.get(setting.precision)
    return contextlib.nullcontext() if to is None else torch.autocast("cuda", to)


def bytes_of(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def make_optimizer(setting, parameters):
    name, options = OPTIMIZERS[setting.optimizer]
    loop = LOOPS[setting.optimizer_impl]
    return getattr(torch.optim, name)(parameters, lr=1e-4, **options, **loop)


def make_batch(setting):
    """The arguments of a forward; they live through the step."""
    size, length = setting.micro_batch, setting.seq_len
    if setting.kind == "vision":
        side = setting.image_size
        given = torch.bfloat16 if setting.precision == "bf16" else torch.float32
        images = torch.randn(size, 3, side, side, device="cuda", dtype=given)
        return images, torch.randint(0, setting.num_classes, (size,), device="cuda")
    return tuple(torch.randint(0, setting.vocab, (size, length), device="cuda") for _ in range(2))


def nothing(_part):
    pass


def attention_flops(query, key, value, *_more, **_named):
    """Of the two products of a forward, by shapes of (batch, heads, tokens, head_dim); keys may
    have fewer heads."""
    batch, heads, tokens, head_dim = query
    return 2 * batch * heads * tokens * key[2] * (head_dim + value[3])


def attention_backward_flops(_gradient, query, key, value, *_more, **_named):
    """Of five products: the scores come again."""
    batch, heads, tokens, head_dim = query
    return 2 * batch * heads * tokens * key[2] * (3 * head_dim + 2 * value[3])


# PyTorch's own formulas refuse fewer heads of keys than of queries in some versions.
ATTENTION_FORMULAS = {
    torch.ops.aten._scaled_dot_product_flash_attention: attention_flops,
    torch.ops.aten._scaled_dot_product_efficient_attention: attention_flops,
    torch.ops.aten._scaled_dot_product_flash_attention_backward: attention_backward_flops,
    torch.ops.aten._scaled_dot_product_efficient_attention_backward: attention_backward_flops,
}


class StepJob:
    """A model, its optimizer and one batch."""

    def __init__(self, setting):
        self.setting = setting
        with torch.device("cuda"):
            self.model = build_model(setting)
        if setting.precision == "bf16":
            self.model.to(torch.bfloat16)
        self.model.train()
        self.parameters = list(self.model.parameters())
        self.optimizer = make_optimizer(setting, self.parameters)
        self.scaler = None
        if setting.precision == "autocast_fp16":
            self.scaler = torch.amp.GradScaler("cuda")
        self.batch = make_batch(setting)

    def loss(self):
        return self.model(*self.batch)

    def forward(self):
        with cast_of(self.setting):
            loss = self.loss()
            parts = self.setting.accumulation
            return loss / parts if parts > 1 else loss

    def backward(self, loss):
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    def update(self):
        if self.setting.grad_clip:
            if self.scaler is not None:
                self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()

    def step(self, mark=nothing):
        """`mark` is told when each part ends."""
        mark("begin")
        for _ in range(self.setting.accumulation):
            loss = self.forward()
            mark("forward")
            self.backward(loss)
            del loss
            mark("backward")
        self.update()
        mark("update")
        self.optimizer.zero_grad(set_to_none=True)
        mark("optimizer")

    def flops(self):
        """Of one step's products, forward and backward."""
        from torch.utils.flop_counter import FlopCounterMode

        counting = FlopCounterMode(display=False, custom_mapping=ATTENTION_FORMULAS)
        with counting as counter:
            loss = self.forward()
            forward = counter.get_total_flops()
            self.backward(loss)
            both = counter.get_total_flops()
        del loss
        self.optimizer.zero_grad(set_to_none=True)
        parts = self.setting.accumulation
        return forward * parts, (both - forward) * parts


class PeakNotes:
    """The peaks of the parts of a step, noted where they end."""

    PARTS = ("forward", "backward", "optimizer")

    def __init__(self, job):
        self._job = job
        self.columns = {"allocated_before_step": torch.cuda.memory_allocated()}
        self._peaks = dict.fromkeys(self.PARTS, 0)
        self._requested = self._reserved = 0
        torch.cuda.reset_peak_memory_stats()

    def __call__(self, part):
        if part == "begin":
            return
        if part == "forward":
            self.columns["allocated_after_forward"] = torch.cuda.memory_allocated()
        if part == "update":  # the optimizer's, but the gradients are there still
            held = [p.grad for p in self._job.parameters if p.grad is not None]
            self.columns["grads_bytes"] = bytes_of(held)
            return
        stats = torch.cuda.memory_stats()
        self._peaks[part] = max(self._peaks[part], stats["allocated_bytes.all.peak"])
        self._requested = max(self._requested, stats["requested_bytes.all.peak"])
        self._reserved = max(self._reserved, stats["reserved_bytes.all.peak"])
        torch.cuda.reset_peak_memory_stats()

    def result(self):
        moment = max(self.PARTS, key=self._peaks.get)
        return {
            **self.columns,
            **{f"peak_{part}": peak for part, peak in self._peaks.items()},
            "peak_allocated": self._peaks[moment],
            "peak_requested": self._requested,
            "peak_reserved": self._reserved,
            "peak_moment": moment,
        }


def workspace_bytes():
    """What PyTorch takes from its allocator for a product: held by now, or asked for each time."""
    held = torch.cuda.memory_allocated()
    torch._C._cuda_clearCublasWorkspaces()
    given_back = held - torch.cuda.memory_allocated()
    ask = getattr(torch._C, "_cuda_getCublasWorkspaceSize", None)
    return given_back or (ask() if ask else None)


def parameter_columns(setting):
    """Of a model that need not fit."""
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in build_model(setting).parameters())
    return {"params": count, "trainable_params": count}


def measure_on(device, measure, found):
    """Calls it, with what it found also where it runs out of memory."""
    fits = True
    try:
        device.guarded(measure)
    except OutOfMemory:
        fits = False
    # Not where it failed otherwise: a device that is lost would fail again here, as something else.
    device.empty()
    # Now, when the kernels that were needed are loaded, which take from the device too.
    found["usable_bytes"] = device.usable_bytes()
    if not fits:
        raise OutOfMemory(found)


def step_memory(job):
    for _ in range(STEPS_BEFORE):
        job.step()
    notes = PeakNotes(job)
    job.step(notes)
    states = [
        value
        for state in job.optimizer.state.values()
        for value in state.values()
        if torch.is_tensor(value) and value.is_cuda
    ]
    return {
        **notes.result(),
        "params_bytes": bytes_of(job.parameters),
        "optimizer_bytes": bytes_of(states),
        "buffers_bytes": bytes_of(job.model.buffers()),
        "input_bytes": bytes_of(job.batch),
        "workspace_bytes": workspace_bytes(),
    }


def counted_flops(job):
    """The columns, and a note where a formula of PyTorch's refuses what ran: the rest of a row is
    known all the same."""
    try:
        forward, backward = job.flops()
    except (AssertionError, NotImplementedError, TypeError, ValueError) as error:
        return {}, [f"FLOPs not counted: {type(error).__name__}"]
    return {"flops_forward": forward, "flops_backward": backward}, []


def step_times(device, job, rule):
    measured = series(Windows(device, job.step, gated=False).take, rule)
    parts = dict(measured.parts)
    # Clearing the gradients is the end of the update, not a part of its own.
    update, clearing = parts.pop("update"), parts.pop("optimizer")
    return {
        **spread_columns("step", measured.total),
        **{f"{name}_s": summary.median for name, summary in parts.items()},
        "optimizer_s": update.median + clearing.median,
        "launch_s": measured.launch_seconds,
        **columns_of(measured),
    }


def measure_step(device, setting, rule):
    """Memory of the third step, then times where there is a `rule` for them, then FLOPs."""
    device.empty()
    found = parameter_columns(setting)
    notes = []

    def measure():
        with kernel_of(setting):
            job = StepJob(setting)
            found.update(step_memory(job))
            for what, measure_more in (("time", times), ("FLOPs", flops)):
                try:
                    measure_more(job)
                except RuntimeError as error:
                    if not is_out_of_memory(error):
                        raise
                    notes.append(f"out of memory in the steps for {what}")

    def times(job):
        if rule is not None:
            found.update(step_times(device, job, rule))

    def flops(job):
        columns, note = counted_flops(job)
        found.update(columns)
        notes.extend(note)

    measure_on(device, measure, found)
    return {**found, "notes": "; ".join(notes)}


class LayerJob:
    def __init__(self, setting):
        self.setting = setting
        format_given = torch.bfloat16 if setting.precision == "bf16" else torch.float32
        with torch.device("cuda"):
            self.layer = build_layer(setting).to(format_given).train()
        shape = (setting.micro_batch, setting.seq_len, setting.hidden)
        self.input = torch.randn(shape, device="cuda", dtype=format_given, requires_grad=True)
        # Under autocast a block adds to its input, and returns that format too.
        self.gradient = torch.randn(shape, device="cuda", dtype=format_given)

    def pass_through(self, mark):
        self.layer.zero_grad(set_to_none=True)
        self.input.grad = None
        mark("begin")
        with cast_of(self.setting):
            result = self.layer(self.input)
        mark("forward")
        result.backward(self.gradient)
        mark("backward")


def measure_layer(device, setting, rule):
    device.empty()
    found = {}

    def measure():
        with kernel_of(setting):
            job = LayerJob(setting)
            found["params"] = sum(parameter.numel() for parameter in job.layer.parameters())
            if rule is None:
                job.pass_through(nothing)
                return
            measured = series(Windows(device, job.pass_through, gated=True).take, rule)
            for name, summary in measured.parts.items():
                found.update(spread_columns(name, summary))
            found.update(launch_s=measured.launch_seconds, **columns_of(measured))

    measure_on(device, measure, found)
    return found


def measure_matmul(device, setting, rule):
    """Y = X W^T, as a linear layer computes it; back to back, as a sustained load.

    Long products are not gated: a device at its power limit would rest behind the gate, and then
    run faster for a while than it can for long.
    """
    device.empty()
    found = {}

    def measure():
        like = {"device": "cuda", "dtype": FORMATS[setting.precision]}
        x = torch.randn(setting.m, setting.k, **like)
        transposed = torch.randn(setting.n, setting.k, **like).t()
        y = torch.empty(setting.m, setting.n, **like)
        launches = 1  # a sample

        def multiply(mark):
            mark("begin")
            for _ in range(launches):
                torch.matmul(x, transposed, out=y)
            mark("matmul")

        take = Windows(device, multiply, gated=True).take
        take(1)
        once = take(3).parts[-1]["matmul"]
        launches = max(1, min(256, math.ceil(LEAST_SAMPLE_SECONDS / once)))
        if once > LONG_PRODUCT_SECONDS:
            take = Windows(device, multiply, gated=False).take
        measured = series(take, rule)
        one = measured.total.over(launches)
        found.update(
            **spread_columns("matmul", one),
            tflops=2 * setting.m * setting.n * setting.k / one.median / 1e12,
            **columns_of(measured),
        )

    measure_on(device, measure, found)
    return found
