"""`kubectl drain` of a node with several groups on real Kubernetes, also while the set rolls; and evictions without the
operator."""

import asyncio
import subprocess
from functools import partial
from pathlib import Path

import pytest
from tests.builders import lws
from tests.kubernetes.controlplane import ControlPlane, free_ports
from tests.kubernetes.operators import administrator, installed, operator, service_words, simulated_nodes
from tests.kubernetes.test_groups import PATIENCE, pods, settled

from kohort.install.options import InstallOptions
from kohort.kube.client import Client
from kohort.kube.errors import TooManyRequests
from kohort.kube.resources import LEADER_WORKER_SETS, NODES, POD_DISRUPTION_BUDGETS, PODS

SPACE = "drain"
ORDER = "simulation.kohort.dev/start-latency"


async def _kubectl(plane: ControlPlane, *words: str) -> tuple[int, str]:
    command = [str(plane.binaries / "kubectl"), "--kubeconfig", str(plane.kubeconfig), *words]
    run = partial(subprocess.run, command, capture_output=True, text=True, timeout=150, check=False)
    done = await asyncio.to_thread(run)
    return done.returncode, done.stdout + done.stderr


async def _watch_ready(client: Client, counts: list[int]) -> None:
    while True:
        found = await client.get(LEADER_WORKER_SETS, "llm", SPACE)
        counts.append((found.get("status") or {}).get("readyReplicas", 0))
        await asyncio.sleep(0.05)


async def _schedulable(client: Client, names: list[str], able: bool) -> None:
    for name in names:
        await client.patch(NODES, name, "", {"spec": {"unschedulable": None if able else True}})


async def test_drains_count_groups(kubernetes: ControlPlane, tmp_path: Path) -> None:
    options = InstallOptions(namespace="drain-system", replicas=0)
    (port,) = free_ports(1)
    async with (
        administrator(kubernetes, SPACE) as client,
        simulated_nodes(kubernetes, 3),
        installed(kubernetes, client, options, port) as kubeconfig,
    ):
        nodes = sorted(one["metadata"]["name"] for one in (await client.list(NODES)).items)
        for name in nodes:
            await client.patch(NODES, name, "", {"metadata": {"annotations": {ORDER: "1s"}}})
        with operator(kubeconfig, tmp_path / "operator.log", *service_words(port, options.namespace)) as process:
            await process.says("controllers started")
            await _schedulable(client, nodes[1:], False)
            wanted = lws("llm", SPACE).replicas(3).size(2).but("spec.disruptionBudget", {"maxUnavailable": 1})
            await client.create(LEADER_WORKER_SETS, wanted)
            await settled(client, SPACE, 3)
            await _schedulable(client, nodes[1:], True)
            budget = await client.get(POD_DISRUPTION_BUDGETS, "llm", SPACE)
            assert budget["spec"]["minAvailable"] == 2

            counts: list[int] = []
            watching = asyncio.create_task(_watch_ready(client, counts))
            code, text = await _kubectl(kubernetes, "drain", nodes[0], "--timeout=120s")
            assert code == 0, text
            assert "LeaderWorkerSet drain/llm allows 1 of its 3 groups to be away" in text
            await settled(client, SPACE, 3)

            # The same while the set rolls.
            template = {"spec": {"containers": [{"name": "main", "image": "new:2"}]}}
            await _schedulable(client, nodes[:1], True)
            body = {"spec": {"leaderWorkerTemplate": {"workerTemplate": template}}}
            await client.patch(LEADER_WORKER_SETS, "llm", SPACE, body)
            code, text = await _kubectl(kubernetes, "drain", nodes[1], "--timeout=120s")
            assert code == 0, text
            await settled(client, SPACE, 3)
            watching.cancel()
            assert min(counts) >= 2
            assert all(one["spec"]["nodeName"] != nodes[1] for one in (await pods(client, SPACE)).values())
            assert "forbidden" not in process.log.read_text()
            await _budget_is_counted(client)
        # Without the operator the PodDisruptionBudget of the leaders is left.
        await _evict(client, "llm-0")
        with pytest.raises(TooManyRequests, match="disruption budget"):
            await _evict(client, "llm-1")
        await client.delete(LEADER_WORKER_SETS, "llm", SPACE)


async def _budget_is_counted(client: Client) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await client.get(POD_DISRUPTION_BUDGETS, "llm", SPACE))["status"].get("disruptionsAllowed") != 1:
            await asyncio.sleep(0.1)


async def _evict(client: Client, name: str) -> None:
    await client.create(PODS, {"metadata": {"name": name}}, SPACE, subresource="eviction", name=name)
