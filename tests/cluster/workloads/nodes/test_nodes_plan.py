"""Which taints a node has, and when its pods must leave."""

import pytest

from kohort.cluster.workloads.nodes.plan import health_taints, seconds_to_stay, wanted_taints
from kohort.objects.core import Node, NodeSpec, NodeStatus, Pod, PodSpec, Taint, Toleration
from kohort.objects.meta import Condition


def node(*conditions: tuple[str, str], unschedulable: bool = False, taints: tuple[Taint, ...] = ()) -> Node:
    status = NodeStatus(conditions=tuple(Condition(type, status) for type, status in conditions))
    return Node(spec=NodeSpec(unschedulable=unschedulable, taints=taints), status=status)


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (node(), []),
        (node(("Ready", "True")), []),
        (
            node(("Ready", "False")),
            ["node.kubernetes.io/not-ready:NoSchedule", "node.kubernetes.io/not-ready:NoExecute"],
        ),
        (
            node(("Ready", "Unknown")),
            ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"],
        ),
        (node(("Ready", "True"), ("MemoryPressure", "True")), ["node.kubernetes.io/memory-pressure:NoSchedule"]),
        (node(("Ready", "True"), unschedulable=True), ["node.kubernetes.io/unschedulable:NoSchedule"]),
    ],
)
def test_what_a_condition_means(subject: Node, expected: list[str]) -> None:
    assert [str(taint) for taint in health_taints(subject)] == expected


def test_taints_of_others_stay_and_ours_go_when_their_cause_is_gone() -> None:
    mine, theirs = Taint("node.kubernetes.io/not-ready", "NoSchedule"), Taint("gpu", "NoSchedule")
    assert wanted_taints(node(("Ready", "True"), taints=(mine, theirs)), "now") == [theirs]
    assert wanted_taints(node(("Ready", "True"), taints=(theirs,)), "now") is None


def pod(*tolerations: Toleration) -> Pod:
    return Pod(spec=PodSpec(tolerations=tolerations))


def test_how_long_a_pod_may_stay() -> None:
    away = Taint("node.kubernetes.io/unreachable", "NoExecute")
    tolerant = Toleration("node.kubernetes.io/unreachable", "Exists")
    patient = Toleration("node.kubernetes.io/unreachable", "Exists", effect="NoExecute", toleration_seconds=300)
    assert seconds_to_stay(pod(), [away]) == 0
    assert seconds_to_stay(pod(tolerant), [away]) is None
    assert seconds_to_stay(pod(patient), [away]) == 300
    assert seconds_to_stay(pod(patient), [away, Taint("other", "NoExecute")]) == 0
    assert seconds_to_stay(pod(), [Taint("gpu", "NoSchedule")]) is None
