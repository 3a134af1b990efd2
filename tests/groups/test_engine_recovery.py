"""Engines that recover by themselves, and pods that return to the nodes of their predecessors."""

import asyncio
from datetime import UTC, datetime

import pytest
from tests.builders import LeaderWorkerSet, lws
from tests.groups.drains import drain
from tests.groups.test_failures import ORDER, kept, uid
from tests.groups.test_features import new_image
from tests.groups.test_lifecycle import NAMESPACE, create, groups_cluster, images, patch, pods, settled, status

from kohort.groups.engine_recovery import (
    AwaitRecovery,
    BeginRecovery,
    EngineRecovery,
    GiveUpRestart,
    decide_recovery,
    recovery_of,
    recovery_seconds,
)
from kohort.groups.previous_nodes import previous_node, with_preferred_node
from kohort.kube.errors import Forbidden
from kohort.kube.resources import CONFIG_MAPS, EVENTS, NODES, PODS
from kohort.objects.json_types import JsonObject
from kohort.rules.group_labels import ENGINE_RECOVERY, PREFER_PREVIOUS_NODES, RECOVERY_UNTIL
from kohort.testing import Cluster

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_decision() -> None:
    waiting = EngineRecovery(60, 12.0)
    assert decide_recovery(None, leader_ready=True, pod_ready=False) is None
    assert decide_recovery(EngineRecovery(60), leader_ready=True, pod_ready=True) == BeginRecovery(60)
    assert decide_recovery(waiting, leader_ready=True, pod_ready=True) == AwaitRecovery(12.0)
    assert decide_recovery(waiting, leader_ready=False, pod_ready=True) is None
    over = EngineRecovery(60, -1.0)
    assert decide_recovery(over, leader_ready=True, pod_ready=True) == GiveUpRestart()
    assert decide_recovery(over, leader_ready=True, pod_ready=False) is None


def test_what_annotations_mean() -> None:
    for text, seconds in (("60", 60), ("0", 0), ("", 0), ("soon", 0), ("-5", 0), ("999999", 86_400)):
        assert recovery_seconds({ENGINE_RECOVERY: text}) == seconds
    given = {ENGINE_RECOVERY: "60"}
    assert recovery_of({}, {}, NOW) is None
    assert recovery_of(given, {RECOVERY_UNTIL: "never"}, NOW) == EngineRecovery(60)
    assert recovery_of(given, {RECOVERY_UNTIL: "2026-01-01T00:00:30Z"}, NOW) == EngineRecovery(60, 30)


def patient(seconds: str = "60") -> LeaderWorkerSet:
    return lws("llm").replicas(2).size(2).annotations({ENGINE_RECOVERY: seconds})


async def crash(cluster: Cluster, pod: str, *, ready_after: str = "0s") -> None:
    orders = {f"{ORDER}exit-code": "3", f"{ORDER}crashes": "1", f"{ORDER}exit-after": "0s"}
    orders[f"{ORDER}ready-latency"] = ready_after
    await cluster.client.patch(PODS, pod, NAMESPACE, {"metadata": {"annotations": orders}})
    await cluster.until(lambda: pods(cluster)[pod]["status"]["containerStatuses"][0]["restartCount"] == 1)


async def test_a_group_whose_engine_recovers_is_not_restarted() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, patient())
        await cluster.until(lambda: settled(cluster, 2))
        before = {name: uid(cluster, name) for name in pods(cluster)}
        await crash(cluster, "llm-1-1", ready_after="20s")
        await cluster.parts["operator"].restart()
        await asyncio.sleep(300)
        assert {name: uid(cluster, name) for name in pods(cluster)} == before
        assert RECOVERY_UNTIL not in pods(cluster)["llm-1-1"]["metadata"]["annotations"]
        assert any(one["reason"] == "EngineRecovered" for one in cluster.objects(EVENTS, NAMESPACE))


async def test_a_group_whose_engine_does_not_recover_is_restarted_when_the_time_is_over() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, patient())
        await cluster.until(lambda: settled(cluster, 2))
        before = uid(cluster, "llm-1")
        await crash(cluster, "llm-1-1", ready_after="500s")
        await asyncio.sleep(58)
        assert uid(cluster, "llm-1") == before
        await cluster.until(lambda: uid(cluster, "llm-1") not in ("", before), 5)


async def crash_again(cluster: Cluster, pod: str, number: int) -> None:
    await cluster.client.patch(PODS, pod, NAMESPACE, {"metadata": {"annotations": {f"{ORDER}crash": str(number)}}})


async def test_the_time_begins_when_the_container_ends_not_when_it_restarts() -> None:
    """Every end makes the node wait longer until it restarts the container: 10 s, 20 s, 40 s, and at last 5 minutes."""
    async with groups_cluster() as cluster:
        await create(cluster, patient("90").but("spec.leaderWorkerTemplate.restartBudget", {"maxRestarts": 3}))
        await cluster.until(lambda: settled(cluster, 2))
        before = uid(cluster, "llm-1")
        for number in range(1, 5):
            await crash_again(cluster, "llm-1-1", number)
            await cluster.until(lambda: RECOVERY_UNTIL in pods(cluster)["llm-1-1"]["metadata"]["annotations"])
            await cluster.until(lambda: RECOVERY_UNTIL not in pods(cluster)["llm-1-1"]["metadata"]["annotations"])
        assert uid(cluster, "llm-1") == before
        await patch(cluster, "llm", {"metadata": {"annotations": {ENGINE_RECOVERY: "5"}}})
        await crash_again(cluster, "llm-1-1", 9)
        await cluster.until(lambda: waiting(cluster).get("status") == "True", 2)
        assert waiting(cluster)["reason"] == "EngineRecovering"
        until = pods(cluster)["llm-1-1"]["metadata"]["annotations"][RECOVERY_UNTIL]
        assert f"its engine has until {until[:19]}Z to recover" in waiting(cluster)["message"]
        await cluster.until(lambda: uid(cluster, "llm-1") not in ("", before), 8)
        assert [one["pod"] for failure in kept(cluster) for one in failure["pods"]] == ["llm-1-1"]


