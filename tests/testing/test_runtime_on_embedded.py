"""The runtime against the embedded API server: the protocol from both of its ends."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.kube import errors
from kohort.kube.client import Client, PatchType, Selection
from kohort.kube.events import EventRecorder
from kohort.kube.informer import Informer
from kohort.kube.leader_election import LeaderElection
from kohort.kube.resources import CONFIG_MAPS, EVENTS, LEASES, PODS, SECRETS
from kohort.kube.tasks import cancel_all
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import PartialObject
from kohort.testing import Cluster, virtual_time
from kohort.testing.faults import Faults


def config_map(name: str, **data: str) -> JsonObject:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


async def test_the_life_of_an_object() -> None:
    async with Cluster() as cluster:
        client = cluster.client
        created = await client.create(CONFIG_MAPS, config_map("a", x="1"))
        updated = await client.update(CONFIG_MAPS, created | {"data": {"x": "2"}})
        with pytest.raises(errors.Conflict, match="the object has been modified"):
            await client.update(CONFIG_MAPS, created | {"data": {"x": "3"}})
        assert (await client.update(CONFIG_MAPS, updated))["metadata"]["resourceVersion"] == (
            updated["metadata"]["resourceVersion"]
        ), "a write that changes nothing is none"
        merged = await client.patch(CONFIG_MAPS, "a", "default", {"data": {"y": "4"}})
        assert merged["data"] == {"x": "2", "y": "4"}
        operations = [{"op": "remove", "path": "/data/x"}]
        assert (await client.patch(CONFIG_MAPS, "a", "default", operations, PatchType.JSON))["data"] == {"y": "4"}
        with pytest.raises(errors.Conflict):
            await client.delete(CONFIG_MAPS, "a", "default", uid="another")
        await client.delete(CONFIG_MAPS, "a", "default", uid=created["metadata"]["uid"])
        assert await client.find(CONFIG_MAPS, "a", "default") is None


async def test_two_appliers_share_an_object_and_conflicts_are_told() -> None:
    async with Cluster() as cluster:
        client = cluster.client
        await client.apply(CONFIG_MAPS, config_map("a", x="1"), field_manager="one")
        both = await client.apply(CONFIG_MAPS, config_map("a", y="2"), field_manager="two")
        assert both["data"] == {"x": "1", "y": "2"}
        with pytest.raises(errors.Conflict) as caught:
            await client.apply(CONFIG_MAPS, config_map("a", x="9", y="2"), field_manager="two", force=False)
        assert caught.value.status.details is not None
        assert [cause.field for cause in caught.value.status.details.causes] == [".data.x"]
        forced = await client.apply(CONFIG_MAPS, config_map("a", x="9"), field_manager="two")
        assert forced["data"] == {"x": "9"}


async def test_lists_in_chunks_show_one_moment() -> None:
    async with Cluster() as cluster:
        client = cluster.client
        for number in range(7):
            await client.create(SECRETS, {"metadata": {"name": f"s{number}", "namespace": "default"}})
        seen: list[str] = []
        async for page in client.pages(Selection(SECRETS, "default"), type=PartialObject, chunk=3):
            seen += [item.metadata.name for item in page.items]
            await client.create(SECRETS, {"metadata": {"generateName": "later-", "namespace": "default"}})
        assert seen == [f"s{number}" for number in range(7)]


async def test_selectors_limit_lists_and_watches() -> None:
    async with Cluster() as cluster:
        client = cluster.client
        red = Informer.alone(client, Selection(CONFIG_MAPS, "default", label_selector="color=red"), PartialObject)
        task = asyncio.create_task(red.run())
        await red.wait_synced()
        for name, color in (("a", "red"), ("b", "blue")):
            obj = config_map(name)
            obj["metadata"]["labels"] = {"color": color}
            await client.create(CONFIG_MAPS, obj)
        await asyncio.sleep(1)
        assert [obj.metadata.name for obj in red.list()] == ["a"]
        await client.patch(CONFIG_MAPS, "b", "default", {"metadata": {"labels": {"color": "red"}}})
        await client.patch(CONFIG_MAPS, "a", "default", {"metadata": {"labels": {"color": "blue"}}})
        await asyncio.sleep(1)
        assert [obj.metadata.name for obj in red.list()] == ["b"]
        by_name = await client.list(CONFIG_MAPS, "default", field_selector="metadata.name=a")
        assert [item["metadata"]["name"] for item in by_name.items] == ["a"]
        await cancel_all(task)


async def test_metadata_is_enough_for_some() -> None:
    async with Cluster() as cluster:
        await cluster.client.create(CONFIG_MAPS, config_map("a", x="1"))
        informer = Informer.alone(cluster.client, Selection(CONFIG_MAPS, "default", metadata_only=True), PartialObject)
        task = asyncio.create_task(informer.run())
        await informer.wait_synced()
        page = await cluster.client.list(CONFIG_MAPS, "default", metadata_only=True)
        assert "data" not in page.items[0]
        await cluster.client.create(CONFIG_MAPS, config_map("b"))
        await asyncio.sleep(1)
        assert {obj.metadata.name for obj in informer.list()} == {"a", "b"}
        await cancel_all(task)


async def test_a_lease_and_an_event_are_accepted_as_they_are() -> None:
    async with Cluster() as cluster:
        election = LeaderElection(cluster.client, "operator", "default", "me")
        task = asyncio.create_task(election.run(lambda: asyncio.sleep(60)))
        await asyncio.sleep(30)
        lease = cluster.find(LEASES, "operator", "default")
        assert lease is not None
        assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseDurationSeconds"]) == ("me", 15)
        await task
        released = cluster.find(LEASES, "operator", "default")
        assert released is not None
        assert released["spec"].get("holderIdentity", "") == ""
        recorder = EventRecorder(cluster.client, "test")
        pod = {"metadata": {"name": "web-0", "namespace": "default", "uid": "u"}}
        for _ in range(3):
            recorder.warning(PODS, pod, "Unhealthy", "probe failed")
        await recorder.close()
        (event,) = cluster.objects(EVENTS)
        assert (event["count"], event["reason"]) == (3, "Unhealthy")


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "delete", "disconnect", "expire", "wait", "settle"]),
        st.sampled_from("abc"),
    ),
    max_size=40,
)


@settings(max_examples=15, deadline=None)
@given(STEPS, st.integers(0, 4), st.integers(0, 3), st.floats(0, 2))
def test_a_cache_of_the_embedded_server_ends_up_equal_whatever_happens(
    steps: list[tuple[str, str]], drop: int, duplicate: int, delay: float
) -> None:
    virtual_time.run(_follow(steps, drop, duplicate, delay))


async def _follow(steps: list[tuple[str, str]], drop: int, duplicate: int, delay: float) -> None:
    async with Cluster() as cluster:
        faults = Faults()
        if drop:
            faults.drop_events(drop + 1)
        if duplicate:
            faults.duplicate_events(duplicate)
        faults.delay_events(delay)
        client = Client(faults.wrap(cluster.transport()))
        informer = Informer.alone(client, Selection(CONFIG_MAPS, "default"), PartialObject)
        task = asyncio.create_task(informer.run())
        for number, (step, name) in enumerate(steps):
            match step:
                case "put":
                    await cluster.client.apply(CONFIG_MAPS, config_map(name, x=str(number)))
                case "delete":
                    if cluster.find(CONFIG_MAPS, name, "default"):
                        await cluster.client.delete(CONFIG_MAPS, name, "default")
                case "disconnect":
                    faults.disconnect()
                case "expire":
                    faults.expire_history()
                case "wait":
                    await asyncio.sleep(0.3)
                case "settle":
                    await asyncio.sleep(400)
        faults.clear()
        await asyncio.sleep(200)
        stored = {
            obj["metadata"]["name"]: obj["metadata"]["resourceVersion"]
            for obj in cluster.objects(CONFIG_MAPS, "default")
        }
        assert {obj.metadata.name: obj.metadata.resource_version for obj in informer.list()} == stored
        await cancel_all(task)
