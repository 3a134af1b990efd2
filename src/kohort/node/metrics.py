"""Metrics of the node, with the names that the kubelet uses."""

from collections import Counter as Counted
from collections.abc import Iterable
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kohort.kube import clock
from kohort.objects.pods import Pod, ResourceRequirements
from kohort.objects.quantity import Quantity
from kohort.resources import CPU, MEMORY, pod_level_set, stored_qos_class
from kohort.resources.effective import DEFERRED, INFEASIBLE
from kohort.rules.allocated_resources import Allocated
from kohort.rules.resize_conditions import ResizeState

BUCKETS = {
    "system-critical": 2_000_000_000,
    "high": 100_000,
    "medium": 1,
    "normal": 0,
    "low": -999,
    "very-low": -(1 << 31),
}
Resolution = Literal["accepted", "reverted", "terminated"]
_WAITS = (5, 10, 15, 20, 30, 45, 60, 90, 120, 150, 180, 300, 600, 1200, 1800, 3600)
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
        self.pending = Gauge(
            "kubelet_pod_pending_resizes", "Resizes that wait", ["reason", "priority_bucket"], registry=registry
        )
        self.deferred = Histogram(
            "kubelet_pod_deferred_resize_duration_seconds",
            "How long resizes have been deferred, and how that ended",
            ["resolution", "priority_bucket"],
            buckets=_WAITS,
            registry=registry,
        )
        self.admitted = Counter(
            "kubelet_pod_level_resources_admission_total",
            "Pods taken in, by where their resources are written",
            ["config_mode", "qos_class"],
            registry=registry,
        )
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

    def count_conditions(self, states: Iterable[tuple[Pod, ResizeState]]) -> None:
        found = list(states)
        waiting = Counted(
            (each.pending.reason, priority_bucket(pod)) for pod, each in found if each.pending is not None
        )
        for reason in (DEFERRED, INFEASIBLE):
            for bucket in BUCKETS:
                self.pending.labels(reason.lower(), bucket).set(waiting[reason, bucket])
        self.in_progress.set(sum(each.progress is not None for _, each in found))

    def observe_wait(self, pod: Pod, before: ResizeState, resolution: Resolution) -> None:
        """How long a resize was deferred, when that has ended; infeasible resizes are not measured."""
        pending = before.pending
        if pending is not None and pending.reason == DEFERRED and pending.last_transition_time:
            waited = clock.seconds() - clock.parse_time(pending.last_transition_time).timestamp()
            self.deferred.labels(resolution, priority_bucket(pod)).observe(max(waited, 0.0))

    def count_admission(self, pod: Pod) -> None:
        self.admitted.labels(config_mode(pod), stored_qos_class(pod).lower()).inc()

    def count_request(self, pod: Pod, allocated: Allocated) -> None:
        """Once for each figure that a new spec changes."""
        before = allocated.applied_to(pod)
        for old, new in zip(before.spec.all_containers, pod.spec.all_containers, strict=True):
            _count(self.containers, old.resources, new.resources)
        _count(self.pods, before.spec.resources, pod.spec.resources)


def priority_bucket(pod: Pod) -> str:
    """The kubelet's name for a range of priorities."""
    priority = pod.spec.priority or 0
    return next(name for name, least in BUCKETS.items() if priority >= least)


def config_mode(pod: Pod) -> str:
    """Where a pod's resources are written."""
    inside = any(each.resources.requests or each.resources.limits for each in pod.spec.all_containers)
    if pod_level_set(pod.spec):
        return "pod_and_container_level" if inside else "pod_level"
    return "container_level" if inside else "empty"


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
