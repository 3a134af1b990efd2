"""Watch (specification 1.17)."""

import asyncio

import pytest
from tests.cluster.apiserver.caller import Api

from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.schema import protobuf_decode, protobuf_wire
from kohort.cluster.apiserver.storage.store import ObjectStore
from kohort.objects.json_types import JsonObject

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
END = {"k8s.io/initial-events-end": "true"}


async def revision(api: Api) -> str:
    found = await api.get(CONFIG_MAPS)
    return str(found.meta["resourceVersion"])


async def test_everything_after_a_revision_in_order(api: Api) -> None:
    since = await revision(api)
    created = await api.config_map("a")
    await api.patch(f"{CONFIG_MAPS}/a", {"data": {"z": "1"}})
    await api.delete(f"{CONFIG_MAPS}/a")
    events = await api.watch(CONFIG_MAPS, resourceVersion=since)
    first, second, third = [await events.next() for _ in range(3)]
    assert [first["type"], second["type"], third["type"]] == ["ADDED", "MODIFIED", "DELETED"]
    assert first["object"]["metadata"]["resourceVersion"] == created.meta["resourceVersion"]
    assert third["object"]["data"] == {"k": "v", "z": "1"}
    numbers = [int(event["object"]["metadata"]["resourceVersion"]) for event in (first, second, third)]
    assert numbers == sorted(set(numbers))


async def test_entering_and_leaving_a_selection(api: Api) -> None:
    since = await revision(api)
    await api.config_map("a", labels={"t": "1"})
    await api.config_map("b", labels={"t": "2"})
    left = await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"t": "2"}}})
    await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"t": "1"}}})
    await api.delete(f"{CONFIG_MAPS}/a")
    await api.delete(f"{CONFIG_MAPS}/b")
    await api.config_map("c", labels={"t": "1"})
    events = await api.watch(CONFIG_MAPS, resourceVersion=since, labelSelector="t=1")
    assert (await events.next())["type"] == "ADDED"
    exit = await events.next()
    assert (exit["type"], exit["object"]["metadata"]["labels"]) == ("DELETED", {"t": "1"})
    assert exit["object"]["metadata"]["resourceVersion"] == left.meta["resourceVersion"]
    assert await events.take(3) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "c")]


async def test_namespace_and_name_select_too(api: Api) -> None:
    since = await revision(api)
    for namespace, name in (("default", "a"), ("other", "a"), ("default", "b")):
        await api.config_map(name, namespace)
    events = await api.watch(CONFIG_MAPS, resourceVersion=since, fieldSelector="metadata.name=b")
    assert await events.take(1) == [("ADDED", "b")]
    single = await api.watch("/api/v1/watch/namespaces/default/configmaps/b", resourceVersion=since)
    assert await single.take(1) == [("ADDED", "b")]


async def test_the_present_state_comes_first_when_no_revision_is_given(api: Api) -> None:
    for name in ("a", "b"):
        await api.config_map(name)
    for query in ({}, {"resourceVersion": "0"}):
        events = await api.watch(CONFIG_MAPS, None, **query)
        assert await events.take(2) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_streaming_list_ends_with_a_bookmark(api: Api) -> None:
    await api.config_map("a")
    events = await api.watch(
        CONFIG_MAPS, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"
    )
    assert await events.take(1) == [("ADDED", "a")]
    bookmark = await events.next()
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"] == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": await revision(api), "annotations": END},
    }
    await api.config_map("b")
    assert await events.take(1) == [("ADDED", "b")]


async def test_a_watch_that_is_open_sees_what_happens(api: Api) -> None:
    events = await api.watch(CONFIG_MAPS, resourceVersion=await revision(api))
    waiting = asyncio.ensure_future(events.take(1))
    await asyncio.sleep(0)
    await api.config_map("a")
    assert await waiting == [("ADDED", "a")]


async def test_bookmarks_and_the_end_come_in_time(api: Api) -> None:
    await api.config_map("a")
    start = asyncio.get_running_loop().time()
    events = await api.watch(
        CONFIG_MAPS, resourceVersion=await revision(api), allowWatchBookmarks="true", timeoutSeconds="150"
    )
    found = await events.rest()
    assert asyncio.get_running_loop().time() - start == pytest.approx(150)
    assert [event["type"] for event in found] == ["BOOKMARK"] * 3
    assert {event["object"]["metadata"]["resourceVersion"] for event in found} == {await revision(api)}