def waiting(cluster: Cluster) -> JsonObject:
    return next((one for one in status(cluster).get("conditions", []) if one["type"] == "Waiting"), {})


async def test_a_leader_that_fails_meanwhile_ends_the_wait() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, patient())
        await cluster.until(lambda: settled(cluster, 2))
        before = uid(cluster, "llm-1")
        await crash(cluster, "llm-1-1", ready_after="20s")
        await asyncio.sleep(10)
        orders = {f"{ORDER}never-ready": "true"}
        await cluster.client.patch(PODS, "llm-1", NAMESPACE, {"metadata": {"annotations": orders}})
        await cluster.until(lambda: uid(cluster, "llm-1") not in ("", before), 5)


@pytest.mark.parametrize(("key", "value"), [(ENGINE_RECOVERY, "1m"), (PREFER_PREVIOUS_NODES, "yes")])
async def test_annotations_that_make_no_sense_are_refused(key: str, value: str) -> None:
    async with groups_cluster() as cluster:
        with pytest.raises(Forbidden, match=key):
            await create(cluster, lws("llm").annotations({key: value}))


# Previous nodes


def test_the_node_of_a_predecessor() -> None:
    lines = {"0": "a b", "1": "- c d"}
    assert previous_node(lines, "llm-0", leader=True) == "a"
    assert previous_node(lines, "llm-0-1", leader=False) == "b"
    assert previous_node(lines, "llm-1-2", leader=False) == "d"
    for name, leader in (("llm-1", True), ("llm-2", True), ("llm-0-5", False), ("llm", True)):
        assert previous_node(lines, name, leader=leader) == ""


def test_an_affinity_of_the_user_stays() -> None:
    mine = {"weight": 1, "preference": {"matchExpressions": []}}
    pod = {"spec": {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [mine]}}}}
    found = with_preferred_node(pod, "a")["spec"]["affinity"]["nodeAffinity"]
    assert found["preferredDuringSchedulingIgnoredDuringExecution"][0] == mine
    assert len(found["preferredDuringSchedulingIgnoredDuringExecution"]) == 2


async def roll(cluster: Cluster, image: str) -> None:
    await patch(cluster, "llm", new_image(image))
    await cluster.until(lambda: settled(cluster, 3) and images(cluster) == {image})


def placement(cluster: Cluster) -> dict[str, str]:
    return {name: one["spec"].get("nodeName", "") for name, one in pods(cluster).items()}


async def test_recreated_pods_return_to_their_nodes() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(3).size(2).annotations({PREFER_PREVIOUS_NODES: "true"}))
        await cluster.until(lambda: settled(cluster, 3))
        await cluster.settle()
        first = placement(cluster)
        for image in ("new:2", "new:3"):
            await roll(cluster, image)
            assert placement(cluster) == first
        stored = cluster.find(CONFIG_MAPS, "llm-nodes", NAMESPACE)
        assert stored is not None
        assert stored["data"]["1"] == f"{first['llm-1']} {first['llm-1-1']}"
        await patch(cluster, "llm", {"spec": {"replicas": 1}})
        await cluster.until(lambda: sorted((cluster.find(CONFIG_MAPS, "llm-nodes", NAMESPACE) or {})["data"]) == ["0"])


async def test_a_node_that_is_gone_or_drained_is_not_asked_for() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(1).size(2).annotations({PREFER_PREVIOUS_NODES: "true"}))
        await cluster.until(lambda: settled(cluster, 1))
        await cluster.settle()
        first = placement(cluster)
        await drain(cluster.client, first["llm-0"])
        await cluster.until(lambda: settled(cluster, 1))
        assert placement(cluster)["llm-0"] != first["llm-0"]
        assert "affinity" not in pods(cluster)["llm-0"]["spec"]
        await cluster.settle()
        gone = placement(cluster)["llm-0"]
        await cluster.client.delete(NODES, gone)
        await cluster.client.delete(PODS, "llm-0", NAMESPACE)
        await cluster.until(lambda: placement(cluster).get("llm-0", gone) not in ("", gone) and settled(cluster, 1))
        assert "affinity" not in pods(cluster)["llm-0"]["spec"]


async def test_the_operator_may_start_anew() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(2).size(2).annotations({PREFER_PREVIOUS_NODES: "true"}))
        await cluster.until(lambda: settled(cluster, 2))
        await cluster.settle()
        first, before = placement(cluster), uid(cluster, "llm-1")
        await cluster.parts["operator"].restart()
        await cluster.client.delete(PODS, "llm-1-1", NAMESPACE)
        await cluster.until(lambda: uid(cluster, "llm-1") not in ("", before) and settled(cluster, 2))
        assert placement(cluster) == first
