"""The work queue: nothing lost, nothing twice at once, failures later and later."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.kube.queue import QueueClosed, WorkQueue
from kohort.testing import virtual_time


async def test_keys_come_in_order_and_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "abacab":
        queue.add(key)
    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]
    assert len(queue) == 0


async def test_a_key_added_during_its_work_waits_for_done_and_then_comes_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_a_busy_key_goes_to_the_end_each_time() -> None:
    queue: WorkQueue[str] = WorkQueue()
    served: list[str] = []
    for key in "hxyz":
        queue.add(key)
    for _ in range(6):
        key = await queue.get()
        served.append(key)
        queue.add("h")
        queue.done(key)
    assert "".join(served) == "hxyzhh"


async def test_delays_grow_per_key_up_to_the_limit_and_start_again_after_forget() -> None:
    queue: WorkQueue[str] = WorkQueue(base_delay=0.005, max_delay=0.05)
    now = asyncio.get_running_loop().time
    waits = []
    for _ in range(6):
        start = now()
        queue.add_rate_limited("a")
        queue.done(await queue.get())
        waits.append(round(now() - start, 6))
    assert waits == [0.005, 0.01, 0.02, 0.04, 0.05, 0.05]
    assert queue.failures("a") == 6
    queue.forget("a")
    start = now()
    queue.add_rate_limited("a")
    await queue.get()
    assert now() - start == pytest.approx(0.005)


async def test_ten_thousand_failures_do_not_overflow() -> None:
    queue: WorkQueue[str] = WorkQueue(max_delay=60)
    for _ in range(10_000):
        queue.add_rate_limited("a")
    assert await queue.get() == "a"


async def test_of_several_delayed_adds_the_earliest_counts() -> None:
    queue: WorkQueue[str] = WorkQueue()
    now = asyncio.get_running_loop().time
    queue.add_after("a", 30)
    queue.add_after("a", 10)
    queue.add_after("a", 20)
    await queue.get()
    assert now() == pytest.approx(10)
    queue.done("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(100):
            await queue.get()


async def test_a_shut_down_queue_hands_out_nothing_more() -> None:
    queue: WorkQueue[str] = WorkQueue()
    taker = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add_after("a", 1)
    queue.shut_down()
    queue.add("b")
    with pytest.raises(QueueClosed):
        await taker
    with pytest.raises(QueueClosed):
        await queue.get()


async def test_a_draining_queue_hands_out_the_rest_first() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.shut_down(drain=True)
    assert await queue.get() == "a"
    with pytest.raises(QueueClosed):
        await queue.get()


async def test_what_is_added_during_a_rest_is_one_piece_of_work_at_its_end() -> None:
    queue: WorkQueue[str] = WorkQueue()
    now = asyncio.get_running_loop().time
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.done("a", rest=5)
    queue.add("a")
    queue.add("b")
    assert await queue.get() == "b"
    queue.done("b")
    assert (await queue.get(), now()) == ("a", 5)
    queue.done("a", rest=5)
    await asyncio.sleep(6)
    assert len(queue) == 0
    queue.add("a")
    assert (await queue.get(), now()) == ("a", 11)


async def test_a_resting_key_is_not_lost_when_the_queue_drains() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.done(await queue.get(), rest=100)
    queue.add("a")
    queue.shut_down(drain=True)
    assert await queue.get() == "a"
    queue.done("a", rest=100)
    with pytest.raises(QueueClosed):
        await queue.get()


async def test_a_cancelled_worker_does_not_take_the_wake_up_with_it() -> None:
    queue: WorkQueue[str] = WorkQueue()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await second == "a"


async def test_idle_waits_for_the_work_in_hand() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    key = await queue.get()
    waiter = asyncio.create_task(queue.idle())
    await asyncio.sleep(1)
    assert not waiter.done()
    queue.done(key)
    await waiter


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["add", "after", "limited", "sleep"]),
        st.sampled_from("abcd"),
        st.floats(0, 3).map(lambda x: round(x, 2)),
    ),
    max_size=40,
)


@given(OPERATIONS, st.integers(1, 3), st.lists(st.floats(0, 1).map(lambda x: round(x, 2)), min_size=1, max_size=5))
def test_nothing_is_lost_doubled_or_worked_on_twice_at_once(
    operations: list[tuple[str, str, float]], workers: int, durations: list[float]
) -> None:
    virtual_time.run(_work_off(operations, workers, durations))


async def _work_off(operations: list[tuple[str, str, float]], workers: int, durations: list[float]) -> None:
    queue: WorkQueue[str] = WorkQueue()
    now = asyncio.get_running_loop().time
    started: dict[str, list[float]] = {key: [] for key in "abcd"}
    busy: set[str] = set()
    wanted: list[tuple[str, float]] = []

    async def work() -> None:
        while True:
            try:
                key = await queue.get()
            except QueueClosed:
                return
            assert key not in busy
            busy.add(key)
            started[key].append(now())
            await asyncio.sleep(durations[len(started[key]) % len(durations)])
            busy.remove(key)
            queue.done(key, rest=durations[0])

    crew = [asyncio.create_task(work()) for _ in range(workers)]
    for operation, key, seconds in operations:
        if operation == "add":
            wanted.append((key, now()))
            queue.add(key)
        elif operation == "after":
            wanted.append((key, now() + seconds))
            queue.add_after(key, seconds)
        elif operation == "limited":
            queue.add_rate_limited(key)
            wanted.append((key, now()))
        else:
            await asyncio.sleep(seconds)
    await asyncio.sleep(300)
    queue.shut_down()
    await asyncio.gather(*crew)
    adds = Counter(key for key, _ in wanted)
    for key, due in wanted:
        # A delayed add may be merged into an earlier one, never into none.
        assert started[key], f"{key} was never worked on"
        if due <= min(due for other, due in wanted if other == key):
            assert max(started[key]) >= due
    for key, times in started.items():
        assert len(times) <= adds[key]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0, 2)), min_size=1, max_size=30))
def test_after_every_immediate_add_the_key_is_worked_on(adds: list[tuple[str, float]]) -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        now = asyncio.get_running_loop().time
        last_start: dict[str, float] = {}

        async def work() -> None:
            while True:
                key = await queue.get()
                last_start[key] = now()
                await asyncio.sleep(0.7)
                queue.done(key, rest=0.3)

        worker = asyncio.create_task(work())
        last_add: dict[str, float] = {}
        for key, pause in adds:
            await asyncio.sleep(pause)
            last_add[key] = now()
            queue.add(key)
        await asyncio.sleep(1000)
        worker.cancel()
        assert all(last_start[key] >= added for key, added in last_add.items())

    virtual_time.run(story())
