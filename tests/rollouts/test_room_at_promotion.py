"""The room that the end of a release needs: foreseen before it begins, and not kept from the stable set by a canary."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from types import MappingProxyType

import pytest
import yaml
from tests.rollouts.releases import NAME, NAMESPACE, V1, V2, V3, Story, group_set, new_cluster, release_cluster, rollout

from kohort.cli.actions import plan, snapshot_reader
from kohort.inspection.forecast import forecast_lines
from kohort.inspection.rollout_plan import rollout_lines
from kohort.inspection.set_causes import causes
from kohort.kube.errors import ApiError, NotFound
from kohort.kube.resources import LEADER_WORKER_SETS, NODES, PODS, ROLLOUTS
from kohort.kube.tasks import cancel_all
from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts.promotion_pace import GRACE_SECONDS, PATIENCE_SECONDS
from kohort.rules import group_labels, rollout_labels
from kohort.testing import Cluster
from kohort.testing.crashes import crash_repeatedly

ALL: list[JsonObject] = [{"replicas": 1, "pause": {}}, {"replicas": "100%"}]
HALF: list[JsonObject] = [{"replicas": 1, "pause": {}}]
SURGING = {"maxUnavailable": 0, "maxSurge": 1}
SURGE_BEYOND_ROOM = "nodes have room for 1 of the 2 groups of the new version: no node has enough cpu, the end of the"
WITHOUT_SURGE = "PromotedWithoutSurge"


def subject(image: str = V1, replicas: int = 2, *, claims: bool = False, **rolling: Json) -> JsonObject:
    """Groups of two pods. Each pod fills a node of the simulation, which has 32 cores."""
    found = group_set(image, replicas)
    template = found["spec"]["leaderWorkerTemplate"]
    container = template["workerTemplate"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "30"}}
    if claims:
        container["volumeMounts"] = [{"name": "cache", "mountPath": "/cache"}]
        wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        template["volumeClaimTemplates"] = [{"metadata": {"name": "cache"}, "spec": wanted}]
    found["spec"]["rolloutStrategy"] = {"rollingUpdateConfiguration": rolling or SURGING}
    return found


@asynccontextmanager
async def full_cluster(
    steps: list[JsonObject],
    nodes: int,
    first: JsonObject | None = None,
    *,
    blue_green: bool = False,
    annotations: Mapping[str, str] = MappingProxyType({}),
) -> AsyncIterator[Story]:
    """A cluster that the set and the canary of the last step fill."""
    async with release_cluster(nodes=nodes) as (cluster, _):
        story = Story(cluster)
        document = rollout(steps=steps, routed=False, blue_green=blue_green)
        document["metadata"]["annotations"] = dict(annotations)
        await story.begin(first or subject(), document)
        yield story


class ReadyGroups:
    """Counts ready groups of the set and its canaries together, at every change of a pod."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._pods: dict[str, JsonObject] = {}
        self.fewest = 1_000
        self.fewest_stable = 1_000

    async def watch(self) -> None:
        async for event in self._story.client.watch(PODS, NAMESPACE):
            if event.type not in ("ADDED", "MODIFIED", "DELETED"):
                continue
            self._pods.pop(event.object["metadata"]["name"], None)
            if event.type != "DELETED":
                self._pods[event.object["metadata"]["name"]] = event.object
            self._count()

    def _count(self) -> None:
        found: dict[tuple[str, str], int] = {}
        for pod in self._pods.values():
            labels = pod["metadata"]["labels"]
            conditions = (pod.get("status") or {}).get("conditions") or []
            ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
            if ready and "deletionTimestamp" not in pod["metadata"]:
                group = (labels[group_labels.NAME], labels[group_labels.GROUP_INDEX])
                found[group] = found.get(group, 0) + 1
        whole = [group for group, count in found.items() if count == 2]
        self.fewest = min(self.fewest, len(whole))
        self.fewest_stable = min(self.fewest_stable, sum(name == NAME for name, _ in whole))

    def begin(self) -> None:
        """Count from now on."""
        self.fewest = self.fewest_stable = 1_000
        self._count()


