"""Groups that fail, on real Kubernetes: the budget of restarts, what is kept of failures, and the commands about it."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

from tests.builders import lws
from tests.kubernetes.commands import kohort
from tests.kubernetes.controlplane import ControlPlane, free_ports
from tests.kubernetes.operators import administrator, installed, operator, service_words, simulated_nodes
from tests.kubernetes.test_groups import PATIENCE, pods, settled

from kohort.install.options import InstallOptions
from kohort.kube.client import Client
from kohort.kube.resources import CONFIG_MAPS, LEADER_WORKER_SETS, PODS, STATEFUL_SETS
from kohort.objects.json_types import JsonObject

SPACE, OTHER = "failures", "rolled-failures"
ORDER = "simulation.kohort.dev/"
BUDGET = {"maxRestarts": 1, "backoffSeconds": 1, "maxBackoffSeconds": 2}


async def _until(client: Client, when: Callable[[JsonObject, dict[str, JsonObject]], bool], space: str = SPACE) -> None:
    async with asyncio.timeout(PATIENCE):
        while not when(await client.get(LEADER_WORKER_SETS, "llm", space), await pods(client, space)):
            await asyncio.sleep(0.1)


async def _crash(client: Client, space: str = SPACE) -> None:
    orders = {f"{ORDER}exit-code": "3", f"{ORDER}crashes": "1", f"{ORDER}exit-after": "0s"}
    await client.patch(PODS, "llm-0-1", space, {"metadata": {"annotations": orders}})


def _exhausted(group_set: JsonObject) -> bool:
    conditions = (group_set.get("status") or {}).get("conditions") or []
    return any(one["type"] == "GroupsExhausted" and one["status"] == "True" for one in conditions)


def _replaced(before: str) -> Callable[[JsonObject, dict[str, JsonObject]], bool]:
    def replaced(group_set: JsonObject, found: dict[str, JsonObject]) -> bool:
        leader = found.get("llm-0")
        ready = (group_set.get("status") or {}).get("readyReplicas") == 1
        return leader is not None and leader["metadata"]["uid"] != before and ready

    return replaced


async def test_a_group_uses_up_its_budget_and_begins_afresh(kubernetes: ControlPlane, tmp_path: Path) -> None:
    """With the rights of an installation."""
    options = InstallOptions(namespace="failures-system", replicas=0)
    (port,) = free_ports(1)
    async with (
        administrator(kubernetes, SPACE) as client,
        simulated_nodes(kubernetes),
        installed(kubernetes, client, options, port) as kubeconfig,
    ):
        with operator(kubeconfig, tmp_path / "operator.log", *service_words(port, options.namespace)) as process:
            await process.says("controllers started")
            wanted = lws("llm", SPACE).replicas(1).size(2).but("spec.leaderWorkerTemplate.restartBudget", BUDGET)
            await client.create(LEADER_WORKER_SETS, wanted)
            await settled(client, SPACE, 1)
            first = (await pods(client, SPACE))["llm-0"]["metadata"]["uid"]
            await _crash(client)
            await _until(client, _replaced(first))
            second = (await pods(client, SPACE))["llm-0"]["metadata"]["uid"]
            await _crash(client)
            await _until(client, lambda group_set, _: _exhausted(group_set))
            assert (await pods(client, SPACE))["llm-0"]["metadata"]["uid"] == second

            kept = json.loads((await client.get(CONFIG_MAPS, "llm-failures", SPACE))["data"]["failures.json"])
            assert [one.get("held", False) for one in kept] == [True, False]
            assert kept[0]["pods"][0]["containers"][0]["exitCode"] == 3
            shown = await kohort(kubernetes, "failures", "llm", "--namespace", SPACE)
            assert "container main ended with code 3" in shown
            await kohort(kubernetes, "explain", "llm", "--namespace", SPACE, refused=True)

            await kohort(kubernetes, "restart", "llm", "--namespace", SPACE, "--group", "0")
            await _until(
                client, lambda group_set, found: _replaced(second)(group_set, found) and not _exhausted(group_set)
            )
            assert "forbidden" not in process.log.read_text()
            await client.delete(LEADER_WORKER_SETS, "llm", SPACE, propagation="Foreground")


async def test_a_new_template_reaches_a_held_group_first(kubernetes: ControlPlane, tmp_path: Path) -> None:
    """The StatefulSet controller of Kubernetes makes its leader with the new template, below the partition."""
    options = InstallOptions(namespace="rolled-failures-system", replicas=0)
    (port,) = free_ports(1)
    async with (
        administrator(kubernetes, OTHER) as client,
        simulated_nodes(kubernetes),
        installed(kubernetes, client, options, port) as kubeconfig,
    ):
        with operator(kubeconfig, tmp_path / "operator.log", *service_words(port, options.namespace)) as process:
            await process.says("controllers started")
            budget = {**BUDGET, "maxRestarts": 0}
            wanted = lws("llm", OTHER).replicas(2).size(2).but("spec.leaderWorkerTemplate.restartBudget", budget)
            await client.create(LEADER_WORKER_SETS, wanted)
            await settled(client, OTHER, 2)
            await _crash(client, OTHER)
            await _until(client, lambda group_set, _: _exhausted(group_set), OTHER)
            containers = [{"name": "main", "image": "registry.example.com/new:2"}]
            template = {"workerTemplate": {"spec": {"containers": containers}}}
            await client.patch(LEADER_WORKER_SETS, "llm", OTHER, {"spec": {"leaderWorkerTemplate": template}})

            def rolled(group_set: JsonObject, found: dict[str, JsonObject]) -> bool:
                images = {one["spec"]["containers"][0]["image"] for one in found.values()}
                counts = group_set["status"].get("updatedReadyReplicas"), len(found)
                return images == {"registry.example.com/new:2"} and counts == (2, 4)

            await _until(client, rolled, OTHER)
            leader_set = await client.get(STATEFUL_SETS, "llm", OTHER)
            assert leader_set["spec"]["updateStrategy"]["type"] == "RollingUpdate"
            await client.delete(LEADER_WORKER_SETS, "llm", OTHER, propagation="Foreground")
