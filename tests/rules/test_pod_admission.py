"""Whether a node has room for a pod."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.node.resizing import sized

from kohort.resources import Amounts, amounts_of, summed
from kohort.rules.node_feature_gates import NodeGates
from kohort.rules.pod_admission import AdmittedPods, is_rejection, pod_level_rejection, room_rejection
from kohort.rules.resize_decision import NodeFacts

ROOM = amounts_of({"cpu": "4", "memory": "8Gi", "pods": "2", "example.com/gpu": "1"})


@pytest.mark.parametrize(
    ("wanted", "pods", "used", "reason"),
    [
        ({}, 0, {}, ""),
        ({"cpu": "4"}, 1, {}, ""),
        ({"cpu": "1"}, 2, {}, "OutOfpods"),
        ({"cpu": "1"}, 1, {"cpu": "3500m"}, "OutOfcpu"),
        ({"memory": "9Gi"}, 0, {}, "OutOfmemory"),
        ({"example.com/gpu": "1"}, 1, {"example.com/gpu": "1"}, "OutOfexample.com/gpu"),
        ({"example.com/unknown": "1"}, 0, {}, ""),
        ({"memory": "1Gi"}, 1, {"cpu": "40"}, ""),
    ],
)
def test_a_pod_is_rejected_for_what_the_node_lacks(
    wanted: dict[str, str], pods: int, used: dict[str, str], reason: str
) -> None:
    found = room_rejection(amounts_of(wanted), pods, amounts_of(used), ROOM)
    assert (found.reason if found is not None else "") == reason


def test_the_message_is_that_of_a_kubelet() -> None:
    found = room_rejection(amounts_of({"cpu": "1"}), 1, amounts_of({"cpu": "3500m"}), ROOM)
    assert found is not None
    assert found.message == "Node didn't have enough resource: cpu, requested: 1000, used: 3500, capacity: 4000"


NO_GATE = NodeGates(pod_level_resources=False)
CGROUPS = "Pod-level resources need a node with writable cgroup v2"


@pytest.mark.parametrize(
    ("pod", "node", "message"),
    [
        ("100m", NodeFacts({}), ""),
        ("100m", NodeFacts({}, NO_GATE), "Pod-level resources are not enabled on this node"),
        ("100m", NodeFacts({}, cgroup_v2=False), CGROUPS),
        ("100m", NodeFacts({}, linux=False), CGROUPS),
        (None, NodeFacts({}, NO_GATE, linux=False, cgroup_v2=False), ""),
    ],
)
def test_a_pod_with_resources_of_its_own_needs_a_node_that_limits_pods(
    pod: str | None, node: NodeFacts, message: str
) -> None:
    found = pod_level_rejection(sized(pod=pod, c1="50m"), node)
    assert (found.message if found is not None else "") == message
    assert found is None or found.reason == "PodLevelResourcesNotSupported"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-1, 4))))
def test_the_sum_is_that_of_the_pods_that_are_there(changes: list[tuple[str, int]]) -> None:
    """A negative amount stands for a pod that has ended."""
    admitted = AdmittedPods()
    there: dict[str, Amounts] = {}
    for uid, cpus in changes:
        if cpus < 0:
            admitted.drop(uid)
            there.pop(uid, None)
        else:
            there[uid] = amounts_of({"cpu": str(cpus)})
            admitted.put(uid, there[uid])
    assert len(admitted) == len(there)
    assert {name: each for name, each in admitted.used.items() if each} == {
        name: each for name, each in summed(there.values()).items() if each
    }
    admitted.keep({"a"})
    assert len(admitted) == ("a" in there)


@pytest.mark.parametrize(
    ("reason", "rejects"),
    [
        ("OutOfcpu", True),
        ("OutOfexample.com/gpu", True),
        ("NodePorts", True),
        ("SysctlForbidden", True),
        ("PodOSNotSupported", True),
        ("FailedMount", False),
        ("BackOff", False),
        ("", False),
    ],
)
def test_reasons_that_say_that_a_node_rejected_a_pod(reason: str, rejects: bool) -> None:
    assert is_rejection(reason) is rejects
