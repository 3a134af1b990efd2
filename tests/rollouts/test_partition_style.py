"""Deployments in partition style: so many pods of one Deployment have the new version as the step says."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from tests.rollouts.deployments import NAME, Story, story
from tests.rollouts.releases import NAMESPACE, V1, V2, V3, rollout

from kohort.kube.resources import DEPLOYMENTS, INGRESSES, PODS, ROLLOUTS, SERVICES
from kohort.objects.json_types import JsonObject
from kohort.rules import rollout_labels

STEPS: list[JsonObject] = [
    {"replicas": "20%", "traffic": "20%", "pause": {}},
    {"replicas": 3, "traffic": "60%", "pause": {}},
    {"replicas": "100%", "pause": {}},
]


def plan(steps: list[JsonObject] | None = None) -> JsonObject:
    document = rollout(steps=STEPS if steps is None else steps)
    document["spec"]["strategy"]["canary"]["enableExtraWorkloadForCanary"] = False
    return document


@asynccontextmanager
async def partitioned(document: JsonObject) -> AsyncIterator[Story]:
    async with story() as told:
        await told.begin(document)
        yield told


def counted(told: Story) -> Counter[str]:
    return Counter(told.pods())


async def test_each_step_gives_so_many_pods_the_new_version() -> None:
    async with partitioned(plan()) as told:
        await told.change(V2)
        await told.at(1)
        assert counted(told) == {V1: 4, V2: 1}
        assert told.stable["spec"]["paused"] and told.stable["spec"]["strategy"] == {"type": "Recreate"}
        assert len(told.cluster.objects(DEPLOYMENTS, NAMESPACE)) == 1, "there is no second Deployment"
        canary = told.cluster.find(SERVICES, "llm-leader-canary", NAMESPACE)
        assert canary is not None and rollout_labels.TEMPLATE_HASH in canary["spec"]["selector"]
        assert told.cluster.find(INGRESSES, "llm-canary", NAMESPACE) is not None
        await told.approve()
        await told.at(2)
        assert counted(told) == {V1: 2, V2: 3}
        pods = told.cluster.objects(PODS, NAMESPACE)
        assert Counter(one["metadata"]["labels"].get(rollout_labels.BATCH_ID) for one in pods) == {
            None: 2,
            "1": 1,
            "2": 2,
        }
        await told.approve()
        await told.healthy(V2)
        assert told.stable["spec"]["strategy"]["type"] == "RollingUpdate"
        assert rollout_labels.PARTITION_CONTROLLED not in told.stable["metadata"]["labels"]


@pytest.mark.parametrize("step", [1, 2])
async def test_a_rollback_from_every_step_brings_the_old_version_back(step: int) -> None:
    async with partitioned(plan()) as told:
        await told.change(V2)
        await told.at(1)
        if step == 2:
            await told.approve()
            await told.at(2)
        old = {one["metadata"]["uid"] for one in told.cluster.objects(PODS, NAMESPACE) if _image(one) == V1}
        await told.change(V1)
        await told.healthy(V1)
        kept = {one["metadata"]["uid"] for one in told.cluster.objects(PODS, NAMESPACE)}
        assert old <= kept, "pods of the old version live on"


def _image(pod: JsonObject) -> str:
    return str(pod["spec"]["containers"][0]["image"])


async def test_another_version_begins_again_at_the_first_step() -> None:
    async with partitioned(plan()) as told:
        await told.change(V2)
        await told.at(1)
        await told.approve()
        await told.at(2)
        await told.change(V3)
        await told.until(lambda: counted(told)[V3] == 1 and told.state == "StepPaused")
        await told.at(1)
        assert counted(told)[V3] == 1 and counted(told).total() == 5
        await told.approve()
        await told.at(2)
        assert counted(told)[V3] == 3
        await told.approve()
        await told.healthy(V3)


async def test_a_deployment_that_grows_keeps_its_share() -> None:
    async with partitioned(plan([{"replicas": "50%", "pause": {}}, {"replicas": "100%"}])) as told:
        await told.change(V2)
        await told.at(1)
        assert counted(told) == {V1: 2, V2: 3}
        await told.cluster.client.patch(DEPLOYMENTS, NAME, NAMESPACE, {"spec": {"replicas": 8}})
        await told.until(lambda: counted(told) == {V1: 4, V2: 4})


async def test_limits_of_the_rolling_update_hold_on_the_way() -> None:
    async with partitioned(plan([{"replicas": 4, "pause": {}}, {"replicas": "100%"}])) as told:
        rolling = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        await told.cluster.client.patch(DEPLOYMENTS, NAME, NAMESPACE, {"spec": {"strategy": rolling}})
        await told.cluster.settle(quiet=5)
        await told.change(V2)
        most, least = 5, 5
        while told.state != "StepPaused":
            pods = [one for one in told.cluster.objects(PODS, NAMESPACE) if "deletionTimestamp" not in one["metadata"]]
            ready = [one for one in pods if _is_ready(one)]
            most, least = max(most, len(pods)), min(least, len(ready))
            await asyncio.sleep(0.05)
        assert (most, least) == (6, 5)
        assert counted(told) == {V1: 1, V2: 4}
        await told.approve()
        await told.healthy(V2)
        assert told.stable["spec"]["strategy"]["rollingUpdate"] == rolling["rollingUpdate"]


def _is_ready(pod: JsonObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


async def test_a_user_who_applies_the_manifest_again_changes_nothing() -> None:
    async with partitioned(plan()) as told:
        await told.change(V2)
        await told.at(1)
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}
        await told.cluster.client.patch(DEPLOYMENTS, NAME, NAMESPACE, {"spec": {"paused": False, "strategy": strategy}})
        await told.cluster.settle(quiet=10)
        assert counted(told) == {V1: 4, V2: 1}
        assert told.stable["spec"]["strategy"] == {"type": "Recreate"}
        await told.approve()
        await told.at(2)
        await told.approve()
        await told.healthy(V2)
        assert told.stable["spec"]["strategy"] == strategy


async def test_a_version_that_never_becomes_ready_replaces_no_more_than_its_step() -> None:
    async with partitioned(plan([{"replicas": 2, "pause": {}}, {"replicas": "100%"}])) as told:
        container = {"name": "main", "image": V2, "env": [{"name": "x", "value": "y"}]}
        annotations = {"simulation.kohort.dev/never-ready": "true"}
        template = {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}
        await told.cluster.client.patch(DEPLOYMENTS, NAME, NAMESPACE, {"spec": {"template": template}})
        await told.cluster.settle(quiet=30)
        assert counted(told)[V1] >= 4, "25 % of 5 pods may be unavailable: one"


@pytest.mark.parametrize("end", ["disabled", "deleted"])
async def test_a_release_that_is_given_up_goes_on_natively(end: str) -> None:
    async with partitioned(plan()) as told:
        await told.change(V2)
        await told.at(1)
        if end == "deleted":
            await told.cluster.client.delete(ROLLOUTS, NAME, NAMESPACE)
        else:
            await told.cluster.client.patch(ROLLOUTS, NAME, NAMESPACE, {"spec": {"disabled": True}})
        await told.until(lambda: told.images() == {V2} and told.ready())
        await told.until(told.nothing_left)


async def test_the_operator_killed_at_every_place_comes_to_the_same_end() -> None:
    async with partitioned(
        plan([{"replicas": 2, "traffic": "40%", "pause": {"duration": 3}}, {"replicas": "100%"}])
    ) as told:
        await told.change(V2)
        seen = set()
        while not (told.phase == "Healthy" and told.images() == {V2}):
            place = (told.phase, told.state, told.finalising, *sorted(counted(told).items()))
            if place not in seen:
                seen.add(place)
                await told.cluster.parts["operator"].crash()
                await told.cluster.parts["operator"].restart()
            await asyncio.sleep(0.05)
        assert len(seen) > 6
        await told.healthy(V2)


async def test_a_third_version_after_every_pod_was_replaced_keeps_the_service_served() -> None:
    steps: list[JsonObject] = [
        {"replicas": 2, "traffic": "40%", "pause": {}},
        {"replicas": 5, "traffic": "90%", "pause": {}},
    ]
    async with partitioned(plan(steps)) as told:
        await told.change(V2)
        await told.at(1)
        await told.approve()
        await told.at(2)
        assert counted(told) == {V2: 5}
        await told.change(V3)
        await told.until(lambda: counted(told)[V3] == 2)
        await told.at(1)
        assert counted(told) == {V2: 3, V3: 2}
        service = told.cluster.find(SERVICES, "llm-leader", NAMESPACE)
        assert service is not None
        stable = service["spec"]["selector"][rollout_labels.TEMPLATE_HASH]
        pods = [one for one in told.cluster.objects(PODS, NAMESPACE) if _image(one) == V2]
        assert {one["metadata"]["labels"][rollout_labels.TEMPLATE_HASH] for one in pods} == {stable}
        await told.approve()
        await told.at(2)
        await told.approve()
        await told.healthy(V3)


async def test_one_pod_at_a_time_without_surge_even_if_a_status_counts_pods_that_are_going() -> None:
    async with partitioned(plan([{"replicas": 4, "pause": {}}, {"replicas": "100%"}])) as told:
        body: JsonObject = {
            "spec": {"minReadySeconds": 10, "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}
        }
        await told.cluster.client.patch(DEPLOYMENTS, NAME, NAMESPACE, body)
        await told.cluster.settle(quiet=30)
        await told.change(V2)
        least = 5
        while told.state != "StepPaused":
            least = min(least, int(told.stable["status"].get("availableReplicas", 0)))
            await asyncio.sleep(0.05)
        assert least == 4
        assert counted(told) == {V1: 1, V2: 4}


async def test_the_status_follows_a_deployment_that_is_scaled_up_and_down() -> None:
    steps: list[JsonObject] = [{"replicas": "20%", "pause": {}}, {"replicas": "60%", "pause": {}}, {"replicas": "100%"}]
    async with partitioned(plan(steps)) as told:
        await told.change(V2)
        await told.at(1)
        for replicas, new in ((10, 2), (5, 1)):
            await told.cluster.client.patch(DEPLOYMENTS, NAME, NAMESPACE, {"spec": {"replicas": replicas}})
            await told.until(partial(_has_ready, told, new))
            assert counted(told) == {V1: replicas - new, V2: new}
        await told.approve()
        await told.at(2)
        assert counted(told) == {V1: 2, V2: 3}


def _has_ready(told: Story, count: int) -> bool:
    return bool(told.rollout["status"]["canaryStatus"].get("canaryReadyReplicas", 0) == count)
