"""What is said of releases that are over: in the status of their Rollout, and in their records."""

import asyncio

import pytest
from tests.rollouts.releases import NAME, NAMESPACE, V1, V2, V3, Story, midway, release_cluster, rollout

from kohort.kube.resources import LEADER_WORKER_SETS, ROLLOUT_HISTORIES, ROLLOUTS
from kohort.objects.json_types import JsonObject
from kohort.rules import rollout_labels
from kohort.rules.rollout_labels import ROLLOUT_NAME


def outcomes(story: Story) -> list[str]:
    """Of all records, oldest first; `open` where none is written."""
    found = story.cluster.objects(ROLLOUT_HISTORIES, NAMESPACE)
    found.sort(key=lambda one: one["metadata"]["creationTimestamp"])
    return [_outcome(one) for one in found]


def released(story: Story) -> list[str]:
    """The image of each record, oldest first."""
    found = story.cluster.objects(ROLLOUT_HISTORIES, NAMESPACE)
    found.sort(key=lambda one: one["metadata"]["creationTimestamp"])
    templates = [one["spec"]["workload"]["data"]["leaderWorkerTemplate"]["workerTemplate"] for one in found]
    return [one["spec"]["containers"][0]["image"] for one in templates]


def _outcome(record: JsonObject) -> str:
    if (record.get("status") or {}).get("phase") != "completed":
        return "open"
    return str(record["spec"]["rollout"]["data"]["outcome"])


@pytest.mark.parametrize("cancelling", [False, True], ids=["paused", "while it is cancelled"])
async def test_a_rollout_that_was_disabled_midway_and_enabled_again_is_at_rest(cancelling: bool) -> None:
    async with midway() as story:
        if cancelling:
            await story.change(V1)
            await story.until(lambda: (story.condition("Progressing") or {})["reason"] == "Cancelling")
        await story.edit({"spec": {"disabled": True}})
        await story.until(lambda: story.phase == "Disabled")
        assert story.state == "Completed"
        await story.until(story.all_ready)
        await story.edit({"spec": {"disabled": False}})
        await story.until(lambda: story.phase == "Healthy")
        await story.cluster.settle(30)
        status = story.rollout["status"]
        assert (status["phase"], status["currentStepState"]) == ("Healthy", "Completed")
        assert status["currentStepIndex"] == 3
        progressing, succeeded = story.condition("Progressing") or {}, story.condition("Succeeded") or {}
        assert (progressing["status"], progressing["reason"]) == ("False", "Completed")
        assert (succeeded["status"], succeeded["reason"]) == ("False", "Disabled")
        assert status["canaryStatus"]["nextStepIndex"] == -1
        assert not story.events("ReleaseNotControlled")
        assert outcomes(story) == ["disabled"]
        await story.change(V3)
        await story.at(1)


async def test_a_status_that_an_earlier_version_left_is_put_right_when_the_rollout_is_enabled() -> None:
    async with midway() as story:
        await story.edit({"spec": {"disabled": True}})
        await story.until(lambda: story.phase == "Disabled" and story.images() == {V2})
        await story.status(currentStepState="StepPaused", currentStepIndex=2, nextStepIndex=3)
        await story.edit({"spec": {"disabled": False}})
        await story.until(lambda: story.phase == "Healthy")
        assert story.state == "Completed"


async def test_a_superseded_release_is_closed_as_that_while_the_next_one_runs() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(steps=[{"replicas": 1, "pause": {}}]))
        await story.change(V2)
        await story.at(1)
        await asyncio.sleep(2)
        await story.change(V3)
        await story.until(lambda: bool(story.events("Superseded")))
        await story.at(1)
        await cluster.settle(5)
        assert outcomes(story) == ["superseded", "open"]
        await asyncio.sleep(2)
        await story.change(V2)
        await story.until(lambda: len(story.events("Superseded")) > 1 or story.canary["metadata"]["name"] != "")
        await cluster.settle(30)
        await story.at(1)
        assert outcomes(story) == ["superseded", "superseded", "open"], "a version that is released again"
        await story.approve()
        await story.healthy(V2)
        await cluster.settle(5)
        assert outcomes(story) == ["superseded", "superseded", "succeeded"]
        assert released(story) == [V2, V3, V2]


async def test_a_record_has_the_version_that_was_released_however_the_release_ended() -> None:
    async with midway() as story:
        assert released(story) == [V2]
        await story.change(V1)
        await story.healthy(V1)
        await story.cluster.settle(5)
        await story.change(V2)
        await story.at(1)
        assert outcomes(story) == ["rolled_back", "open"]
        assert released(story) == [V2, V2]


async def test_a_rollback_and_a_deleted_workload_close_their_records() -> None:
    async with midway() as story:
        await story.change(V1)
        await story.healthy(V1)
        await story.cluster.settle(5)
        assert outcomes(story) == ["rolled_back"]
        await story.change(V3)
        await story.at(1)
        await story.client.delete(LEADER_WORKER_SETS, NAME, NAMESPACE)
        await story.until(lambda: story.phase == "Initial")
        await story.cluster.settle(5)
        assert outcomes(story) == ["rolled_back", "deleted"]


async def test_records_go_with_their_rollout() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(steps=[{"replicas": "100%"}]))
        await story.change(V2)
        await story.healthy(V2)
        (record,) = cluster.objects(ROLLOUT_HISTORIES, NAMESPACE)
        assert record["metadata"]["ownerReferences"][0]["name"] == NAME
        metadata = {
            "name": "from-before",
            "namespace": NAMESPACE,
            "labels": {ROLLOUT_NAME: NAME, rollout_labels.ROLLOUT_ID: "x"},
        }
        await cluster.client.create(ROLLOUT_HISTORIES, {"metadata": metadata, "spec": {}}, NAMESPACE)
        await cluster.client.delete(ROLLOUTS, NAME, NAMESPACE)
        await story.until(lambda: not story.rollout)
        await story.until(lambda: not cluster.objects(ROLLOUT_HISTORIES, NAMESPACE), 60)
