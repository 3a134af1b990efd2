"""Whole groups resized in place on real Kubernetes: its API server and its StatefulSet controller, simulated nodes."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders import LeaderWorkerSet, lws, pod
from tests.kubernetes.controlplane import ControlPlane
from tests.kubernetes.operators import administrator, operator, simulated_nodes, webhooks_answer
from tests.kubernetes.test_groups import PATIENCE, pods, running, settled

from kohort.kube.client import Client
from kohort.kube.resources import LEADER_WORKER_SETS, PODS, ROLLOUTS, STATEFUL_SETS
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels, rollout_labels

STATEFUL_SET_REVISION = "controller-revision-hash"


def template(cpu: str) -> JsonObject:
    return pod().containers({"name": "main", "image": "model", "resources": {"requests": {"cpu": cpu}}})


def resizable(namespace: str, policy: str = "InPlaceOrRecreate", deadline: int = 420) -> LeaderWorkerSet:
    strategy = {"type": "RollingUpdate", "resourceUpdatePolicy": policy, "resourceUpdateDeadlineSeconds": deadline}
    subject = lws("llm", namespace).replicas(1).size(4).workers(template("100m"))
    return subject.restart("None").but("spec.rolloutStrategy", strategy)


async def edit(client: Client, namespace: str, cpu: str) -> None:
    body = {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": template(cpu)["spec"]}}}}
    await client.patch(LEADER_WORKER_SETS, "llm", namespace, body)


async def order(client: Client, namespace: str, name: str, resize: str) -> None:
    body = {"metadata": {"annotations": {"simulation.kohort.dev/resize": resize}}}
    await client.patch(PODS, name, namespace, body)


def uids(found: dict[str, JsonObject]) -> dict[str, str]:
    return {name: one["metadata"]["uid"] for name, one in found.items()}


def cpus(found: dict[str, JsonObject]) -> set[str]:
    return {one["spec"]["containers"][0]["resources"]["requests"]["cpu"] for one in found.values()}


def condition(group_set: JsonObject) -> JsonObject:
    conditions = (group_set.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == "ResizeInProgress"), {})


def resized(group_set: JsonObject) -> bool:
    return condition(group_set).get("reason") == "Completed"


async def until(client: Client, namespace: str, holds: Callable[[JsonObject], bool]) -> JsonObject:
    found: JsonObject = {}
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                found = await client.get(LEADER_WORKER_SETS, "llm", namespace)
                if holds(found):
                    return found
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"not in {PATIENCE} s: {found.get('status')}") from None


async def at_rest(client: Client, namespace: str) -> list[JsonObject]:
    """The StatefulSets, when their controller has nothing left to do."""
    async with asyncio.timeout(PATIENCE):
        while True:
            page = await client.list(STATEFUL_SETS, namespace)
            found: list[JsonObject] = list(page.items)
            if all(
                one["status"].get("observedGeneration") == one["metadata"]["generation"]
                and one["status"]["currentRevision"] == one["status"]["updateRevision"]
                and one["spec"]["updateStrategy"].get("rollingUpdate", {}).get("partition", 0) == 0
                for one in found
            ):
                return found
            await asyncio.sleep(0.1)


async def test_gr1_gr11_gr12_a_group_is_resized_adopted_and_stays_at_its_new_size(kubernetes: ControlPlane) -> None:
    space = "group-resize"
    async with running(kubernetes, space) as client:
        await client.create(LEADER_WORKER_SETS, resizable(space).replicas(2), space)
        first = await settled(client, space, 2)
        before = await pods(client, space)
        await edit(client, space, "200m")
        after = await settled(client, space, 2, resized)
        assert after["status"]["updateRevision"] != first["status"]["updateRevision"]

        found = await pods(client, space)
        assert (uids(found), cpus(found)) == (uids(before), {"200m"})
        assert sum(each["restartCount"] for one in found.values() for each in one["status"]["containerStatuses"]) == 0

        stateful_sets = await at_rest(client, space)
        found = await pods(client, space)
        for stateful_set in stateful_sets:
            owner = stateful_set["metadata"]["uid"]
            owned = [one for one in found.values() if one["metadata"]["ownerReferences"][0]["uid"] == owner]
            revisions = {one["metadata"]["labels"][STATEFUL_SET_REVISION] for one in owned}
            assert revisions == {stateful_set["status"]["updateRevision"]}
        assert uids(found) == uids(before)
        labels = {one["metadata"]["labels"][group_labels.REVISION] for one in found.values()}
        assert labels == {after["status"]["updateRevision"]}
        assert not any(group_labels.GROUP_RESIZE in one["metadata"]["annotations"] for one in found.values())

        for name in ("llm-1-2", "llm-0"):
            await client.delete(PODS, name, space)
            await _replaced(client, space, found, name)
            await settled(client, space, 2)
        found = await pods(client, space)
        assert cpus(found) == {"200m"}

        # Back again: the revision of the StatefulSets is one that they had before.
        before = found
        await edit(client, space, "100m")
        await settled(client, space, 2, lambda one: resized(one) and _is_at(one, first))
        found = await pods(client, space)
        assert (uids(found), cpus(found)) == (uids(before), {"100m"})
        await at_rest(client, space)
        assert uids(await pods(client, space)) == uids(before)


def _is_at(group_set: JsonObject, first: JsonObject) -> bool:
    at: bool = group_set["status"]["updateRevision"] == first["status"]["updateRevision"]
    return at


async def _replaced(client: Client, namespace: str, before: dict[str, JsonObject], name: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await pods(client, namespace)
            if name in found and uids(found)[name] != uids(before)[name]:
                return
            await asyncio.sleep(0.1)


async def test_gr3_beyond_the_deadline_the_group_is_recreated(kubernetes: ControlPlane) -> None:
    space = "group-resize-late"
    async with running(kubernetes, space) as client:
        await client.create(LEADER_WORKER_SETS, resizable(space, deadline=3), space)
        await settled(client, space, 1)
        before = await pods(client, space)
        await order(client, space, "llm-0-2", "deferred")
        await edit(client, space, "200m")
        await until(client, space, lambda one: condition(one).get("reason") == "Deferred")
        await settled(client, space, 1)
        found = await pods(client, space)
        assert cpus(found) == {"200m"}
        assert not set(uids(found).values()) & set(uids(before).values())


async def test_gr4_a_node_that_is_too_small_is_noticed_before_the_first_write(kubernetes: ControlPlane) -> None:
    space = "group-resize-large"
    async with running(kubernetes, space) as client:
        await client.create(LEADER_WORKER_SETS, resizable(space, "InPlaceOnly"), space)
        await settled(client, space, 1)
        before = await pods(client, space)
        await edit(client, space, "100000")
        found = await until(client, space, lambda one: condition(one).get("reason") == "Infeasible")
        assert condition(found)["status"] == "False"
        after = await pods(client, space)
        generations = [{name: one["metadata"]["generation"] for name, one in each.items()} for each in (before, after)]
        assert generations[0] == generations[1]


async def test_gr9_an_operator_that_is_killed_midway_goes_on(kubernetes: ControlPlane, tmp_path: Path) -> None:
    space = "group-resize-killed"
    async with administrator(kubernetes, space) as client, simulated_nodes(kubernetes):
        with operator(kubernetes.kubeconfig, tmp_path / "first.log") as process:
            await webhooks_answer(process, client, space)
            await client.create(LEADER_WORKER_SETS, resizable(space), space)
            await settled(client, space, 1)
            before = await pods(client, space)
            await order(client, space, "llm-0-3", "deferred")
            await edit(client, space, "200m")
            await until(client, space, lambda one: condition(one).get("reason") == "Deferred")
            process.process.kill()
        await order(client, space, "llm-0-3", "accept")
        with operator(kubernetes.kubeconfig, tmp_path / "second.log") as process:
            await settled(client, space, 1, resized)
            found = await pods(client, space)
            assert (uids(found), cpus(found)) == (uids(before), {"200m"})
            assert process.stop() == 0


PLAN: JsonObject = {
    "metadata": {"name": "llm"},
    "spec": {
        "workloadRef": {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "llm"},
        "strategy": {
            "canary": {
                "enableExtraWorkloadForCanary": True,
                "steps": [{"replicas": 1, "pause": {}}, {"replicas": "100%"}],
            }
        },
    },
}


async def until_rollout(client: Client, namespace: str, holds: Callable[[JsonObject], bool]) -> None:
    found: JsonObject = {}
    try:
        async with asyncio.timeout(PATIENCE):
            while not holds(found):
                await asyncio.sleep(0.1)
                found = (await client.get(ROLLOUTS, "llm", namespace)).get("status") or {}
    except TimeoutError:
        raise AssertionError(f"not in {PATIENCE} s: {found}") from None


def paused_at(step: int) -> Callable[[JsonObject], bool]:
    def holds(status: JsonObject) -> bool:
        progress = status.get("canaryStatus") or {}
        return (progress.get("currentStepIndex"), progress.get("currentStepState")) == (step, rollout_labels.PAUSED)

    return holds


async def approve(client: Client, namespace: str) -> None:
    body = {"status": {"canaryStatus": {"currentStepState": rollout_labels.READY}}}
    await client.patch(ROLLOUTS, "llm", namespace, body, subresource="status")


async def cpus_by_group(client: Client, namespace: str) -> dict[str, set[str]]:
    found = await pods(client, namespace)
    indexes = {one["metadata"]["labels"][group_labels.GROUP_INDEX] for one in found.values()}
    return {
        index: cpus({name: one for name, one in found.items() if name.split("-")[1] == index})
        for index in sorted(indexes)
    }


@pytest.mark.timeout(400)
async def test_a_release_resizes_its_groups_step_by_step_and_back(kubernetes: ControlPlane) -> None:
    space = "group-resize-release"
    async with running(kubernetes, space) as client:
        await client.create(LEADER_WORKER_SETS, resizable(space, "InPlaceOnly").replicas(3).size(2), space)
        await settled(client, space, 3)
        await client.create(ROLLOUTS, PLAN, space)
        await until_rollout(client, space, lambda status: status.get("phase") == "Healthy")
        before = uids(await pods(client, space))

        # One group, then back.
        await edit(client, space, "200m")
        await until_rollout(client, space, paused_at(1))
        assert await cpus_by_group(client, space) == {"0": {"100m"}, "1": {"100m"}, "2": {"200m"}}
        sets = await client.list(LEADER_WORKER_SETS, space)
        assert [one["metadata"]["name"] for one in sets.items] == ["llm"]
        await edit(client, space, "100m")
        await until_rollout(client, space, lambda status: status.get("phase") == "Healthy")
        await settled(client, space, 3)
        assert await cpus_by_group(client, space) == {"0": {"100m"}, "1": {"100m"}, "2": {"100m"}}
        assert uids(await pods(client, space)) == before

        # One group, then all.
        await edit(client, space, "300m")
        await until_rollout(client, space, paused_at(1))
        assert await cpus_by_group(client, space) == {"0": {"100m"}, "1": {"100m"}, "2": {"300m"}}
        await approve(client, space)  # the last step is everything, and does not pause
        await until_rollout(client, space, lambda status: status.get("phase") == "Healthy")
        await settled(client, space, 3)
        await at_rest(client, space)
        found = await pods(client, space)
        assert (uids(found), cpus(found)) == (before, {"300m"})
        assert sum(each["restartCount"] for one in found.values() for each in one["status"]["containerStatuses"]) == 0
