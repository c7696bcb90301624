"""The device that PyTorch sees: what it is, its memory, and its clock."""

import gc
import math
import time

import torch

from .nvml import Monitor
from .runner import DeviceLost, NoKernel, OutOfMemory
from .statistics import is_steady


def is_out_of_memory(error):
    """Whether there was no room: for a tensor, or beside PyTorch's allocator for a kernel's code or
    a library's handle, which leaves the device usable all the same."""
    text = str(error)
    return isinstance(error, torch.cuda.OutOfMemoryError) or (
        "CUDA error: out of memory" in text or "CUBLAS_STATUS_ALLOC_FAILED" in text
    )


class Event:
    """A place in the device's work."""

    def __init__(self):
        self._event = torch.cuda.Event(enable_timing=True)
        self._event.record()

    def passed(self):
        return self._event.query()

    def seconds_until(self, later):
        return self._event.elapsed_time(later._event) / 1000


class Device:
    def __init__(self, index=0):
        torch.cuda.set_device(index)
        torch.cuda.init()
        # Without cuDNN what PyTorch allocates is known: no workspaces of a size that cuDNN chooses.
        torch.backends.cudnn.enabled = False
        torch.backends.cuda.enable_cudnn_sdp(False)
        self.properties = torch.cuda.get_device_properties(index)
        self.monitor = Monitor(str(getattr(self.properties, "uuid", "")))
        self.computes = self._computes()
        self._cycles_per_second = None

    def _computes(self):
        """Whether the device does what it is told; one that does not has memory, and no time."""
        twos = torch.full((64, 64), 2.0, device="cuda")
        return bool((twos @ twos).sum().item() == 64 * 64 * 256)

    def facts(self):
        properties = self.properties
        return {
            "gpu": properties.name,
            "capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
            "driver": self.monitor.driver(),
            "torch_version": torch.__version__,
            "cuda_version": torch.version.cuda,
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
        }

    # ---- memory

    def empty(self):
        """Gives back all that nothing holds any more."""
        gc.collect()
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()

    def usable_bytes(self):
        """What this process may take from the device, its context aside; when nothing is held."""
        return torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved()

    def guarded(self, work, *arguments):
        """Calls it, and says in the runner's words what PyTorch may raise."""
        try:
            return work(*arguments)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                if "No available kernel" in str(error):
                    raise NoKernel("this version has none that takes it") from None
                if type(error).__name__ == "AcceleratorError" or "CUDA error" in str(error):
                    raise DeviceLost(str(error).splitlines()[0]) from None
                raise
        # Here the exception is gone, and with it its frames and what these hold.
        raise OutOfMemory

    # ---- time

    def heat(self, most_seconds=30.0):
        """Works until the clock, or else the rate, is steady over three seconds."""
        a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
        seen = []
        begin = time.perf_counter()
        while time.perf_counter() - begin < most_seconds and not is_steady(seen):
            count, window = 0, time.perf_counter()
            clocks = []  # at its power limit a device's clock is never still
            while time.perf_counter() - window < 1.0:
                for _ in range(20):
                    a @ a
                count += 20
                clocks.append(self.monitor.sm_clock_MHz())
                torch.cuda.synchronize()
            if all(clocks):
                seen.append(math.fsum(clocks) / len(clocks))
            else:
                seen.append(count / (time.perf_counter() - window))
        return len(seen)

    def event(self):
        return Event()

    def synchronize(self):
        torch.cuda.synchronize()

    def clock_MHz(self):
        return self.monitor.sm_clock_MHz()

    def power_W(self):
        return self.monitor.power_W()

    def sleep(self, seconds):
        """Keeps the device busy for about so long, so that launches queue up behind."""
        if self._cycles_per_second is None:
            cycles = 20_000_000
            torch.cuda._sleep(1000)
            begin = self.event()
            torch.cuda._sleep(cycles)
            end = self.event()
            torch.cuda.synchronize()
            self._cycles_per_second = cycles / begin.seconds_until(end)
        torch.cuda._sleep(int(seconds * self._cycles_per_second))
