"""What is measured of groups."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kohort.kube.resources import Key

_SECONDS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)
_SET = ("namespace", "name")


class GroupMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str) -> Gauge:
            return Gauge(name, text, _SET, registry=registry)

        self.wanted = gauge("kohort_groups_desired", "Groups that a set should have.")
        self.existing = gauge("kohort_groups_existing", "Groups whose leader exists, surge included.")
        self.ready = gauge("kohort_groups_ready", "Groups that are ready.")
        self.updated = gauge("kohort_groups_updated", "Groups at the wanted revision.")
        self.partition = gauge("kohort_groups_roll_partition", "Groups below this index are not rolled yet.")
        self.surge = gauge("kohort_groups_surge", "Groups above the wanted number, made for a roll.")
        self.restarts = Counter(
            "kohort_group_restarts_total",
            "Groups recreated as a whole, by what happened to the pod that caused it.",
            (*_SET, "reason"),
            registry=registry,
        )
        self.missed = Counter(
            "kohort_group_pods_without_webhook_total",
            "Pods replaced because they were created while the pod webhook was away.",
            _SET,
            registry=registry,
        )
        self.rolls = Counter("kohort_group_rolls_total", "Rolls begun.", _SET, registry=registry)
        self.roll_seconds = Histogram(
            "kohort_group_roll_duration_seconds",
            "From a changed template to all groups ready at it.",
            _SET,
            buckets=_SECONDS,
            registry=registry,
        )
        self.ready_seconds = Histogram(
            "kohort_group_time_to_ready_seconds",
            "From the creation of a leader to its group being ready.",
            _SET,
            buckets=_SECONDS,
            registry=registry,
        )

    def forget(self, key: Key) -> None:
        """A set is gone: its gauges must not stay at their last value."""
        labels = (key.namespace, key.name)
        for metric in (self.wanted, self.existing, self.ready, self.updated, self.partition, self.surge):
            try:
                metric.remove(*labels)
            except KeyError:
                continue
