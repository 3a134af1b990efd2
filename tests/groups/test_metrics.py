"""Series about single groups."""

from prometheus_client import CollectorRegistry

from kohort.groups.metrics import GroupMetrics
from kohort.groups.restart_decision import RestartCause
from kohort.kube.resources import Key
from kohort.rules.group_state import GroupState

KEY = Key("default", "llm")


def figures(registry: CollectorRegistry, name: str) -> dict[str, float]:
    """By group."""
    samples = [one for family in registry.collect() for one in family.samples if one.name == name]
    return {one.labels["group"]: one.value for one in samples}


def test_a_group_that_is_wanted_and_not_there_is_not_ready() -> None:
    registry = CollectorRegistry()
    metrics = GroupMetrics(registry)
    metrics.singly.saw(KEY, 2, {0: GroupState(ready=True, updated=False), 2: GroupState(ready=False, updated=True)})
    assert figures(registry, "kohort_group_ready") == {"0": 1, "1": 0, "2": 0}
    assert figures(registry, "kohort_group_updated") == {"0": 0, "1": 0, "2": 1}


def test_a_large_set_has_no_more_series_than_the_first_groups_need() -> None:
    registry = CollectorRegistry()
    metrics = GroupMetrics(registry)
    metrics.singly.saw(KEY, 1000, dict.fromkeys(range(1000), GroupState(ready=True, updated=True)))
    for index in (3, 3, 99, 100, 999):
        metrics.count_restart(KEY, index, RestartCause.POD_RESTARTED)
        metrics.singly.became_ready(KEY, index, 5.0)
    assert len(figures(registry, "kohort_group_ready")) == 100
    assert figures(registry, "kohort_group_restarts_total") == {"3": 2, "99": 1, "100+": 2}
    assert figures(registry, "kohort_group_last_time_to_ready_seconds") == {"3": 5, "99": 5}


def test_a_set_takes_its_series_along() -> None:
    registry = CollectorRegistry()
    metrics = GroupMetrics(registry)
    metrics.rolls.labels("default", "llm").inc()
    metrics.ready.labels("default", "llm").set(1)
    metrics.count_restart(KEY, 0, RestartCause.POD_DELETED)
    metrics.singly.saw(KEY, 1, {})
    metrics.forget(KEY)
    assert [one for family in registry.collect() for one in family.samples] == []
    metrics.forget(KEY)
