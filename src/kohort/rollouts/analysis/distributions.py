"""How many samples fell between which boundaries: the one form in which all metrics are counted.

A histogram has its own boundaries. A share of bad requests has one boundary, with the good ones below and the bad ones
above it; so has a value that is read once per interval and compared with a limit.
"""

from itertools import pairwise
from math import log

import msgspec

from kohort.rollouts.analysis.sequential_test import Counts


class Distribution(msgspec.Struct, frozen=True):
    """`counts` has one more entry than `bounds`: the last one is above all of them."""

    bounds: tuple[float, ...] = ()
    counts: tuple[float, ...] = (0.0,)

    @property
    def total(self) -> float:
        return sum(self.counts)

    def __add__(self, other: "Distribution") -> "Distribution":
        """Of other boundaries: those that begin afterwards count, since the samples of both cannot be added."""
        if self.bounds != other.bounds or len(self.counts) != len(other.counts):
            return other
        return Distribution(self.bounds, tuple(map(sum, zip(self.counts, other.counts, strict=True))))

    def above(self, place: int, fraction: float = 0.0) -> Counts:
        """Samples above boundary `place`, and a fraction of those in the bucket below it."""
        if len(self.bounds) <= place:
            return Counts()
        return Counts(sum(self.counts[place + 1 :]) + fraction * self.counts[place], self.total)

    def quantile(self, q: float) -> float:
        """By interpolation within the bucket, as Prometheus does it; above all boundaries the last one is returned.

        >>> Distribution((1.0, 2.0), (5.0, 5.0, 0.0)).quantile(0.75)
        1.5
        """
        wanted, seen = q * self.total, 0.0
        for place, bound in enumerate(self.bounds):
            count = self.counts[place]
            if count and seen + count >= wanted:
                lower = self.bounds[place - 1] if place else min(0.0, bound)
                return lower + (bound - lower) * (wanted - seen) / count
            seen += count
        return self.bounds[-1] if self.bounds else 0.0


def bad_and_good(bad: float, good: float) -> Distribution:
    return Distribution((0.5,), (good, bad))


def cumulative(bounds: tuple[float, ...], counts: tuple[float, ...]) -> Distribution:
    """From counts as Prometheus has them: of samples at most as large as each boundary, the last of them of all."""
    steps = (counts[0], *(after - before for before, after in pairwise(counts)))
    return Distribution(bounds, steps)


def share_of_bucket_above(lower: float, bound: float, limit: float) -> float:
    """Which part of the samples in the bucket from `lower` to `bound` is above `limit`, if their logarithms are spread
    evenly, as those of latencies are.

    >>> share_of_bucket_above(0.1, 0.4, 0.2)
    0.5
    """
    if limit >= bound:
        return 0.0
    if limit <= lower:
        return 1.0
    if lower <= 0:
        return (bound - limit) / (bound - lower)
    return log(bound / limit) / log(bound / lower)
