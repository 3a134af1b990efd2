"""Pods that were created while the pod webhook was away are replaced as soon as it is back; until then it is told."""

import asyncio

from tests.builders import lws
from tests.groups.bare import NAME, NAMESPACE, World, bare, sample
from tests.groups.test_lifecycle import NAMESPACE as SPACE
from tests.groups.test_lifecycle import create, groups_cluster, pods, settled

from kohort.admission.webhook_configurations import MUTATING
from kohort.kube.resources import EVENTS, LEADER_WORKER_SETS, MUTATING_WEBHOOKS, PODS
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.testing import Cluster


async def take_away(cluster: Cluster) -> JsonObject:
    """As an administrator does in need: pods shall be created without asking."""
    found: JsonObject = await cluster.client.get(MUTATING_WEBHOOKS, MUTATING)
    without = {**found, "webhooks": [one for one in found["webhooks"] if one["name"] != "mpod.kb.io"]}
    await cluster.client.update(MUTATING_WEBHOOKS, without)
    return found


async def give_back(cluster: Cluster, before: JsonObject) -> None:
    now = await cluster.client.get(MUTATING_WEBHOOKS, MUTATING)
    await cluster.client.update(MUTATING_WEBHOOKS, {**now, "webhooks": before["webhooks"]})


def missed(world: World) -> list[str]:
    return [one for one in world.events if one.startswith("Warning WebhookMissed")]


async def test_a_whole_cluster_recovers_when_the_webhook_is_back() -> None:
    async with groups_cluster() as cluster:
        before = await take_away(cluster)
        await create(cluster, lws("llm").replicas(2).size(3).restart("None"))
        await cluster.until(lambda: len(pods(cluster)) == 2)
        await cluster.settle(quiet=5)
        assert sorted(pods(cluster)) == ["llm-0", "llm-1"], "no workers for leaders that do not know their group"
        await give_back(cluster, before)
        await cluster.until(lambda: settled(cluster, 2))
        assert len(pods(cluster)) == 6
        for name, pod in pods(cluster).items():
            variables = {one["name"]: one["value"] for one in pod["spec"]["containers"][0]["env"]}
            assert variables["LWS_LEADER_ADDRESS"] == f"{name[:5]}.llm.default"
            assert pod["metadata"]["labels"][group_labels.WORKER_INDEX] == variables["LWS_WORKER_INDEX"]
        told = {one["reason"] for one in cluster.objects(EVENTS, SPACE)}
        assert "WebhookMissed" in told


async def test_it_says_what_the_pod_lacks_and_does_not_try_at_full_speed() -> None:
    async with bare(None) as world:
        before = await take_away(world.cluster)
        await world.create(sample().replicas(1))
        await world.cluster.until(lambda: world.leader(0) is None)
        assert missed(world) == [
            f"Warning WebhookMissed Pod {NAME}-0 was created while the webhook was away and lacks "
            f"label {group_labels.GROUP_INDEX}, label {group_labels.GROUP_KEY}, "
            "variables or placement rules in its spec; deleted it, "
            "so that it is created anew"
        ]
        await world.make_leader(0)
        await world.cluster.settle(quiet=5)
        assert world.leader(0) is not None, "the webhook is still away, so the next one is as bad: not at once again"
        for _ in range(20):
            await world.pause()
            await asyncio.sleep(3)
        (waiting,) = [one for one in world.subject["status"]["conditions"] if one["type"] == "Waiting"]
        assert (waiting["reason"], waiting["status"]) == ("WebhookMissed", "True")
        world.by_hand = True
        await world.cluster.until(lambda: world.leader(0) is None)
        await give_back(world.cluster, before)
        await world.make_leader(0)
        await world.pause()
        assert world.worker_sets == [f"{NAME}-0"]


async def test_a_worker_alone_is_replaced_without_its_group() -> None:
    async with bare(sample().size(3)) as world:
        await world.ready(0, 1)
        before = await take_away(world.cluster)
        await world.make_workers(0)
        await give_back(world.cluster, before)
        leaving = [one for one in world.objects(PODS) if "deletionTimestamp" in one["metadata"]]
        assert [one["metadata"]["name"] for one in leaving] == [f"{NAME}-0-1", f"{NAME}-0-2"]
        assert not world.deleting(0)


async def test_a_stranger_with_the_label_is_left_alone() -> None:
    async with bare(sample()) as world:
        before = await take_away(world.cluster)
        body = {
            "metadata": {"name": "client", "labels": {group_labels.NAME: NAME}},
            "spec": {"containers": [{"name": "main", "image": "x"}]},
        }
        await world.cluster.client.create(PODS, body, NAMESPACE)
        await give_back(world.cluster, before)
        await world.cluster.settle(quiet=30)
        assert world.find(PODS, "client") is not None
        assert world.find(LEADER_WORKER_SETS, NAME) is not None
        assert missed(world) == []