@asynccontextmanager
async def counted(story: Story) -> AsyncIterator[ReadyGroups]:
    groups = ReadyGroups(story)
    watching = asyncio.create_task(groups.watch())
    await asyncio.sleep(1.0)
    groups.begin()
    try:
        yield groups
    finally:
        await cancel_all(watching)


async def promotion_begins(story: Story) -> None:
    """From a set at its first version to the moment at which it begins to roll."""
    await change(story, V2)
    await story.at(1)
    await story.approve()
    await story.until(lambda: is_promoted(story))


def surge_is_given_up(story: Story) -> bool:
    return bool(story.rolling()["maxSurge"] == "0%")


async def change(story: Story, image: str) -> None:
    claims = "volumeClaimTemplates" in story.stable["spec"]["leaderWorkerTemplate"]
    template = subject(image, claims=claims)["spec"]["leaderWorkerTemplate"]["workerTemplate"]
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
    async with full_cluster(ALL, nodes=8) as story, counted(story) as groups:
        assert any(line.startswith("Room: it fits") for line in await planned(story, V2))
        await change(story, V2)
        await story.at(1)
        assert (story.condition("Capacity") or {})["reason"] == "RoomForAll"
        await story.approve()
        await story.until(lambda: is_promoted(story))
        assert story.rolling() == {"partition": 0, "maxUnavailable": 0, "maxSurge": 1}
        await asyncio.sleep(GRACE_SECONDS - 5)
        assert groups.fewest_stable == 2
        assert len(story.pods()) == 6, "the surge is tried"
        assert "after 30 s the set goes on without its surge" in story.rollout["status"]["message"]
        assert "wait: the set soon goes on without a surge, groups of the canary stand in for it" in await advice(story)
        await story.until(lambda: surge_is_given_up(story), 10)
        await story.until(lambda: "groups of the canary stand in for it" in story.rollout["status"]["message"])
        assert "wait: the new version is promoted" in await advice(story)
        await story.healthy(V2)
        assert story.rolling() == {"partition": 0, "maxUnavailable": 0, "maxSurge": 1}
        assert groups.fewest == 2
        assert story.events(WITHOUT_SURGE) == [
            "new groups of llm find no node: it is promoted without a surge, 1 group at a time; the canary stands in"
        ]


async def test_a_surge_that_has_room_is_kept() -> None:
    async with full_cluster(ALL, nodes=10) as story, counted(story) as groups:
        await promotion_begins(story)
        await story.healthy(V2)
        assert groups.fewest_stable == 2
        assert story.events(WITHOUT_SURGE) == []


async def test_a_surge_that_gets_room_within_the_grace_is_kept() -> None:
    async with full_cluster(ALL, nodes=10) as story, counted(story) as groups:
        await change(story, V2)
        await story.at(1)
        free = {one["metadata"]["name"] for one in story.cluster.objects(NODES)}
        await story.approve()
        await story.until(lambda: is_promoted(story) or len(story.pods(story.canary["metadata"]["name"])) == 4)
        free -= {pod["spec"].get("nodeName") for pod in story.cluster.objects(PODS, NAMESPACE)}
        await cordon(story, free, closed=True)
        await story.until(lambda: is_promoted(story))
        await asyncio.sleep(GRACE_SECONDS - 10)
        assert story.rolling()["maxSurge"] == 1
        await cordon(story, free, closed=False)
        await story.healthy(V2)
        assert groups.fewest_stable == 2
        assert story.events(WITHOUT_SURGE) == []


async def cordon(story: Story, nodes: set[str], *, closed: bool) -> None:
    for name in nodes:
        await story.client.patch(NODES, name, "", {"spec": {"unschedulable": closed or None}})