async def test_a_bookmark_is_never_ahead_of_the_events(api: Api) -> None:
    events = await api.watch(
        CONFIG_MAPS, resourceVersion=await revision(api), allowWatchBookmarks="true", timeoutSeconds="70"
    )

    async def write_at_the_minute() -> None:
        await asyncio.sleep(60)
        await api.config_map("a")

    writing = asyncio.ensure_future(write_at_the_minute())
    found = await events.rest()
    await writing
    seen = 0
    for event in found:
        number = int(event["object"]["metadata"]["resourceVersion"])
        assert number >= seen
        seen = number
    assert [event["type"] for event in found if event["type"] != "BOOKMARK"] == ["ADDED"]


async def test_a_watch_that_was_to_end_before_it_began_shows_nothing(api: Api) -> None:
    await api.config_map("a")
    events = await api.watch(CONFIG_MAPS, timeoutSeconds="-1")
    assert await events.rest() == []


async def test_a_revision_that_is_forgotten_is_an_error_event(api: Api) -> None:
    await api.config_map("a")
    store = api.server.store
    assert isinstance(store, ObjectStore)
    store._buckets["configmaps"].window.floor = 5
    events = await api.watch(CONFIG_MAPS, resourceVersion="1")
    (event,) = await events.rest()
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["message"] == "too old resource version: 1 (5)"


async def test_metadata_of_events(api: Api) -> None:
    await api.config_map("a")
    accept = {"accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
    events = await api.watch(
        CONFIG_MAPS,
        accept,
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    )
    added, bookmark = await events.next(), await events.next()
    assert added["object"]["kind"] == bookmark["object"]["kind"] == "PartialObjectMetadata"
    assert sorted(added["object"]) == ["apiVersion", "kind", "metadata"]
    assert bookmark["object"]["metadata"]["annotations"] == END


async def test_watchers_share_their_frames(api: Api) -> None:
    since = await revision(api)
    await api.config_map("a")
    chunks = []
    for _ in range(2):
        response = await api.send("GET", "/api/v1/configmaps", watch="true", resourceVersion=since)
        assert not isinstance(response.body, bytes)
        chunks.append(await anext(response.body))
    assert chunks[0] is chunks[1]


async def test_a_bad_revision_is_refused_before_the_stream(api: Api) -> None:
    found = await api.get(CONFIG_MAPS, watch="true", resourceVersion="abc")
    assert (found.code, found.reason) == (500, "")
    assert found.message == 'resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax'


def protobuf_events(stream: bytes) -> list[tuple[str, JsonObject]]:
    """Type and object of every event in a stream: length, then field 1 (type) and 2 (an extension with field 1)."""
    events = []
    while stream:
        end = 4 + int.from_bytes(stream[:4], "big")
        (_, type_), (_, extension) = protobuf_fields(stream[4:end])
        ((_, body),) = protobuf_fields(extension)
        events.append((type_.decode(), protobuf_decode.decode(body)))
        stream = stream[end:]
    return events


def protobuf_fields(message: bytes) -> list[tuple[int, bytes]]:
    return [(number, message[start:end]) for number, _, start, end in protobuf_wire.fields(message, 0, len(message))]


async def test_a_watcher_that_reads_protobuf_only(api: Api) -> None:
    await api.config_map("a")
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    accept = {"accept": "application/vnd.kubernetes.protobuf"}
    response = await api.send("GET", CONFIG_MAPS, None, accept, ADMIN, watch="true", timeoutSeconds="1", **query)
    assert response.headers["content-type"] == "application/vnd.kubernetes.protobuf;stream=watch"
    assert not isinstance(response.body, bytes)
    (added, first), (bookmark, end) = protobuf_events(b"".join([chunk async for chunk in response.body]))
    assert (added, first["kind"], first["data"]) == ("ADDED", "ConfigMap", {"k": "v"})
    assert (bookmark, end["metadata"]["annotations"]) == ("BOOKMARK", END)


async def test_a_protobuf_watch_gets_errors_in_protobuf(api: Api) -> None:
    accept = {"accept": "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": "999999"}
    response = await api.send("GET", CONFIG_MAPS, None, accept, ADMIN, watch="true", **query)
    assert not isinstance(response.body, bytes)
    ((error, status),) = protobuf_events(b"".join([chunk async for chunk in response.body]))
    assert (error, status["kind"], status["code"], status["reason"]) == ("ERROR", "Status", 504, "Timeout")


async def test_there_is_no_watch_in_yaml(api: Api) -> None:
    said = await api.send("GET", CONFIG_MAPS, None, {"accept": "application/yaml"}, ADMIN, watch="true")
    assert said.status == 406
