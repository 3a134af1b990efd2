"""What a node counts, under the names that dashboards know from the kubelet."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kohort.node.resize.conditions import ResizeState
from kohort.node.views import Allocated
from kohort.objects.pods import Pod, ResourceRequirements
from kohort.objects.quantity import Quantity
from kohort.resources import CPU, MEMORY

_DURATIONS = (10, 50, 100, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000)


class NodeMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["resource", "requirement", "operation"]
        self.containers = Counter(
            "kubelet_container_requested_resizes_total", "Resizes asked for by containers", labels, registry=registry
        )
        self.pods = Counter(
            "kubelet_pod_requested_resizes_total", "Resizes asked for by pods themselves", labels, registry=registry
        )
        self.duration = Histogram(
            "kubelet_pod_resize_duration_milliseconds",
            "Attempts to carry a resize out",
            ["success"],
            buckets=_DURATIONS,
            registry=registry,
        )
        self.pending = Gauge("kubelet_pod_pending_resizes", "Resizes that wait", ["reason"], registry=registry)
        self.in_progress = Gauge("kubelet_pod_in_progress_resizes", "Resizes under way", registry=registry)
        self.infeasible = Counter(
            "kubelet_pod_infeasible_resizes_total", "Resizes found infeasible", ["reason_detail"], registry=registry
        )
        self.deferred_accepted = Counter(
            "kubelet_pod_deferred_accepted_resizes_total",
            "Resizes accepted after waiting",
            ["retry_trigger"],
            registry=registry,
        )

    def observe_attempt(self, seconds: float, done: bool) -> None:
        self.duration.labels("true" if done else "false").observe(seconds * 1000)

    def count_conditions(self, states: Iterable[ResizeState]) -> None:
        found = list(states)
        for reason in ("Deferred", "Infeasible"):
            waiting = sum(each.pending is not None and each.pending.reason == reason for each in found)
            self.pending.labels(reason.lower()).set(waiting)
        self.in_progress.set(sum(each.progress is not None for each in found))

    def count_request(self, pod: Pod, allocated: Allocated) -> None:
        """Once for each figure that a new spec changes."""
        before = allocated.applied_to(pod)
        for old, new in zip(before.spec.all_containers, pod.spec.all_containers, strict=True):
            _count(self.containers, old.resources, new.resources)
        _count(self.pods, before.spec.resources, pod.spec.resources)


def _count(counter: Counter, before: ResourceRequirements | None, after: ResourceRequirements | None) -> None:
    old, new = before or ResourceRequirements(), after or ResourceRequirements()
    for requirement in ("requests", "limits"):
        was, now = getattr(old, requirement), getattr(new, requirement)
        for name in (CPU, MEMORY):
            operation = _operation(was.get(name), now.get(name))
            if operation:
                counter.labels(name, requirement, operation).inc()


def _operation(before: str | int | float | None, after: str | int | float | None) -> str:
    if before is None or after is None:
        return "" if before is after else ("add" if before is None else "remove")
    old, new = Quantity.parse(before), Quantity.parse(after)
    return "" if old == new else ("increase" if new > old else "decrease")
