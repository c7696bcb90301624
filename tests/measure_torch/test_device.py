"""What is made of PyTorch's errors and FLOPs, where it is installed: no device is needed."""

import sys
import unittest
from dataclasses import replace

try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed for this Python")
    sys.exit(0)

from torch.utils.flop_counter import FlopCounterMode

from torch_measurement import settings
from torch_measurement.device import Device
from torch_measurement.models import CausalAttention
from torch_measurement.runner import DeviceLost, NoKernel, OutOfMemory
from torch_measurement.work import (
    attention_backward_flops,
    attention_flops,
    counted_flops,
    measure_on,
)


class Played:
    """A device that counts how often it was asked to give back its memory."""

    guarded = Device.guarded

    def __init__(self):
        self.emptied = 0

    def empty(self):
        self.emptied += 1

    def usable_bytes(self):
        return 7


def raising(error):
    def measure():
        raise error

    return measure


class Errors(unittest.TestCase):
    def test_what_does_not_fit_keeps_what_was_found(self):
        for error in (
            torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
            RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported later"),
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"),
        ):
            device, found = Played(), {"params": 3}
            with self.assertRaises(OutOfMemory) as caught:
                measure_on(device, raising(error), found)
            self.assertEqual(caught.exception.columns, {"params": 3, "usable_bytes": 7})
            self.assertEqual(device.emptied, 1)

    def test_a_lost_device_is_asked_nothing_more(self):
        device = Played()
        with self.assertRaisesRegex(DeviceLost, "an illegal memory access was encountered$"):
            lost = RuntimeError("CUDA error: an illegal memory access was encountered\nCompile with")
            measure_on(device, raising(lost), {})
        self.assertEqual(device.emptied, 0)

    def test_other_errors_stay_themselves(self):
        with self.assertRaisesRegex(RuntimeError, "shapes cannot be multiplied"):
            measure_on(Played(), raising(RuntimeError("shapes cannot be multiplied")), {})

    def test_a_kernel_that_is_not_there(self):
        missing = RuntimeError("No available kernel. Aborting execution.")
        with self.assertRaises(NoKernel):
            measure_on(Played(), raising(missing), {})


class Flops(unittest.TestCase):
    def test_attention_is_the_products_that_are_written_out(self):
        batch, heads, tokens, head_dim = 2, 4, 6, 8
        q, k, v = (
            torch.randn(batch, heads, tokens, head_dim, requires_grad=True) for _ in range(3)
        )
        counting = FlopCounterMode(display=False)
        with counting:
            result = CausalAttention(replace(settings.GPT2, attention="eager"))(q, k, v)
            forward = counting.get_total_flops()
            result.sum().backward()
            backward = counting.get_total_flops() - forward
        fewer = (batch, 2, tokens, head_dim)  # heads of keys: each is read by two of queries
        self.assertEqual(attention_flops(q.shape, fewer, fewer), forward)
        # A kernel that keeps no scores makes them again.
        scores = forward // 2
        self.assertEqual(
            attention_backward_flops(q.shape, q.shape, fewer, fewer), backward + scores
        )

    def test_a_formula_that_refuses(self):
        class Job:
            def __init__(self, flops):
                self.flops = flops

        self.assertEqual(
            counted_flops(Job(lambda: (1, 2))), ({"flops_forward": 1, "flops_backward": 2}, [])
        )
        refusing = Job(raising(AssertionError("shapes are incompatible: q=(1, 2); k=(3, 4)")))
        self.assertEqual(counted_flops(refusing), ({}, ["FLOPs not counted: AssertionError"]))
        with self.assertRaises(torch.cuda.OutOfMemoryError):
            counted_flops(Job(raising(torch.cuda.OutOfMemoryError("CUDA out of memory"))))


if __name__ == "__main__":
    unittest.main()
