"""Releases that another implementation of this API has begun go on where they stand. What it leaves behind is told here
from the status that ours has written, by what Kruise Rollouts writes differently; the real one is taken over from in
`tests/kubernetes/test_rollouts_takeover.py`."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
from tests.rollouts.deployments import NAME, STEPS, Story, story
from tests.rollouts.releases import BLUE_GREEN_STEPS, NAMESPACE, V1, V2, V3, rollout

from kohort.kube.resources import (
    BATCH_RELEASES,
    DEPLOYMENTS,
    EVENTS,
    MUTATING_WEBHOOKS,
    ROLLOUTS,
    SERVICES,
    VALIDATING_WEBHOOKS,
)
from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts.go_hashes import release_plan_hash
from kohort.rollouts.rollout_types import ReleasePlan
from kohort.rules import rollout_labels
from kohort.rules.rollout_labels import ADDED_SELECTOR

THEIRS = "6bd9cf8bf5"
"""A hash that only Go can compute."""
OURS: JsonObject = {"revisionKey": None, "canaryName": None, "graceTimes": None, "timedOutStep": None}
STOPPED = [{**STEPS[0]}, {**STEPS[1], "pause": {}}, {"replicas": "100%", "traffic": "100%", "pause": {"duration": 5}}]


async def taken_over(told: Story, meanwhile: Callable[[], Awaitable[None]] | None = None, **progress: Json) -> None:
    """Everything as another manager leaves it; ours comes then."""
    operator = told.cluster.parts["operator"]
    await operator.crash()
    client = told.cluster.client
    blue_green = "blueGreen" in told.rollout["spec"]["strategy"]
    spelled = {"updatedRevision" if blue_green else "canaryRevision": THEIRS, "observedRolloutID": THEIRS}
    status = {("blueGreenStatus" if blue_green else "canaryStatus"): {**OURS, **spelled, **progress}}
    await client.patch(ROLLOUTS, NAME, NAMESPACE, {"status": status}, subresource="status")
    for release in told.cluster.objects(BATCH_RELEASES, NAMESPACE):
        plan = {**release["spec"]["releasePlan"], "rolloutID": THEIRS}
        await client.patch(BATCH_RELEASES, NAME, NAMESPACE, {"spec": {"releasePlan": plan}})
        made = {
            "observedReleasePlanHash": release_plan_hash(msgspec.convert(plan, ReleasePlan)),
            "observedRolloutID": THEIRS,
            "updateRevision": THEIRS,
            "stableRevision": "5c8d7b8f9d",
            "observedGeneration": release["metadata"]["generation"] + 1,
        }
        await client.patch(BATCH_RELEASES, NAME, NAMESPACE, {"status": made}, subresource="status")
    for service in told.cluster.objects(SERVICES, NAMESPACE):
        if ADDED_SELECTOR in service["metadata"].get("annotations", {}):
            body = {"metadata": {"annotations": {ADDED_SELECTOR: None}}}
            await client.patch(SERVICES, service["metadata"]["name"], NAMESPACE, body)
    if meanwhile is not None:
        for hooks in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            for hook in told.cluster.objects(hooks):
                await client.delete(hooks, hook["metadata"]["name"])
        await meanwhile()
    await operator.restart()


@asynccontextmanager
async def stopped_at(step: int, *, blue_green: bool = False) -> AsyncIterator[Story]:
    """A release of the second version that waits at a step; at step 0 it has not begun."""
    async with story() as told:
        await told.begin(rollout(blue_green=blue_green, steps=BLUE_GREEN_STEPS if blue_green else STOPPED))
        if step:
            await told.change(V2)
            await told.at(1)
        for place in range(2, step + 1):
            await told.approve()
            await told.at(place)
        yield told


async def at_rest(told: Story) -> None:
    """It is ours now, and there is nothing to do."""
    name = "blueGreenStatus" if "blueGreen" in told.rollout["spec"]["strategy"] else "canaryStatus"
    await told.until(lambda: "revisionKey" in told.rollout["status"][name])
    await told.cluster.settle(quiet=10.0)


async def deleted(told: Story) -> None:
    await told.cluster.client.delete(ROLLOUTS, NAME, NAMESPACE)
    await told.until(lambda: told.cluster.find(ROLLOUTS, NAME, NAMESPACE) is None)


def steps_taken(told: Story) -> list[str]:
    return [one["message"] for one in told.cluster.objects(EVENTS, NAMESPACE) if one["reason"] == "StepStarted"]


async def test_a_canary_goes_on_at_its_step() -> None:
    async with stopped_at(2) as told:
        canaries = {one["metadata"]["uid"] for one in told.cluster.objects(DEPLOYMENTS, NAMESPACE)}
        taken = steps_taken(told)
        await taken_over(told)
        await at_rest(told)
        assert (told.rollout["status"]["currentStepIndex"], told.state) == (2, "StepPaused")
        assert told.pods() == [V1] * 5 + [V2] * 3
        assert {one["metadata"]["uid"] for one in told.cluster.objects(DEPLOYMENTS, NAMESPACE)} == canaries
        assert steps_taken(told) == taken
        await told.approve()
        await told.healthy(V2)


async def test_blue_green_inside_one_deployment_goes_on_at_its_step() -> None:
    async with stopped_at(2, blue_green=True) as told:
        await taken_over(told)
        await at_rest(told)
        assert (told.rollout["status"]["currentStepIndex"], told.state) == (2, "StepPaused")
        assert told.pods() == [V1] * 5 + [V2] * 5
        await told.approve()
        await told.at(3)
        await told.approve()
        await told.healthy(V2)


@pytest.mark.parametrize("blue_green", [False, True], ids=["canary", "blue-green"])
async def test_a_release_that_was_taken_over_can_be_rolled_back(blue_green: bool) -> None:
    async with stopped_at(1, blue_green=blue_green) as told:
        await taken_over(told)
        await at_rest(told)
        await told.change(V1)
        await told.healthy(V1)
        assert told.rollout["status"]["message"] == "Rollout progressing has been canceled"


async def test_another_version_after_a_takeover_begins_at_the_first_step() -> None:
    async with stopped_at(2) as told:
        await taken_over(told)
        await at_rest(told)
        await told.change(V3)
        await told.until(lambda: V3 in told.images())
        await told.at(1)
        assert told.pods() == [V1] * 5 + [V3]


@pytest.mark.parametrize("theirs", ["RestoreStableService", "FinalisingStepRouteTrafficToStable", "ResumeWorkload"])
async def test_an_end_that_others_have_begun_is_brought_to_an_end(theirs: str) -> None:
    """They take their mark off the workload at the beginning of the end, and un-pause it near its end."""
    async with stopped_at(2) as told:

        async def finalising() -> None:
            client = told.cluster.client
            body: JsonObject = {"metadata": {"annotations": {rollout_labels.IN_PROGRESSING: None}}}
            await client.patch(DEPLOYMENTS, NAME, NAMESPACE, body)
            conditions = told.rollout["status"]["conditions"]
            ended = [{**one, "reason": "Finalising"} if one["type"] == "Progressing" else one for one in conditions]
            await client.patch(ROLLOUTS, NAME, NAMESPACE, {"status": {"conditions": ended}}, subresource="status")

        await taken_over(told, finalising, finalisingStep=theirs, currentStepState="Completed", currentStepIndex=3)
        await told.healthy(V2)


async def test_a_rollout_at_rest_is_taken_over_without_a_word() -> None:
    async with stopped_at(0) as told:
        await taken_over(told)
        await at_rest(told)
        assert not [one for one in told.cluster.objects(EVENTS, NAMESPACE) if one["reason"] == "ReleaseNotControlled"]
        await told.change(V2)
        await told.at(1)


async def test_a_rollout_that_others_are_deleting_lets_its_workload_go() -> None:
    async with stopped_at(1) as told:

        async def being_deleted() -> None:
            client = told.cluster.client
            await client.delete(ROLLOUTS, NAME, NAMESPACE)
            status: JsonObject = {"phase": "Terminating", "canaryStatus": {"finalisingStep": "RemoveCanaryService"}}
            await client.patch(ROLLOUTS, NAME, NAMESPACE, {"status": status}, subresource="status")
            body: JsonObject = {"metadata": {"annotations": {rollout_labels.IN_PROGRESSING: None}}}
            await client.patch(DEPLOYMENTS, NAME, NAMESPACE, body)

        await taken_over(told, being_deleted)
        await told.until(lambda: told.cluster.find(ROLLOUTS, NAME, NAMESPACE) is None)
        await told.until(lambda: told.images() == {V2} and told.nothing_left())


# Partition style, and what is not released here


PARTITION: JsonObject = {"rollingStyle": "Partition", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 2}}


async def in_partition_style(told: Story) -> None:
    """As another manager leaves a Deployment in the middle of a release of that style: it stops its own controller by
    pausing it in `Recreate`."""
    client = told.cluster.client
    metadata = {
        "labels": {rollout_labels.PARTITION_CONTROLLED: "true"},
        "annotations": {rollout_labels.PARTITION_STRATEGY: msgspec.json.encode(PARTITION).decode()},
    }
    held = {"paused": True, "strategy": {"type": "Recreate", "rollingUpdate": None}}
    await client.patch(DEPLOYMENTS, NAME, NAMESPACE, {"metadata": metadata, "spec": held})
    body: JsonObject = {"spec": {"strategy": {"canary": {"enableExtraWorkloadForCanary": False}}}}
    await client.patch(ROLLOUTS, NAME, NAMESPACE, body)


@pytest.mark.parametrize("end", ["disabled", "deleted"])
async def test_a_release_in_partition_style_waits_at_its_step_until_it_is_given_up(end: str) -> None:
    async with stopped_at(1) as told:
        await taken_over(told, lambda: in_partition_style(told))
        await told.cluster.settle(quiet=10.0)
        assert told.phase == "Progressing" and V1 in told.images()
        assert told.stable["spec"]["paused"] is True
        if end == "disabled":
            await told.cluster.client.patch(ROLLOUTS, NAME, NAMESPACE, {"spec": {"disabled": True}})
            await told.until(lambda: told.phase == "Disabled")
        else:
            await deleted(told)
        await told.until(lambda: told.images() == {V2} and told.nothing_left())
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 2}}
        assert told.stable["spec"]["strategy"] == strategy


async def test_a_rollout_of_a_kind_that_is_not_released_here_says_so_and_can_be_deleted() -> None:
    async with stopped_at(0) as told:

        async def of_others() -> None:
            ref = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web"}
            await told.cluster.client.patch(ROLLOUTS, NAME, NAMESPACE, {"spec": {"workloadRef": ref}})

        await taken_over(told, of_others)
        await told.until(lambda: "a CloneSet (apps.kruise.io/v1alpha1) is not released" in told.message)
        await deleted(told)
