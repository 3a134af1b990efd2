"""Every command of a release, for every workload without groups and every style that it is released in."""

import json

import pytest
from tests.cli.terminal import NAMESPACE, Story
from tests.rollouts import deployments, releases
from tests.rollouts.analysis.served_metrics import judged_cluster
from tests.rollouts.releases import V1, V2, V3, new_cluster

from kohort.cli.actions import analysis, edit, list_workloads, release_stop, set_image, show
from kohort.cli.connection import NOT_YET, PAUSED, REFUSED
from kohort.kube.client import Client
from kohort.kube.resources import DEPLOYMENTS, ROLLOUT_HISTORIES, ROLLOUTS, STATEFUL_SETS, Resource
from kohort.objects.json_types import JsonObject
from kohort.rules import rollout_labels

STEPS: list[JsonObject] = [
    {"replicas": "20%", "traffic": "20%", "pause": {}},
    {"replicas": "60%", "traffic": "60%", "pause": {}},
    {"replicas": "80%", "traffic": "80%", "pause": {}},
]


COUNTED_STEPS: list[JsonObject] = [{**step, "replicas": count} for step, count in zip(STEPS, (1, 3, 4), strict=True)]
"""The same steps: in partition style, a percentage above 50 must not come with traffic."""


def plan(style: str) -> JsonObject:
    steps = COUNTED_STEPS if style == "partition" else STEPS
    document = releases.rollout(steps=steps, blue_green=style == "blueGreen")
    if style != "blueGreen":
        document["spec"]["strategy"]["canary"]["enableExtraWorkloadForCanary"] = style == "canary"
    return document


RELEASED = [
    pytest.param(DEPLOYMENTS, "canary", id="Deployment-canary"),
    pytest.param(DEPLOYMENTS, "blueGreen", id="Deployment-blueGreen"),
    pytest.param(DEPLOYMENTS, "partition", id="Deployment-partition"),
    pytest.param(STATEFUL_SETS, "partition", id="StatefulSet-partition"),
]


def next_step(story: deployments.Story) -> int:
    """The step of a jump until the jump is made, then the one after it."""
    status = story.rollout["status"]
    found: int = (status.get("canaryStatus") or status["blueGreenStatus"])["nextStepIndex"]
    return found


