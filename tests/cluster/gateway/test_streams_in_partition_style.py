"""Streams survive the replacement of their pods in partition style: each pod leaves the Service, and is drained, before
it gets the new version."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession
from tests.cluster.gateway.test_groups_under_load import Pods, User, hasty
from tests.cluster.gateway.test_streams_during_releases import STREAMS, draining, streaming
from tests.rollouts.deployments import Story
from tests.rollouts.releases import NAMESPACE, V1, V2, rollout

from kohort.cluster.gateway.data_plane import DataPlane
from kohort.cluster.gateway.registration import register
from kohort.kube.manager import Manager
from kohort.kube.resources import DEPLOYMENTS, EVENTS, PODS, SERVICES, STATEFUL_SETS, Resource
from kohort.objects.json_types import JsonObject
from kohort.rules import rollout_labels
from kohort.testing import Cluster

OLD, NEW = f"{V1} member None", f"{V2} member None"
KINDS = pytest.mark.parametrize("resource", [STATEFUL_SETS, DEPLOYMENTS], ids=lambda one: one.plural)


def plan(steps: list[JsonObject], seconds: int = 120) -> JsonObject:
    document = draining(rollout(steps=steps), seconds)
    document["spec"]["strategy"]["canary"]["enableExtraWorkloadForCanary"] = False
    return hasty(document)


@asynccontextmanager
async def scene(resource: Resource, document: JsonObject) -> AsyncIterator[tuple[Story, User]]:
    planes: list[DataPlane] = []
    pods: Pods

    def gateway(manager: Manager) -> None:
        planes.append(register(manager, dial=lambda address, port: pods.dial(address, port)))

    cluster = Cluster(parts=("workloads", "scheduler", "operator"), nodes=12, extra={"gateway": gateway})
    pods = Pods(cluster)
    async with cluster, ClientSession() as http:
        story = Story(cluster, resource)
        await story.begin(document)
        user = User(planes[0], http, pods)
        await cluster.until(lambda: bool(planes[0].address), 30)
        async with asyncio.timeout(120):
            while await user.ask() != OLD:
                pass
        asking = asyncio.ensure_future(user.keep_asking())
        try:
            yield story, user
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
    await pods.close()


def is_draining(story: Story) -> bool:
    events = [one["message"] for one in story.cluster.objects(EVENTS, NAMESPACE) if one["reason"] == "PodsDraining"]
    return any("in flight" in text for text in (story.message, *events))


def nothing_is_withdrawn(story: Story) -> bool:
    service = story.cluster.find(SERVICES, "llm-leader", NAMESPACE) or {"metadata": {}, "spec": {"selector": {}}}
    pods = [one["metadata"].get("labels", {}) for one in story.cluster.objects(PODS, NAMESPACE)]
    return (
        rollout_labels.SERVES not in service["spec"]["selector"]
        and rollout_labels.WITHDRAWN_PODS not in (service["metadata"].get("annotations") or {})
        and not any(rollout_labels.SERVES in labels for labels in pods)
    )


STEPS: list[JsonObject] = [
    {"replicas": "50%", "traffic": "60%", "pause": {}},
    {"replicas": "100%", "pause": {}},
]


@KINDS
@pytest.mark.timeout(400)
@pytest.mark.parametrize("steps", [STEPS, STEPS[:1]], ids=["to 100 %", "last step below 100 %"])
async def test_streams_survive_steps_and_the_end(resource: Resource, steps: list[JsonObject]) -> None:
    async with scene(resource, plan(steps)) as (story, user), streaming(user) as streams:
        await story.change(V2)
        await story.until(lambda: is_draining(story))
        assert not streams.texts
        user.pods.finish_streams.set()
        async with asyncio.timeout(120):
            await streams.all_ended.wait()
        assert streams.texts == [f"{OLD} end"] * STREAMS
        await story.at(1)
        await story.approve()
        await story.healthy(V2)
        await story.until(lambda: nothing_is_withdrawn(story))
        assert user.seen.keys() <= {OLD, NEW}


@KINDS
@pytest.mark.timeout(400)
async def test_an_abort_while_pods_are_drained_gives_them_their_requests_back(resource: Resource) -> None:
    async with scene(resource, plan(STEPS)) as (story, user), streaming(user) as streams:
        await story.change(V2)
        await story.until(lambda: is_draining(story))
        await story.change(V1)
        await story.until(lambda: nothing_is_withdrawn(story))
        user.pods.finish_streams.set()
        async with asyncio.timeout(120):
            await streams.all_ended.wait()
        assert set(streams.texts) == {f"{OLD} end"}
        await story.healthy(V1)
        assert user.seen.keys() <= {OLD, NEW}


@KINDS
@pytest.mark.timeout(400)
async def test_streams_that_do_not_end_do_not_stop_a_release(resource: Resource) -> None:
    async with scene(resource, plan(STEPS, seconds=2)) as (story, user), streaming(user) as streams:
        await story.change(V2)
        await story.at(1)
        assert any(text.startswith("cut") for text in streams.texts)
        assert any(one["reason"] == "DrainTimedOut" for one in story.cluster.objects(EVENTS, NAMESPACE))
        user.pods.finish_streams.set()
