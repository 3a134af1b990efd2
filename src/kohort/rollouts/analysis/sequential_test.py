"""Compares proportions while the samples are still coming in. Looking often does not cause false alarms.

Two sets of pods answer requests; a request is either bad (slower than a limit, an error) or good. The test reports an
interval for the difference of the shares of bad requests which contains the true difference at every time at once,
with probability 1 - `error`. A decision may therefore be made at any moment, and a release may be watched for as long
as its user likes.

How: the likelihood of the samples, averaged over a mixture of Beta distributions that is fixed in advance, divided by
their likelihood at the true shares, is a martingale with mean 1. It ever exceeds 1/error with probability at most
`error` (Ville's inequality). The product over both sets is such a martingale, too. A difference is excluded when even
the most favourable pair of shares with that difference has a ratio above 1/error.

The mixture only influences how soon a difference is found, never how often one is found that does not exist. It is
centred on the share that the stable set had before the judged time, and on a multiple of it for the new version.

Why not two intervals, one for each set, and their distance: that adds the widths instead of their squares, and needs
about twice as many samples. Why not a test with a fixed number of samples: it would have to wait for the last one, and
a bad version would serve until then.

What is assumed: given the share of a set, its requests are independent of each other. Requests of one pod, or of one
minute, often resemble each other. `Counts.dispersion` says how much more the samples vary than independent ones would
(see `dispersion`); evidence counts for so much less. A value above 1 never makes the test less strict. Shares may
drift while they are watched, if they drift alike in both sets, which share the same minutes at a constant split.
"""

from collections.abc import Callable, Iterable, Sequence
from math import exp, inf, lgamma, log

import msgspec

_TINY = 1e-12
_SEARCH_STEPS = 48


class Counts(msgspec.Struct, frozen=True):
    """Samples of one set. `bad` may be a fraction where samples were counted in part."""

    bad: float = 0.0
    total: float = 0.0

    @property
    def share(self) -> float:
        return self.bad / self.total if self.total else 0.0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.bad + other.bad, self.total + other.total)


class Beta(msgspec.Struct, frozen=True):
    """One part of a mixture."""

    weight: float
    bad: float
    good: float


Mixture = Sequence[Beta]
_BROAD = 0.1
"""The weight of a part that expects nothing in particular, for shares that come as a surprise."""


def expected_share(share: float, samples: float) -> Mixture:
    """A mixture for a set whose share is known from so many earlier samples."""
    strength = min(max(samples, 10.0), 300.0)
    centre = _inside(share, strength)
    return (Beta(1 - _BROAD, strength * centre, strength * (1 - centre)), Beta(_BROAD, 0.5, 0.5))


def expected_share_of_new_version(share: float) -> Mixture:
    """A mixture for a version that is either as good as the other one, or clearly worse."""
    same = _inside(share, _NEW_STRENGTH)
    odds = _WORSE_ODDS * max(share, 0.01) / (1 - min(share, 0.99))
    worse = odds / (1 + odds)
    return (
        Beta(0.3, _NEW_STRENGTH * same, _NEW_STRENGTH * (1 - same)),
        Beta(0.6, _WORSE_STRENGTH * worse, _WORSE_STRENGTH * (1 - worse)),
        Beta(_BROAD, 0.5, 0.5),
    )


_NEW_STRENGTH = 60.0
_WORSE_STRENGTH = 30.0
_WORSE_ODDS = 3.0
"""These three find a version of doubled latency soonest, over lognormal, gamma and exponential latencies."""


def _inside(share: float, strength: float) -> float:
    """A share of exactly 0 or 1 would exclude the contrary for ever."""
    return min(max(share, 0.1 / strength), 1 - 0.1 / strength)


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def _log_mixture(counts: Counts, mixture: Mixture) -> float:
    """The logarithm of the likelihood of the samples, averaged over the mixture."""
    good = counts.total - counts.bad
    terms = [
        log(part.weight) + _log_beta(part.bad + counts.bad, part.good + good) - _log_beta(part.bad, part.good)
        for part in mixture
    ]
    largest = max(terms)
    return largest + log(sum(exp(term - largest) for term in terms))


def _log_likelihood(counts: Counts, share: float) -> float:
    result = 0.0
    if counts.bad:
        result += counts.bad * log(max(share, _TINY))
    if counts.total - counts.bad:
        result += (counts.total - counts.bad) * log(max(1 - share, _TINY))
    return result


class Interval(msgspec.Struct, frozen=True):
    """Contains the true value at every time, with the probability that was asked for."""

    lower: float
    upper: float


