"""Which events wake which waiting pods."""

import pytest
from tests.cluster.scheduler.scenery import affinity, anti_affinity, cluster, near, node, pod

from kohort.cluster.scheduler import requeue_hints
from kohort.cluster.scheduler.queue import QueuedPod
from kohort.objects.core import Node
from kohort.rules.scheduling.pod_and_node_info import PodInfo
from kohort.rules.scheduling.rejection import FilterName

FIT, AFFINITY, SPREAD = "NodeResourcesFit", "InterPodAffinity", "PodTopologySpread"


def waiting(info: PodInfo, *rejected_by: str) -> QueuedPod:
    return QueuedPod(info, 0.0, 0, rejected_by=frozenset(map(FilterName, rejected_by)))


@pytest.mark.parametrize(
    ("info", "rejected_by", "there", "expected"),
    [
        (pod("p", "cpu=1"), [FIT], node("n1", "cpu=1,memory=1Gi"), True),
        (pod("p", "cpu=2"), [FIT], node("n1", "cpu=1,memory=1Gi"), False),
        (pod("p"), [FIT], node("n1", unschedulable=True), True),
        (pod("p", "cpu=2"), [FIT, "TaintToleration"], node("n1", "cpu=1,memory=1Gi"), True),
        (pod("p"), ["TaintToleration"], node("n1", unschedulable=True), True),
        (pod("p"), [AFFINITY], node("n1", unschedulable=True), False),
        (pod("p"), [AFFINITY], node("n1"), True),
        (pod("p"), ["TaintToleration"], node("n1", taints="k:NoSchedule"), False),
        (pod("p", nodeSelector={"a": "b"}), ["NodeAffinity"], node("n1"), False),
        (pod("p", nodeSelector={"a": "b"}), ["NodeAffinity"], node("n1", labels={"a": "b"}), True),
        (pod("p", "cpu=99"), [], node("n1"), True),
    ],
)
def test_a_node_helps_if_it_passes_what_refused_the_pod(
    info: PodInfo, rejected_by: list[str], there: Node, expected: bool
) -> None:
    state = cluster(there)
    assert requeue_hints.node_added(state.nodes["n1"], state)(waiting(info, *rejected_by)) is expected


@pytest.mark.parametrize(
    ("after", "differs"),
    [
        (node("n1"), False),
        (node("n1", "cpu=5,memory=8Gi"), True),
        (node("n1", labels={"a": "b"}), True),
        (node("n1", taints="k:NoSchedule"), True),
        (node("n1", unschedulable=True), True),
        (node("n1", images={"i": 1}), False),
    ],
)
def test_heartbeats_wake_no_pod(after: Node, differs: bool) -> None:
    assert requeue_hints.node_differs(node("n1"), after) is differs


@pytest.mark.parametrize(
    ("asked", "before", "after", "expected"),
    [
        ("cpu=1", "cpu=2", "cpu=1", True),
        ("memory=1Gi", "cpu=2", "cpu=1", False),
        ("cpu=1", "cpu=1", "cpu=2", False),
        ("cpu=1", "cpu=1", "cpu=1", False),
        ("cpu=4", "cpu=2", "cpu=1", False),
        ("x.io/gpu=1", "x.io/gpu=2", "x.io/gpu=1", True),
        ("x.io/gpu=1", "x.io/gpu=1", "", True),
        ("x.io/gpu=2", "x.io/gpu=2", "x.io/gpu=1", False),
        ("", "cpu=2", "cpu=1", False),
    ],
)
def test_only_room_that_a_pod_asks_for_helps_it(asked: str, before: str, after: str, expected: bool) -> None:
    shrunk = pod("o", after, node_name="n1")
    there = cluster(node("n1", "cpu=4,memory=8Gi,x.io/gpu=2"), on={"n1": [shrunk]}).nodes["n1"]
    hint = requeue_hints.pod_shrank(pod("o", before, node_name="n1"), shrunk, there)
    assert hint(waiting(pod("p", asked), FIT)) is expected


