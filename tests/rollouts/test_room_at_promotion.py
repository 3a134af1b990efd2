"""The room that the end of a release needs: foreseen before it begins, and not kept from the stable set by a canary."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import yaml
from tests.rollouts.releases import NAME, NAMESPACE, V1, V2, V3, Story, group_set, release_cluster, rollout

from kohort.cli.actions import plan, snapshot_reader
from kohort.inspection.forecast import forecast_lines
from kohort.inspection.rollout_plan import rollout_lines
from kohort.inspection.set_causes import causes
from kohort.kube.resources import LEADER_WORKER_SETS
from kohort.objects.json_types import Json, JsonObject
from kohort.rules import rollout_labels

ALL: list[JsonObject] = [{"replicas": 1, "pause": {}}, {"replicas": "100%"}]
HALF: list[JsonObject] = [{"replicas": 1, "pause": {}}]
SURGING = {"maxUnavailable": 0, "maxSurge": 1}
SURGE_BEYOND_ROOM = "nodes have room for 1 of the 2 groups of the new version: no node has enough cpu, the end of the"


def subject(image: str = V1, **rolling: Json) -> JsonObject:
    """Two groups of two pods. Each pod fills a node of the simulation, which has 32 cores."""
    found = group_set(image)
    container = found["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "30"}}
    found["spec"]["rolloutStrategy"] = {"rollingUpdateConfiguration": rolling or SURGING}
    return found


@asynccontextmanager
async def full_cluster(steps: list[JsonObject], nodes: int, **annotations: str) -> AsyncIterator[Story]:
    """A cluster that the set and the canary of the last step fill."""
    async with release_cluster(nodes=nodes) as (cluster, _):
        story = Story(cluster)
        document = rollout(steps=steps, routed=False)
        document["metadata"]["annotations"] = annotations
        await story.begin(subject(), document)
        yield story


async def change(story: Story, image: str) -> None:
    template = subject(image)["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    body = {"spec": {"leaderWorkerTemplate": {"workerTemplate": template}}}
    await story.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, body)


async def edit_strategy(story: Story, **rolling: Json) -> None:
    body = {"spec": {"rolloutStrategy": {"rollingUpdateConfiguration": rolling}}}
    await story.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, body)


def is_promoted(story: Story) -> bool:
    return rollout_labels.IN_PROGRESSING not in story.stable["metadata"]["annotations"]


def canary_images(story: Story) -> set[str]:
    pods = [pod for one in story.canaries for pod in story.pods(one["metadata"]["name"])]
    return {pod["spec"]["containers"][0]["image"] for pod in pods}


async def planned(story: Story, image: str) -> list[str]:
    """Of the set, and of its Rollout as it is."""
    document = {name: story.rollout[name] for name in ("apiVersion", "kind", "metadata", "spec")}
    files = {"llm.yaml": yaml.safe_dump_all([dict(subject(image)), document])}
    sets, rollouts = await plan.planned(story.client, NAMESPACE, files)
    return forecast_lines(sets[0].forecast) + rollout_lines(rollouts[0])


async def advice(story: Story) -> list[str]:
    snapshot = await snapshot_reader.snapshot(story.client, NAMESPACE, NAME)
    return [one.action.text for one in causes(snapshot)]


async def test_groups_of_a_full_canary_stand_in_for_a_surge_that_has_no_room() -> None:
    async with full_cluster(ALL, nodes=8) as story:
        assert any(line.startswith("Room: it fits") for line in await planned(story, V2))
        await change(story, V2)
        await story.at(1)
        assert (story.condition("Capacity") or {})["reason"] == "RoomForAll"
        await story.approve()
        await story.healthy(V2)
        assert story.rolling() == {"partition": 0, "maxUnavailable": 0, "maxSurge": 1}


async def test_a_surge_beside_a_smaller_canary_is_foreseen_and_explain_knows_the_way_out() -> None:
    async with full_cluster(HALF, nodes=6) as story:
        lines = await planned(story, V2)
        assert any(line.startswith("Room: the end of the release does not fit") for line in lines)
        assert any(line.startswith("Room needed on top of today's: 2 groups, 4 pods") for line in lines)
        await change(story, V2)
        await story.at(1)
        condition = story.condition("Capacity") or {}
        assert condition["reason"] == "CapacityMissing"
        assert condition["message"].startswith(SURGE_BEYOND_ROOM)
        await story.approve()
        await story.until(lambda: is_promoted(story))
        await asyncio.sleep(60)
        assert V2 not in {pod["spec"]["containers"][0]["image"] for pod in story.pods() if "nodeName" in pod["spec"]}
        [found] = [one for one in await advice(story) if "without a surge" in one]
        assert "wait: the new version is promoted" not in await advice(story)
        command, _, patch = found.partition(" -p ")
        assert command.endswith(f"kubectl -n {NAMESPACE} patch leaderworkerset {NAME} --type merge")
        await story.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, yaml.safe_load(patch.strip("'")))
        await story.healthy(V2)
        assert story.rolling() == {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}


async def test_a_release_that_requires_room_waits_for_that_of_the_surge_too() -> None:
    async with full_cluster(HALF, nodes=6, **{rollout_labels.REQUIRE_CAPACITY: "true"}) as story:
        await change(story, V2)
        await story.until(lambda: SURGE_BEYOND_ROOM in str(story.rollout["status"]["message"]))
        assert not story.canaries
        await edit_strategy(story, maxUnavailable=1)
        await edit_strategy(story, maxSurge="0%")
        await story.at(1)


@pytest.mark.parametrize("paused", [True, False], ids=["at a paused step", "while it is promoted"])
async def test_an_edit_of_the_strategy_outlives_the_release(paused: bool) -> None:
    async with full_cluster(ALL, nodes=8) as story:
        await change(story, V2)
        await story.at(1)
        if not paused:
            await story.approve()
            await story.until(lambda: is_promoted(story))
        await edit_strategy(story, maxSurge=0 if not paused else 2, maxUnavailable=1 if not paused else 2)
        if paused:
            await story.approve()
        await story.healthy(V2)
        expected = (2, 2) if paused else (0, 1)
        assert (story.rolling()["maxSurge"], story.rolling()["maxUnavailable"]) == expected


async def test_a_plan_that_supersedes_a_release_does_not_count_its_canary() -> None:
    async with full_cluster([{"replicas": "100%", "pause": {}}, {"replicas": "100%"}], nodes=8) as story:
        await change(story, V2)
        await story.at(1)
        lines = await planned(story, V3)
        assert any(line.startswith("Room: it fits") for line in lines)
        assert "  Nodes have room for the 2 groups of the new version." in lines
        await change(story, V3)
        await story.until(lambda: V3 in canary_images(story))
        assert (story.condition("Capacity") or {})["reason"] == "RoomForAll"
