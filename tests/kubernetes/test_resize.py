"""Groups resized on real Kubernetes, with the command that users have: cpu and memory of running pods in place, through
the API server's pods/resize, and the size of groups."""

import asyncio
from pathlib import Path

from tests.builders import lws
from tests.kubernetes.commands import kohort
from tests.kubernetes.controlplane import ControlPlane
from tests.kubernetes.operators import administrator, operator, simulated_nodes, webhooks_answer
from tests.kubernetes.test_groups import PATIENCE, pods, settled

from kohort.kube.client import Client
from kohort.kube.resources import LEADER_WORKER_SETS
from kohort.objects.json_types import JsonObject

SPACE = "resize"
CONTAINER = "spec.leaderWorkerTemplate.workerTemplate.spec.containers.0"
RESOURCES = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}}


def _uids(found: dict[str, JsonObject]) -> dict[str, str]:
    return {name: one["metadata"]["uid"] for name, one in found.items()}


def _running(pod: JsonObject) -> str:
    """The cpu that its container has now, as its node says."""
    (status,) = pod["status"]["containerStatuses"]
    assert status["restartCount"] == 0
    cpu: str = status["resources"]["limits"]["cpu"]
    return cpu


def _is_resizing(pod: JsonObject) -> bool:
    return any(one["type"].startswith("PodResize") for one in pod["status"].get("conditions") or [])


async def _resized(client: Client, cpu: str) -> dict[str, JsonObject]:
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await pods(client, SPACE)
            if all(_running(one) == cpu and not _is_resizing(one) for one in found.values()):
                return found
            await asyncio.sleep(0.1)


async def test_groups_grow_in_place_and_in_size(kubernetes: ControlPlane, tmp_path: Path) -> None:
    async with administrator(kubernetes, SPACE) as client, simulated_nodes(kubernetes):
        with operator(kubernetes.kubeconfig, tmp_path / "operator.log") as process:
            await webhooks_answer(process, client, SPACE)
            wanted = lws("llm", SPACE).replicas(2).size(2).but(f"{CONTAINER}.resources", RESOURCES)
            await client.create(LEADER_WORKER_SETS, wanted)
            await settled(client, SPACE, 2)
            before = _uids(await pods(client, SPACE))

            await kohort(kubernetes, "resize", "llm", "--namespace", SPACE, "--cpu", "200m", "--pods-only")
            after = await _resized(client, "200m")
            assert _uids(after) == before

            # More than the node has: refused before anything changes.
            words = ("resize", "llm", "--namespace", SPACE, "--cpu", "100000", "--pods-only")
            assert "enough allocatable resources" in await kohort(kubernetes, *words, refused=True)
            assert _uids(await _resized(client, "200m")) == before

            await kohort(kubernetes, "resize", "llm", "--namespace", SPACE, "--size", "3", "--recreate")
            await settled(client, SPACE, 2, lambda one: one["spec"]["leaderWorkerTemplate"]["size"] == 3)
            assert len(await pods(client, SPACE)) == 6
            assert process.stop() == 0
