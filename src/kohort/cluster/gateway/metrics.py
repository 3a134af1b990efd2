"""Requests of the gateway, counted by the pod that answered them.

Series carry namespace, Service and pod. There is one set of them for each pod that is an endpoint of a Service that
was requested, so their number is bounded by what the cluster runs. A pod that leaves the Service keeps its series while
it still answers requests, and loses them with the last one: the gauge of requests in flight is what draining waits for.
Requests that reached no pod (no route, no endpoint) have an empty pod.

| what happened                              | code                                        |
|--------------------------------------------|---------------------------------------------|
| an answer of a pod, or one of the gateway  | its status                                  |
| the pod broke off its answer               | 502, although the client saw another status |
| the client went away before the end        | 499                                         |
"""

import asyncio
from typing import Final

from prometheus_client import CollectorRegistry

from kohort.kube.fast_counters import Count, Families
from kohort.kube.resources import Key
from kohort.rules import gateway_metrics

CLIENT_GONE: Final = 499
CUT_OFF: Final = 502
LABELS: Final = ("namespace", "service", "pod")
BOUNDS: Final = (
    *(0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5),
    *(0.6, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0),
)
"""Close to each other: a limit on a quantile is judged by whole buckets."""
_NO_SERVICE: Final = Key("", "")
_CODES: Final = 32
"""Different codes of one pod; a pod that invents more has them counted as `other`."""


class PodSeries:
    """What is counted for one pod of a Service."""

    __slots__ = ("_by_status", "_codes", "_requests", "first_byte", "gone", "in_flight", "labels", "total")

    def __init__(self, metrics: "RequestMetrics", labels: tuple[str, str, str]) -> None:
        self.labels = labels
        self.gone = False
        """The pod is no endpoint of the Service any more."""
        self.in_flight = metrics.in_flight.labels(*labels)
        self.first_byte = metrics.first_byte.labels(*labels)
        self.total = metrics.duration.labels(*labels)
        self._requests = metrics.requests
        self._codes: dict[str, Count] = {}
        self._by_status: dict[int, Count] = {}

    def count(self, status: int) -> None:
        counter = self._by_status.get(status)
        if counter is None:
            counter = self._by_status[status] = self._counter(str(status))
        counter.value += 1.0

    def _counter(self, code: str) -> Count:
        if code not in self._codes and len(self._codes) >= _CODES:
            code = "other"
        if code not in self._codes:
            self._codes[code] = self._requests.labels(*self.labels, code)
        return self._codes[code]

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(self._codes)


class RequestMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        families = Families()
        self.requests = families.counter(
            gateway_metrics.REQUESTS, "Requests answered, by pod and status", *LABELS, "code"
        )
        self.first_byte = families.histogram(
            gateway_metrics.FIRST_BYTE,
            "From the head of a request to the first byte of the answer's body",
            *LABELS,
            bounds=BOUNDS,
        )
        self.duration = families.histogram(
            gateway_metrics.DURATION,
            "From the head of a request to the end of its answer",
            *LABELS,
            bounds=BOUNDS,
        )
        self.in_flight = families.gauge(
            gateway_metrics.IN_FLIGHT, "Requests that a pod has not yet answered to the end", *LABELS
        )
        registry.register(families)
        self._series: dict[Key, dict[str, PodSeries]] = {}

    def of(self, service: Key, pod: str) -> PodSeries:
        try:
            return self._series[service][pod]
        except KeyError:
            pods = self._series.setdefault(service, {})
            series = pods[pod] = PodSeries(self, (service.namespace, service.name, pod))
            return series

    def began(self, service: Key, pod: str) -> PodSeries:
        series = self.of(service, pod)
        series.in_flight.value += 1.0
        return series

    def ended(self, series: PodSeries) -> None:
        series.in_flight.value -= 1.0
        if series.gone and series.in_flight.value <= 0:
            self._drop(series)

    def services(self) -> list[Key]:
        """Services that have series."""
        return list(self._series)

    def pods(self, service: Key) -> list[str]:
        return list(self._series.get(service, ()))

    def retain(self, service: Key, pods: frozenset[str] | None) -> None:
        """Drop the series of pods of this Service other than these; without the Service (None), all of them."""
        for series in list(self._series.get(service, {}).values()):
            pod = series.labels[2]
            series.gone = pods is None or (bool(pod) and pod not in pods)
            if series.gone and series.in_flight.value <= 0:
                self._drop(series)

    def _drop(self, series: PodSeries) -> None:
        namespace, name, pod = series.labels
        for family in (self.in_flight, self.first_byte, self.duration):
            family.remove(*series.labels)
        for code in series.codes:
            self.requests.remove(*series.labels, code)
        pods = self._series.get(Key(namespace, name), {})
        pods.pop(pod, None)
        if not pods:
            self._series.pop(Key(namespace, name), None)


class Observation:
    """The figures of one request."""

    __slots__ = ("_first", "_metrics", "_series", "_start", "_time", "service")

    def __init__(self, metrics: RequestMetrics) -> None:
        self.service = _NO_SERVICE
        self._metrics = metrics
        self._series: PodSeries | None = None
        self._time = asyncio.get_running_loop().time
        self._start = self._time()
        self._first = 0.0

    def attempt(self, pod: str) -> None:
        """The request is with this pod from now on."""
        if self._series is not None:
            self._metrics.ended(self._series)
        self._series = self._metrics.began(self.service, pod)

    def first_byte(self) -> None:
        if not self._first:
            self._first = self._time()

    def end(self, status: int) -> None:
        now = self._time()
        series = self._series
        if series is None:
            self._metrics.of(self.service, "").count(status)
            return
        series.count(status)
        series.total.observe(now - self._start)
        if status != CLIENT_GONE or self._first:
            series.first_byte.observe((self._first or now) - self._start)
        self._metrics.ended(series)
