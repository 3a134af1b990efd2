"""Releases that are broken off, turned round or put away, and what is left of them: nothing."""

import pytest
from tests.rollouts.releases import NAME, NAMESPACE, V1, V2, V3, Story, midway, release_cluster, rollout

from kohort.kube.client import Propagation
from kohort.kube.errors import ApiError
from kohort.kube.resources import (
    BATCH_RELEASES,
    INGRESSES,
    LEADER_WORKER_SETS,
    ROLLOUT_HISTORIES,
    ROLLOUTS,
    SERVICES,
)
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.testing import Cluster


@pytest.mark.parametrize("blue_green", [False, True], ids=["canary", "row_10"])
async def test_row_56_row_10_disabling_midway_unwinds_and_lets_the_workload_go_on(blue_green: bool) -> None:
    async with midway(rollout(blue_green=blue_green)) as story:
        await story.edit({"spec": {"disabled": True}})
        await story.until(lambda: story.phase == "Disabled" and story.images() == {V2} and story.nothing_left())
        await story.change(V3)
        await story.until(lambda: story.images() == {V3})
        await story.edit({"spec": {"disabled": False}})
        await story.until(lambda: story.phase == "Healthy")


@pytest.mark.parametrize("propagation", [None, "Orphan"])
@pytest.mark.parametrize("blue_green", [False, True], ids=["canary", "row_09"])
async def test_l12_row_09_deleting_the_rollout_midway_unwinds(
    blue_green: bool, propagation: Propagation | None
) -> None:
    async with midway(rollout(blue_green=blue_green)) as story:
        await story.cluster.client.delete(ROLLOUTS, NAME, NAMESPACE, propagation=propagation)
        await story.until(lambda: not story.rollout and story.images() == {V2} and story.nothing_left())


@pytest.mark.parametrize("blue_green", [False, True], ids=["canary", "blue_green"])
async def test_deleting_the_rollout_in_the_foreground_leaves_no_hold(blue_green: bool) -> None:
    """The garbage collector deletes the canary at once, whatever requests it gets."""
    async with release_cluster() as (cluster, monitor):
        monitor.excused |= {"I3"}
        story = Story(cluster)
        await story.begin(plan=rollout(blue_green=blue_green))
        await story.change(V2)
        await story.at(1)
        await cluster.client.delete(ROLLOUTS, NAME, NAMESPACE, propagation="Foreground")
        await story.until(lambda: not story.rollout and story.images() == {V2} and story.nothing_left())


async def test_w04_row_45_a_rollout_deleted_right_after_the_change_leaves_no_hold() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin()
        await story.change(V2)
        await cluster.client.delete(ROLLOUTS, NAME, NAMESPACE)
        await story.until(lambda: not story.rollout and story.images() == {V2} and story.nothing_left())


async def test_w03_l12_the_workload_deleted_midway_leaves_nothing_behind() -> None:
    async with release_cluster() as (cluster, monitor):
        monitor.excused |= {"I4"}
        story = Story(cluster)
        await story.begin()
        await story.change(V2)
        await story.at(1)
        await cluster.client.delete(LEADER_WORKER_SETS, NAME, NAMESPACE)
        await story.until(lambda: story.phase == "Initial" and not story.canaries)
        assert group_labels.REVISION not in story.selector("llm-leader")
        assert cluster.find(SERVICES, "llm-leader-canary", NAMESPACE) is None
        assert cluster.find(INGRESSES, "llm-canary", NAMESPACE) is None
        await story.until(lambda: not cluster.objects(BATCH_RELEASES, NAMESPACE))


