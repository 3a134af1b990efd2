"""The order in which pods are tried, and how long a refused one rests."""

import doctest

from hypothesis import given
from hypothesis import strategies as st
from tests.cluster.scheduler.scenery import pod

from kohort.cluster.scheduler import queue as module
from kohort.cluster.scheduler.queue import LONGEST_UNSCHEDULABLE, QueuedPod, QueueState, SchedulingQueue
from kohort.cluster.scheduler.rejection import FilterName

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


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), min_size=1, max_size=20))
def test_every_pod_is_handed_out_exactly_once(arrivals: list[tuple[int, int]]) -> None:
    queue = SchedulingQueue()
    entries: list[QueuedPod] = [queue.add(pod(f"p{i}", priority=p), t) for i, (p, t) in enumerate(arrivals)]
    found = names(queue, 100)
    assert sorted(found) == sorted(entry.info.key.name for entry in entries)
    assert all(entry.attempts == 1 for entry in entries)
