"""Prometheus metrics of the runtime, one registry per process part.

Several parts (operator, workload controllers, scheduler) may share a process and must not share counters, so a registry
is a value, never the global one. The names are those of client-go and controller-runtime where they exist: dashboards
and alerts that people already have keep working.

Children are bound once, where the labels become known; counting is then a single attribute call.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from kohort.kube.fast_counters import Count, Families, HistogramValues

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_LATENCY = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_QUEUE_LATENCY = (0.0001, 0.001, 0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1000)


class Metrics:
    def __init__(self, registry: "CollectorRegistry | None" = None) -> None:
        from prometheus_client import CollectorRegistry

        self.registry = registry if registry is not None else CollectorRegistry()
        kept = Families()
        self._depth = kept.gauge("workqueue_depth", "Keys waiting", "name")
        self._adds = kept.counter("workqueue_adds_total", "Keys added", "name")
        self._retries = kept.counter("workqueue_retries_total", "Keys added with back-off", "name")
        self._waited = kept.histogram(
            "workqueue_queue_duration_seconds", "Wait in the queue", "name", bounds=_QUEUE_LATENCY
        )
        self._worked = kept.histogram("workqueue_work_duration_seconds", "Work on a key", "name", bounds=_QUEUE_LATENCY)
        self._unfinished = kept.gauge(
            "workqueue_unfinished_work_seconds", "Time spent so far on keys that are being worked on", "name"
        )
        self._longest = kept.gauge(
            "workqueue_longest_running_processor_seconds", "Time spent so far on the key that takes longest", "name"
        )
        self._active = kept.gauge("controller_runtime_active_workers", "Reconciles under way", "controller")
        self._workers = kept.gauge(
            "controller_runtime_max_concurrent_reconciles", "Reconciles that may be under way at once", "controller"
        )
        self._panics = kept.counter(
            "controller_runtime_reconcile_panics_total",
            "Reconciles that raised what they should have handled",
            "controller",
        )
        self._timeouts = kept.counter(
            "controller_runtime_reconcile_timeouts_total", "Reconciles that ran out of time", "controller"
        )
        self._terminal = kept.counter(
            "controller_runtime_terminal_reconcile_errors_total",
            "Reconciles that failed and are not tried again; there are none",
            "controller",
        )
        self._reconciles = kept.counter(
            "controller_runtime_reconcile_total", "Reconciles by result", "controller", "result"
        )
        self._failures = kept.counter(
            "controller_runtime_reconcile_errors_total", "Reconciles that raised", "controller"
        )
        self._durations = kept.histogram(
            "controller_runtime_reconcile_time_seconds", "Duration of a reconcile", "controller", bounds=_LATENCY
        )
        self._requests = kept.counter("rest_client_requests_total", "API requests", "method", "code")
        self._request_time = kept.histogram(
            "rest_client_request_duration_seconds", "API latency", "method", bounds=_LATENCY
        )
        self._watch_events = kept.counter("kohort_watch_events_total", "Watch events received", "resource")
        self._relists = kept.counter("kohort_informer_lists_total", "Times a cache was filled from scratch", "resource")
        self._objects = kept.gauge("kohort_informer_objects", "Objects in a cache", "resource")
        self._leading = kept.gauge("leader_election_master_status", "1 while leading", "name")
        self.registry.register(kept)
        self._request_handles: dict[tuple[str, int], tuple[Count, HistogramValues]] = {}

    def request(self, method: str, code: int, seconds: float) -> None:
        handles = self._request_handles.get((method, code))
        if handles is None:
            label = str(code) if code else "<error>"
            handles = (self._requests.labels(method, label), self._request_time.labels(method))
            self._request_handles[method, code] = handles
        handles[0].inc()
        handles[1].observe(seconds)

    def watch_events(self, resource: str) -> Count:
        return self._watch_events.labels(resource)

    def queue(self, name: str) -> "QueueMetrics":
        return QueueMetrics(self, name)

    def reconciler(self, name: str, workers: int = 1) -> "ReconcileMetrics":
        return ReconcileMetrics(self, name, workers)

    def informer(self, resource: str) -> "InformerMetrics":
        return InformerMetrics(self, resource)

    def leading(self, name: str, leading: bool) -> None:
        self._leading.labels(name).set(1 if leading else 0)

    def render(self) -> bytes:
        """The text format of Prometheus."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)


class QueueMetrics:
    """Times one queue. Loop time, so that virtual time shows in the figures."""

    __slots__ = ("_added", "_adds", "_clock", "_depth", "_retries", "_started", "_waited", "_worked")

    def __init__(self, metrics: Metrics, name: str) -> None:
        self._clock: Callable[[], float] | None = None
        self._depth = metrics._depth.labels(name)
        self._adds = metrics._adds.labels(name)
        self._retries = metrics._retries.labels(name)
        self._waited = metrics._waited.labels(name)
        self._worked = metrics._worked.labels(name)
        self._added: dict[object, float] = {}
        self._started: dict[object, float] = {}
        metrics._unfinished.compute(lambda: sum(self._running()), name)
        metrics._longest.compute(lambda: max(self._running(), default=0.0), name)

    def _running(self) -> list[float]:
        """For how long each key has been worked on."""
        now = self._clock() if self._clock is not None else 0.0
        return [now - started for started in self._started.values()]

    def added(self, key: object) -> None:
        self._adds.inc()
        self._depth.inc()
        self._added[key] = asyncio.get_running_loop().time()

    def taken(self, key: object) -> None:
        self._clock = asyncio.get_running_loop().time
        now = self._clock()
        self._depth.dec()
        self._started[key] = now
        self._waited.observe(now - self._added.pop(key, now))

    def done(self, key: object) -> None:
        now = asyncio.get_running_loop().time()
        self._worked.observe(now - self._started.pop(key, now))

    def retried(self) -> None:
        self._retries.inc()


class ReconcileMetrics:
    __slots__ = ("_active", "_duration", "_failures", "_panics", "_results", "_timeouts")

    def __init__(self, metrics: Metrics, name: str, workers: int) -> None:
        self._failures = metrics._failures.labels(name)
        self._panics = metrics._panics.labels(name)
        self._timeouts = metrics._timeouts.labels(name)
        self._active = metrics._active.labels(name)
        self._duration = metrics._durations.labels(name)
        self._results = {
            result: metrics._reconciles.labels(name, result)
            for result in ("success", "error", "requeue", "requeue_after")
        }
        metrics._workers.labels(name).set(workers)
        metrics._terminal.labels(name)

    def began(self) -> None:
        self._active.inc()

    def ended(self) -> None:
        self._active.dec()

    def finished(self, result: str, seconds: float) -> None:
        self._results[result].inc()
        self._duration.observe(seconds)
        if result == "error":
            self._failures.inc()

    def raised(self, problem: Exception) -> None:
        """An exception other than an API error."""
        (self._timeouts if isinstance(problem, TimeoutError) else self._panics).inc()


class InformerMetrics:
    __slots__ = ("_lists", "_objects")

    def __init__(self, metrics: Metrics, resource: str) -> None:
        self._objects = metrics._objects.labels(resource)
        self._lists = metrics._relists.labels(resource)

    def holds(self, objects: int) -> None:
        self._objects.set(objects)

    def listed(self) -> None:
        self._lists.inc()
