"""Which pods are evicted for which, and which never are."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cluster.scheduler.scenery import anti_affinity, cluster, near, node, pod

from kohort.cluster.scheduler.decision import NodeChooser, Unschedulable
from kohort.cluster.scheduler.preemption import NO_VICTIMS, Eviction, NoEviction, NoEvictionReason, find_eviction
from kohort.objects.policy import PodDisruptionBudget
from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.filters import fits
from kohort.rules.scheduling.pod_and_node_info import PodInfo

SMALL = "cpu=1,memory=1Gi"


def evict(info: PodInfo, state: ClusterState) -> tuple[str, list[str]] | NoEviction:
    unschedulable = NodeChooser().choose(info, state)
    assert isinstance(unschedulable, Unschedulable)
    result = find_eviction(info, unschedulable, state)
    if isinstance(result, NoEviction):
        return result
    return result.node, [victim.key.name for victim in result.victims]


def budget(name: str, app: str, allowed: int) -> PodDisruptionBudget:
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed},
        },
        PodDisruptionBudget,
    )


def test_the_less_important_pod_goes() -> None:
    state = cluster(node("n1", SMALL), on={"n1": [pod("low", "cpu=800m")]})
    assert evict(pod("high", "cpu=500m", priority=10), state) == ("n1", ["low"])


def test_an_equal_stays() -> None:
    state = cluster(node("n1", SMALL), on={"n1": [pod("equal", "cpu=800m", priority=10)]})
    assert evict(pod("high", "cpu=500m", priority=10), state) == NoEviction(
        NoEvictionReason.NO_NODE_HELPED, {"n1": NO_VICTIMS}
    )


def test_only_as_many_go_as_needed_and_the_least_important_first() -> None:
    there = [pod("low", "cpu=500m"), pod("mid", "cpu=500m", priority=5)]
    assert evict(pod("high", "cpu=500m", priority=10), cluster(node("n1", SMALL), on={"n1": there})) == ("n1", ["low"])


@pytest.mark.parametrize(
    ("n1", "n2", "expected"),
    [
        ([pod("a", "cpu=800m", priority=5)], [pod("b", "cpu=800m", priority=1)], "n2"),
        (
            [pod("a", "cpu=400m", priority=1), pod("c", "cpu=400m", priority=1)],
            [pod("b", "cpu=800m", priority=1)],
            "n2",
        ),
        (
            [pod("a", "cpu=800m", priority=1, started="2026-01-02T00:00:00Z")],
            [pod("b", "cpu=800m", priority=1, started="2026-01-01T00:00:00Z")],
            "n1",
        ),
        ([pod("a", "cpu=800m", labels={"app": "x"})], [pod("b", "cpu=800m", priority=5)], "n2"),
    ],
    ids=["lowest of the highest", "fewest", "started last", "budget unbroken"],
)
def test_the_cheapest_node_is_taken(n1: list[PodInfo], n2: list[PodInfo], expected: str) -> None:
    state = cluster(node("n1", SMALL), node("n2", SMALL), on={"n1": n1, "n2": n2})
    state.budgets["default", "guard"] = budget("guard", "x", 0)
    found = evict(pod("high", "cpu=900m", priority=10), state)
    assert isinstance(found, tuple) and found[0] == expected


def test_a_budget_protects_if_another_pod_can_go() -> None:
    there = [pod("guarded", "cpu=500m", labels={"app": "x"}), pod("plain", "cpu=500m", priority=5)]
    state = cluster(node("n1", SMALL), on={"n1": there})
    state.budgets["default", "guard"] = budget("guard", "x", 0)
    assert evict(pod("high", "cpu=500m", priority=10), state) == ("n1", ["plain"])


def test_a_budget_with_room_protects_no_pod() -> None:
    there = [pod("guarded", "cpu=500m", labels={"app": "x"}), pod("plain", "cpu=500m", priority=5)]
    state = cluster(node("n1", SMALL), on={"n1": there})
    state.budgets["default", "guard"] = budget("guard", "x", 1)
    assert evict(pod("high", "cpu=500m", priority=10), state) == ("n1", ["guarded"])


def test_more_than_the_node_has_is_beyond_help() -> None:
    state = cluster(node("n1", SMALL), on={"n1": [pod("low", "cpu=800m")]})
    assert evict(pod("high", "cpu=2", priority=10), state) == NoEviction(NoEvictionReason.NO_NODE_HELPED)


def test_a_pod_that_repels_can_be_evicted() -> None:
    grumpy = pod("grumpy", affinity=anti_affinity(near({"app": "x"})))
    state = cluster(node("n1"), on={"n1": [grumpy]})
    assert evict(pod("high", labels={"app": "x"}, priority=10), state) == ("n1", ["grumpy"])


def test_while_victims_are_leaving_no_other_pod_has_to_go() -> None:
    reason = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    leaving = pod("leaving", "cpu=800m", deleting=True, status={"conditions": [reason]})
    state = cluster(node("n1", SMALL), on={"n1": [leaving]})
    waiting = pod("high", "cpu=500m", priority=10, status={"nominatedNodeName": "n1"})
    assert evict(waiting, state) == NoEviction(NoEvictionReason.VICTIMS_TERMINATING)


sizes = st.sampled_from(["cpu=100m", "cpu=300m", "cpu=500m", "cpu=800m"])
priorities = st.integers(0, 5)
inhabitants = st.lists(st.tuples(sizes, priorities), max_size=5)


@given(st.lists(inhabitants, min_size=1, max_size=3), sizes, st.integers(1, 6))
def test_an_eviction_is_enough_none_too_many_and_leaves_no_trace(
    homes: list[list[tuple[str, int]]], asked: str, priority: int
) -> None:
    state = cluster(*(node(f"n{i}", SMALL) for i in range(len(homes))))
    for i, home in enumerate(homes):
        for j, (size, rank) in enumerate(home):
            state.add_pod(pod(f"{i}-{j}", size, priority=rank), f"n{i}")
    info = pod("high", asked, priority=priority)
    unschedulable = NodeChooser().choose(info, state)
    if not isinstance(unschedulable, Unschedulable):
        return
    before = {name: set(entry.pods) for name, entry in state.nodes.items()}
    room = find_eviction(info, unschedulable, state)
    assert {name: set(entry.pods) for name, entry in state.nodes.items()} == before
    if isinstance(room, Eviction):
        there = state.nodes[room.node]
        assert all(victim.priority < priority for victim in room.victims)
        with state.without(room.victims):
            assert fits(info, there, state) is None
            for victim in room.victims:
                state.add_pod(victim, room.node)
                assert fits(info, there, state) is not None
                state.remove_pod(victim.uid)
