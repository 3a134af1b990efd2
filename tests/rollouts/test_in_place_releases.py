"""Releases that change cpu and memory alone: groups of the stable set are resized step by step."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.rollouts.monitor import Monitor
from tests.rollouts.releases import (
    NAME,
    NAMESPACE,
    V1,
    V2,
    Story,
    group_set,
    new_cluster,
    release_cluster,
    rollout,
)

from kohort.kube.errors import ApiError, Conflict
from kohort.kube.resources import INGRESSES, LEADER_WORKER_SETS, PODS, ROLLOUTS
from kohort.objects.json_types import Json, JsonObject
from kohort.rules import group_labels, rollout_labels
from kohort.testing import Cluster
from kohort.testing.crashes import crash_repeatedly

STEPS: list[JsonObject] = [
    {"replicas": 1, "traffic": "20%", "pause": {}},
    {"replicas": "50%", "traffic": "50%", "pause": {}},
    {"replicas": "100%", "traffic": "100%", "pause": {}},
]


def with_resources(subject: JsonObject, cpu: str) -> JsonObject:
    for container in subject["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"]:
        container["resources"] = {"requests": {"cpu": cpu}}
    return subject


def resizable(policy: str = "InPlaceOnly", replicas: int = 4, **rolling: Json) -> JsonObject:
    subject = with_resources(group_set(replicas=replicas), "100m")
    subject["spec"]["rolloutStrategy"] = {
        "type": "RollingUpdate",
        "resourceUpdatePolicy": policy,
        "resourceUpdateDeadlineSeconds": 60,
        **({"rollingUpdateConfiguration": rolling} if rolling else {}),
    }
    return subject


class Resizing(Story):
    async def resize(self, cpu: str, image: str = V1, **spec: Json) -> None:
        template = with_resources(group_set(image), cpu)["spec"]["leaderWorkerTemplate"]["workerTemplate"]
        body = {"spec": {"leaderWorkerTemplate": {"workerTemplate": template}, **spec}}
        await self.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, body)

    def cpus(self) -> dict[str, set[str]]:
        """Of each group."""
        found: dict[str, set[str]] = {}
        for one in self.pods():
            cpu = one["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            found.setdefault(one["metadata"]["labels"][group_labels.GROUP_INDEX], set()).add(cpu)
        return found

    def groups_with(self, cpu: str) -> set[str]:
        return {index for index, cpus in self.cpus().items() if cpus == {cpu}}

    def uids(self) -> set[str]:
        return {one["metadata"]["uid"] for one in self.pods()}

    async def order(self, name: str, resize: str) -> None:
        body = {"metadata": {"annotations": {"simulation.kohort.dev/resize": resize}}}
        await self.client.patch(PODS, name, NAMESPACE, body)

    async def ended(self, cpu: str) -> None:
        groups = {str(index) for index in range(self.stable["spec"]["replicas"])}
        try:
            await self.until(
                lambda: self.phase == "Healthy" and self.groups_with(cpu) == groups and self.nothing_left()
            )
        except AssertionError as problem:
            raise AssertionError(f"not at {cpu}: {self.cpus()} {self.told()}") from problem


@asynccontextmanager
async def begun(
    subject: JsonObject | None = None, steps: list[JsonObject] | None = None, *, blue_green: bool = False
) -> AsyncIterator[Resizing]:
    async with release_cluster() as (cluster, _):
        story = Resizing(cluster)
        await story.begin(subject or resizable(), rollout(steps=steps or STEPS, blue_green=blue_green))
        yield story


@pytest.mark.parametrize("blue_green", [False, True])
async def test_each_step_resizes_so_many_groups_of_the_stable_set(blue_green: bool) -> None:
    async with begun(blue_green=blue_green) as story:
        before = story.uids()
        most = len(before)
        await story.resize("200m")
        await story.at(1)
        assert story.groups_with("200m") == {"3"}
        assert story.canaries == []
        await story.approve()
        await story.at(2)
        assert story.groups_with("200m") == {"2", "3"}
        await asyncio.sleep(300)
        assert story.groups_with("200m") == {"2", "3"}
        await story.approve()
        if blue_green:
            await story.at(3)
            await story.approve()
        await story.ended("200m")
        assert story.uids() == before
        assert len(story.pods()) == most
        assert story.stable["spec"]["rolloutStrategy"]["resourceUpdatePolicy"] == "InPlaceOnly"


@pytest.mark.parametrize("policy", ["InPlaceOnly", "InPlaceOrRecreate"])
async def test_a_step_does_not_count_a_held_group_as_it_is(policy: str) -> None:
    subject = resizable(policy)
    subject["spec"]["leaderWorkerTemplate"]["restartBudget"] = {"maxRestarts": 0}
    async with begun(subject) as story:
        before, leader = story.uids(), f"{NAME}-3"
        orders = {"exit-code": "3", "crashes": "1", "exit-after": "0s"}
        annotations = {f"simulation.kohort.dev/{key}": value for key, value in orders.items()}
        await story.client.patch(PODS, f"{leader}-1", NAMESPACE, {"metadata": {"annotations": annotations}})
        await story.until(lambda: story.stable["status"]["readyReplicas"] == 3)
        held = {one["metadata"]["uid"] for one in story.pods() if one["metadata"]["name"].startswith(leader)}
        await story.resize("200m")
        await story.at(1)
        assert story.groups_with("200m") == {"3"}
        assert story.stable["status"]["readyReplicas"] == 4
        assert before - story.uids() == held, "the group that failed is recreated, and no other"
        await story.resize("100m")
        await story.ended("100m")


async def test_traffic_of_the_steps_does_nothing_and_the_message_says_so() -> None:
    async with begun() as story:
        routes = story.cluster.find(INGRESSES, "llm", NAMESPACE)
        await story.resize("200m")
        await story.at(1)
        assert "traffic weights and matches of the steps do nothing" in story.progress["message"]
        assert "no canary set is made" in story.events("ResizedInPlace")[0]
        assert story.weight() is None
        assert story.cluster.find(INGRESSES, "llm", NAMESPACE) == routes
        assert group_labels.REVISION not in story.selector("llm-leader")


async def test_a_rollback_resizes_the_groups_back() -> None:
    async with begun() as story:
        before = story.uids()
        await story.resize("200m")
        await story.at(1)
        await story.approve()
        await story.at(2)
        await story.resize("100m")
        await story.ended("100m")
        assert story.uids() == before
        succeeded = story.condition("Succeeded")
        assert succeeded is not None
        assert succeeded["status"] == "False"


async def test_a_change_that_is_undone_at_once_ends_at_once() -> None:
    async with begun() as story:
        before = story.uids()
        await story.resize("200m")
        await story.resize("100m")
        await story.ended("100m")
        assert story.uids() == before


async def test_a_rollback_reaches_groups_below_the_partition_of_the_user() -> None:
    async with begun(resizable(partition=3, maxUnavailable=1)) as story:
        before = story.uids()
        await story.resize("200m")
        await story.at(1)
        await story.approve()
        await story.at(2)
        await story.resize("100m")
        await story.ended("100m")
        assert story.uids() == before
        assert story.rolling()["partition"] == 3


async def test_a_promotion_resizes_the_rest_without_a_surge() -> None:
    steps = STEPS[:2]
    async with begun(resizable(maxSurge=2, maxUnavailable=0), steps) as story:
        before = story.uids()
        await story.resize("200m")
        for step in (1, 2):
            await story.at(step)
            await story.approve()
        await story.ended("200m")
        assert story.uids() == before
        assert (story.rolling()["maxSurge"], story.rolling()["maxUnavailable"]) == (2, 0)


async def test_a_step_waits_for_a_group_whose_node_defers_it_and_says_so() -> None:
    async with begun() as story:
        await story.order("llm-3-1", "deferred")
        await story.resize("200m")
        await story.until(lambda: "llm-3-1 is deferred" in str(story.rollout["status"]["message"]))
        assert story.state == "StepUpgrade"
        await story.order("llm-3-1", "accept")
        await story.at(1)


async def test_a_step_waits_for_a_group_that_failed_after_its_resize_and_is_held() -> None:
    """Its pods run again, but it does not serve: it is not recreated before a user says so."""
    subject = resizable(maxUnavailable=2)
    subject["spec"]["leaderWorkerTemplate"]["restartBudget"] = {"maxRestarts": 0}
    async with begun(subject) as story:
        await story.resize("200m")
        await story.at(1)
        orders = {"simulation.kohort.dev/crashes": "1", "simulation.kohort.dev/exit-after": "0s"}
        await story.client.patch(PODS, "llm-3-1", NAMESPACE, {"metadata": {"annotations": orders}})
        await story.until(lambda: "exhausted" in story.stable["status"].get("restarts", {}).get("3", {}))
        await story.approve()
        await story.until(lambda: story.groups_with("200m") == {"2", "3"})
        await asyncio.sleep(300)
        assert (story.step, story.state) == (2, "StepUpgrade")
        assert "1/2 groups resized in place: group 3 is held" in story.rollout["status"]["message"]
        await story.client.delete(PODS, "llm-3", NAMESPACE, propagation="Foreground")
        await story.at(2)


async def test_a_group_that_cannot_be_resized_stops_the_step_at_its_old_resources() -> None:
    async with begun() as story:
        before = story.uids()
        await story.order("llm-3-1", "infeasible")
        await story.resize("200m")
        await story.until(lambda: (story.stable["status"].get("resize") or {}).get("state") == "Stopped")
        await asyncio.sleep(120)
        assert (story.step, story.state) == (1, "StepUpgrade")
        assert story.groups_with("100m") == {"0", "1", "2", "3"}
        await story.resize("100m")
        await story.ended("100m")
        assert story.uids() == before


async def test_a_step_that_takes_too_long_is_withdrawn_and_goes_on_later() -> None:
    async with begun() as story:
        timeout = {rollout_labels.STEP_TIMEOUT: "100", rollout_labels.STEP_TIMEOUT_ACTION: "rollback"}
        await story.edit({"metadata": {"annotations": timeout}})
        before = story.uids()
        await story.resize("200m")
        await story.at(1)
        await story.order("llm-2-1", "deferred")
        await story.approve()
        await story.until(
            lambda: story.groups_with("100m") == {"0", "1", "2", "3"} and "withdrawn" in story.events("Withdrawn")[0]
        )
        assert "groups get their former resources back" in story.rollout["status"]["message"]
        assert story.stable["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["resources"] == {
            "requests": {"cpu": "200m"}
        }
        await asyncio.sleep(300)
        assert story.groups_with("100m") == {"0", "1", "2", "3"}
        await story.order("llm-2-1", "accept")
        await story.edit({"metadata": {"annotations": {rollout_labels.STEP_TIMEOUT: "100000"}}})
        await story.at(2)
        assert story.groups_with("200m") == {"2", "3"}
        assert story.uids() == before


async def test_a_withdrawn_release_can_be_rolled_back() -> None:
    async with begun() as story:
        timeout = {rollout_labels.STEP_TIMEOUT: "100", rollout_labels.STEP_TIMEOUT_ACTION: "rollback"}
        await story.edit({"metadata": {"annotations": timeout}})
        before = story.uids()
        await story.order("llm-3-1", "deferred")
        await story.resize("200m")
        await story.until(lambda: bool(story.events("Withdrawn")))
        await story.resize("100m")
        await story.ended("100m")
        assert story.uids() == before


async def test_a_third_size_begins_at_the_first_step_again() -> None:
    async with begun() as story:
        before = story.uids()
        await story.resize("200m")
        await story.at(1)
        await story.approve()
        await story.at(2)
        await story.resize("300m")
        await story.until(lambda: story.step == 1)
        await story.at(1)
        assert story.groups_with("300m") == {"3"}
        assert story.groups_with("200m") == {"2"}
        await story.approve()
        await story.at(2)
        await story.approve()
        await story.ended("300m")
        assert story.uids() == before


async def test_another_image_midway_is_refused_until_the_groups_are_the_same_again() -> None:
    async with begun() as story:
        await story.resize("200m")
        await story.at(1)
        with pytest.raises(Conflict, match="resized in place by its Rollout"):
            await story.resize("200m", V2)
        await story.resize("100m")
        await story.ended("100m")
        await story.resize("200m", V2)
        await story.until(lambda: len(story.canaries) == 1)


async def test_another_image_before_the_first_step_makes_a_canary_set() -> None:
    async with begun() as story:
        await story.edit({"spec": {"strategy": {"paused": True}}})
        await story.resize("200m")
        await story.until(lambda: story.phase == "Progressing")
        await story.resize("200m", V2)
        await story.edit({"spec": {"strategy": {"paused": False}}})
        await story.until(lambda: len(story.canaries) == 1)
        await story.at(1)


async def test_another_image_or_the_policy_recreate_make_a_canary_set() -> None:
    async with begun() as story:
        await story.resize("200m", V2)
        await story.until(lambda: len(story.canaries) == 1)
    async with begun(resizable("Recreate")) as story:
        await story.resize("200m")
        await story.until(lambda: len(story.canaries) == 1)


async def test_a_set_that_is_scaled_midway_keeps_to_its_step() -> None:
    async with begun() as story:
        await story.resize("200m")
        await story.at(1)
        await story.approve()
        await story.at(2)
        await story.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, {"spec": {"replicas": 6}})
        await story.until(lambda: story.all_ready() and len(story.pods()) == 12)
        await story.at(2)
        await asyncio.sleep(120)
        assert story.groups_with("200m") == {"2", "3", "4", "5"}
        await story.approve()
        await story.ended("200m")


async def test_a_rollout_that_is_deleted_midway_lets_the_set_go_on() -> None:
    async with begun() as story:
        before = story.uids()
        await story.resize("200m")
        await story.at(1)
        await story.client.delete(ROLLOUTS, NAME, NAMESPACE)
        await story.until(lambda: story.groups_with("200m") == {"0", "1", "2", "3"})
        assert story.uids() == before
        await story.until(story.nothing_left)


async def test_an_update_past_the_webhook_is_noticed_and_put_right() -> None:
    async with begun() as story:
        await story.resize("200m")
        await story.at(1)
        token = {"metadata": {"annotations": {rollout_labels.HOLD_RELEASE: story.rollout["metadata"]["uid"]}}}
        rolling = {"rollingUpdateConfiguration": {"partition": 0}}
        body = {**token, "spec": {"rolloutStrategy": rolling}}
        await story.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, body)
        await story.until(lambda: story.rolling()["partition"] == 3)
        assert story.events("HoldLost")


async def test_pods_are_labelled_with_the_batch_that_resized_them() -> None:
    async with begun() as story:
        await story.resize("200m")
        await story.at(1)
        await story.approve()
        await story.at(2)
        batches = {
            one["metadata"]["name"]: one["metadata"]["labels"].get(rollout_labels.BATCH_ID) for one in story.pods()
        }
        assert batches["llm-3"] == "1"
        assert batches["llm-2-1"] == "2"
        assert batches["llm-1"] is None


async def test_a_lost_group_comes_back_at_the_resources_that_its_step_gave_it() -> None:
    async with begun() as story:
        await story.resize("200m")
        await story.at(1)
        before = story.uids()
        for name in ("llm-3", "llm-0"):
            await story.client.delete(PODS, name, NAMESPACE)
        await story.until(lambda: len(story.pods()) == 8 and story.all_ready() and len(before & story.uids()) == 4)
        await story.at(1)
        assert story.groups_with("200m") == {"3"}
        assert story.groups_with("100m") == {"0", "1", "2"}


async def test_a_step_back_leaves_groups_as_they_are() -> None:
    async with begun() as story:
        await story.edit({"metadata": {"annotations": {rollout_labels.SCALE_DOWN_ON_JUMP: "true"}}})
        await story.resize("200m")
        await story.at(1)
        await story.approve()
        await story.at(2)
        await story.jump(1)
        await story.at(1)
        assert story.groups_with("200m") == {"2", "3"}
        await story.jump(3)
        await story.ended("200m")


async def test_a_rollout_that_keeps_its_hold_leaves_every_group_as_it_is() -> None:
    async with begun() as story:
        before = story.uids()
        await story.edit({"metadata": {"annotations": {rollout_labels.KEEP_HELD: "true"}}})
        await story.resize("200m")
        await story.at(1)
        await story.edit({"spec": {"disabled": True}})
        await story.until(lambda: story.phase == "Disabled")
        await asyncio.sleep(120)
        assert story.groups_with("200m") == {"3"}
        await story.edit({"spec": {"disabled": False}})
        await story.at(1)
        await story.approve()
        await story.at(2)
        await story.approve()
        await story.ended("200m")
        assert story.uids() == before


async def _retried(story: Resizing, cpu: str) -> None:
    """A user whose change is refused because the webhook is away tries again."""
    while True:
        try:
            return await story.resize(cpu)
        except ApiError:
            await asyncio.sleep(1.0)


def _at_least(story: Resizing, step: int) -> Callable[[], bool]:
    return lambda: (story.condition("Progressing") or {}).get("reason") == "InRolling" and story.step >= step


def _watched(ends_at: str, *changes: tuple[str, int]) -> Callable[[Cluster], Awaitable[None]]:
    """A release with these changes: the cpu, and the step that is waited for before the next one; 0 for none."""
    quick = [{**step, "pause": {"duration": 5}} for step in STEPS]

    async def scenario(cluster: Cluster) -> None:
        monitor = Monitor()
        async with monitor.watching(cluster):
            story = Resizing(cluster)
            await story.begin(resizable(), rollout(steps=quick))
            before = story.uids()
            for cpu, step in changes:
                await _retried(story, cpu)
                if step:
                    await story.until(_at_least(story, step))
            await story.ended(ends_at)
            assert story.uids() == before
            await cluster.settle(quiet=10.0)
        monitor.check()

    return scenario


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "scenario",
    [
        _watched("200m", ("200m", 0)),
        _watched("100m", ("200m", 2), ("100m", 0)),
        _watched("300m", ("200m", 2), ("300m", 0)),
        _watched("100m", ("200m", 0), ("100m", 0)),
    ],
    ids=["promoted", "rolled back", "superseded", "undone at once"],
)
def test_the_operator_can_die_anywhere(scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    deaths = crash_repeatedly(new_cluster, "operator", scenario, every=5)
    assert len(deaths) >= 8
