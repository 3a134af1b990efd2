"""Events end after an hour, and there are never too many."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.cluster.apiserver.eventexpiry import BUCKET, MOST_EVENTS, TTL_SECONDS, EventExpiry, last_written
from kohort.cluster.apiserver.storage.model import Store
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube import clock
from kohort.kube.tasks import cancel_all
from kohort.testing import virtual_time


@contextlib.asynccontextmanager
async def expiring(store: Store, ttl: float = TTL_SECONDS, most: int = MOST_EVENTS) -> AsyncIterator[None]:
    task = asyncio.create_task(EventExpiry(store, ttl=ttl, most=most).run())
    try:
        await asyncio.sleep(0)
        yield
    finally:
        await cancel_all(task)


async def write(store: Store, name: str, namespace: str = "default") -> None:
    known = store.get(BUCKET, namespace, name)
    document = {"metadata": {"name": name, "namespace": namespace}, "lastTimestamp": clock.timestamp()}
    await store.write(BUCKET, namespace, name, document, expected=known.revision if known is not None else 0)


def names(store: Store) -> list[str]:
    return [stored.name for stored in store.list(BUCKET)]


def test_an_event_is_deleted_an_hour_after_its_last_write() -> None:
    async def story() -> None:
        store = open_store()
        async with expiring(store):
            await write(store, "a")
            await asyncio.sleep(1800)
            await write(store, "b")
            await asyncio.sleep(1799)
            assert names(store) == ["a", "b"]
            await write(store, "b")
            await asyncio.sleep(2)
            assert names(store) == ["b"]
            await asyncio.sleep(3596)
            assert names(store) == ["b"]
            await asyncio.sleep(3)
            assert names(store) == []

    virtual_time.run(story())


def test_watchers_see_the_end_of_an_event() -> None:
    async def story() -> None:
        store = open_store()
        async with expiring(store):
            await write(store, "a")
            changes = store.watch(BUCKET, store.revision)
            await asyncio.sleep(3601)
            assert [(change.type, change.after.name) for change in changes.take()] == [("DELETED", "a")]

    virtual_time.run(story())


def test_after_a_restart_events_are_as_old_as_they_say() -> None:
    async def story() -> None:
        store = open_store()
        await write(store, "a")
        await asyncio.sleep(3000)
        await write(store, "b")
        async with expiring(store):
            await asyncio.sleep(599)
            assert names(store) == ["a", "b"]
            await asyncio.sleep(2)
            assert names(store) == ["b"]

    virtual_time.run(story())


def test_other_objects_stay() -> None:
    async def story() -> None:
        store = open_store()
        await store.write("pods", "default", "p", {"metadata": {"name": "p"}}, expected=0)
        async with expiring(store):
            await asyncio.sleep(10_000)
            assert store.get("pods", "default", "p") is not None

    virtual_time.run(story())


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.floats(0, 300)), max_size=150), st.integers(1, 30))
def test_there_are_never_many_more_than_the_bound_and_the_newest_stay(
    writes: list[tuple[int, float]], most: int
) -> None:
    async def story() -> None:
        store = open_store()
        last: dict[str, int] = {}
        async with expiring(store, most=most, ttl=600):
            for number, (name, pause) in enumerate(writes):
                await write(store, f"e{name:02}")
                last.pop(f"e{name:02}", None)
                last[f"e{name:02}"] = number
                await asyncio.sleep(pause)
                await asyncio.sleep(0.01)
                found = names(store)
                assert len(found) <= most + 1
                assert set(found) == set([*last][len(last) - len(found) :])
            await asyncio.sleep(601)
            assert names(store) == []

    virtual_time.run(story())


def test_the_time_of_the_last_write() -> None:
    otherwise = datetime(2026, 1, 1, tzinfo=UTC)
    event = {
        "metadata": {"creationTimestamp": "2026-05-01T00:00:00Z"},
        "lastTimestamp": None,
        "eventTime": "2026-05-01T00:00:01.000000Z",
        "series": {"count": 2, "lastObservedTime": "2026-05-01T00:10:00.000000Z"},
    }
    assert last_written(event, otherwise) == datetime(2026, 5, 1, 0, 10, tzinfo=UTC)
    assert last_written({"metadata": {}}, otherwise) == otherwise