async def test_a_surge_group_does_not_keep_the_node_that_a_replaced_group_is_bound_to() -> None:
    first = subject(replicas=3, claims=True, maxUnavailable=1, maxSurge=1)
    async with full_cluster(ALL, nodes=12, first=first) as story, counted(story) as groups:
        await promotion_begins(story)
        await story.healthy(V2)
        assert story.rolling() == {"partition": 0, "maxUnavailable": 1, "maxSurge": 1}
        assert groups.fewest >= 2
        assert len(story.events(WITHOUT_SURGE)) == 1


async def lose_canary(story: Story, *groups: int, for_long: bool = True) -> set[str]:
    """Delete groups of the canary, and close their nodes if they shall not come back; these."""
    name = story.canary["metadata"]["name"]
    lost = [pod for pod in story.pods(name) if int(pod["metadata"]["labels"][group_labels.GROUP_INDEX]) in groups]
    nodes = {pod["spec"]["nodeName"] for pod in lost}
    await cordon(story, nodes if for_long else set(), closed=True)
    for pod in lost:
        with suppress(NotFound):
            await story.client.delete(PODS, pod["metadata"]["name"], NAMESPACE)
    return nodes


async def test_a_lost_group_of_the_canary_does_not_stop_a_promotion_that_others_stand_in_for() -> None:
    async with full_cluster(ALL, nodes=8) as story, counted(story) as groups:
        await promotion_begins(story)
        await story.until(lambda: surge_is_given_up(story))
        await lose_canary(story, 1, for_long=False)
        await story.healthy(V2)
        assert groups.fewest == 2
        assert story.events("CanaryUnavailable") == []


async def test_no_further_group_is_taken_while_no_group_of_the_canary_can_stand_in() -> None:
    async with full_cluster(ALL, nodes=8) as story, counted(story) as groups:
        await promotion_begins(story)
        await story.until(lambda: surge_is_given_up(story))
        nodes = await lose_canary(story, 0, 1)
        await story.until(lambda: story.rolling()["partition"] == 1)
        await story.until(story.all_ready)
        groups.begin()
        await asyncio.sleep(120)
        assert (groups.fewest_stable, story.images()) == (2, {V1, V2})
        assert "no further group is replaced until the canary has a ready group" in story.rollout["status"]["message"]
        assert len(story.events("CanaryUnavailable")) == 1
        await cordon(story, nodes, closed=False)
        await story.healthy(V2)
        assert groups.fewest == 2
        assert story.rolling() == {"partition": 0, "maxUnavailable": 0, "maxSurge": 1}


async def test_a_canary_that_lacks_a_group_does_not_stand_in_for_a_surge() -> None:
    async with full_cluster(ALL, nodes=8) as story, counted(story) as groups:
        await promotion_begins(story)
        nodes = await lose_canary(story, 1)
        groups.begin()
        await asyncio.sleep(PATIENCE_SECONDS - 60)
        assert (groups.fewest_stable, story.rolling()["maxSurge"]) == (2, 1)
        assert "the canary has 1/2 groups ready" in story.rollout["status"]["message"]
        assert any("let the set roll without a surge" in one for one in await advice(story))
        await cordon(story, nodes, closed=False)
        await story.healthy(V2, 1200)
        assert groups.fewest >= 2


async def test_a_canary_that_a_user_deletes_stands_in_until_the_release_ends() -> None:
    async with full_cluster(ALL, nodes=8) as story, counted(story) as groups:
        await promotion_begins(story)
        await story.until(lambda: surge_is_given_up(story))
        await story.client.delete(LEADER_WORKER_SETS, story.canary["metadata"]["name"], NAMESPACE)
        await story.healthy(V2)
        assert groups.fewest == 2


