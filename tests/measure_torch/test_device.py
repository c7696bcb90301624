"""What is made of PyTorch's errors, where it is installed: no device is needed."""

import sys
import unittest

try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed for this Python")
    sys.exit(0)

from torch_measurement.device import Device
from torch_measurement.runner import DeviceLost, OutOfMemory
from torch_measurement.work import measure_on


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
        with self.assertRaisesRegex(RuntimeError, "No available kernel"):
            measure_on(Played(), raising(RuntimeError("No available kernel")), {})


if __name__ == "__main__":
    unittest.main()
