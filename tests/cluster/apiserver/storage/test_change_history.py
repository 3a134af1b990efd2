"""How long the past is kept, and what happens to those who come too late."""

import pytest

from kohort.cluster.apiserver.storage.bucket import Bucket
from kohort.cluster.apiserver.storage.change_history import ChangeWindow
from kohort.cluster.apiserver.storage.model import Change, HistoryExpired, SlowWatcher, Stored
from kohort.cluster.apiserver.storage.watcher import Watcher


def change(revision: int, size: int = 10) -> Change:
    return Change("ADDED", None, Stored("pods", "ns", f"p{revision:06}", revision, b"x" * size, {}, {}))


def filled(window: ChangeWindow, count: int, *, per_second: float = 1.0, size: int = 10) -> ChangeWindow:
    for number in range(count):
        window.append([change(number + 2, size)], number / per_second)
    return window


def kept(window: ChangeWindow) -> int:
    return window.end - window.first


@pytest.mark.parametrize(
    ("changes", "per_second", "at_least"),
    [
        pytest.param(1000, 0.1, 500, id="few and old: the newest 500 stay"),
        pytest.param(5000, 20, 2000, id="many: 100 seconds of them stay"),
        pytest.param(5000, 1000, 5000, id="all young: all stay"),
    ],
)
def test_changes_stay_while_they_are_young_or_few(changes: int, per_second: float, at_least: int) -> None:
    window = filled(ChangeWindow(1, keep_seconds=100, keep_changes=500), changes, per_second=per_second)
    assert at_least <= kept(window) <= max(at_least * 4 // 3 + 256, at_least)


def test_memory_is_bounded_whatever_the_age() -> None:
    window = filled(ChangeWindow(1, keep_bytes=100_000), 5000, per_second=1e6, size=1000)
    assert kept(window) * 1000 <= 125_000


def test_one_change_larger_than_the_bound_is_still_seen() -> None:
    window = ChangeWindow(1, keep_bytes=10)
    window.append([change(2, size=1000)], 0.0)
    assert len(window.read(window.position_after(1), 10)) == 1


def test_the_floor_is_the_oldest_revision_to_resume_from() -> None:
    window = filled(ChangeWindow(1, keep_seconds=1, keep_changes=10), 1000)
    resumed = window.read(window.position_after(window.floor), 10_000)
    assert [item.revision for item in resumed] == list(range(window.floor + 1, 1002))
    with pytest.raises(HistoryExpired) as refusal:
        window.position_after(window.floor - 1)
    assert refusal.value.oldest == window.floor


async def test_only_the_reader_that_fell_out_of_the_window_gets_an_error() -> None:
    bucket = Bucket(ChangeWindow(1, keep_seconds=1, keep_changes=10))
    slow = Watcher(bucket, 1, lambda: False)
    quick = Watcher(bucket, 1, lambda: False)
    seen: list[int] = []
    for number in range(1000):
        bucket.commit([change(number + 2)], float(number))
        seen += [item.revision for item in await anext(quick)]
    assert seen == list(range(2, 1002))
    with pytest.raises(SlowWatcher):
        await anext(slow)


async def test_a_reader_that_lags_within_the_window_gets_everything_in_bounded_batches() -> None:
    bucket = Bucket(ChangeWindow(1))
    late = Watcher(bucket, 1, lambda: False)
    bucket.commit([change(number + 2) for number in range(1700)], 0.0)
    batches = [await anext(late) for _ in range(4)]
    assert max(map(len, batches)) <= 500
    assert [item.revision for batch in batches for item in batch] == list(range(2, 1702))
