"""Whether a resize is accepted, deferred or infeasible."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.node.resizing import sized

from kohort.objects.pods import Pod
from kohort.objects.quantity import Quantity
from kohort.resources import amounts_of
from kohort.rules.allocated_resources import Allocated, Desired
from kohort.rules.node_feature_gates import NodeGates
from kohort.rules.resize_decision import (
    Accepted,
    Deferred,
    DeferredReason,
    ExceedsNode,
    Infeasible,
    InfeasibleReason,
    Injected,
    NodeFacts,
    NodePressure,
    NotSupported,
    ResizeDecision,
    ResourceShortage,
    Reverted,
    decide_resize,
    excesses_over_node,
    increases,
    message_for,
    shortage_for,
)
from kohort.rules.resize_queue import WaitingResize, in_order

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
    assert decide_resize(sized(c1="1000m"), held(sized(c1="1")), [], ROOM) == Reverted()


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
    decision = decide_resize(sized(pod="200m", c1=""), held(sized(pod="100m", c1="")), [], facts)
    assert isinstance(decision, Infeasible) and decision.detail == detail


def test_w6_more_than_the_node_has_is_infeasible_and_more_than_is_free_is_deferred() -> None:
    pod, others = sized(c1="100m"), [sized("u2", c1="700m")]
    big = decide_resize(sized(c1="1001m"), held(pod), others, ROOM)
    assert isinstance(big, Infeasible)
    assert big.message == "Node didn't have enough capacity: cpu, requested: 1001, capacity: 1000"
    late = decide_resize(sized(c1="400m"), held(pod), others, ROOM)
    assert isinstance(late, Deferred) and late.code == "OutOfcpu"
    assert late.message == "Node didn't have enough resource: cpu, requested: 400, used: 700, capacity: 1000"
    assert isinstance(decide_resize(sized(c1="300m"), held(pod), others, ROOM), Accepted)


def test_w21_pressure_defers_growth_and_never_a_decrease() -> None:
    facts = NodeFacts(ROOM.allocatable, pressure="the node is low on memory")
    assert isinstance(decide_resize(sized(c1="200m"), held(sized(c1="100m")), [], facts), Deferred)
    assert isinstance(decide_resize(sized(c1="50m"), held(sized(c1="100m")), [], facts), Accepted)


def test_an_overbooked_node_still_lets_pods_shrink() -> None:
    others = [sized("u2", c1="5")]
    assert isinstance(decide_resize(sized(c1="50m"), held(sized(c1="100m")), others, ROOM), Accepted)


def test_w9_who_waits_is_asked_in_a_strict_order() -> None:
    def entry(uid: str, after: str = "200m", since: str = "", **more: object) -> WaitingResize:
        return WaitingResize(sized(uid, c1=after, **more), held(sized(uid, c1="100m")), since)  # type: ignore[arg-type]

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


GIB = 1 << 30
EVERYTHING_WRONG = NodeFacts(
    ROOM.allocatable,
    gates=NodeGates(resize=False, pod_level_resize=False),
    linux=False,
    cgroup_v2=False,
    pressure="low on memory",
    exclusive_cpus=True,
    exclusive_memory=True,
)


def decide(before: str, after: str, node: NodeFacts = ROOM, *others: Pod) -> ResizeDecision:
    """Of a pod with figures of its own, which go from `before` to `after`."""
    return decide_resize(sized(pod=after, c1=""), held(sized(pod=before, c1="")), others, node)


def test_the_first_row_of_the_table_that_applies_decides() -> None:
    """Each obstacle hides those below it: they are removed from the top."""
    seen: list[object] = []
    node = EVERYTHING_WRONG
    full = sized("u2", c1="900m/900Mi")
    for remedy in (
        {"linux": True},
        {"gates": NodeGates(pod_level_resize=False)},
        {"gates": NodeGates()},
        {"cgroup_v2": True},
        {"exclusive_cpus": False},
        {"exclusive_memory": False},
    ):
        decision = decide("100m/100Mi", "200m/200Mi", node, full)
        assert isinstance(decision, Infeasible)
        seen.append(decision.reason)
        node = msgspec.structs.replace(node, **remedy)
    assert seen == [
        NotSupported.OPERATING_SYSTEM,
        NotSupported.RESIZE_GATE_OFF,
        NotSupported.POD_LEVEL_GATE_OFF,
        NotSupported.CGROUP_V1,
        NotSupported.EXCLUSIVE_CPUS,
        NotSupported.EXCLUSIVE_MEMORY,
    ]
    too_large = decide("100m/100Mi", "200m/2Gi", node, full)
    assert isinstance(too_large, Infeasible) and isinstance(too_large.reason, ExceedsNode)
    no_room = decide("100m/100Mi", "200m/200Mi", node, full)
    assert isinstance(no_room, Deferred) and isinstance(no_room.reason, ResourceShortage)
    pressed = decide("100m/100Mi", "200m/200Mi", node)
    assert isinstance(pressed, Deferred) and pressed.reason == NodePressure("low on memory")
    assert isinstance(decide("100m/100Mi", "50m/50Mi", node, full), Accepted)
    assert isinstance(decide("100m/100Mi", "200m/200Mi", msgspec.structs.replace(node, pressure="")), Accepted)


def test_a_pod_that_asks_for_what_it_has_is_never_refused() -> None:
    assert decide("100m/100Mi", "0.1/102400Ki", EVERYTHING_WRONG) == Reverted()


@pytest.mark.parametrize(
    ("reason", "code", "message"),
    [
        (
            ResourceShortage("cpu", Quantity.parse("400m"), Quantity.parse("700m"), Quantity.parse("1")),
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 400, used: 700, capacity: 1000",
        ),
        (
            ResourceShortage("memory", Quantity.parse("1Gi"), Quantity.parse("0"), Quantity.parse("1Mi")),
            "OutOfmemory",
            f"Node didn't have enough resource: memory, requested: {GIB}, used: 0, capacity: {1 << 20}",
        ),
        (NodePressure("the node shuts down"), "NodePressure", "the node shuts down"),
        (Injected("as ordered"), "Deferred", "as ordered"),
    ],
)
def test_what_is_said_of_a_deferred_resize(reason: DeferredReason, code: str, message: str) -> None:
    decision = Deferred(reason)
    assert (decision.code, decision.message) == (code, message)
    assert message_for(reason) == message


@pytest.mark.parametrize(
    ("reason", "detail"),
    [
        *((each, each.value) for each in NotSupported),
        (ExceedsNode("cpu", Quantity.parse("2"), Quantity.parse("1")), "insufficient_node_allocatable"),
        (Injected("as ordered"), "injected"),
    ],
)
def test_what_is_said_of_an_infeasible_resize(reason: InfeasibleReason, detail: str) -> None:
    decision = Infeasible(reason)
    assert (decision.code, decision.detail) == ("Infeasible", detail)
    assert decision.message == message_for(reason) != ""


def test_every_obstacle_of_a_node_has_a_message_of_its_own() -> None:
    texts = {message_for(reason) for reason in NotSupported}
    assert len(texts) == len(NotSupported)


@pytest.mark.parametrize(
    ("wanted", "used", "short"),
    [
        ({"cpu": "1"}, "0", ""),
        ({"cpu": "600m"}, "500m", "cpu"),
        ({"cpu": "500m"}, "500m", ""),
        ({"memory": "2Gi", "cpu": "2"}, "0", "memory"),
        ({"example.com/gpu": "1"}, "0", ""),
        ({"cpu": "0"}, "5", ""),
    ],
)
def test_the_first_resource_that_is_short_is_named(wanted: dict[str, str], used: str, short: str) -> None:
    amounts = {name: Quantity.parse(amount) for name, amount in wanted.items()}
    found = shortage_for(amounts, [sized("u2", c1=used)], ROOM.allocatable)
    assert (found.resource if found is not None else "") == short


milli = st.integers(1, 1500)


@given(milli, milli, st.lists(milli, max_size=4))
def test_an_accepted_resize_never_overbooks_a_node(before: int, after: int, others: list[int]) -> None:
    pods = [sized(f"o{number}", c1=f"{amount}m") for number, amount in enumerate(others)]
    decision = decide_resize(sized(c1=f"{after}m"), held(sized(c1=f"{before}m")), pods, ROOM)
    match decision:
        case Accepted(allocated):
            assert after <= before or after + sum(others) <= 1000
            assert allocated == held(sized(c1=f"{after}m"))
        case Deferred():
            assert before < after <= 1000 < after + sum(others)
        case Infeasible():
            assert after > 1000
        case Reverted():
            assert before == after


@given(milli, milli)
def test_growth_one_way_is_no_growth_the_other_way(before: int, after: int) -> None:
    there = increases(sized(c1=f"{after}m"), held(sized(c1=f"{before}m")))
    back = increases(sized(c1=f"{before}m"), held(sized(c1=f"{after}m")))
    assert (there, back) == (after > before, before > after)


@pytest.mark.parametrize(
    ("before", "after", "node", "reason"),
    [
        (sized(c1="1"), sized(c1="500m"), {"exclusive_cpus": True}, NotSupported.EXCLUSIVE_CPUS),
        (sized(c1="1/1Mi"), sized(c1="1/2Mi"), {"exclusive_cpus": True}, None),
        (sized(c1="1/1Mi"), sized(c1="1/2Mi"), {"exclusive_memory": True}, NotSupported.EXCLUSIVE_MEMORY),
        (sized(c1="1/1Mi"), sized(c1="500m/1Mi"), {"exclusive_memory": True}, None),
        (
            sized(c1="100m", c2="200m"),
            sized(c1="200m", c2="100m"),
            {"exclusive_cpus": True},
            NotSupported.EXCLUSIVE_CPUS,
        ),
    ],
)
def test_exclusive_amounts_of_any_container_cannot_change(
    before: Pod, after: Pod, node: dict[str, bool], reason: NotSupported | None
) -> None:
    """Not even when the pod as a whole asks for the same; amounts of the other kind can."""
    facts = msgspec.structs.replace(ROOM, **node)
    decision = decide_resize(after, held(before), [], facts)
    assert (decision.reason if isinstance(decision, Infeasible) else None) == reason
    assert isinstance(decision, Accepted) == (reason is None)


@given(milli, milli, milli, milli, st.lists(milli, max_size=3))
def test_a_resize_is_accepted_as_a_whole_or_not_at_all(
    cpu: int, memory: int, more_cpu: int, more_memory: int, others: list[int]
) -> None:
    """What a pod gets is what it asked for, of both resources; what it lacks is named by one of them."""
    before, after = f"{cpu}m/{memory}Mi", f"{more_cpu}m/{more_memory}Mi"
    pods = [sized(f"o{number}", c1=f"{amount}m/{amount}Mi") for number, amount in enumerate(others)]
    match decide_resize(sized(c1=after), held(sized(c1=before)), pods, ROOM):
        case Accepted(allocated):
            assert allocated == held(sized(c1=after))
        case Deferred(ResourceShortage(name, requested, used, capacity)):
            assert used + requested > capacity == ROOM.allocatable[name]
            assert requested <= capacity
        case Infeasible(ExceedsNode(name, requested, capacity)):
            assert requested > capacity == ROOM.allocatable[name]
        case Reverted():
            assert before == after
        case other:
            pytest.fail(f"unexpected: {other}")


@pytest.mark.parametrize(
    ("wanted", "allocatable", "exceeded"),
    [
        ({"cpu": "1"}, {"cpu": "1"}, []),
        ({"cpu": "1001m"}, {"cpu": "1"}, ["cpu"]),
        ({"cpu": "2", "memory": "2Gi"}, {"cpu": "1", "memory": "1Gi"}, ["cpu", "memory"]),
        ({"cpu": "2", "memory": "2Gi"}, {"memory": "1Gi"}, ["memory"]),
        ({"example.com/gpu": "2"}, {"example.com/gpu": "1"}, []),
    ],
)
def test_what_no_empty_node_could_give(
    wanted: dict[str, str], allocatable: dict[str, str], exceeded: list[str]
) -> None:
    """Of what a resize can change; what a node does not report is not known."""
    found = excesses_over_node(amounts_of(wanted), amounts_of(allocatable))
    assert [each.resource for each in found] == exceeded
