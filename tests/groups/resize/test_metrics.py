"""What is measured of resizes in place."""

import pytest
from prometheus_client import CollectorRegistry
from tests.groups.resize.test_group_resizes import (
    cluster_with_groups,
    condition,
    create,
    edit,
    order,
    resizable,
    resized,
    status,
)

from kohort.groups.resize.metrics import ResizeMetrics, ResizeOutcome, outcome_of
from kohort.groups.resize.pod_progress import ResizeStage
from kohort.groups.resize.record import Phase, ResizeRecord
from kohort.kube.resources import Key
from kohort.testing import Cluster

KEY = Key("default", "llm")


def record(phase: Phase | None) -> ResizeRecord | None:
    return None if phase is None else ResizeRecord("new", phase, 0.0)


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        (None, Phase.RESIZING, None),
        (None, Phase.REVERTED, ResizeOutcome.REFUSED),
        (None, Phase.RECREATE, ResizeOutcome.RECREATED),
        (Phase.RESIZING, Phase.REVERTING, None),
        (Phase.REVERTING, Phase.REVERTED, ResizeOutcome.REVERTED),
        (Phase.REVERTING, Phase.RECREATE, ResizeOutcome.RECREATED),
        (Phase.REVERTING, None, ResizeOutcome.SUPERSEDED),
        (Phase.REVERTED, None, None),
        (Phase.RECREATE, None, None),
    ],
)
def test_outcome(before: Phase | None, after: Phase | None, outcome: ResizeOutcome | None) -> None:
    assert outcome_of(record(before), record(after)) is outcome


def figures(registry: CollectorRegistry, name: str, label: str) -> dict[str, float]:
    samples = [one for family in registry.collect() for one in family.samples if one.name == name]
    return {one.labels.get(label, ""): one.value for one in samples}


def test_a_set_takes_its_series_along() -> None:
    registry = CollectorRegistry()
    metrics = ResizeMetrics(registry)
    metrics.count(KEY, ResizeOutcome.ADOPTED, 2.0)
    metrics.count(KEY, ResizeOutcome.REFUSED, 0.0)
    metrics.saw(KEY, {ResizeStage.DEFERRED: 1})
    assert figures(registry, "kohort_group_resize_duration_seconds_count", "name") == {"llm": 1}
    assert figures(registry, "kohort_group_resize_pods", "state")["Deferred"] == 1
    metrics.forget(KEY)
    assert [one for family in registry.collect() for one in family.samples] == []


def registry_of(cluster: Cluster) -> CollectorRegistry:
    manager = cluster.parts["operator"].manager
    assert manager is not None
    return manager.metrics.registry


def outcomes(cluster: Cluster) -> dict[str, float]:
    return figures(registry_of(cluster), "kohort_group_resizes_total", "outcome")


async def test_resizes_are_counted_by_outcome_and_pods_by_state() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly", deadline=60).size(3))
        await edit(cluster)
        await cluster.until(lambda: resized(cluster))
        assert outcomes(cluster) == {"adopted": 1}
        await order(cluster, "llm-0-2", resize="deferred")
        await edit(cluster, cpu="300m")
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "Deferred")
        registry = registry_of(cluster)
        states = figures(registry, "kohort_group_resize_pods", "state")
        assert {state: count for state, count in states.items() if count} == {"Deferred": 1, "Complete": 2}
        await cluster.until(lambda: status(cluster).get("resize", {}).get("state") == "Stopped")
        assert outcomes(cluster) == {"adopted": 1, "reverted": 1}
        assert figures(registry, "kohort_group_resize_pods", "state") == {}
