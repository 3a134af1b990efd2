"""StatefulSets in partition style whose pods are drained: Services lose a pod only until it is replaced."""

import asyncio

import pytest
from tests.rollouts.deployments import NAME, Story
from tests.rollouts.drained_pods import drained, draining_story
from tests.rollouts.releases import NAMESPACE, V1, V2
from tests.rollouts.test_partition_style import NEVER_READY, plan, released

from kohort.kube.resources import PODS, SERVICES, STATEFUL_SETS
from kohort.objects.json_types import JsonObject
from kohort.rules import rollout_labels


def draining(document: JsonObject) -> JsonObject:
    document["spec"]["strategy"]["canary"]["trafficRoutings"][0]["drainTimeoutSeconds"] = 2
    return document


def selector(told: Story) -> dict[str, str]:
    service = told.cluster.find(SERVICES, "llm-leader", NAMESPACE)
    assert service is not None
    found: dict[str, str] = service["spec"]["selector"]
    return found


def has_new_pod(told: Story) -> bool:
    return any(one["spec"]["containers"][0]["image"] == V2 for one in told.cluster.objects(PODS, NAMESPACE))


async def test_a_new_pod_that_never_becomes_ready_keeps_no_other_pod_out_of_the_service() -> None:
    async with released(draining(plan([{"replicas": 3, "traffic": "60%", "pause": {}}]))) as told:
        container = {"name": "main", "image": V2}
        template = {"metadata": {"annotations": NEVER_READY}, "spec": {"containers": [container]}}
        await told.edit({"spec": {"template": template}})
        await told.until(lambda: rollout_labels.SERVES in selector(told))
        await told.until(lambda: has_new_pod(told))
        await told.until(lambda: rollout_labels.SERVES not in selector(told))
        assert told.state == "StepUpgrade", "the step still waits"
        labels = [one["metadata"].get("labels", {}) for one in told.cluster.objects(PODS, NAMESPACE)]
        assert not any(rollout_labels.SERVES in one for one in labels)


async def test_a_rollback_drains_the_new_version_where_steps_do_not_route() -> None:
    steps: list[JsonObject] = [{"replicas": 2, "pause": {}}]
    async with draining_story(drained(steps), STATEFUL_SETS) as story:
        await story.change(V2)
        await story.at(1)
        story.servers.in_flight = lambda pod: 1 if pod["spec"]["containers"][0]["image"] == V2 else 0
        await story.change(V1)
        await asyncio.sleep(30)
        assert story.pods().count(V2) == 2, "requests of the new version are waited for"
        story.servers.in_flight = lambda _: 0
        await story.healthy(V1)
        await story.until(story.as_before)
        assert story.departures.images == [V1, V1, V2, V2]
        assert not story.departures.undrained
        assert story.departures.fewest_serving >= 3, "one replaced at a time, and one that leaves"


@pytest.mark.parametrize("subresource", ["", "scale"])
async def test_pods_that_a_scale_down_gives_the_new_version_are_drained(subresource: str) -> None:
    """Of two pods that are left both are old, and one of them is the share of the step."""
    async with draining_story(drained([{"replicas": "40%", "pause": {}}]), STATEFUL_SETS) as story:
        await story.change(V2)
        await story.at(1)
        story.servers.in_flight = lambda pod: 1 if pod["spec"]["containers"][0]["image"] == V1 else 0
        body = {"spec": {"replicas": 2}}
        await story.cluster.client.patch(STATEFUL_SETS, NAME, NAMESPACE, body, subresource=subresource)
        await story.until(lambda: story.leaving == [f"{NAME}-1"])
        await asyncio.sleep(20)
        assert story.pods() == [V1, V1], "requests of the old version are waited for"
        story.departures.undrained.clear()  # Pods that the scale down removed went at once.
        story.servers.in_flight = lambda _: 0
        await story.until(lambda: story.pods() == [V1, V2])
        await story.until(story.as_before)
        assert not story.departures.undrained