@pytest.mark.parametrize("given_up", [True, False], ids=["after the surge was given up", "before"])
async def test_an_undo_finds_the_same_room(given_up: bool) -> None:
    async with full_cluster(ALL, nodes=8) as story, counted(story) as groups:
        await promotion_begins(story)
        await story.until(lambda: surge_is_given_up(story) or not given_up)
        await change(story, V1)
        await story.healthy(V1)
        assert groups.fewest == 2
        assert story.rolling() == {"partition": 0, "maxUnavailable": 0, "maxSurge": 1}


@pytest.mark.parametrize("replicas", [1, 3])
async def test_scaling_after_the_surge_was_given_up(replicas: int) -> None:
    """The third group finds no node before the canary is gone: the user frees two by hand."""
    async with full_cluster(ALL, nodes=8) as story:
        await promotion_begins(story)
        await story.until(lambda: surge_is_given_up(story))
        await story.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, {"spec": {"replicas": replicas}})
        if replicas == 3:
            await asyncio.sleep(60)
            await story.client.patch(
                LEADER_WORKER_SETS, story.canary["metadata"]["name"], NAMESPACE, {"spec": {"replicas": 1}}
            )
        await story.healthy(V2)
        assert story.rolling() == {"partition": 0, "maxUnavailable": 0, "maxSurge": 1}


@pytest.mark.parametrize("how", ["deleted", "disabled"])
async def test_a_rollout_that_ends_after_the_surge_was_given_up_leaves_the_strategy_of_the_user(how: str) -> None:
    async with full_cluster(ALL, nodes=8) as story:
        await promotion_begins(story)
        await story.until(lambda: surge_is_given_up(story))
        if how == "deleted":
            await story.client.delete(ROLLOUTS, NAME, NAMESPACE)
        else:
            await story.edit({"spec": {"disabled": True}})
        await story.until(lambda: story.nothing_left() and story.images() == {V2} and story.all_ready())
        assert story.rolling() == {"partition": 0, "maxUnavailable": 0, "maxSurge": 1}


async def test_another_template_is_refused_after_the_surge_was_given_up() -> None:
    async with full_cluster(ALL, nodes=8) as story:
        await promotion_begins(story)
        await story.until(lambda: surge_is_given_up(story))
        with pytest.raises(ApiError, match="is being promoted"):
            await change(story, V3)
        await story.healthy(V2)


async def test_blue_green_needs_no_room_for_a_surge() -> None:
    steps = [{"replicas": "100%", "pause": {}}]
    async with full_cluster(steps, nodes=8, blue_green=True) as story, counted(story) as groups:
        await change(story, V2)
        await story.at(1)
        [closed] = [{pod["spec"]["nodeName"]} for pod in story.pods() if pod["metadata"]["name"] == f"{NAME}-1"]
        await cordon(story, closed, closed=True)
        await story.approve()
        await asyncio.sleep(120)
        assert (story.stable["status"]["readyReplicas"], len(story.canaries)) == (1, 1), "no group may be away"
        await cordon(story, closed, closed=False)
        await story.healthy(V2)
        assert groups.fewest == 2
        assert story.rolling() == {"partition": 0, "maxUnavailable": 0, "maxSurge": 1}


@pytest.mark.timeout(600)
def test_the_operator_can_die_at_any_write_while_the_surge_finds_no_node() -> None:
    async def scenario(cluster: Cluster) -> None:
        story = Story(cluster)
        await story.begin(subject(), rollout(steps=[{"replicas": "100%"}], routed=False))
        while True:
            with suppress(ApiError):
                await change(story, V2)
                break
            await asyncio.sleep(1.0)
        await story.healthy(V2)
        assert story.rolling() == {"partition": 0, "maxUnavailable": 0, "maxSurge": 1}
        await cluster.settle(quiet=10.0)  # a crash at the very end: the operator comes back before the cluster goes

    deaths = crash_repeatedly(lambda: new_cluster(nodes=8), "operator", scenario, every=5)
    assert len(deaths) >= 10


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
    async with full_cluster(HALF, nodes=6, annotations={rollout_labels.REQUIRE_CAPACITY: "true"}) as story:
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
