"""One way to take samples for all that is timed: windows back to back, until the rule says stop."""

import time
from dataclasses import dataclass, field

from .statistics import StopRule, at_full_clock, summarise

WINDOW_SECONDS = 0.1  # of samples between two looks at the results


@dataclass
class Window:
    """Samples that ran back to back."""

    parts: list  # of each sample: seconds by part
    launch_seconds: list  # that the host took to launch each
    clock_MHz: int | None = None  # of the multiprocessors, meanwhile
    power_W: float | None = None
    held: bool = True  # the device waited until all was launched, where it should


@dataclass
class Series:
    parts: dict  # Summary by part
    total: object  # Summary of the samples' sums
    launch: object
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


def series(take, rule=None, most_in_window=8, now=time.perf_counter):
    """Samples of `take(count)`, which returns a Window, until `rule` ends them.

    Two windows warm up: what is compiled, chosen and allocated at first counts for nothing. So does
    a window that was not held.
    """
    rule = rule or StopRule()
    take(1)
    seconds = sum(sum(parts.values()) for parts in take(1).parts)
    count = max(1, min(most_in_window, int(WINDOW_SECONDS / max(seconds, 1e-9))))
    taken = _Taken()
    begin = now()
    verdict = None
    while verdict is None:
        window = take(count)
        if window.held:
            taken.add(window)
        elif now() - begin >= rule.most_seconds and not taken.parts:
            raise RuntimeError("the device did not wait for the launches of any window")
        verdict = rule.verdict(taken.totals, now() - begin)

    kept = at_full_clock(range(len(taken.totals)), taken.clocks)
    names = taken.parts[0].keys()
    known_clocks = [clock for clock in (taken.clocks[at] for at in kept) if clock is not None]
    return Series(
        parts={name: summarise([taken.parts[at][name] for at in kept]) for name in names},
        total=summarise([taken.totals[at] for at in kept]),
        launch=summarise([taken.launches[at] for at in kept]),
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
