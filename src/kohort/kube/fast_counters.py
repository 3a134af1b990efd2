"""Counters without locks, exported as Prometheus metrics.

A pod on its way to ready is counted some sixty times: queues, reconciles, requests, events. The metrics of
prometheus_client take a lock for each of them, for the sake of threads; everything here runs on one event loop. So
values are plain attributes, and become metrics at a scrape: `Families` is a collector for any registry of
prometheus_client.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from prometheus_client.core import Metric


class Count:
    """A number that goes up; a gauge goes down as well."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self) -> None:
        self.value += 1.0

    def dec(self) -> None:
        self.value -= 1.0

    def set(self, value: float) -> None:
        self.value = value


class HistogramValues:
    """How values are distributed over buckets, each of which ends at one of `bounds`, inclusive."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulated(self) -> Iterator[tuple[str, float]]:
        """Bound and number of all values up to it."""
        seen = 0
        for bound, count in zip((*map(str, map(float, self.bounds)), "+Inf"), self.counts, strict=True):
            seen += count
            yield bound, float(seen)


F = TypeVar("F", Count, HistogramValues)


class _Family(Generic[F]):
    def __init__(self, name: str, text: str, labels: tuple[str, ...]) -> None:
        self.name = name
        self.text = text
        self.label_names = labels
        self.children: dict[tuple[str, ...], F] = {}

    def remove(self, *values: str) -> None:
        """Export this series no longer; one that is counted again begins at zero."""
        self.children.pop(values, None)


class Counter(_Family[Count]):
    def labels(self, *values: str) -> Count:
        return self.children.setdefault(values, Count())

    def metric(self) -> "Metric":
        from prometheus_client.core import CounterMetricFamily

        family = CounterMetricFamily(self.name, self.text, labels=self.label_names)
        for values, child in self.children.items():
            family.add_metric(values, child.value)
        return family


class Gauge(_Family[Count]):
    def __init__(self, name: str, text: str, labels: tuple[str, ...]) -> None:
        super().__init__(name, text, labels)
        self._computed: dict[tuple[str, ...], Callable[[], float]] = {}

    def labels(self, *values: str) -> Count:
        return self.children.setdefault(values, Count())

    def compute(self, function: Callable[[], float], *values: str) -> None:
        """A value that is computed when it is read."""
        self._computed[values] = function

    def metric(self) -> "Metric":
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily(self.name, self.text, labels=self.label_names)
        for values, child in self.children.items():
            family.add_metric(values, child.value)
        for values, function in self._computed.items():
            family.add_metric(values, function())
        return family


class Histogram(_Family[HistogramValues]):
    def __init__(self, name: str, text: str, labels: tuple[str, ...], bounds: tuple[float, ...]) -> None:
        super().__init__(name, text, labels)
        self.bounds = bounds

    def labels(self, *values: str) -> HistogramValues:
        return self.children.setdefault(values, HistogramValues(self.bounds))

    def metric(self) -> "Metric":
        from prometheus_client.core import HistogramMetricFamily

        family = HistogramMetricFamily(self.name, self.text, labels=self.label_names)
        for values, child in self.children.items():
            family.add_metric(values, list(child.cumulated()), child.total)
        return family


class Families:
    """What a registry collects."""

    def __init__(self) -> None:
        self._families: list[Counter | Gauge | Histogram] = []

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        family = Counter(name, text, labels)
        self._families.append(family)
        return family

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        family = Gauge(name, text, labels)
        self._families.append(family)
        return family

    def histogram(self, name: str, text: str, *labels: str, bounds: tuple[float, ...]) -> Histogram:
        family = Histogram(name, text, labels, bounds)
        self._families.append(family)
        return family

    def collect(self) -> "Iterable[Metric]":
        return [family.metric() for family in self._families]
