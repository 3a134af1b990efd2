"""The order in which waiting resizes are decided: no pod waits while it fits, and no shrink waits at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.node.resizing import sized

from kohort.objects.meta import Condition
from kohort.objects.pods import Pod
from kohort.objects.quantity import ZERO, Quantity
from kohort.resources import SPEC, requests, summed
from kohort.rules.allocated_resources import Allocated, Desired
from kohort.rules.resize_decision import Accepted, Deferred, Infeasible, NodeFacts, decide_resize, increases
from kohort.rules.resize_queue import Trigger, WaitingResize, decide_in_order, in_order, is_due, next_retry

CPU = Quantity.parse("10")
MEMORY = Quantity.parse("10Gi")
NODE = NodeFacts({"cpu": CPU, "memory": MEMORY})
amounts = st.tuples(st.integers(1, 12), st.integers(1, 12))


def held(pod: Pod) -> Allocated:
    return Allocated.accepting(Desired.of(pod.spec))


def entry(
    uid: str, before: str, after: str, since: str = "", priority: int = 0, qos: str = "Burstable"
) -> WaitingResize:
    return WaitingResize(sized(uid, c1=after, priority=priority, qos=qos), held(sized(uid, c1=before)), since)


def accepted(waiting: list[WaitingResize], settled: list[Pod] | None = None) -> list[str]:
    decisions = decide_in_order(waiting, settled or [], NODE)
    return [entry.pod.metadata.uid for entry, decision in decisions if isinstance(decision, Accepted)]


@st.composite
def nodes(draw: st.DrawFn) -> tuple[list[WaitingResize], list[Pod]]:
    """Pods that fit on a node as allocated, most of them with an edit."""
    waiting: list[WaitingResize] = []
    settled: list[Pod] = []
    for number in range(draw(st.integers(1, 6))):
        uid = f"u{number}"
        before, after = draw(amounts), draw(amounts)
        pod = sized(uid, c1=f"{before[0]}/{before[1]}Gi")
        others = [each.allocated.applied_to(each.pod) for each in waiting] + settled
        used = summed(requests(each, SPEC) for each in [*others, pod])
        if used["cpu"] > CPU or used["memory"] > MEMORY:
            continue
        if draw(st.booleans()):
            priority, since = draw(st.integers(0, 2)), draw(st.sampled_from(["", "t1", "t2"]))
            waiting.append(entry(uid, f"{before[0]}/{before[1]}Gi", f"{after[0]}/{after[1]}Gi", since, priority))
        else:
            settled.append(pod)
    return waiting, settled


@given(nodes())
def test_no_resize_waits_while_it_fits_and_no_shrink_waits(node: tuple[list[WaitingResize], list[Pod]]) -> None:
    waiting, settled = node
    decisions = decide_in_order(waiting, settled, NODE)
    assert len(decisions) == len(waiting)
    after = {
        each.pod.metadata.uid: each.pod if isinstance(decision, Accepted) else each.allocated.applied_to(each.pod)
        for each, decision in decisions
    }
    used = summed(requests(each, SPEC) for each in [*after.values(), *settled])
    assert used.get("cpu", ZERO) <= CPU and used.get("memory", ZERO) <= MEMORY
    for each, decision in decisions:
        if isinstance(decision, Deferred):
            assert increases(each.pod, each.allocated)
            others = [pod for uid, pod in after.items() if uid != each.pod.metadata.uid]
            assert isinstance(decide_resize(each.pod, each.allocated, [*others, *settled], NODE), Deferred)
        if isinstance(decision, Infeasible):
            wanted = requests(each.pod, SPEC)
            assert wanted["cpu"] > CPU or wanted["memory"] > MEMORY


@given(nodes(), st.data())
def test_the_order_in_which_pods_are_listed_does_not_matter(
    node: tuple[list[WaitingResize], list[Pod]], data: st.DataObject
) -> None:
    waiting, settled = node
    shuffled = data.draw(st.permutations(waiting))
    assert sorted(accepted(shuffled, settled)) == sorted(accepted(waiting, settled))


def test_a_shrink_makes_room_for_growth_in_the_same_pass() -> None:
    assert accepted([entry("grows", "4", "8"), entry("shrinks", "6", "2")]) == ["shrinks", "grows"]


def test_a_large_one_that_waits_does_not_hold_up_a_small_one() -> None:
    assert accepted([entry("large", "4", "9", "t1"), entry("small", "4", "5", "t2")]) == ["small"]


def test_the_higher_priority_gets_the_room() -> None:
    pods = [entry("early", "4", "6", "t1"), entry("important", "4", "6", "t2", priority=5)]
    assert accepted(pods) == ["important"]


def test_a_resize_that_frees_memory_serves_one_that_was_deferred_before_it() -> None:
    needs_memory = entry("needs-memory", "1/5Gi", "1/7Gi", "t1", priority=5)
    swaps = entry("swaps", "1/5Gi", "5/2Gi", "t2")
    assert sorted(accepted([needs_memory, swaps])) == ["needs-memory", "swaps"]


def test_equal_resizes_are_served_by_the_time_of_their_first_refusal_and_then_by_uid() -> None:
    early, late = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z"
    waiting = [entry("b", "1", "6"), entry("a", "1", "6"), entry("d", "1", "6", late), entry("c", "1", "6", early)]
    assert [each.pod.metadata.uid for each in in_order(waiting)] == ["c", "d", "a", "b"]


def test_a_guaranteed_pod_is_served_before_one_that_waits_longer() -> None:
    waiting = [entry("old", "1", "6", "2026-01-01T00:00:00Z"), entry("new", "1", "6", qos="Guaranteed")]
    assert accepted(waiting) == ["new"]


def test_a_priority_counts_more_than_a_class() -> None:
    waiting = [entry("class", "1", "6", qos="Guaranteed"), entry("priority", "1", "6", priority=1)]
    assert accepted(waiting) == ["priority"]


def test_every_waiting_resize_gets_one_decision() -> None:
    waiting = [entry("a", "1", "2"), entry("b", "1", "50"), entry("c", "2", "1"), entry("d", "1", "9")]
    decided = {each.pod.metadata.uid: type(decision) for each, decision in decide_in_order(waiting, [], NODE)}
    assert decided == {"a": Accepted, "b": Infeasible, "c": Accepted, "d": Deferred}


def test_nothing_that_waits_needs_no_decision() -> None:
    assert decide_in_order([], [sized("u9", c1="9")], NODE) == []


def test_pods_that_do_not_wait_keep_their_room() -> None:
    assert accepted([entry("a", "1", "6")], [sized("u9", c1="4")]) == ["a"]
    assert accepted([entry("a", "1", "6")], [sized("u9", c1="5")]) == []


@pytest.mark.parametrize(
    ("reason", "new", "trigger", "due"),
    [
        ("", True, "pod_updated", True),
        ("", False, "pod_updated", False),
        ("", False, "node_changed", False),
        ("Deferred", False, "periodic_retry", True),
        ("Deferred", False, "pod_terminated", True),
        ("Infeasible", False, "periodic_retry", False),
        ("Infeasible", False, "pod_resized", False),
        ("Infeasible", False, "node_changed", True),
        ("Infeasible", True, "pod_updated", True),
    ],
)
def test_what_is_infeasible_waits_for_another_node_and_what_is_deferred_for_any_trigger(
    reason: str, new: bool, trigger: Trigger, due: bool
) -> None:
    pending = Condition("PodResizePending", "True", reason) if reason else None
    assert is_due(pending, trigger, new=new) == due


def test_the_timer_follows_the_last_pass() -> None:
    assert next_retry(1000.0, None) == 1030.0
    assert next_retry(1000.0, 1010.0) == 1190.0
