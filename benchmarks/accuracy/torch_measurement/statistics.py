"""Medians with quartiles, and when a series of samples is long enough."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    median: float
    first_quartile: float
    third_quartile: float
    count: int

    def over(self, parts):
        """Of one of so many equal parts of each sample."""
        return Summary(
            median=self.median / parts,
            first_quartile=self.first_quartile / parts,
            third_quartile=self.third_quartile / parts,
            count=self.count,
        )


def quantile(ordered, share):
    """The value below which `share` of the ordered samples lie, linear between two of them."""
    if not ordered:
        raise ValueError("no samples")
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def summarise(samples):
    ordered = sorted(samples)
    return Summary(
        median=quantile(ordered, 0.5),
        first_quartile=quantile(ordered, 0.25),
        third_quartile=quantile(ordered, 0.75),
        count=len(ordered),
    )


def relative_spread(samples, last=64):
    """Standard deviation over mean of the last samples; infinite for fewer than two."""
    tail = samples[-last:]
    if len(tail) < 2:
        return math.inf
    mean = math.fsum(tail) / len(tail)
    if mean <= 0:
        return math.inf
    variance = math.fsum((sample - mean) ** 2 for sample in tail) / (len(tail) - 1)
    return math.sqrt(variance) / mean


@dataclass(frozen=True)
class StopRule:
    """A series ends when its last samples differ little, or when it has taken long enough."""

    fewest: int = 64  # samples
    least_seconds: float = 0.5  # of the samples together
    spread: float = 0.005  # standard deviation over mean
    last: int = 64  # samples, of which the spread is taken
    most_seconds: float = 15.0  # since the series began
    most: int = 100_000  # samples

    def verdict(self, samples, seconds):
        """'steady' or 'capped' where the series ends, and None where it goes on."""
        if len(samples) >= self.fewest and math.fsum(samples) >= self.least_seconds:
            if relative_spread(samples, self.last) < self.spread:
                return "steady"
        # Of a step that takes as long as the whole series there must be two.
        if len(samples) >= self.most or (seconds >= self.most_seconds and len(samples) >= 2):
            return "capped"
        return None


def at_full_clock(samples, clocks, share=0.75):
    """The samples whose clock was at least `share` of the median clock; where a clock is unknown,
    all of them."""
    if not clocks or any(clock is None for clock in clocks):
        return list(samples)
    least = share * summarise(clocks).median
    return [sample for sample, clock in zip(samples, clocks, strict=True) if clock >= least]


def is_steady(values, windows=3, spread=0.01):
    """Whether the last windows differ by less than `spread` of the largest."""
    tail = values[-windows:]
    return len(tail) == windows and max(tail) - min(tail) < spread * max(tail)
