"""Whole releases on a whole cluster: what a user sees, from the change of a template to the end."""

import pytest
from tests.rollouts.releases import NAME, NAMESPACE, V1, V2, V3, Story, group_set, release_cluster, rollout

from kohort.kube.errors import ApiError
from kohort.kube.resources import (
    BATCH_RELEASES,
    HORIZONTAL_POD_AUTOSCALERS,
    INGRESSES,
    LEADER_WORKER_SETS,
    PODS,
    ROLLOUT_HISTORIES,
    ROLLOUTS,
    SERVICES,
)
from kohort.objects.jsontypes import JsonObject
from kohort.rollouts import wire
from kohort.testing import Cluster


async def test_a_canary_release_from_the_first_group_to_promotion() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin()
        first = {one["metadata"]["uid"] for one in story.pods()}
        await story.change(V2)
        assert story.rolling()["partition"] == 1_000_000
        await story.at(1)
        assert story.canary["spec"]["replicas"] == 1
        assert {one["metadata"]["uid"] for one in story.pods()} == first, "stable groups are never touched"
        stable_hash = story.stable["metadata"]["labels"][wire.STABLE_REVISION]
        assert story.selector("llm-leader")[wire.GROUP_REVISION] == stable_hash
        canary = story.selector("llm-leader-canary")
        assert canary[wire.GROUP_SET] == story.canary["metadata"]["name"]
        assert canary[wire.WORKER_INDEX] == "0"
        await story.approve()
        await story.at(2)
        assert story.weight() == "20"
        await story.healthy(V2)
        assert story.rolling() == {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}
        succeeded = story.condition("Succeeded")
        assert succeeded is not None
        assert succeeded["status"] == "True"


async def test_blue_green_switches_at_full_size_and_promotes_at_once() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(blue_green=True))
        await story.change(V2)
        await story.at(1)
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
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(blue_green=True, steps=steps))
        await story.change(V2)
        await story.at(1)
        await story.approve()
        await story.until(lambda: story.weight() == "100")
        assert story.canary["spec"]["replicas"] == 2
        await story.healthy(V2)


async def test_a_bad_version_goes_and_stable_groups_are_never_restarted() -> None:
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


async def test_blue_green_rollback_from_the_last_step() -> None:
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


async def test_a_third_version_supersedes_the_second() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin()
        await story.change(V2)
        await story.at(1)
        await story.approve()
        await story.at(2)
        second, pin = story.canary["metadata"]["name"], story.selector("llm-leader")[wire.GROUP_REVISION]
        await story.change(V3)
        await story.until(lambda: story.step == 1)
        await story.at(1)
        assert story.canary["metadata"]["name"] != second
        assert story.selector("llm-leader")[wire.GROUP_REVISION] == pin, "the pin stays"
        assert story.selector("llm-leader-canary")[wire.GROUP_SET] == story.canary["metadata"]["name"]
        assert story.images() == {V1}
        await story.approve()
        await story.healthy(V3)


async def test_blue_green_takes_a_third_version_too() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(blue_green=True))
        await story.change(V2)
        await story.at(1)
        await story.approve()
        await story.at(2)
        await story.change(V3)
        await story.until(lambda: story.step == 1)
        for step in (1, 2, 3):
            await story.at(step)
            await story.approve()
        await story.healthy(V3)


async def test_jumps_change_traffic_and_never_shrink_the_canary() -> None:
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


async def test_paused_stops_the_steps_but_not_a_rollback() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin()
        await story.change(V2)
        await story.at(1)
        await story.edit({"spec": {"strategy": {"paused": True}}})
        await story.until(lambda: (story.condition("Progressing") or {}).get("reason") == "Paused")
        await story.approve()
        await cluster.settle(30)
        assert story.step == 1
        await story.change(V1)
        await story.healthy(V1)


async def test_resuming_goes_on_where_it_was() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin()
        await story.change(V2)
        await story.at(1)
        await story.edit({"spec": {"strategy": {"paused": True}}})
        await story.until(lambda: (story.condition("Progressing") or {}).get("reason") == "Paused")
        await story.edit({"spec": {"strategy": {"paused": False}}})
        await story.approve()
        await story.healthy(V2)


async def test_disabling_midway_unwinds_and_lets_the_workload_go_on() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin()
        await story.change(V2)
        await story.at(1)
        await story.edit({"spec": {"disabled": True}})
        await story.until(lambda: story.phase == "Disabled" and story.images() == {V2} and story.nothing_left())
        await story.change(V3)
        await story.until(lambda: story.images() == {V3})
        await story.edit({"spec": {"disabled": False}})
        await story.until(lambda: story.phase == "Healthy")


async def test_deleting_the_rollout_midway_unwinds() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin()
        await story.change(V2)
        await story.at(1)
        await cluster.client.delete(ROLLOUTS, NAME, NAMESPACE)
        await story.until(lambda: not story.rollout and story.images() == {V2} and story.nothing_left())


async def test_a_rollout_deleted_right_after_the_change_leaves_no_hold() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin()
        await story.change(V2)
        await cluster.client.delete(ROLLOUTS, NAME, NAMESPACE)
        await story.until(lambda: not story.rollout and story.images() == {V2} and story.nothing_left())