async def test_l12_a_canary_or_its_release_deleted_by_hand_is_made_again() -> None:
    async with release_cluster() as (cluster, monitor):
        # The user marks it for deletion; its groups stay until traffic has left them, which I2 shows.
        monitor.excused |= {"I3"}
        story = Story(cluster)
        await story.begin()
        await story.change(V2)
        await story.at(1)
        first = story.canary["metadata"]["uid"]
        await cluster.client.delete(LEADER_WORKER_SETS, story.canary["metadata"]["name"], NAMESPACE)
        await story.until(lambda: [one["metadata"]["uid"] for one in story.canaries] not in ([], [first]))
        await story.at(1)
        second = story.canary["metadata"]["uid"]
        await cluster.client.delete(BATCH_RELEASES, NAME, NAMESPACE)
        await story.until(lambda: [one["metadata"]["uid"] for one in story.canaries] not in ([], [second]))
        await story.at(1)
        await story.approve()
        await story.healthy(V2)


async def test_w05_l10_another_template_before_promotion_is_released_in_steps() -> None:
    async with midway() as story:
        await story.jump(3)
        await story.until(lambda: (story.condition("Progressing") or {}).get("reason") == "Finalising")
        await story.change(V3)
        await story.at(1)
        assert story.images() == {V1}
        await story.approve()
        await story.healthy(V3)


async def test_w05_l10_another_template_during_promotion_is_refused_with_a_remedy() -> None:
    async with midway() as story:
        await story.jump(3)
        await story.until(lambda: story.progress["finalisingStep"] == "ResumeWorkload" and V2 in story.images())
        with pytest.raises(ApiError, match="is being promoted"):
            await story.change(V3)
        await story.healthy(V2)
        await story.change(V3)
        await story.at(1)


async def test_history_tells_what_was_released_and_how_it_ended() -> None:
    async with midway() as story:
        await story.approve()
        await story.healthy(V2)
        await story.change(V3)
        await story.at(1)
        await story.change(V2)
        await story.healthy(V2)
        await story.cluster.until(lambda: all(one["status"]["phase"] == "completed" for one in _records(story.cluster)))
        records = _records(story.cluster)
        assert sorted(one["spec"]["rollout"]["data"]["outcome"] for one in records) == ["rolled_back", "succeeded"]
        by_outcome = {one["spec"]["rollout"]["data"]["outcome"]: one for one in records}
        released = by_outcome["succeeded"]
        first = released["status"]["canarySteps"][0]
        assert (first["canaryStepIndex"], len(first["pods"]), first["pods"][0]["workers"]) == (1, 1, 1)
        assert released["spec"]["service"]["data"]["selector"]["app"] == "llm"
        images = {outcome: _recorded(record)["image"] for outcome, record in by_outcome.items()}
        assert images == {"succeeded": V2, "rolled_back": V3}, "what was released, not what the workload has now"
        strategy = released["spec"]["workload"]["data"]["rolloutStrategy"]["rollingUpdateConfiguration"]
        assert not strategy.get("partition"), "the hold of the release is over"
        assert story.events("StablePromoted") and story.events("RolledBack"), "the second release is told as the first"


def _recorded(record: JsonObject) -> JsonObject:
    template = record["spec"]["workload"]["data"]["leaderWorkerTemplate"]["workerTemplate"]
    found: JsonObject = template["spec"]["containers"][0]
    return found


def _records(cluster: Cluster) -> list[JsonObject]:
    found = cluster.objects(ROLLOUT_HISTORIES, NAMESPACE)
    assert found
    return found


async def test_w11_bad_references_are_told_with_their_name_and_the_workload_is_not_left_alone() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        plan = rollout()
        plan["spec"]["strategy"]["canary"]["trafficRoutings"][0]["ingress"]["name"] = "missing"
        await story.begin(plan=plan)
        await story.change(V2)
        await story.until(lambda: bool(story.events("InitializeFailed")))
        assert "missing" in story.rollout["status"]["message"]
        assert story.images() == {V1}
        await cluster.client.delete(ROLLOUTS, NAME, NAMESPACE)
        await story.until(lambda: not story.rollout and story.images() == {V2} and story.nothing_left())
