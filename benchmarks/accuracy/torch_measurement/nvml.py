"""Clock, power and driver of a GPU by NVIDIA's management library, where there is one.

Called by ctypes, since Python's bindings are rarely installed beside PyTorch.
"""

import ctypes

SM_CLOCK = 1  # NVML_CLOCK_SM


class Monitor:
    """What the library says of the GPU with this UUID; None where it cannot tell."""

    def __init__(self, uuid, load=ctypes.CDLL):
        self._library = None
        self._device = ctypes.c_void_p()
        try:
            library = load("libnvidia-ml.so.1")
            if library.nvmlInit_v2() != 0:
                return
            name = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
            if library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(self._device)) == 0:
                self._library = library
        except (OSError, AttributeError):
            return

    def _number(self, function, *arguments):
        if self._library is None:
            return None
        value = ctypes.c_uint()
        call = getattr(self._library, function, None)
        if call is None or call(self._device, *arguments, ctypes.byref(value)) != 0:
            return None
        return value.value

    def sm_clock_MHz(self):
        return self._number("nvmlDeviceGetClockInfo", SM_CLOCK)

    def power_W(self):
        milliwatts = self._number("nvmlDeviceGetPowerUsage")
        return None if milliwatts is None else milliwatts / 1000

    def power_limit_W(self):
        milliwatts = self._number("nvmlDeviceGetEnforcedPowerLimit")
        return None if milliwatts is None else milliwatts / 1000

    def driver(self):
        if self._library is None:
            return None
        text = ctypes.create_string_buffer(96)
        if self._library.nvmlSystemGetDriverVersion(text, len(text)) != 0:
            return None
        return text.value.decode()
