"""The order in which pods are tried, and how long a refused one rests."""

import doctest

from hypothesis import given
from hypothesis import strategies as st
from tests.cluster.scheduler.scenery import pod

from kohort.cluster.scheduler import queue as module
from kohort.cluster.scheduler.queue import LONGEST_UNSCHEDULABLE, QueuedPod, QueueState, SchedulingQueue
from kohort.rules.scheduling.rejection import FilterName

ANY = frozenset({FilterName.NODE_RESOURCES_FIT})


def names(queue: SchedulingQueue, now: float) -> list[str]:
    found = []
    while (entry := queue.pop(now)) is not None:
        found.append(entry.info.key.name)
    return found


def test_higher_priority_first_then_who_came_first() -> None:
    queue = SchedulingQueue()
    for time, (name, priority) in enumerate([("a", 0), ("b", 5), ("c", 0), ("d", 5)]):
        queue.add(pod(name, priority=priority), time)
    assert names(queue, 10) == ["b", "d", "a", "c"]


def test_thousands_of_pods_of_one_namespace_cost_another_namespace_one_turn() -> None:
    queue = SchedulingQueue()
    for number in range(5000):
        queue.add(pod(f"a{number}", namespace="a"), number)
    for number in range(3):
        queue.add(pod(f"b{number}", namespace="b"), 6000 + number)
    assert names(queue, 9000)[:6] == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_namespaces_take_turns_among_pods_that_are_tried_again() -> None:
    queue = SchedulingQueue()
    for number in range(4):
        queue.add(pod(f"a{number}", namespace="a"), 0)
    queue.add(pod("b0", namespace="b"), 1)
    while (entry := queue.pop(1)) is not None:
        queue.mark_unschedulable(entry, ANY, 1)
    queue.requeue(lambda other: True, 1.5)
    assert queue.count(QueueState.BACKOFF) == 5
    assert "b0" in names(queue, 1.5)[:2]


def test_a_higher_priority_goes_before_the_turns_of_namespaces() -> None:
    queue = SchedulingQueue()
    queue.add(pod("b0", namespace="b"), 0)
    for number in range(3):
        queue.add(pod(f"a{number}", namespace="a", priority=7), 1 + number)
    assert names(queue, 9) == ["a0", "a1", "a2", "b0"]


class CountedTime(float):
    """Counts how often it is compared with the time of a pod."""

    compared = 0

    def __ge__(self, other: float) -> bool:
        CountedTime.compared += 1
        return float(self) >= other


def test_pods_that_wait_cost_nothing_when_another_is_taken() -> None:
    queue = SchedulingQueue()
    for number in range(1000):
        queue.add(pod(f"a{number}", namespace="a"), 0)
    while (entry := queue.pop(0)) is not None:
        queue.mark_unschedulable(entry, ANY, 0)
    queue.requeue(lambda other: True, 0)
    queue.add(pod("b", namespace="b"), 0)
    CountedTime.compared = 0
    taken = queue.pop(CountedTime(0.5))
    assert taken is not None and taken.info.key.name == "b"
    assert CountedTime.compared <= 2


def test_a_change_of_priority_moves_a_pod_that_is_in_back_off() -> None:
    queue = SchedulingQueue()
    entries = [queue.add(pod(name), 0) for name in ("a", "b")]
    for entry in entries:
        queue.pop(0)
        queue.mark_unschedulable(entry, ANY, 0)
    queue.requeue(lambda other: True, 0)
    promoted = pod("b", priority=9)
    promoted.uid = entries[1].info.uid
    queue.update(promoted)
    assert names(queue, 0) == ["b", "a"]


def test_a_parked_pod_waits_for_a_change() -> None:
    queue = SchedulingQueue()
    entry = queue.add(pod("a"), 0)
    assert queue.pop(0) is entry
    queue.mark_unschedulable(entry, ANY, 0)
    assert queue.pop(100) is None
    assert queue.requeue(lambda other: other.rejected_by == ANY, 100) == 1
    assert queue.pop(100) is entry


def test_a_change_that_does_not_concern_a_pod_leaves_it_parked() -> None:
    queue = SchedulingQueue()
    entry = queue.add(pod("a"), 0)
    queue.pop(0)
    queue.mark_unschedulable(entry, ANY, 0)
    assert queue.requeue(lambda other: False, 1) == 0
    assert entry.state is QueueState.UNSCHEDULABLE


