"""Whether a resize is accepted, deferred or infeasible."""

import msgspec
import pytest
from tests.node.resizing import sized

from kohort.objects.pods import Pod
from kohort.objects.quantity import Quantity
from kohort.rules.allocated_resources import Allocated, Desired
from kohort.rules.node_feature_gates import NodeGates
from kohort.rules.resize_decision import Accepted, Deferred, Infeasible, NodeFacts, Reverted, increases, judge
from kohort.rules.resize_queue import Waiting, in_order

ROOM = NodeFacts({"cpu": Quantity.parse("1"), "memory": Quantity.parse("1Gi")})


def held(pod: Pod) -> Allocated:
    return Allocated.accepting(Desired.of(pod.spec))


@pytest.mark.parametrize(
    ("before", "after", "grows"),
    [
        ({"c1": "100m"}, {"c1": "200m"}, True),
        ({"c1": "100m/100Mi"}, {"c1": "200m/50Mi"}, True),
        ({"c1": "100m", "c2": "200m"}, {"c1": "200m", "c2": "100m"}, False),
        ({"c1": ""}, {"c1": "100m"}, True),
        ({"pod": "100m", "c1": ""}, {"pod": "200m", "c1": ""}, True),
        ({"pod": "-/100Mi", "c1": ""}, {"pod": "-/50Mi", "c1": ""}, False),
        ({"pod": "100m/100Mi", "c1": ""}, {"pod": "200m/50Mi", "c1": ""}, True),
        ({"pod": "300m", "c1": "100m"}, {"pod": "300m", "c1": "200m"}, False),
    ],
)
def test_what_counts_as_growth(before: dict[str, str], after: dict[str, str], grows: bool) -> None:
    assert increases(sized(**after), held(sized(**before))) == grows  # type: ignore[arg-type]


def test_asking_for_what_one_has_is_no_resize() -> None:
    assert judge(sized(c1="1000m"), held(sized(c1="1")), [], ROOM) == Reverted()


@pytest.mark.parametrize(
    ("node", "detail"),
    [
        ({"gates": NodeGates(resize=False)}, "feature_gate_off"),
        ({"linux": False}, "unsupported_os"),
        ({"gates": NodeGates(pod_level_resize=False)}, "plr_feature_gate_off"),
        ({"cgroup_v2": False}, "cgroups_v1_unsupported"),
        ({"exclusive_cpus": True}, "guaranteed_pod_cpu_manager_static_policy"),
    ],
)
def test_what_a_node_cannot_do_is_infeasible(node: dict[str, bool | NodeGates], detail: str) -> None:
    facts = msgspec.structs.replace(ROOM, **node)
    verdict = judge(sized(pod="200m", c1=""), held(sized(pod="100m", c1="")), [], facts)
    assert isinstance(verdict, Infeasible) and verdict.detail == detail


def test_w6_more_than_the_node_has_is_infeasible_and_more_than_is_free_is_deferred() -> None:
    pod, others = sized(c1="100m"), [sized("u2", c1="700m")]
    big = judge(sized(c1="1001m"), held(pod), others, ROOM)
    assert isinstance(big, Infeasible)
    assert big.message == "Node didn't have enough capacity: cpu, requested: 1001, capacity: 1000"
    late = judge(sized(c1="400m"), held(pod), others, ROOM)
    assert isinstance(late, Deferred) and late.code == "OutOfcpu"
    assert late.message == "Node didn't have enough resource: cpu, requested: 400, used: 700, capacity: 1000"
    assert isinstance(judge(sized(c1="300m"), held(pod), others, ROOM), Accepted)


def test_w21_pressure_defers_growth_and_never_a_decrease() -> None:
    facts = NodeFacts(ROOM.allocatable, pressure="the node is low on memory")
    assert isinstance(judge(sized(c1="200m"), held(sized(c1="100m")), [], facts), Deferred)
    assert isinstance(judge(sized(c1="50m"), held(sized(c1="100m")), [], facts), Accepted)


def test_an_overbooked_node_still_lets_pods_shrink() -> None:
    others = [sized("u2", c1="5")]
    assert isinstance(judge(sized(c1="50m"), held(sized(c1="100m")), others, ROOM), Accepted)


def test_w9_who_waits_is_asked_in_a_strict_order() -> None:
    def entry(uid: str, after: str = "200m", since: str = "", **more: object) -> Waiting:
        return Waiting(sized(uid, c1=after, **more), held(sized(uid, c1="100m")), since)  # type: ignore[arg-type]

    expected = [
        entry("shrinks", "50m"),
        entry("important", priority=1000),
        entry("guaranteed", qos="Guaranteed"),
        entry("waits-longest", since="2026-01-01T00:00:00Z"),
        entry("waits", since="2026-01-01T00:00:01Z"),
        entry("fresh-a"),
        entry("fresh-b"),
    ]
    assert in_order(reversed(expected)) == expected