async def test_the_workload_deleted_midway_leaves_nothing_behind() -> None:
    async with release_cluster() as (cluster, monitor):
        monitor.excused |= {"I4"}
        story = Story(cluster)
        await story.begin()
        await story.change(V2)
        await story.at(1)
        await cluster.client.delete(LEADER_WORKER_SETS, NAME, NAMESPACE)
        await story.until(lambda: story.phase == "Initial" and not story.canaries)
        assert wire.GROUP_REVISION not in story.selector("llm-leader")
        assert cluster.find(SERVICES, "llm-leader-canary", NAMESPACE) is None
        assert cluster.find(INGRESSES, "llm-canary", NAMESPACE) is None
        await story.until(lambda: not cluster.objects(BATCH_RELEASES, NAMESPACE))


async def test_a_canary_or_its_release_deleted_by_hand_is_made_again() -> None:
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


async def test_another_template_before_promotion_is_released_in_steps() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin()
        await story.change(V2)
        await story.at(1)
        await story.jump(3)
        await story.until(lambda: (story.condition("Progressing") or {}).get("reason") == "Finalising")
        await story.change(V3)
        await story.at(1)
        assert story.images() == {V1}
        await story.approve()
        await story.healthy(V3)


async def test_another_template_during_promotion_is_refused_with_a_remedy() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin()
        await story.change(V2)
        await story.at(1)
        await story.jump(3)
        await story.until(lambda: story.progress["finalisingStep"] == "ResumeWorkload" and V2 in story.images())
        with pytest.raises(ApiError, match="is being promoted"):
            await story.change(V3)
        await story.healthy(V2)
        await story.change(V3)
        await story.at(1)


async def test_scaling_while_held_adds_groups_of_the_old_version_and_grows_the_canary() -> None:
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


async def test_a_lost_stable_group_comes_back_at_the_old_version() -> None:
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


async def test_a_reapplied_manifest_does_not_lift_the_hold_and_keeps_what_the_user_wrote() -> None:
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


async def test_a_replace_that_drops_our_metadata_gets_it_back() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin()
        await story.change(V2)
        await story.at(1)
        bare = story.stable
        bare["metadata"].pop("annotations")
        await cluster.client.update(LEADER_WORKER_SETS, bare)
        assert wire.IN_PROGRESSING in story.stable["metadata"]["annotations"]
        assert story.rolling()["partition"] == 1_000_000


async def test_only_leaders_carry_patched_metadata() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        plan = rollout(patchPodTemplateMetadata={"labels": {"track": "canary"}})
        await story.begin(plan=plan)
        await story.change(V2)
        await story.at(1)
        for pod in story.pods(story.canary["metadata"]["name"]):
            labels = pod["metadata"]["labels"]
            assert ("track" in labels) == (labels[wire.WORKER_INDEX] == "0")
        await story.approve()
        await story.healthy(V2)


async def test_the_last_split_is_kept_until_the_stable_set_has_the_new_version() -> None:
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


async def test_an_autoscaler_rests_during_blue_green() -> None:
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


async def test_a_long_name_and_groups_of_one_pod() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(group_set(size=1))
        await story.change(V2)
        await story.at(1)
        await story.approve()
        await story.healthy(V2)


async def test_the_message_says_what_is_waited_for() -> None:
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


async def test_without_traffic_routing_a_plan_is_only_about_groups() -> None:
    steps: list[JsonObject] = [{"replicas": 1, "pause": {"duration": 5}}, {"replicas": "100%", "pause": {}}]
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=rollout(steps=steps, routed=False))
        await story.change(V2)
        await story.healthy(V2)


async def test_history_tells_what_was_released_and_how_it_ended() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin()
        await story.change(V2)
        await story.at(1)
        await story.approve()
        await story.healthy(V2)
        await story.change(V3)
        await story.at(1)
        await story.change(V2)
        await story.healthy(V2)
        await cluster.until(lambda: all(one["status"]["phase"] == "completed" for one in _records(cluster)))
        records = _records(cluster)
        assert sorted(one["spec"]["rollout"]["data"]["outcome"] for one in records) == ["rolled_back", "succeeded"]
        released = next(one for one in records if one["spec"]["rollout"]["data"]["outcome"] == "succeeded")
        first = released["status"]["canarySteps"][0]
        assert (first["canaryStepIndex"], len(first["pods"]), first["pods"][0]["workers"]) == (1, 1, 1)
        assert released["spec"]["service"]["data"]["selector"]["app"] == "llm"


def _records(cluster: Cluster) -> list[JsonObject]:
    found = cluster.objects(ROLLOUT_HISTORIES, NAMESPACE)
    assert found
    return found


async def test_bad_references_are_told_with_their_name_and_the_workload_is_not_left_alone() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        plan = rollout()
        plan["spec"]["strategy"]["canary"]["trafficRoutings"][0]["ingress"]["name"] = "missing"
        await story.begin(plan=plan)
        await story.change(V2)
        await story.until(lambda: "missing" in story.rollout["status"]["message"])
        assert story.events("InitializeFailed")
        assert story.images() == {V1}
        await cluster.client.delete(ROLLOUTS, NAME, NAMESPACE)
        await story.until(lambda: not story.rollout and story.images() == {V2} and story.nothing_left())
