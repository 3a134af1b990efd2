"""What the store promises to writers, readers and watchers."""

import asyncio
from pathlib import Path

import pytest

from kohort.cluster.apiserver.storage.errors import StoreClosed
from kohort.cluster.apiserver.storage.model import StaleRevision, Store, Stored
from kohort.cluster.apiserver.storage.store import open_store


@pytest.fixture(params=["memory", "file"])
async def store(request: pytest.FixtureRequest, tmp_path: Path):  # type: ignore[no-untyped-def]
    opened = open_store(tmp_path / "state.db" if request.param == "file" else None)
    yield opened
    await opened.close()


async def put(store: Store, name: str, expected: int = 0, value: int = 0) -> Stored:
    return await store.write("pods", "default", name, {"metadata": {"name": name}, "value": value}, expected=expected)


async def test_an_empty_store_has_a_revision_that_clients_do_not_take_for_any(store: Store) -> None:
    assert store.revision == store.oldest == 1


async def test_a_write_returns_the_bytes_that_readers_get(store: Store) -> None:
    document = {"kind": "Pod", "metadata": {"name": "x"}, "spec": {"n": 1}}
    stored = await store.write(
        "pods", "default", "x", document, expected=0, labels={"app": "a"}, fields={"spec.nodeName": "n"}
    )
    assert stored.raw == b'{"kind":"Pod","metadata":{"name":"x","resourceVersion":"2"},"spec":{"n":1}}'
    assert store.get("pods", "default", "x") == stored
    assert (stored.labels, stored.fields) == ({"app": "a"}, {"spec.nodeName": "n"})
    assert document == {"kind": "Pod", "metadata": {"name": "x"}, "spec": {"n": 1}}


@pytest.mark.parametrize(("expected", "exists"), [(0, True), (7, True), (7, False)])
async def test_a_write_upon_another_version_than_the_present_is_refused(
    store: Store, expected: int, exists: bool
) -> None:
    current = await put(store, "x") if exists else None
    with pytest.raises(StaleRevision) as refusal:
        await put(store, "x", expected=expected)
    assert refusal.value.current == current


async def test_what_does_not_exist_cannot_be_deleted(store: Store) -> None:
    with pytest.raises(StaleRevision):
        await store.write("pods", "default", "x", None, expected=0)


async def test_a_refused_writer_can_read_what_it_lost_against(store: Store) -> None:
    """Otherwise it would try again upon the old version and spin until the disk is done."""
    first = await put(store, "x")

    async def attempt(value: int) -> int:
        try:
            return (await put(store, "x", expected=first.revision, value=value)).revision
        except StaleRevision as refusal:
            assert refusal.current == store.get("pods", "default", "x") != first
            return 0

    outcome = await asyncio.gather(*(attempt(value) for value in range(5)))
    assert sorted(outcome) == [0, 0, 0, 0, first.revision + 1]


async def test_a_writer_that_gives_up_does_not_take_back_its_write(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    writer = asyncio.create_task(put(store, "x"))
    await asyncio.sleep(0)
    writer.cancel()
    with pytest.raises(StaleRevision):
        await put(store, "x")
    assert store.get("pods", "default", "x") is not None
    await store.close()


async def test_buckets_names_only_what_has_objects(store: Store) -> None:
    stored = await put(store, "x")
    store.watch("nodes", store.revision)
    assert store.buckets() == ["pods"]
    await store.write("pods", "default", "x", None, expected=stored.revision)
    assert store.buckets() == []


async def test_a_watch_takes_its_place_when_it_is_made(store: Store) -> None:
    watch = store.watch("pods", store.revision)
    await put(store, "x")
    assert [change.after.name for change in await anext(watch)] == ["x"]


async def test_a_watch_wakes_up_for_its_own_bucket(store: Store) -> None:
    reader = asyncio.ensure_future(anext(store.watch("pods", store.revision)))
    await store.write("nodes", "", "n", {}, expected=0)
    await asyncio.sleep(0)
    assert not reader.done()
    await put(store, "x")
    assert [change.type for change in await reader] == ["ADDED"]


async def test_a_watch_that_was_cancelled_while_waiting_loses_nothing(store: Store) -> None:
    watch = store.watch("pods", store.revision)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(watch), 0)
    await put(store, "x")
    assert len(await anext(watch)) == 1


async def test_a_watch_from_the_future_holds_until_then(store: Store) -> None:
    watch = store.watch("pods", store.revision + 2)
    for name in "abc":
        await put(store, name)
    assert [change.after.name for change in await anext(watch)] == ["c"]


async def test_a_watch_ends_when_the_store_is_closed(store: Store) -> None:
    reader = asyncio.ensure_future(anext(store.watch("pods", store.revision)))
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(StopAsyncIteration):
        await reader


async def test_waiting_for_a_revision(store: Store) -> None:
    waiting = asyncio.ensure_future(store.wait_for(store.revision + 1, 60))
    await asyncio.sleep(0)
    await put(store, "x")
    assert await waiting
    assert await store.wait_for(store.revision, 0)
    assert not await store.wait_for(store.revision + 1, 0)


async def test_a_closed_store_takes_no_writes(store: Store) -> None:
    await store.close()
    with pytest.raises(StoreClosed):
        await put(store, "x")


async def test_what_was_submitted_before_closing_becomes_durable(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    writers = [asyncio.create_task(put(store, f"pod-{number}")) for number in range(10)]
    await asyncio.sleep(0)
    await store.close()
    revisions = [stored.revision for stored in await asyncio.gather(*writers)]
    again = open_store(tmp_path / "state.db")
    assert [stored.revision for stored in again.list("pods")] == revisions
    await again.close()