def test_no_pod_is_parked_for_more_than_five_minutes() -> None:
    queue = SchedulingQueue()
    entry = queue.add(pod("a"), 0)
    queue.pop(0)
    queue.mark_unschedulable(entry, ANY, 0)
    assert queue.next_time() == LONGEST_UNSCHEDULABLE
    assert queue.requeue_overdue(LONGEST_UNSCHEDULABLE - 1) == 0
    assert queue.requeue_overdue(LONGEST_UNSCHEDULABLE) == 1


def test_who_failed_lately_lets_others_go_first_but_does_not_wait_for_nothing() -> None:
    queue = SchedulingQueue()
    entry = queue.add(pod("failed"), 0)
    queue.pop(0)
    queue.mark_unschedulable(entry, ANY, 0)
    queue.requeue(lambda other: True, 0.5)
    assert entry.state is QueueState.BACKOFF
    queue.add(pod("young"), 0.5)
    assert names(queue, 0.5) == ["young", "failed"]


def test_after_a_failed_write_the_pause_is_kept() -> None:
    queue = SchedulingQueue()
    entry = queue.add(pod("a"), 0)
    queue.pop(0)
    queue.retry(entry, 0)
    assert queue.pop(0.9) is None
    assert queue.next_time() == 1.0
    assert queue.pop(1.0) is entry


def test_a_removed_pod_never_comes_back() -> None:
    queue = SchedulingQueue()
    entry = queue.add(pod("a"), 0)
    queue.remove(entry.info.uid)
    assert queue.pop(0) is None
    queue.mark_unschedulable(entry, ANY, 0)
    queue.retry(entry, 0)
    assert len(queue) == 0 and queue.pop(100) is None


def test_a_pod_that_became_important_moves_forward() -> None:
    queue = SchedulingQueue()
    queue.add(pod("a"), 0)
    late = queue.add(pod("b"), 1).info
    promoted = pod("b", priority=9)
    promoted.uid = late.uid
    queue.update(promoted)
    assert names(queue, 2) == ["b", "a"]


def test_the_examples_in_the_documentation_hold() -> None:
    assert doctest.testmod(module).failed == 0


@given(st.lists(st.sampled_from(["arrive", "decide", "change", "pass"]), max_size=60))
def test_an_old_pod_is_never_overtaken_by_a_younger_one_of_its_priority_for_ever(story: list[str]) -> None:
    """Whatever happens, when everything has cooled down and something changes, the oldest pod is tried first."""
    queue = SchedulingQueue()
    now = 0.0
    oldest = queue.add(pod("oldest"), now)
    for number, event in enumerate(story):
        if event == "arrive":
            queue.add(pod(f"young-{number}"), now)
        elif event == "decide":
            entry = queue.pop(now)
            if entry is not None:
                queue.mark_unschedulable(entry, ANY, now)
        elif event == "change":
            queue.requeue(lambda other: True, now)
        else:
            now += 3.0
    now += 20.0
    queue.requeue(lambda other: True, now)
    assert queue.pop(now) is oldest


@given(st.lists(st.sampled_from(["a", "b", "decide", "fail", "change", "remove", "pass"]), max_size=80))
def test_every_pod_is_in_one_state_and_none_is_lost(story: list[str]) -> None:
    queue = SchedulingQueue()
    now = 0.0
    there: dict[str, QueuedPod] = {}
    for number, event in enumerate(story):
        entry = None
        match event:
            case "a" | "b":
                entry = queue.add(pod(f"p{number}", namespace=event), now)
                there[entry.info.uid] = entry
            case "decide" if (entry := queue.pop(now)) is not None:
                queue.mark_unschedulable(entry, ANY, now)
            case "fail" if (entry := queue.pop(now)) is not None:
                queue.retry(entry, now)
            case "change":
                queue.requeue(lambda other: True, now)
            case "remove" if there:
                queue.remove(there.popitem()[0])
            case "pass":
                now += 0.7
        assert sum(queue.count(state) for state in QueueState) == len(queue) == len(there)
    queue.requeue(lambda other: True, now)
    assert sorted(names(queue, now + 20)) == sorted(entry.info.key.name for entry in there.values())


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), min_size=1, max_size=20))
def test_every_pod_is_handed_out_exactly_once(arrivals: list[tuple[int, int]]) -> None:
    queue = SchedulingQueue()
    entries: list[QueuedPod] = [queue.add(pod(f"p{i}", priority=p), t) for i, (p, t) in enumerate(arrivals)]
    found = names(queue, 100)
    assert sorted(found) == sorted(entry.info.key.name for entry in entries)
    assert all(entry.attempts == 1 for entry in entries)