@pytest.mark.parametrize(
    ("gone", "rejected_by", "expected"),
    [
        (pod("gone", "cpu=1"), [FIT], True),
        (pod("gone", "cpu=1"), ["NodePorts"], False),
        (pod("gone", containers=[{"name": "c", "ports": [{"hostPort": 80}]}]), ["NodePorts"], True),
        (pod("gone", "cpu=1"), ["VolumeRestrictions"], False),
        (
            pod("gone", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
            ["VolumeRestrictions"],
            True,
        ),
        (pod("gone"), [SPREAD], True),
        (pod("gone", namespace="other"), [SPREAD], False),
        (pod("gone"), ["TaintToleration"], False),
        (pod("gone"), ["VolumeBinding"], False),
        (pod("gone"), [], True),
    ],
)
def test_a_pod_that_leaves_frees_what_it_held(gone: PodInfo, rejected_by: list[str], expected: bool) -> None:
    there = cluster(node("n1")).nodes["n1"]
    assert requeue_hints.pod_removed(gone, there)(waiting(pod("p", "cpu=1"), *rejected_by)) is expected


@pytest.mark.parametrize(
    ("asked", "priority", "others", "expected"),
    [
        ("cpu=1", 0, ["cpu=3"], True),
        ("cpu=2", 0, ["cpu=3"], False),
        ("cpu=2", 1, ["cpu=3"], True),
        ("cpu=5", 1, ["cpu=3"], False),
        ("cpu=2", 0, [], True),
        ("cpu=5", 0, [], False),
        ("", 0, ["", "", ""], False),
    ],
)
def test_a_departure_helps_only_pods_for_which_the_node_has_room(
    asked: str, priority: int, others: list[str], expected: bool
) -> None:
    """Room beside the pods that stay, or room without those that the waiting pod could evict."""
    there = cluster(node("n1", pods=3), on={"n1": [pod(f"o{n}", text) for n, text in enumerate(others)]}).nodes["n1"]
    entry = waiting(pod("p", asked, priority=priority), FIT)
    assert requeue_hints.pod_removed(pod("gone", "cpu=1"), there)(entry) is expected


def test_a_departure_from_a_node_that_is_gone_frees_no_room() -> None:
    assert not requeue_hints.pod_removed(pod("gone", "cpu=1"), None)(waiting(pod("p", "cpu=1"), FIT))


def test_a_departure_helps_against_anti_affinity_of_either_side() -> None:
    grumpy = pod("g", affinity=anti_affinity(near({"app": "x"})))
    plain = pod("q")
    assert requeue_hints.pod_removed(grumpy, None)(waiting(plain, AFFINITY))
    assert requeue_hints.pod_removed(plain, None)(waiting(grumpy, AFFINITY))
    assert not requeue_hints.pod_removed(plain, None)(
        waiting(pod("r", affinity=affinity(near({"app": "x"}))), AFFINITY)
    )


def test_an_arrival_helps_those_who_want_company() -> None:
    lonely = waiting(pod("p", affinity=affinity(near({"app": "x"}))), AFFINITY)
    state = cluster()
    assert requeue_hints.pod_added(pod("q", labels={"app": "x"}), state)(lonely)
    assert not requeue_hints.pod_added(pod("q", labels={"app": "y"}), state)(lonely)
    assert not requeue_hints.pod_added(pod("q", labels={"app": "x"}, namespace="other"), state)(lonely)
    assert not requeue_hints.pod_added(pod("q"), state)(waiting(pod("p"), FIT))
    assert requeue_hints.pod_added(pod("q"), state)(waiting(pod("p"), SPREAD))
    assert not requeue_hints.pod_added(pod("q", namespace="other"), state)(waiting(pod("p"), SPREAD))


@pytest.mark.parametrize(("rejected_by", "expected"), [("VolumeBinding", True), (FIT, False)])
def test_storage_helps_those_who_wait_for_it(rejected_by: str, expected: bool) -> None:
    assert requeue_hints.storage_changed(waiting(pod(), rejected_by)) is expected
