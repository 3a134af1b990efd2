"""Samples: what was counted since the last reading, per pod.

Counters only grow, until their process starts anew. What a pod counted between two readings are the samples of that
window.

| since the last reading | samples of the pod |
|---|---|
| nothing was read of any pod before | none; the reading is where counting begins |
| counters have grown | the difference |
| a counter is smaller, or the buckets are others | none until it is warm again: the process started anew |
| the pod has another uid, or is new among known ones | none until it is warm |
| a metric is missing | none of this metric; it begins anew when it is back |

No time is used: a clock that jumps changes nothing. What is not finite, negative, beyond `_MOST_COUNTED`, or no
cumulative histogram is taken for missing.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from math import isfinite

import msgspec

from kohort.rollouts.analysis.distributions import Distribution, cumulative
from kohort.rollouts.analysis.metrics_text import Series
from kohort.rollouts.analysis.series_selectors import (
    HistogramSeries,
    MetricSeries,
    QuerySeries,
    Selector,
    ShareSeries,
    ValueSeries,
    series_of,
)

_MOST_BUCKETS = 500
_MOST_COUNTED = 2.0**53
"""Beyond it a float does not count on by ones: no server has answered so many requests."""
_DECIMALS = 6
"""Of what is counted in part. What is smaller is nothing, and stays so in products of it."""


class PodReading(msgspec.Struct, frozen=True):
    """What one pod says of each metric. A metric that it does not have is missing."""

    pod: str
    uid: str
    counters: Mapping[str, Distribution] = {}
    """Counted since its process began."""
    values: Mapping[str, float] = {}


def names_of(metrics: Iterable[MetricSeries]) -> frozenset[str]:
    """The series that the metrics need."""
    return frozenset(one.name for metric in metrics for one in series_of(metric))


def reading(pod: str, uid: str, series: Iterable[Series], metrics: Mapping[str, MetricSeries]) -> PodReading:
    """What the series of a pod say of the metrics."""
    known = tuple(series)
    counters: dict[str, Distribution] = {}
    values: dict[str, float] = {}
    for name, metric in metrics.items():
        match metric:
            case HistogramSeries():
                found = histogram(known, metric)
                if found is not None:
                    counters[name] = found
            case ShareSeries():
                share = _share(known, metric)
                if share is not None:
                    counters[name] = share
            case ValueSeries(selector=selector):
                value = _sum(known, selector)
                if value is not None and isfinite(value):
                    values[name] = value
            case QuerySeries():
                pass
    return PodReading(pod, uid, counters, values)


def histogram(series: Iterable[Series], metric: HistogramSeries) -> Distribution | None:
    """The sum of all series of a histogram, for example of several models; None where it is missing or none."""
    known = tuple(series)
    for wanted in metric.buckets:
        buckets: dict[float, float] = {}
        for one in known:
            if wanted.fits(one):
                try:
                    bound = float(one.labels.get("le", ""))
                except ValueError:
                    return None
                buckets[bound] = buckets.get(bound, 0.0) + one.value
        if buckets:
            return _distribution(buckets)
    return None


def _distribution(buckets: Mapping[float, float]) -> Distribution | None:
    bounds = sorted(buckets)
    counts = [buckets[bound] for bound in bounds]
    if bounds[-1] != float("inf") or len(bounds) < 2 or len(bounds) > _MOST_BUCKETS:
        return None
    if not all(map(isfinite, bounds[:-1])) or not all(map(_is_count, counts)):
        return None
    if not all(before <= after for before, after in pairwise(counts)):
        return None
    return cumulative(tuple(bounds[:-1]), tuple(round(count, _DECIMALS) for count in counts))


def _is_count(value: float) -> bool:
    """False of NaN, too."""
    return 0 <= value <= _MOST_COUNTED


def _share(series: tuple[Series, ...], metric: ShareSeries) -> Distribution | None:
    total = _sum(series, metric.total)
    part = _sum(series, metric.bad or metric.good or metric.total)
    if total is None or not _is_count(total):
        return None
    total = round(total, _DECIMALS)
    # Series of errors appear with the first error.
    part = min(max(round(part or 0.0, _DECIMALS), 0.0), total)
    bad = part if metric.bad is not None else total - part
    return Distribution((0.5,), (total - bad, bad))


def _sum(series: tuple[Series, ...], selector: Selector) -> float | None:
    """Of values that are numbers; it may be beyond what a number can be itself."""
    found = [one.value for one in series if selector.fits(one) and isfinite(one.value)]
    return sum(found) if found else None


class _Last(msgspec.Struct):
    uid: str
    counters: dict[str, Distribution]
    ignored_until: float = 0.0
    """In seconds of the analysis: until then samples of a process that started anew do not count."""


class PodSamples(msgspec.Struct, frozen=True):
    pod: str
    counted: Mapping[str, Distribution]
    values: Mapping[str, float]


class SampleReader:
    """Remembers the last reading of every pod. It may be lost at any time: a window is lost with it, nothing else."""

    def __init__(self) -> None:
        self._last: dict[str, _Last] = {}

    def samples(
        self, readings: Iterable[PodReading], present: Collection[str], elapsed: float, warmup: float
    ) -> list[PodSamples]:
        """`present` are the pods that exist; one that could not be read is compared over a longer window later.
        `elapsed` are the seconds that the analysis has taken; `warmup` those in which a new process does not count."""
        for gone in self._last.keys() - set(present):
            del self._last[gone]
        others = bool(self._last)
        return [self._of_pod(one, elapsed, warmup if others else 0.0) for one in readings]

    def _of_pod(self, one: PodReading, elapsed: float, warmup: float) -> PodSamples:
        last = self._last.get(one.pod)
        if last is None or last.uid != one.uid or _started_anew(last.counters, one.counters):
            self._last[one.pod] = _Last(one.uid, dict(one.counters), elapsed + warmup)
            return PodSamples(one.pod, {}, {})
        grown = {
            name: _difference(last.counters[name], now) for name, now in one.counters.items() if name in last.counters
        }
        last.counters = dict(one.counters)
        if elapsed < last.ignored_until:
            return PodSamples(one.pod, {}, {})
        return PodSamples(one.pod, grown, one.values)


def _started_anew(before: Mapping[str, Distribution], now: Mapping[str, Distribution]) -> bool:
    return any(name in before and _is_smaller(before[name], found) for name, found in now.items())


def _is_smaller(before: Distribution, now: Distribution) -> bool:
    if before.bounds != now.bounds or now.total < before.total:
        return True
    # Of a share, good requests are computed: they may seem fewer for a moment when an error is counted first.
    places = range(len(now.counts)) if len(now.bounds) > 1 else (len(now.counts) - 1,)
    return any(now.counts[place] < before.counts[place] for place in places)


def _difference(before: Distribution, now: Distribution) -> Distribution:
    grown = (max(0.0, later - earlier) for earlier, later in zip(before.counts, now.counts, strict=True))
    return Distribution(now.bounds, tuple(grown))
