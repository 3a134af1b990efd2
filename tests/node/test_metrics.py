"""What a node counts (rows Z7, Z8, Z10 and Z14 of the checklist)."""

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from tests.node.resizing import sized

from kohort.kube import clock
from kohort.node.metrics import NodeMetrics, priority_bucket
from kohort.objects.node_pods import NodePod
from kohort.rules.allocated_resources import Allocated, Desired
from kohort.rules.resize_conditions import ResizeState, accepted, failed, refused
from kohort.rules.resize_decision import Deferred, Infeasible, NodePressure, NotSupported

POD = sized(c1="1")


def counted(metrics: NodeMetrics, registry: CollectorRegistry) -> dict[str, float]:
    """Everything that is not zero, by name and values of labels."""
    return {
        " ".join((sample.name.removeprefix("kubelet_"), *sample.labels.values())): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.value and not sample.name.endswith(("_created", "_bucket", "_sum"))
    }


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> NodeMetrics:
    return NodeMetrics(registry)


def test_z7_what_waits_and_what_is_under_way(metrics: NodeMetrics, registry: CollectorRegistry) -> None:
    deferred, _ = refused(ResizeState(), Deferred(NodePressure("later")), POD, "t")
    infeasible, _ = refused(ResizeState(), Infeasible(NotSupported.RESIZE_GATE_OFF), POD, "t")
    under_way, _ = failed(accepted(POD, "t")[0], "below usage", POD, "t")
    important = sized(c1="1", priority=200_000)
    metrics.count_conditions([(POD, deferred), (POD, infeasible), (important, infeasible), (POD, under_way)])
    assert counted(metrics, registry) == {
        "pod_pending_resizes deferred normal": 1,
        "pod_pending_resizes infeasible normal": 1,
        "pod_pending_resizes infeasible high": 1,
        "pod_in_progress_resizes": 1,
    }
    metrics.count_conditions([(POD, ResizeState())])
    assert counted(metrics, registry) == {}


def test_z8_how_long_resizes_were_deferred(metrics: NodeMetrics, registry: CollectorRegistry) -> None:
    deferred, _ = refused(ResizeState(), Deferred(NodePressure("later")), POD, clock.timestamp())
    infeasible, _ = refused(ResizeState(), Infeasible(NotSupported.RESIZE_GATE_OFF), POD, clock.timestamp())
    for state in (ResizeState(), infeasible):
        metrics.observe_wait(POD, state, "accepted")
    assert counted(metrics, registry) == {}
    for resolution in ("accepted", "reverted", "terminated"):
        metrics.observe_wait(POD, deferred, resolution)
    assert counted(metrics, registry) == {
        f"pod_deferred_resize_duration_seconds_count {resolution} normal": 1
        for resolution in ("accepted", "reverted", "terminated")
    }


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"c1": "1"}, {"c1": "2"}, {"container_requested_resizes_total cpu requests increase": 1}),
        ({"c1": "2"}, {"c1": "1"}, {"container_requested_resizes_total cpu requests decrease": 1}),
        ({"c1": ""}, {"c1": "-:-/1Gi"}, {"container_requested_resizes_total memory limits add": 1}),
        ({"c1": "-/1Gi"}, {"c1": ""}, {"container_requested_resizes_total memory requests remove": 1}),
        ({"c1": "1"}, {"c1": "1000m"}, {}),
        (
            {"c1": "1", "c2": "1"},
            {"c1": "2:2", "c2": "2"},
            {
                "container_requested_resizes_total cpu requests increase": 2,
                "container_requested_resizes_total cpu limits add": 1,
            },
        ),
        ({"c1": "", "pod": "1"}, {"c1": "", "pod": "2"}, {"pod_requested_resizes_total cpu requests increase": 1}),
    ],
)
def test_z10_w8_what_was_asked_for(
    metrics: NodeMetrics,
    registry: CollectorRegistry,
    before: dict[str, str],
    after: dict[str, str],
    expected: dict[str, float],
) -> None:
    held = Allocated.accepting(Desired.of(sized(**before).spec))  # type: ignore[arg-type]
    metrics.count_request(sized(**after), held)  # type: ignore[arg-type]
    assert counted(metrics, registry) == expected


@pytest.mark.parametrize(
    ("pod", "mode"),
    [
        (sized(pod="1", c1="1"), "pod_and_container_level"),
        (sized(pod="1", c1=""), "pod_level"),
        (sized(c1="1"), "container_level"),
        (sized(c1=""), "empty"),
    ],
)
def test_z14_where_resources_are_written(
    metrics: NodeMetrics, registry: CollectorRegistry, pod: NodePod, mode: str
) -> None:
    metrics.count_admission(pod)
    assert counted(metrics, registry) == {f"pod_level_resources_admission_total {mode} burstable": 1}


@pytest.mark.parametrize(
    ("priority", "bucket"),
    [
        (2_000_001_000, "system-critical"),
        (100_000, "high"),
        (99_999, "medium"),
        (0, "normal"),
        (-1, "low"),
        (-999, "low"),
        (-1000, "very-low"),
    ],
)
def test_priorities_have_names(priority: int, bucket: str) -> None:
    pod = sized(c1="")
    spec = msgspec.structs.replace(pod.spec, priority=priority)
    assert priority_bucket(msgspec.structs.replace(pod, spec=spec)) == bucket