class Comparison(msgspec.Struct, frozen=True):
    """The share of the new version minus the share of the stable one."""

    new: Mixture
    stable: Mixture
    error: float
    """How often, at most, the interval may ever miss the true difference."""

    def lower_bound_exceeds(self, margin: float, new: Counts, stable: Counts, dispersion: float = 1.0) -> bool:
        """The difference is above `margin`."""
        if new.share - stable.share <= margin:
            return False
        return self._evidence(margin, new, stable) >= dispersion * log(1 / self.error)

    def upper_bound_within(self, margin: float, new: Counts, stable: Counts, dispersion: float = 1.0) -> bool:
        """The difference is below `margin`."""
        if not new.total or not stable.total or new.share - stable.share >= margin:
            return False
        return self._evidence(margin, new, stable) >= dispersion * log(1 / self.error)

    def interval(self, new: Counts, stable: Counts, dispersion: float = 1.0) -> Interval:
        if not new.total or not stable.total:
            return Interval(-1.0, 1.0)
        needed = dispersion * log(1 / self.error)
        middle = new.share - stable.share
        numerator = _log_mixture(new, self.new) + _log_mixture(stable, self.stable)

        def excluded(difference: float) -> bool:
            return numerator - _best_log_likelihood(difference, new, stable) >= needed

        return Interval(_last_excluded(-1.0, middle, excluded), _last_excluded(1.0, middle, excluded))

    def _evidence(self, margin: float, new: Counts, stable: Counts) -> float:
        """The logarithm of the martingale at the most favourable pair of shares with this difference."""
        numerator = _log_mixture(new, self.new) + _log_mixture(stable, self.stable)
        return numerator - _best_log_likelihood(margin, new, stable)


class SingleShare(msgspec.Struct, frozen=True):
    """The share of one set, to be compared with a limit."""

    mixture: Mixture
    error: float

    def lower_bound_exceeds(self, limit: float, counts: Counts, dispersion: float = 1.0) -> bool:
        return counts.share > limit and self._excluded(limit, counts, dispersion)

    def upper_bound_within(self, limit: float, counts: Counts, dispersion: float = 1.0) -> bool:
        return bool(counts.total) and counts.share < limit and self._excluded(limit, counts, dispersion)

    def interval(self, counts: Counts, dispersion: float = 1.0) -> Interval:
        if not counts.total:
            return Interval(0.0, 1.0)

        def excluded(share: float) -> bool:
            return self._excluded(share, counts, dispersion)

        return Interval(_last_excluded(0.0, counts.share, excluded), _last_excluded(1.0, counts.share, excluded))

    def _excluded(self, share: float, counts: Counts, dispersion: float) -> bool:
        evidence = _log_mixture(counts, self.mixture) - _log_likelihood(counts, share)
        return evidence >= dispersion * log(1 / self.error)


def _last_excluded(outside: float, inside: float, excluded: Callable[[float], bool]) -> float:
    """Between a value that may be excluded and one that is not: the last excluded one."""
    if not excluded(outside):
        return outside
    for _ in range(_SEARCH_STEPS // 2):
        middle = (outside + inside) / 2
        if excluded(middle):
            outside = middle
        else:
            inside = middle
    return outside


def _best_log_likelihood(difference: float, new: Counts, stable: Counts) -> float:
    """The largest likelihood of the samples of both sets, if the share of the new one is larger by `difference`."""
    if difference == 0.0:
        pooled = new + stable
        return _log_likelihood(pooled, pooled.share)
    low, high = max(0.0, -difference), min(1.0, 1.0 - difference)
    for _ in range(_SEARCH_STEPS):
        share = (low + high) / 2
        if _slope(new, share + difference) + _slope(stable, share) > 0:
            low = share
        else:
            high = share
    share = (low + high) / 2
    return _log_likelihood(new, share + difference) + _log_likelihood(stable, share)


def _slope(counts: Counts, share: float) -> float:
    """Of the log likelihood, which is concave."""
    good = counts.total - counts.bad
    up = counts.bad / share if share > 0 else (inf if counts.bad else 0.0)
    down = good / (1 - share) if share < 1 else (inf if good else 0.0)
    return up - down


_PRIOR_FREEDOM = 4.0
"""How many observations of independence the estimate of the dispersion begins with: few cells say little."""


def dispersion(*sets: Iterable[Counts]) -> float:
    """How much more cells vary than independent samples would; at least 1.

    A cell is a pod, or a window of time; cells of one set should have the same share. This is Pearson's statistic by
    its degrees of freedom.

    >>> dispersion([Counts(5, 100), Counts(5, 100), Counts(5, 100)])
    1.0
    >>> dispersion([Counts(0, 100), Counts(40, 100)]) > 5
    True
    """
    statistic, freedom = 0.0, 0
    for cells in sets:
        found = [cell for cell in cells if cell.total > 0]
        pooled = sum(found, Counts())
        variance = pooled.share * (1 - pooled.share)
        if len(found) < 2 or variance <= 0:
            continue
        statistic += sum((cell.bad - cell.total * pooled.share) ** 2 / (cell.total * variance) for cell in found)
        freedom += len(found) - 1
    return max(1.0, (_PRIOR_FREEDOM + statistic) / (_PRIOR_FREEDOM + freedom))
