"""The stable set while it is held, and what users do to it meanwhile."""

import asyncio

import pytest
from tests.rollouts.releases import NAME, NAMESPACE, V1, V2, Story, group_set, midway, release_cluster, rollout

from kohort.kube.resources import (
    ENDPOINT_SLICES,
    HORIZONTAL_POD_AUTOSCALERS,
    INGRESSES,
    LEADER_WORKER_SETS,
    PODS,
    SERVICES,
)
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels, rollout_labels
from kohort.testing import Cluster


async def test_row_27_row_42_row_43_l03_scaling_while_held_adds_old_groups_and_grows_the_canary() -> None:
    steps = [{"replicas": "50%", "traffic": "50%", "pause": {}}, {"replicas": "100%", "pause": {}}]
    async with release_cluster(nodes=24) as (cluster, _):
        story = Story(cluster)
        await story.begin(group_set(replicas=2, size=2), rollout(steps=steps))
        await story.change(V2)
        await story.at(1)
        await cluster.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, {"spec": {"replicas": 4}})
        await story.until(lambda: story.all_ready() and story.canary["spec"]["replicas"] == 2)
        assert story.images() == {V1}
        assert len(story.pods()) == 8
        await story.at(1)
        await cluster.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, {"spec": {"replicas": 2}})
        await cluster.settle(30)
        assert story.canary["spec"]["replicas"] == 2, "a canary never shrinks"


@pytest.mark.parametrize("pause", [0.0, 0.5, 3.0, 60.0])
async def test_a_stable_set_scaled_to_0_and_back_is_of_the_old_version_and_serves(pause: float) -> None:
    async with release_cluster() as (cluster, monitor):
        monitor.excused |= {"I4"}
        story = Story(cluster)
        await story.begin()
        old = story.stable["status"]["stableRevision"]
        await story.change(V2)
        await story.at(1)
        await cluster.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, {"spec": {"replicas": 0}})
        await asyncio.sleep(pause)
        await cluster.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, {"spec": {"replicas": 2}})
        await cluster.settle(30)
        await story.until(story.all_ready)
        assert story.images() == {V1}
        assert story.stable["status"]["stableRevision"] == old
        assert story.stable["status"]["updateRevision"] != old
        assert len(_ready_addresses(cluster, "llm-leader")) == 2, "the stable Service is pinned to what is there"
        await cluster.client.delete(PODS, "llm-0", NAMESPACE)
        await cluster.settle(30)
        assert story.images() == {V1}, "the partition protects what came back"
        await story.at(1)
        await story.approve()
        await story.healthy(V2)


def _ready_addresses(cluster: Cluster, name: str) -> list[str]:
    return [
        address
        for one in cluster.objects(ENDPOINT_SLICES, NAMESPACE)
        if one["metadata"]["labels"].get("kubernetes.io/service-name") == name
        for endpoint in one.get("endpoints") or ()
        if endpoint["conditions"]["ready"]
        for address in endpoint["addresses"]
    ]


async def test_l02_a_lost_stable_group_comes_back_at_the_old_version() -> None:
    async with release_cluster() as (cluster, monitor):
        monitor.excused |= {"I4"}
        story = Story(cluster)
        await story.begin()
        await story.change(V2)
        await story.at(1)
        await cluster.client.delete(PODS, "llm-0", NAMESPACE)
        await story.until(lambda: not story.all_ready())
        await story.until(story.all_ready)
        assert story.images() == {V1}


async def test_l01_l04_a_reapplied_manifest_does_not_lift_the_hold_and_keeps_what_was_written() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        written = {"type": "RollingUpdate", "rollingUpdateConfiguration": {"maxSurge": 2, "maxUnavailable": 1}}
        await story.begin(group_set() | {"spec": {**group_set()["spec"], "rolloutStrategy": written}})
        await story.change(V2)
        await story.at(1)
        assert len(story.pods()) == 4, "no surge group under the hold"
        for _ in range(3):
            await story.change(V2, rolloutStrategy=written)
            assert story.rolling() == {"partition": 1_000_000, "maxUnavailable": 1, "maxSurge": 0}
        await story.approve()
        await story.healthy(V2)
        assert story.rolling() == {"partition": 0, "maxUnavailable": 1, "maxSurge": 2}


async def test_w17_a_replace_that_drops_our_metadata_gets_it_back() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin()
        await story.change(V2)
        await story.at(1)
        bare = story.stable
        bare["metadata"].pop("annotations")
        await cluster.client.update(LEADER_WORKER_SETS, bare)
        assert rollout_labels.IN_PROGRESSING in story.stable["metadata"]["annotations"]
        assert story.rolling()["partition"] == 1_000_000


async def test_l06_only_leaders_carry_patched_metadata() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        plan = rollout(patchPodTemplateMetadata={"labels": {"track": "canary"}})
        await story.begin(plan=plan)
        await story.change(V2)
        await story.at(1)
        for pod in story.pods(story.canary["metadata"]["name"]):
            labels = pod["metadata"]["labels"]
            assert ("track" in labels) == (labels[group_labels.WORKER_INDEX] == "0")
        await story.approve()
        await story.healthy(V2)


async def test_l09_the_last_split_is_kept_until_the_stable_set_has_the_new_version() -> None:
    steps = [{"replicas": "50%", "traffic": "50%", "pause": {}}]
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(steps=steps))
        await story.change(V2)
        await story.at(1)
        await story.approve()
        await story.until(lambda: V2 in story.images())
        assert story.weight() == "50"
        await story.healthy(V2)


async def test_row_11_row_12_l16_an_autoscaler_rests_during_blue_green() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        target = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": NAME}
        spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 4}
        body = {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "llm"},
            "spec": spec,
        }
        await cluster.client.create(HORIZONTAL_POD_AUTOSCALERS, body, NAMESPACE)
        await story.begin(plan=rollout(blue_green=True))
        await story.change(V2)
        await story.at(1)
        assert _target(cluster) == "llm-DisableByRollout"
        await story.change(V1)
        await story.healthy(V1)
        assert _target(cluster) == "llm"


def _target(cluster: Cluster) -> str:
    found = cluster.find(HORIZONTAL_POD_AUTOSCALERS, "llm", NAMESPACE)
    assert found is not None
    return str(found["spec"]["scaleTargetRef"]["name"])


async def test_l13_groups_of_one_pod() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(group_set(size=1))
        await story.change(V2)
        await story.at(1)
        await story.approve()
        await story.healthy(V2)


async def test_routes_that_others_change_while_a_step_waits_are_set_again() -> None:
    """A manifest applied again, or a hand that slips: the share of a step would be gone for as long as it waits."""
    steps: list[JsonObject] = [{"replicas": 1, "traffic": "20%", "pause": {}}, {"replicas": "100%"}]
    async with midway(rollout(steps=steps)) as story:
        await story.client.delete(INGRESSES, "llm-canary", NAMESPACE)
        await story.until(lambda: story.weight() == "20")
        await story.at(1)
        assert "create Ingress llm-canary" in story.events("RoutesChanged")[0]
        body: JsonObject = {"spec": {"selector": {group_labels.REVISION: None}}}
        await story.client.patch(SERVICES, "llm-leader", NAMESPACE, body)
        await story.until(lambda: group_labels.REVISION in story.selector("llm-leader"))
        await story.at(1)
        await story.cluster.settle(30)
        assert len(story.events("RoutesChanged")) == 2, "each change is told once"
        await story.approve()
        await story.healthy(V2)
