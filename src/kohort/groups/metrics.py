"""What is measured of groups.

Most series are about a set. Those about one group have its index as a label, and there could be very many of them: so
only the first groups of a set have series of their own, and the others count together. They are made when the
metrics are scraped, from what the last reconcile has seen; a group that is gone has no series any more.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from kohort.groups.resize.metrics import ResizeMetrics
from kohort.groups.restart_decision import RestartCause
from kohort.kube.resources import Key
from kohort.rules.group_state import ABSENT, GroupState

_SECONDS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)
_SET = ("namespace", "name")
_GROUP = (*_SET, "group")

SINGLE_GROUPS: Final = 100
"""Groups of a set below this index have series of their own."""


def group_label(index: int) -> str:
    """
    >>> group_label(7), group_label(100), group_label(523)
    ('7', '100+', '100+')
    """
    return str(index) if index < SINGLE_GROUPS else f"{SINGLE_GROUPS}+"


class GroupMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str) -> Gauge:
            return Gauge(name, text, _SET, registry=registry)

        def histogram(name: str, text: str) -> Histogram:
            return Histogram(name, text, _SET, buckets=_SECONDS, registry=registry)

        def counter(name: str, text: str, labels: tuple[str, ...] = _SET) -> Counter:
            return Counter(name, text, labels, registry=registry)

        self.wanted = gauge("kohort_groups_desired", "Groups that a set should have.")
        self.existing = gauge("kohort_groups_existing", "Groups whose leader exists, surge included.")
        self.ready = gauge("kohort_groups_ready", "Groups that are ready.")
        self.updated = gauge("kohort_groups_updated", "Groups at the wanted revision.")
        self.partition = gauge("kohort_groups_roll_partition", "Groups below this index are not rolled yet.")
        self.held = gauge(
            "kohort_groups_held_partition", "Groups below this index keep their revision, because the set says so."
        )
        self.surge = gauge("kohort_groups_surge", "Groups above the wanted number, made for a roll.")
        self.missed = counter(
            "kohort_group_pods_without_webhook_total",
            "Pods replaced because they were created while the pod webhook was away.",
        )
        self.rolls = counter("kohort_group_rolls_total", "Rolls begun.")
        self.roll_seconds = histogram(
            "kohort_group_roll_duration_seconds", "From a changed template to all groups ready at it."
        )
        self.ready_seconds = histogram(
            "kohort_group_time_to_ready_seconds", "From the creation of a leader to its group being ready."
        )
        self._restarts = counter(
            "kohort_group_restarts_total",
            "Groups recreated as a whole, by what happened to the pod that caused it.",
            (*_GROUP, "reason"),
        )
        self._restarted: dict[Key, set[tuple[str, ...]]] = {}
        """Labels of the restarts of a set that were counted."""
        self.singly = SingleGroups(registry)
        self.resizes = ResizeMetrics(registry)

    def count_restart(self, key: Key, index: int, cause: RestartCause) -> None:
        """Group `index` of a set is recreated, because a pod of it was deleted or has restarted."""
        labels = (key.namespace, key.name, group_label(index), cause.value)
        self._restarted.setdefault(key, set()).add(labels)
        self._restarts.labels(*labels).inc()

    def forget(self, key: Key) -> None:
        """A set is gone: its series must not stay at their last value."""
        gauges = (self.wanted, self.existing, self.ready, self.updated, self.partition, self.held, self.surge)
        for metric in (*gauges, self.missed, self.rolls, self.roll_seconds, self.ready_seconds):
            _remove(metric, key.namespace, key.name)
        for labels in self._restarted.pop(key, ()):
            _remove(self._restarts, *labels)
        self.singly.forget(key)


def _remove(metric: MetricWrapperBase, *labels: str) -> None:
    try:
        metric.remove(*labels)
    except KeyError:
        return


class _Seen(msgspec.Struct):
    wanted: int = 0
    states: Mapping[int, GroupState] = {}
    seconds: dict[int, float] = {}
    """How long each group took to become ready, when it last did."""


class SingleGroups(Collector):
    """Series about the first groups of every set."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seen: dict[Key, _Seen] = {}
        self._families = (
            Family("kohort_group_ready", "1 while this group is ready, else 0."),
            Family("kohort_group_updated", "1 while this group is at the wanted revision, else 0."),
            Family("kohort_group_last_time_to_ready_seconds", "Time to ready of this group, when it last became so."),
        )
        registry.register(self)

    def saw(self, key: Key, wanted: int, states: Mapping[int, GroupState]) -> None:
        seen = self._seen.setdefault(key, _Seen())
        seen.wanted, seen.states = wanted, states

    def became_ready(self, key: Key, index: int, seconds: float) -> None:
        if index < SINGLE_GROUPS:
            self._seen.setdefault(key, _Seen()).seconds[index] = seconds

    def forget(self, key: Key) -> None:
        self._seen.pop(key, None)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        families = ready, updated, seconds = [family.metric() for family in self._families]
        for key, seen in self._seen.items():
            indexes = {*range(min(seen.wanted, SINGLE_GROUPS)), *(one for one in seen.states if one < SINGLE_GROUPS)}
            for index in sorted(indexes):
                labels = (key.namespace, key.name, str(index))
                state = seen.states.get(index, ABSENT)
                ready.add_metric(labels, float(state.ready))
                updated.add_metric(labels, float(state.updated))
                if index in seen.seconds:
                    seconds.add_metric(labels, seen.seconds[index])
        yield from families


class Family:
    """A series about one group, without values."""

    label_names = _GROUP

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text

    def metric(self) -> GaugeMetricFamily:
        return GaugeMetricFamily(self.name, self.text, labels=self.label_names)
