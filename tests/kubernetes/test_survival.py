"""What a cluster does to an operator: its API server restarts, its store stalls."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders import lws
from tests.kubernetes.controlplane import ControlPlane, control_plane
from tests.kubernetes.operators import administrator, operator, simulated_nodes, webhooks_answer
from tests.kubernetes.test_groups import PATIENCE, pods, settled

from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.resources import LEADER_WORKER_SETS

SPACE = "survival"
STALL_SECONDS = 15.0
"""Longer than the ten seconds within which a lease must be renewed."""


@pytest.fixture
def plane(binaries: Path, tmp_path: Path) -> Iterator[ControlPlane]:
    """Of its own, because others would not survive."""
    with control_plane(binaries, tmp_path / "plane", "kube-controller-manager", "kube-scheduler") as found:
        yield found


async def _scaled(client: Client, replicas: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await client.patch(LEADER_WORKER_SETS, "llm", SPACE, {"spec": {"replicas": replicas}})
                break
            except ApiError:
                await asyncio.sleep(0.2)
    await settled(client, SPACE, replicas)


async def _uids(client: Client) -> dict[str, str]:
    return {name: one["metadata"]["uid"] for name, one in (await pods(client, SPACE)).items()}


async def test_the_api_server_restarts_and_the_store_stalls(plane: ControlPlane, tmp_path: Path) -> None:
    async with administrator(plane, SPACE) as client, simulated_nodes(plane):
        with operator(plane.kubeconfig, tmp_path / "operator.log") as process:
            await webhooks_answer(process, client, SPACE)
            await client.create(LEADER_WORKER_SETS, lws("llm", SPACE).replicas(1).size(2))
            await settled(client, SPACE, 1)
            before = await _uids(client)

            # An orderly end would wait for all watches to end, for a minute.
            plane.signal("kube-apiserver", signal.SIGKILL)
            plane.stop_one("kube-apiserver")
            await asyncio.to_thread(plane.start_api_server)
            await _scaled(client, 2)

            plane.signal("etcd", signal.SIGSTOP)
            try:
                await asyncio.sleep(STALL_SECONDS)
            finally:
                plane.signal("etcd", signal.SIGCONT)
            await _scaled(client, 3)
            after = await _uids(client)
            assert {name: after[name] for name in before} == before
            assert process.process.poll() is None
            assert process.stop() == 0
