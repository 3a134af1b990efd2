"""The scheduler's metrics, under the names of kube-scheduler, and the requests and limits of pods.

`kube_pod_resource_request` and `kube_pod_resource_limit` are computed on each scrape, from the pods that the
scheduler knows: effective values of the spec, overhead included, per resource; nothing for finished pods and zero
values, and no limit where one container has none, as in `status.resources` of a pod without a pending resize.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from kohort import resources
from kohort.cluster.scheduler.queue import QueueState, SchedulingQueue
from kohort.kube.fast_counters import Families
from kohort.objects.pods import Pod
from kohort.objects.quantity import Quantity

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import GaugeMetricFamily

LABELS = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")


class Sample(msgspec.Struct, frozen=True):
    labels: tuple[str, ...]
    value: float


def request_samples(pods: Iterable[Pod]) -> Iterator[Sample]:
    for pod in pods:
        if not pod.finished:
            yield from _samples(pod, resources.requests(pod))


def limit_samples(pods: Iterable[Pod]) -> Iterator[Sample]:
    for pod in pods:
        if not pod.finished:
            yield from _samples(pod, resources.binding_limits(pod))


def _samples(pod: Pod, amounts: resources.Amounts) -> Iterator[Sample]:
    spec = pod.spec
    priority = "" if spec.priority is None else str(spec.priority)
    known = (pod.metadata.namespace, pod.metadata.name, spec.node_name, spec.scheduler_name, priority)
    for name, amount in sorted(amounts.items()):
        if amount:
            yield Sample((*known, name, _unit(name)), _number(name, amount))


def _unit(name: str) -> str:
    if name == resources.CPU:
        return "cores"
    if name in (resources.MEMORY, resources.EPHEMERAL_STORAGE, "storage") or name.startswith("hugepages-"):
        return "bytes"
    return "integer" if name.startswith("attachable-volumes-") else ""


def _number(name: str, amount: Quantity) -> float:
    whole = Quantity.of_milli(amount.milli) if name == resources.CPU else Quantity.of(amount.value)
    return whole.approximate


class SchedulerMetrics:
    def __init__(self, registry: "CollectorRegistry", queue: SchedulingQueue, scheduler: str) -> None:
        import prometheus_client as prometheus

        counted = Families()
        registry.register(counted)
        attempts = counted.counter("scheduler_schedule_attempts", "Decisions by result", "result", "profile")
        self._by_result = {
            result: attempts.labels(result, scheduler) for result in ("scheduled", "unschedulable", "error")
        }
        tries = counted.histogram(
            "scheduler_pod_scheduling_attempts", "Attempts until a pod had its node", bounds=(1, 2, 4, 8, 16)
        )
        self._tries = tries.labels()
        decisions = counted.histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Time to decide",
            bounds=(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25),
        )
        self._decisions = decisions.labels()
        victims = counted.histogram(
            "scheduler_preemption_victims", "Pods that had to go", bounds=(1, 2, 4, 8, 16, 32, 64)
        )
        self._victims = victims.labels()
        pending = prometheus.Gauge("scheduler_pending_pods", "Pods that wait for a node", ["queue"], registry=registry)
        for state in (QueueState.ACTIVE, QueueState.BACKOFF, QueueState.UNSCHEDULABLE):
            pending.labels(state.value).set_function(partial(_count, queue, state))

    def attempt(self, result: str, tries: int = 0) -> None:
        self._by_result[result].inc()
        if tries:
            self._tries.observe(tries)

    def preempted(self, victims: int) -> None:
        self._victims.observe(victims)

    def decided(self, seconds: float) -> None:
        self._decisions.observe(seconds)


def _count(queue: SchedulingQueue, state: QueueState) -> float:
    return float(queue.count(state))


class ResourceCollector:
    """Registered with a Prometheus registry; reads the pods when it is scraped."""

    def __init__(self, pods: Callable[[], Iterable[Pod]]) -> None:
        self._pods = pods

    def collect(self) -> "Iterator[GaugeMetricFamily]":
        from prometheus_client.core import GaugeMetricFamily

        families = (
            ("kube_pod_resource_request", "What pods request of their nodes", request_samples),
            ("kube_pod_resource_limit", "What pods may use at most", limit_samples),
        )
        for name, help, samples in families:
            family = GaugeMetricFamily(name, help, labels=LABELS)
            for sample in samples(self._pods()):
                family.add_metric(sample.labels, sample.value)
            yield family