@pytest.mark.parametrize(("resource", "style"), RELEASED)
async def test_a_release_from_the_image_to_its_promotion(
    resource: Resource, style: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with new_cluster() as cluster:
        story, user = deployments.Story(cluster, resource), Story(cluster, capsys)
        name = f"{resource.kind.lower()}/llm"
        await story.begin(plan(style))
        text, code = await user.run(set_image.set_images, name, {"main": V2}, "all", "faster", False)
        assert (code, user.complaint, V2 in text) == (0, "", True)
        await story.at(1)
        text, code = await user.run(show.status, name, "text", True, 600.0)
        assert (code, "step 1 of 3, 20% of the requests" in text) == (PAUSED, True), text
        text, _ = await user.run(list_workloads.list_workloads, "json", "")
        (line,) = json.loads(text)
        assert (line["name"], line["release"]["waitsForApproval"]) == (name, True)
        text, _ = await user.run(show.get, name, "json", False)
        found = json.loads(text)["release"]
        assert (found["step"], found["steps"], found["newReplicasReady"]) == (1, 3, 1)
        assert (found["trafficAsked"], found["trafficObserved"]) == ("20%", 20)
        _, code = await user.run(edit.approve, name, 9)
        assert (code, user.complaint) == (REFUSED, "kohort: Rollout llm has no step 9: there are 1 to 3\n")
        _, code = await user.run(edit.approve, name, 2)
        assert (code, user.complaint) == (0, "")
        await story.at(2)
        text, code = await user.run(edit.retry, name)
        assert (code, text) == (0, "step 2 of Rollout llm is begun again\n")
        await story.until(lambda: next_step(story) == 3)
        await story.at(2)
        _, code = await user.run(edit.approve, name, None, True)
        assert (code, user.complaint) == (0, "")
        await story.at(3)
        _, code = await user.run(edit.approve, name)
        assert (code, user.complaint) == (0, "")
        await story.healthy(V2)
        text, code = await user.run(show.status, name, "text", True, 600.0)
        assert code == 0
        await cluster.settle()
        text, _ = await user.run(list_workloads.releases, name, "json")
        assert [(one["outcome"], one["images"]) for one in json.loads(text)] == [("succeeded", [V2])]


@pytest.mark.parametrize(("resource", "style"), RELEASED)
async def test_a_release_that_is_aborted_tried_again_and_stopped(
    resource: Resource, style: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with new_cluster() as cluster:
        story, user = deployments.Story(cluster, resource), Story(cluster, capsys)
        name = f"{resource.kind.lower()}/llm"
        await story.begin(plan(style))
        await story.change(V2)
        await story.at(1)
        _, code = await user.run(edit.abort, name)
        assert (code, user.complaint) == (0, "")
        await story.healthy(V1)
        await cluster.settle()
        _, code = await user.run(edit.retry, name)
        assert (code, user.complaint) == (0, "")
        await story.at(1)
        assert V2 in story.images()
        text, _ = await user.run(list_workloads.releases, name, "json")
        assert [(one["outcome"], one["images"]) for one in json.loads(text)] == [
            ("rolled_back", [V2]),
            ("under way", [V2]),
        ]

        async def stop(client: Client, namespace: str) -> int:
            return await release_stop.stop_release(
                client, namespace, name, delete=False, yes=True, dry_run=False, timeout=600.0
            )

        _, code = await user.run(stop)
        assert (code, user.complaint) == (0, "")
        await story.until(lambda: story.images() == {V1})
        rollout = cluster.find(ROLLOUTS, "llm", NAMESPACE) or {}
        assert rollout["spec"]["disabled"] is True


@pytest.mark.parametrize(("resource", "style"), [one for one in RELEASED if one.values[1] != "blueGreen"])
async def test_the_version_that_was_aborted_is_the_one_that_is_tried_again(
    resource: Resource, style: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if it replaced another one in the middle of its release, and never had a pod. A blue-green release must be
    taken back before another version begins."""
    async with new_cluster() as cluster:
        story, user = deployments.Story(cluster, resource), Story(cluster, capsys)
        name = f"{resource.kind.lower()}/llm"
        await story.begin(plan(style))
        await story.change(V2)
        await story.at(1)
        await story.change(V3)
        await story.until(lambda: len(cluster.objects(ROLLOUT_HISTORIES, NAMESPACE)) == 2)
        assert V3 not in story.images()
        _, code = await user.run(edit.abort, name)
        assert (code, user.complaint) == (0, "")
        await story.healthy(V1)
        await cluster.settle()
        _, code = await user.run(edit.retry, name)
        assert (code, user.complaint) == (0, "")
        await story.at(1)
        assert V3 in story.images()


@pytest.mark.parametrize(("resource", "style"), RELEASED)
async def test_nothing_waits_for_approval_while_an_earlier_template_is_removed(
    resource: Resource, style: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with new_cluster() as cluster:
        story, user = deployments.Story(cluster, resource), Story(cluster, capsys)
        name = f"{resource.kind.lower()}/llm"
        await story.begin(plan(style))
        await story.change(V2)
        await story.at(1)
        await user.run(set_image.set_images, name, {set_image.FIRST: V3}, "all", "", False)
        text, code = await user.run(show.status, name, "text", False)
        assert code == NOT_YET
        assert "waits for approval" not in text
        _, code = await user.run(edit.approve, name)
        assert (code, "does not wait for approval: the template has changed" in user.complaint) == (REFUSED, True)
        if style != "blueGreen":  # this release takes no third version
            _, code = await user.run(show.status, name, "text", True, 600.0)
            assert code == PAUSED
            assert V3 in story.images()


@pytest.mark.parametrize(("resource", "style"), RELEASED)
async def test_an_analysis_that_fails_is_shown_and_overridden(
    resource: Resource, style: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with judged_cluster() as judged:
        story, user = deployments.Story(judged.cluster, resource), Story(judged.cluster, capsys)
        name = f"{resource.kind.lower()}/llm"
        judged.servers.slower[V2] = 3.0
        await judged.analysis(steps={"from": 1})
        document = plan(style)
        document["metadata"]["annotations"] = {rollout_labels.ANALYSIS_NAME: "llm-slo"}
        await story.begin(document)
        await story.change(V2)
        await judged.cluster.until(lambda: judged.run(1).get("phase") == "Failed", 1800)
        text, code = await user.run(analysis.show_analysis, name, "json")
        (row,) = json.loads(text)
        assert (code, row["phase"], row["metrics"][0]["verdict"]) == (0, "Failed", "Failed")
        text, code = await user.run(analysis.override, name, "the cache is cold")
        assert (code, text) == (0, "step 1 of Rollout llm goes on in spite of its analysis\n")
        await judged.cluster.until(lambda: story.rollout["status"]["currentStepIndex"] == 2, 600)
        assert judged.run(1)["overriddenBy"].endswith("the cache is cold")
