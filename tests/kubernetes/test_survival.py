"""What a cluster does to an operator: its API server restarts, its store stalls, its token ends."""

import asyncio
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from tests.builders import lws
from tests.kubernetes.controlplane import ControlPlane, control_plane, free_ports
from tests.kubernetes.operators import (
    administrator,
    installed,
    operator,
    service_words,
    simulated_nodes,
    webhooks_answer,
)
from tests.kubernetes.test_groups import PATIENCE, pods, settled

from kohort.install.options import InstallOptions
from kohort.install.roles import ACCOUNT
from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.resources import LEADER_WORKER_SETS, SECRETS, SERVICE_ACCOUNTS

SPACE = "survival"
SYSTEM = "token-system"
STALL_SECONDS = 30.0
"""Longer than the ten seconds within which a lease must be renewed, and than most requests wait for an answer."""


@pytest.fixture
def plane(binaries: Path, tmp_path: Path) -> Iterator[ControlPlane]:
    """Of its own, because others would not survive."""
    with control_plane(binaries, tmp_path / "plane", "kube-controller-manager", "kube-scheduler") as found:
        yield found


async def _scaled(client: Client, replicas: int, namespace: str = SPACE) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await client.patch(LEADER_WORKER_SETS, "llm", namespace, {"spec": {"replicas": replicas}})
                break
            except ApiError:
                await asyncio.sleep(0.2)
    await settled(client, namespace, replicas)


async def _uids(client: Client) -> dict[str, str]:
    return {name: one["metadata"]["uid"] for name, one in (await pods(client, SPACE)).items()}


@pytest.mark.timeout(300)
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


async def _bound_token(client: Client, name: str) -> str:
    """A token that ends when the Secret of this name is deleted."""
    await client.create(SECRETS, {"metadata": {"name": name, "namespace": SYSTEM}})
    bound = {"apiVersion": "v1", "kind": "Secret", "name": name}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}}
    answer = await client.create(SERVICE_ACCOUNTS, request, SYSTEM, "token", ACCOUNT)
    token: str = answer["status"]["token"]
    return token


async def _refused(kubernetes: ControlPlane, token: str) -> None:
    """Wait until the API server knows a token no more; it remembers for ten seconds whom it has trusted."""
    async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as session:
        while True:
            headers = {"authorization": f"Bearer {token}"}
            async with session.get(f"{kubernetes.server}/api", headers=headers, ssl=False) as answer:
                if answer.status == 401:
                    return
            await asyncio.sleep(0.2)


async def test_a_token_ends_and_another_lies_in_its_file(kubernetes: ControlPlane, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    options = InstallOptions(namespace=SYSTEM, replicas=0, rollouts=False)
    words = (*service_words(port, SYSTEM), "--no-rollouts")
    file = tmp_path / "token"
    async with (
        administrator(kubernetes, "token") as client,
        simulated_nodes(kubernetes),
        installed(kubernetes, client, options, port) as kubeconfig,
    ):
        file.write_text(first := await _bound_token(client, "first"))
        kubeconfig.write_text(re.sub(r"token: \S+?(?=})", f"tokenFile: {file}", kubeconfig.read_text()))
        with operator(kubeconfig, tmp_path / "operator.log", *words) as process:
            await process.says("controllers started")
            await client.create(LEADER_WORKER_SETS, lws("llm", "token").replicas(1).size(2))
            await settled(client, "token", 1)

            await client.delete(SECRETS, "first", SYSTEM)
            await _refused(kubernetes, first)
            await client.patch(LEADER_WORKER_SETS, "llm", "token", {"spec": {"replicas": 2}})
            assert (await process.says("reconcile failed"))["key"] == "token/llm"
            file.write_text(await _bound_token(client, "second"))
            await settled(client, "token", 2)
            await _scaled(client, 3, "token")
            assert process.stop() == 0
