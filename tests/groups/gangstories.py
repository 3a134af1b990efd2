"""Rows of the end-to-end checklist about gangs, G1 to G5, as stories for any cluster whose operator makes gangs for
Volcano. Its definition is a stand-in: what counts here is what Volcano would be told."""

from collections.abc import Mapping

from tests.builders import LeaderWorkerSet
from tests.groups.bare import pod_group_definition
from tests.groups.stories import Stage, Story

from kohort.groups.gang import VOLCANO_POD_GROUPS
from kohort.kube.client import Client
from kohort.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, LEADER_WORKER_SETS
from kohort.objects.json_types import JsonObject
from kohort.operator import wait_established
from kohort.rules import group_labels

REQUESTS = {"requests": {"cpu": "20m"}}


async def install(client: Client) -> None:
    definition = pod_group_definition("scheduling.volcano.sh", "v1beta1")
    await client.apply(CUSTOM_RESOURCE_DEFINITIONS, definition, field_manager="test")
    await wait_established(client, definition["metadata"]["name"])


async def gangs(stage: Stage) -> dict[str, JsonObject]:
    page = await stage.client.list(VOLCANO_POD_GROUPS, stage.namespace)
    return {one["metadata"]["name"]: one["spec"] for one in page.items}


def asking(stage: Stage) -> LeaderWorkerSet:
    return stage.new().replicas(2).but("spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.resources", REQUESTS)


async def g1_gangs_until_the_end(stage: Stage) -> None:
    """G3 as well."""
    await stage.create(asking(stage).size(4).startup(group_labels.LEADER_CREATED))
    found = await stage.settled(2)
    key = found["status"]["updateRevision"]
    wanted = {"minMember": 4, "minResources": {"cpu": "80m"}}
    assert await gangs(stage) == {f"llm-{index}-{key}": wanted for index in (0, 1)}
    for name, pod in (await stage.pods()).items():
        assert pod["metadata"]["annotations"][group_labels.POD_GROUP] == f"{name[:5]}-{key}"
    await stage.client.delete(LEADER_WORKER_SETS, "llm", stage.namespace)

    async def none_left() -> bool:
        return await gangs(stage) == {}

    await stage.until(none_left)


async def g2_leader_first(stage: Stage) -> None:
    await stage.create(asking(stage).size(4).startup(group_labels.LEADER_READY))
    await stage.settled(2)
    assert [*(await gangs(stage)).values()] == [{"minMember": 1, "minResources": {"cpu": "80m"}}] * 2


async def g4_resize_and_roll(stage: Stage) -> None:
    """G5 as well."""
    await stage.create(asking(stage).size(2))
    await stage.settled(2)
    await stage.edit({"spec": {"leaderWorkerTemplate": {"size": 4, "resizePolicy": "Recreate"}}})

    async def larger() -> bool:
        return [one["minMember"] for one in (await gangs(stage)).values()] == [4, 4]

    await stage.settled(2, larger)
    await stage.roll("2")
    found = await stage.settled(2, lambda: stage.all_have("2"))
    names = {f"llm-{index}-{found['status']['updateRevision']}" for index in (0, 1)}

    async def renamed() -> bool:
        return (await gangs(stage)).keys() == names

    await stage.until(renamed)


STORIES: Mapping[str, Story] = {
    "G1-G3": g1_gangs_until_the_end,
    "G2": g2_leader_first,
    "G4-G5": g4_resize_and_roll,
}
