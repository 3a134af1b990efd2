"""Events are deleted an hour after they were last written, and early where there are too many."""

import asyncio

from kohort.cluster.apiserver.storage.event_expiry import EventExpiry
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube import clock
from kohort.kube.resources import EVENTS
from kohort.objects.json_types import JsonObject
from kohort.testing import Cluster

NS = "default"


def event(name: str, **fields: object) -> JsonObject:
    about = {"kind": "Pod", "namespace": NS, "name": "p"}
    return {"metadata": {"name": name, "namespace": NS}, "involvedObject": about, "reason": "Tested", **fields}


def names(cluster: Cluster) -> list[str]:
    return sorted(one["metadata"]["name"] for one in cluster.objects(EVENTS, NS))


async def test_an_event_goes_an_hour_after_it_was_last_written() -> None:
    async with Cluster() as cluster:
        await cluster.client.create(EVENTS, event("once"))
        await cluster.client.create(EVENTS, event("twice"))
        await asyncio.sleep(3000)
        await cluster.client.patch(EVENTS, "twice", NS, {"count": 2})
        await asyncio.sleep(590)
        assert names(cluster) == ["once", "twice"]
        seen = cluster.server.store.watch("events", cluster.server.store.revision)
        await asyncio.sleep(30)
        assert names(cluster) == ["twice"]
        assert [(change.type, change.after.name) for change in await anext(seen)] == [("DELETED", "once")]
        await asyncio.sleep(3600)
        assert names(cluster) == []


async def test_deleted_events_are_forgotten() -> None:
    async with Cluster() as cluster:
        await cluster.client.create(EVENTS, event("e"))
        await cluster.client.delete(EVENTS, "e", NS)
        await cluster.client.create(EVENTS, event("e"))
        await asyncio.sleep(3500)
        assert names(cluster) == ["e"]


async def test_the_number_is_bounded_and_the_oldest_go_first() -> None:
    store = open_store()
    expiry = EventExpiry(store, most=3)
    for number in range(300):
        await expiry.committed(await store.write("events", NS, f"e{number:03}", event("e"), expected=0))
    await asyncio.sleep(1)
    assert [stored.name for stored in store.list("events")] == ["e297", "e298", "e299"]
    await expiry.close()


async def test_a_restart_goes_by_the_times_in_the_events() -> None:
    store = open_store()
    begin = clock.timestamp()
    await store.write("events", NS, "old", event("old", lastTimestamp=begin), expected=0)
    await asyncio.sleep(3000)
    await store.write("events", NS, "new", event("new", lastTimestamp=clock.timestamp()), expected=0)
    expiry = EventExpiry(store)
    expiry.load()
    await asyncio.sleep(700)
    assert [stored.name for stored in store.list("events")] == ["new"]
    await expiry.close()
