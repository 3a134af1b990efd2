"""The released LeaderWorkerSet manager, unmodified, on our control plane: the client library, watches, webhooks and
garbage collection that a Go operator relies on are all there."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.builders import lws
from tests.kubernetes.test_groups import PATIENCE, pods
from tests.kubernetes.test_pairings import kohort_up
from tests.kubernetes.upstream import upstream
from tools.lws import build

from kohort.kube.client import Client
from kohort.kube.errors import InternalError
from kohort.kube.kubeconfig import load
from kohort.kube.resources import LEADER_WORKER_SETS, PODS, SERVICES, STATEFUL_SETS
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels

SPACE = "default"


@asynccontextmanager
async def embedded_with_upstream(directory: Path) -> AsyncIterator[Client]:
    if build.find() is None and shutil.which("go") is None:
        pytest.skip("no LeaderWorkerSet manager to run: install Go to build one")
    build.build()
    words = ["--parts", "apiserver,workloads,scheduler", "--simulated-nodes", "4"]
    with kohort_up(directory / "data", *words) as kubeconfig:
        client = Client(load(kubeconfig), field_manager="test")
        try:
            async with upstream(client, kubeconfig, directory / "upstream"):
                yield client
        finally:
            await client.close()


async def created(client: Client, body: JsonObject) -> None:
    """The manager is not ready at once; it is when its webhooks answer."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await client.create(LEADER_WORKER_SETS, body, SPACE)
            except InternalError:
                await asyncio.sleep(0.2)
            else:
                return


async def all_ready(client: Client, names: set[str], image: str = "") -> dict[str, JsonObject]:
    """Wait until exactly these pods are there, ready, and of this image."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await pods(client, SPACE)
            if set(found) == names and all(_is_ready(one) and _is_of(one, image) for one in found.values()):
                return found
            await asyncio.sleep(0.1)


def _is_ready(pod: JsonObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def _is_of(pod: JsonObject, image: str) -> bool:
    return not image or pod["spec"]["containers"][0]["image"] == image


def group(number: int, size: int) -> set[str]:
    return {f"llm-{number}", *(f"llm-{number}-{worker}" for worker in range(1, size))}


async def test_groups_of_the_released_manager_live_on_our_control_plane(tmp_path: Path) -> None:
    async with embedded_with_upstream(tmp_path) as client:
        await created(client, lws("llm").replicas(2).size(2))
        first = await all_ready(client, group(0, 2) | group(1, 2))
        variables = {one["name"]: one["value"] for one in first["llm-1-1"]["spec"]["containers"][0]["env"]}
        assert variables["LWS_LEADER_ADDRESS"] == "llm-1.llm.default"

        await client.patch(LEADER_WORKER_SETS, "llm", SPACE, {"spec": {"replicas": 3}})
        scaled = await all_ready(client, group(0, 2) | group(1, 2) | group(2, 2))

        await client.delete(PODS, "llm-1-1", SPACE, grace_seconds=0)
        async with asyncio.timeout(PATIENCE):
            while (await pods(client, SPACE)).get("llm-1", scaled["llm-1"])["metadata"]["uid"] == _uid(scaled, "llm-1"):
                await asyncio.sleep(0.1)
        restarted = await all_ready(client, set(scaled))
        changed = {name for name in scaled if _uid(scaled, name) != _uid(restarted, name)}
        assert changed == group(1, 2)

        container = {"name": "main", "image": "new:2"}
        body = {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": [container]}}}}}
        await client.patch(LEADER_WORKER_SETS, "llm", SPACE, body)
        rolled = await all_ready(client, set(scaled), "new:2")
        assert len({one["metadata"]["labels"][group_labels.REVISION] for one in rolled.values()}) == 1

        await client.patch(LEADER_WORKER_SETS, "llm", SPACE, {"spec": {"leaderWorkerTemplate": {"size": 3}}})
        await all_ready(client, group(0, 3) | group(1, 3) | group(2, 3))

        await client.delete(LEADER_WORKER_SETS, "llm", SPACE, propagation="Foreground")
        async with asyncio.timeout(PATIENCE):
            while await _left(client):
                await asyncio.sleep(0.1)


def _uid(found: dict[str, JsonObject], name: str) -> str:
    uid: str = found[name]["metadata"]["uid"]
    return uid


async def _left(client: Client) -> list[JsonObject]:
    left = [*(await client.list(PODS, SPACE)).items, *(await client.list(STATEFUL_SETS, SPACE)).items]
    services = (await client.list(SERVICES, SPACE, label_selector=group_labels.NAME)).items
    return [*left, *services, *(await client.list(LEADER_WORKER_SETS, SPACE)).items]
