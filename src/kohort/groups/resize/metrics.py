"""What is measured of groups whose resources change in place."""

from collections.abc import Iterator, Mapping
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from kohort.groups.resize.pod_progress import ResizeStage
from kohort.groups.resize.record import Phase, ResizeRecord
from kohort.kube.resources import Key

_SET = ("namespace", "name")
_SECONDS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 420, 900, 1800, 3600)


class ResizeOutcome(StrEnum):
    """How the resize of a group ended; a label value of `kohort_group_resizes_total`."""

    ADOPTED = "adopted"
    REVERTED = "reverted"
    RECREATED = "recreated"
    REFUSED = "refused"
    SUPERSEDED = "superseded"


def outcome_of(before: ResizeRecord | None, after: ResizeRecord | None) -> ResizeOutcome | None:
    """What a change of the record of a group means; None if its resize goes on.

    | before | after | outcome |
    |---|---|---|
    | nothing | Reverted | refused: nothing was touched |
    | nothing | Recreate | recreated |
    | Reverted | Recreate | recreated: the policy of the set changed |
    | Resizing, Reverting | Reverted | reverted |
    | Resizing, Reverting | Recreate | recreated |
    | Resizing, Reverting | nothing | superseded: another revision is wanted by now |
    """
    under_way = before is not None and before.under_way
    if after is None:
        return ResizeOutcome.SUPERSEDED if under_way else None
    if after.phase is Phase.RECREATE:
        return ResizeOutcome.RECREATED
    if after.phase is Phase.REVERTED:
        return ResizeOutcome.REVERTED if under_way else ResizeOutcome.REFUSED
    return None


class ResizeMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._ended = Counter(
            "kohort_group_resizes_total",
            "Groups whose resize in place has ended, by how it ended.",
            (*_SET, "outcome"),
            registry=registry,
        )
        self._seconds = Histogram(
            "kohort_group_resize_duration_seconds",
            "From the first write for a group to its end: all of its pods have the new resources, or the old ones.",
            _SET,
            buckets=_SECONDS,
            registry=registry,
        )
        self._pods = PodsByState(registry)

    def count(self, key: Key, outcome: ResizeOutcome, seconds: float) -> None:
        """`seconds` since the first write for the group; 0 if there was none."""
        self._ended.labels(key.namespace, key.name, outcome.value).inc()
        if seconds > 0:
            self._seconds.labels(key.namespace, key.name).observe(seconds)

    def saw(self, key: Key, pods: Mapping[ResizeStage, int]) -> None:
        """How far the pods of groups under way are."""
        self._pods.saw(key, pods)

    def forget(self, key: Key) -> None:
        self._pods.saw(key, {})
        _remove(self._seconds, key.namespace, key.name)
        for outcome in ResizeOutcome:
            _remove(self._ended, key.namespace, key.name, outcome.value)


def _remove(metric: MetricWrapperBase, *labels: str) -> None:
    try:
        metric.remove(*labels)
    except KeyError:
        return


class PodsByState(Collector):
    """Made when the metrics are scraped: a set without groups under way has no series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._pods: dict[Key, Mapping[ResizeStage, int]] = {}
        registry.register(self)

    def saw(self, key: Key, pods: Mapping[ResizeStage, int]) -> None:
        if pods:
            self._pods[key] = pods
        else:
            self._pods.pop(key, None)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        text = "Pods of groups that are being resized in place, by how far they are."
        family = GaugeMetricFamily("kohort_group_resize_pods", text, labels=(*_SET, "state"))
        for key, pods in self._pods.items():
            for progress in ResizeStage:
                family.add_metric((key.namespace, key.name, progress.value), float(pods.get(progress, 0)))
        yield family
