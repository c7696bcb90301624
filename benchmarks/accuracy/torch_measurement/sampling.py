"""One way to take samples for all that is timed: windows back to back, until the rule says stop.

A device here is what has `event()`, with `passed()` and `seconds_until(later)`; `sleep(seconds)`,
which keeps it busy; `synchronize()`; and `clock_MHz()` and `power_W()`, which may be None.
"""

import time
from dataclasses import dataclass, field

from .statistics import StopRule, at_full_clock, summarise

WINDOW_SECONDS = 0.1  # of samples between two looks at the results


LEAST_GATE_SECONDS = 0.001
MOST_GATE_SECONDS = 0.5
MOST_VAIN_SECONDS = 15.0  # until the first window that was held


@dataclass
class Window:
    """Samples that ran back to back."""

    parts: list  # of each sample: seconds by part
    launch_seconds: list  # that the host took to launch each
    clock_MHz: int | None = None  # of the multiprocessors, meanwhile
    power_W: float | None = None
    held: bool = True  # the device never waited for the host, where it should not


class Marks:
    """Events at the ends of the parts of one sample."""

    def __init__(self, device):
        self._device = device
        self._ends = []

    def __call__(self, part):
        self._ends.append((part, self._device.event()))

    def has_begun(self):
        return self._ends[0][1].passed()

    def seconds(self):
        """By part; the first mark only begins."""
        seconds = {}
        for (_, begin), (part, end) in zip(self._ends, self._ends[1:]):
            seconds[part] = seconds.get(part, 0.0) + begin.seconds_until(end)
        return seconds


class Windows:
    """Windows of the calls of `run(mark)`. Gated, the device is kept busy until the host is ahead,
    so that what launching takes counts for nothing, as where the device always lags behind."""

    def __init__(self, device, run, gated, now=time.perf_counter):
        self._device, self._run, self._now = device, run, now
        self._gate_seconds = LEAST_GATE_SECONDS if gated else None

    def take(self, count):
        device = self._device
        samples, launches = [], []
        device.synchronize()
        if self._gate_seconds is not None:
            device.sleep(self._gate_seconds)
        for _ in range(count):
            marks = Marks(device)
            begin = self._now()
            self._run(marks)
            launches.append(self._now() - begin)
            samples.append(marks)
        # A device that had not begun the last when it was launched lagged behind for all.
        held = self._gate_seconds is None or not samples[-1].has_begun()
        clock, power = device.clock_MHz(), device.power_W()
        device.synchronize()
        if not held:
            # By the least, since others may have waited for room in the queue.
            longer = max(2 * self._gate_seconds, 1.5 * count * min(launches))
            self._gate_seconds = min(MOST_GATE_SECONDS, longer)
        return Window([marks.seconds() for marks in samples], launches, clock, power, held)


@dataclass
class Series:
    parts: dict  # Summary by part
    total: object  # Summary of the samples' sums
    launch_seconds: float  # the least: others may have waited for room in the queue
    verdict: str
    dropped: int  # samples at a low clock
    clock_MHz: float | None = None
    power_W: float | None = None


@dataclass
class _Taken:
    parts: list = field(default_factory=list)
    totals: list = field(default_factory=list)
    launches: list = field(default_factory=list)
    clocks: list = field(default_factory=list)  # one a sample
    powers: list = field(default_factory=list)  # one a window

    def add(self, window):
        self.parts += window.parts
        self.totals += [sum(parts.values()) for parts in window.parts]
        self.launches += window.launch_seconds
        self.clocks += [window.clock_MHz] * len(window.parts)
        if window.power_W is not None:
            self.powers.append(window.power_W)


def series(take, rule, most_in_window=64, now=time.perf_counter):
    """Samples of `take(count)`, which returns a Window, until `rule` ends them.

    Two windows warm up: what is compiled, chosen and allocated at first counts for nothing. So does
    a window that was not held; after two of them they get shorter, as launches fill a queue.
    """
    take(1)
    seconds = sum(sum(parts.values()) for parts in take(1).parts)
    count = max(1, min(most_in_window, int(WINDOW_SECONDS / max(seconds, 1e-9))))
    taken = _Taken()
    first = begin = now()
    verdict = None
    slips = 0
    while verdict is None:
        if not taken.parts:
            begin = now()
        window = take(count)
        slips = 0 if window.held else slips + 1
        if slips > 1:
            count = max(1, count // 2)
        if window.held:
            taken.add(window)
        elif not taken.parts and now() - first >= MOST_VAIN_SECONDS:
            raise RuntimeError("the device did not wait for the launches of any window")
        verdict = rule.verdict(taken.totals, now() - begin)

    kept = at_full_clock(range(len(taken.totals)), taken.clocks)
    names = taken.parts[0].keys()
    known_clocks = [clock for clock in (taken.clocks[at] for at in kept) if clock is not None]
    return Series(
        parts={name: summarise([taken.parts[at][name] for at in kept]) for name in names},
        total=summarise([taken.totals[at] for at in kept]),
        launch_seconds=min(taken.launches),
        verdict=verdict,
        dropped=len(taken.totals) - len(kept),
        clock_MHz=summarise(known_clocks).median if known_clocks else None,
        power_W=summarise(taken.powers).median if taken.powers else None,
    )


def columns_of(measured):
    """The columns that every timed row has."""
    return {
        "samples": measured.total.count,
        "dropped": measured.dropped,
        "steady": int(measured.verdict == "steady"),
        "sm_clock_MHz": measured.clock_MHz,
        "power_W": measured.power_W,
    }


def spread_columns(name, summary):
    """`name`_s and its quartiles."""
    return {
        f"{name}_s": summary.median,
        f"{name}_q1_s": summary.first_quartile,
        f"{name}_q3_s": summary.third_quartile,
    }
