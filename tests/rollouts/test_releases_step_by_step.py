"""Releases from the change of a template to their end, step by step. `row_n` is a row of the upstream test plan."""

from tests.rollouts.releases import NAME, NAMESPACE, V1, V2, V3, Story, group_set, midway, release_cluster, rollout

from kohort.kube.resources import (
    LEADER_WORKER_SETS,
)
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels, rollout_labels


async def test_row_39_a_canary_release_from_the_first_group_to_promotion() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin()
        first = {one["metadata"]["uid"] for one in story.pods()}
        await story.change(V2)
        assert story.rolling()["partition"] == 1_000_000
        await story.at(1)
        assert story.canary["spec"]["replicas"] == 1
        assert {one["metadata"]["uid"] for one in story.pods()} == first, "stable groups are never touched"
        stable_hash = story.stable["metadata"]["labels"][rollout_labels.STABLE_REVISION]
        assert story.selector("llm-leader")[group_labels.REVISION] == stable_hash
        canary = story.selector("llm-leader-canary")
        assert canary[group_labels.NAME] == story.canary["metadata"]["name"]
        assert canary[group_labels.WORKER_INDEX] == "0"
        await story.approve()
        await story.at(2)
        assert story.weight() == "20"
        await story.healthy(V2)
        assert story.rolling() == {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}
        succeeded = story.condition("Succeeded")
        assert succeeded is not None
        assert succeeded["status"] == "True"


async def test_row_05_blue_green_switches_at_full_size_and_promotes_at_once() -> None:
    async with midway(rollout(blue_green=True)) as story:
        assert (story.canary["spec"]["replicas"], story.weight()) == (1, None)
        await story.approve()
        await story.at(2)
        assert (story.canary["spec"]["replicas"], story.weight()) == (2, "50")
        assert story.images() == {V1}
        await story.approve()
        await story.at(3)
        await story.approve()
        await story.healthy(V2)
        assert story.rolling() == {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}


async def test_blue_green_grows_to_full_size_before_it_takes_everything() -> None:
    steps = [{"replicas": "50%", "traffic": "50%", "pause": {}}]
    async with midway(rollout(blue_green=True, steps=steps)) as story:
        await story.approve()
        await story.until(lambda: story.weight() == "100")
        assert story.canary["spec"]["replicas"] == 2
        await story.healthy(V2)


async def test_row_40_a_bad_version_goes_and_stable_groups_are_never_restarted() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin()
        before = {one["metadata"]["uid"] for one in story.pods()}
        await story.change(V2)
        await story.at(1)
        await story.approve()
        await story.at(2)
        await story.change(V1)
        await story.until(lambda: story.weight() is None, timeout=1.0)
        await story.healthy(V1)
        assert {one["metadata"]["uid"] for one in story.pods()} == before
        succeeded = story.condition("Succeeded")
        assert succeeded is not None
        assert (succeeded["status"], succeeded["message"]) == ("False", "Rollout progressing has been canceled")
        assert story.events("Progressing")


async def test_row_06_blue_green_rollback_from_the_last_step() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(blue_green=True))
        await story.change(V2)
        for step in (1, 2):
            await story.at(step)
            await story.approve()
        await story.at(3)
        assert story.weight() == "100"
        await story.jump(2)
        await story.at(2)
        assert (story.weight(), story.canary["spec"]["replicas"]) == ("50", 2)
        await story.change(V1)
        await story.healthy(V1)


async def test_row_41_a_third_version_supersedes_the_second() -> None:
    async with midway() as story:
        await story.approve()
        await story.at(2)
        second, pin = story.canary["metadata"]["name"], story.selector("llm-leader")[group_labels.REVISION]
        await story.change(V3)
        await story.until(lambda: story.step == 1)
        await story.at(1)
        assert story.canary["metadata"]["name"] != second
        assert story.selector("llm-leader")[group_labels.REVISION] == pin, "the pin stays"
        assert story.selector("llm-leader-canary")[group_labels.NAME] == story.canary["metadata"]["name"]
        assert story.images() == {V1}
        await story.approve()
        await story.healthy(V3)


async def test_row_07_blue_green_takes_a_third_version_too() -> None:
    async with midway(rollout(blue_green=True)) as story:
        await story.approve()
        await story.at(2)
        await story.change(V3)
        await story.until(lambda: story.step == 1)
        for step in (1, 2, 3):
            await story.at(step)
            await story.approve()
        await story.healthy(V3)


async def test_row_01_w20_jumps_change_traffic_and_never_shrink_the_canary() -> None:
    steps = [{"replicas": f"{share}%", "traffic": f"{share}%", "pause": {}} for share in (20, 40, 60, 80, 100)]
    async with release_cluster(nodes=24) as (cluster, _):
        story = Story(cluster)
        await story.begin(group_set(replicas=5, size=1), rollout(steps=steps))
        await story.change(V2)
        for step in (1, 2, 3):
            await story.at(step)
            assert story.canary["spec"]["replicas"] == step
            await story.approve()
        await story.at(4)
        await story.jump(2)
        await story.at(2)
        assert (story.canary["spec"]["replicas"], story.weight()) == (4, "40")
        assert story.progress["nextStepIndex"] == 3
        await story.jump(1)
        await story.at(1)
        assert (story.canary["spec"]["replicas"], story.weight()) == (4, "20")
        await story.jump(9)
        await story.until(lambda: story.progress["nextStepIndex"] == 2)
        assert story.step == 1
        await story.jump(5)
        await story.healthy(V2)
        assert story.progress["nextStepIndex"] == -1


async def test_w21_paused_stops_the_steps_but_not_a_rollback() -> None:
    async with midway() as story:
        await story.edit({"spec": {"strategy": {"paused": True}}})
        await story.until(lambda: (story.condition("Progressing") or {}).get("reason") == "Paused")
        await story.approve()
        await story.cluster.settle(30)
        assert story.step == 1
        await story.change(V1)
        await story.healthy(V1)


async def test_row_44_resuming_goes_on_where_it_was() -> None:
    async with midway() as story:
        await story.edit({"spec": {"strategy": {"paused": True}}})
        await story.until(lambda: (story.condition("Progressing") or {}).get("reason") == "Paused")
        await story.edit({"spec": {"strategy": {"paused": False}}})
        await story.approve()
        await story.healthy(V2)


async def test_row_46_the_message_says_what_is_waited_for_and_a_third_version_ends_it() -> None:
    async with release_cluster(nodes=4) as (cluster, _):
        story = Story(cluster)
        await story.begin(group_set(size=2))
        template = {
            "workerTemplate": {
                "spec": {"containers": [{"name": "main", "image": V2, "resources": {"requests": {"cpu": "4000"}}}]}
            }
        }
        await cluster.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, {"spec": {"leaderWorkerTemplate": template}})
        await story.at(1, "StepUpgrade")
        await story.until(lambda: "0/1 groups ready" in story.progress.get("message", ""))
        await story.until(lambda: "is Pending:" in story.progress["message"])
        assert "Insufficient cpu" in story.progress["message"]
        await story.change(V3)
        await story.until(lambda: V3 in str(story.canaries))


async def test_row_22_without_traffic_routing_a_plan_is_only_about_groups() -> None:
    steps: list[JsonObject] = [{"replicas": 1, "pause": {"duration": 5}}, {"replicas": "100%", "pause": {}}]
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(steps=steps, routed=False))
        await story.change(V2)
        await story.healthy(V2)
