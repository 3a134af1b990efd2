"""A release that requires capacity does not begin before its groups have room."""

import asyncio

from tests.rollouts.releases import V1, V2, Story, group_set, release_cluster, rollout

from kohort.kube.resources import LEADER_WORKER_SETS, NODES
from kohort.objects.json_types import JsonObject
from kohort.rules import rollout_labels


def containers(image: str) -> list[JsonObject]:
    """One pod fills a node of the simulation, which has 32 cores."""
    ports = [{"name": "http", "containerPort": 8080}]
    return [{"name": "main", "image": image, "ports": ports, "resources": {"requests": {"cpu": "30"}}}]


async def begin(story: Story) -> None:
    plan, subject = rollout(), group_set()
    plan["metadata"]["annotations"] = {rollout_labels.REQUIRE_CAPACITY: "true"}
    subject["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"] = containers(V1)
    await story.begin(subject, plan)


async def change(story: Story, image: str) -> None:
    body = {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": containers(image)}}}}}
    await story.client.patch(LEADER_WORKER_SETS, "llm", "default", body)


def message(story: Story) -> str:
    return str(story.rollout["status"]["message"])


async def test_a_release_waits_for_room_and_begins_when_there_is_some() -> None:
    async with release_cluster(nodes=8) as (cluster, _):
        story = Story(cluster)
        await begin(story)
        used = {pod["spec"]["nodeName"] for pod in story.pods()}
        closed = [node["metadata"]["name"] for node in cluster.objects(NODES)]
        closed = [name for name in closed if name not in used][:2]
        for name in closed:
            await story.client.patch(NODES, name, "", {"spec": {"unschedulable": True}})
        await change(story, V2)
        text = "nodes have room for 1 of the 2 groups of the new version: no node has enough cpu"
        await story.until(lambda: text in message(story))
        await asyncio.sleep(120)
        assert not story.canaries
        assert len(story.events("CapacityMissing")) == 1
        for name in closed:
            await story.client.patch(NODES, name, "", {"spec": {"unschedulable": None}})
        await story.at(1, timeout=120)


async def test_a_release_that_waits_for_room_can_be_taken_back() -> None:
    async with release_cluster(nodes=4) as (cluster, _):
        story = Story(cluster)
        await begin(story)
        await change(story, V2)
        await story.until(lambda: "room for 0 of the 2 groups" in message(story))
        await change(story, V1)
        await story.healthy(V1)
