"""Analyses of other releases: of resources in place, of Deployments, and blue-green."""

import asyncio

import pytest
from tests.rollouts import deployments
from tests.rollouts.analysis.served_metrics import ERRORS, TTFT, JudgedStory, judged_cluster, judged_rollout
from tests.rollouts.releases import V1, V2, rollout
from tests.rollouts.test_in_place_releases import Resizing, resizable

from kohort.kube.resources import BATCH_RELEASES, DEPLOYMENTS, STATEFUL_SETS, Resource
from kohort.rules import rollout_labels

STEPS = [{"replicas": 1, "traffic": "20%", "pause": {"duration": 5}}, {"replicas": "100%", "traffic": "100%"}]


class JudgedResizing(Resizing, JudgedStory):
    """A release in place that is judged."""


@pytest.mark.parametrize("slower", [1.0, 3.0])
async def test_resized_groups_are_compared_with_the_others(slower: float) -> None:
    async with judged_cluster() as plain:
        story = JudgedResizing(plain.cluster, plain.servers)
        story.servers.slower["cpu 50m"] = slower
        await story.analysis(steps={"from": 1})
        steps = [{"replicas": 1, "traffic": "20%", "pause": {}}, {"replicas": "100%", "traffic": "100%"}]
        await story.begin(resizable(), judged_rollout(steps=steps))
        await story.resize("50m")
        if slower == 1.0:
            await story.at(1, timeout=1800)
            assert story.run(1)["phase"] == "Passed"
            assert story.groups_with("50m") == {"3"}
        else:
            await story.until(lambda: story.run(1).get("phase") == "Failed", timeout=1800)
            await story.until(lambda: story.groups_with("100m") == {"0", "1", "2", "3"})
            assert "groups get their former resources back" in story.message


@pytest.mark.parametrize("blue_green", [False, True])
async def test_deployments_are_judged(blue_green: bool) -> None:
    async with judged_cluster() as judged:
        story = deployments.Story(judged.cluster)
        judged.servers.slower[V2] = 3.0
        await judged.analysis()
        steps = [
            {"replicas": "40%", "traffic": "20%", "pause": {}},
            {"replicas": "100%", "traffic": "100%", "pause": {}},
        ]
        plan = rollout(steps=steps, blue_green=blue_green)
        plan["metadata"]["annotations"] = {rollout_labels.ANALYSIS_NAME: "llm-slo"}
        await story.begin(plan)
        await story.change(V2)
        await judged.cluster.until(lambda: judged.run(1).get("phase") == "Failed", 1800)
        await story.until(lambda: judged.weight() in (None, "0"))
        if not blue_green:
            await story.until(lambda: story.images() == {V1})
            assert "the canary is scaled to 0" in story.message
        else:
            await story.until(lambda: "pods of the new version stay" in story.message)
            await asyncio.sleep(10)
            settled = await judged.cluster.client.get(BATCH_RELEASES, "llm", "default")
            await asyncio.sleep(120)
            assert await judged.cluster.client.get(BATCH_RELEASES, "llm", "default") == settled
        await story.change(V1)
        await story.healthy(V1)


@pytest.mark.parametrize("resource", [DEPLOYMENTS, STATEFUL_SETS], ids=["Deployment", "StatefulSet"])
@pytest.mark.parametrize("slower", [1.0, 3.0])
async def test_partition_style_is_judged_up_to_its_last_step(resource: Resource, slower: float) -> None:
    """At the last step no pod of the old version is left to compare with: absolute limits alone are judged."""
    async with judged_cluster() as judged:
        story = deployments.Story(judged.cluster, resource)
        judged.servers.slower[V2] = slower
        await judged.analysis({**TTFT, "max": "2.5s"}, ERRORS, steps={"from": 1})
        steps = [
            {"replicas": "40%", "traffic": "40%", "pause": {"duration": 5}},
            {"replicas": "100%", "pause": {}},
        ]
        plan = rollout(steps=steps)
        plan["spec"]["strategy"]["canary"]["enableExtraWorkloadForCanary"] = False
        plan["metadata"]["annotations"] = {rollout_labels.ANALYSIS_NAME: "llm-slo"}
        await story.begin(plan)
        await story.change(V2)
        if slower == 1.0:
            await judged.cluster.until(lambda: story.phase == "Healthy" and story.images() == {V2}, 3600)
            assert [judged.run(step).get("phase") for step in (1, 2)] == ["Passed", "Passed"]
        else:
            await judged.cluster.until(lambda: judged.run(1).get("phase") == "Failed", 1800)
            await story.until(lambda: story.images() == {V1})
            assert "pods of the new version are replaced by pods of the old one" in story.message
            await story.change(V1)
            await story.healthy(V1)


async def test_a_blue_green_release_of_groups_is_judged() -> None:
    async with judged_cluster() as story:
        story.servers.slower[V2] = 3.0
        await story.analysis()
        plan = judged_rollout(steps=STEPS, blue_green=True)
        await story.begin(plan=plan)
        await story.change(V2)
        await story.until(lambda: story.run(1).get("phase") == "Failed", timeout=1800)
        await story.until(lambda: story.weight() in (None, "0"), timeout=30)
        await story.until(lambda: not story.pods(story.canary["metadata"]["name"]), timeout=120)
        await story.change(V1)
        await story.healthy(V1)
