"""One agent for one node: a second one under the same name or on the same directory finds out."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.node.agent.node_bench import NODE, node

from kohort.kube import clock
from kohort.kube.client import Client, PatchType
from kohort.kube.resources import LEASES, NODES
from kohort.node import single_agent_lock
from kohort.objects.json_types import JsonObject


@asynccontextmanager
async def left_by_a_killed_agent(directory: Path) -> AsyncIterator[Client]:
    """A cluster whose node has no agent any more."""
    async with node(directory) as bench:
        await bench.crash()
        yield bench.cluster.client
        await bench.cluster.parts["node"].restart()


async def started_at(client: Client, own: str) -> float:
    """How long an agent waits before it takes the node."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await single_agent_lock.check(client, NODE, own)
    return loop.time() - begun


async def lease_of(client: Client) -> JsonObject:
    return dict(await client.get(LEASES, NODE, "kube-node-lease"))


def test_a_directory_has_one_agent(tmp_path: Path) -> None:
    descriptor = single_agent_lock.lock(tmp_path)
    with pytest.raises(single_agent_lock.NodeTaken, match=r"a node runs on .* already \(pid \d+\): stop it"):
        single_agent_lock.lock(tmp_path)
    os.close(descriptor)
    os.close(single_agent_lock.lock(tmp_path))


def test_a_directory_keeps_its_identity_and_shares_it_with_none(tmp_path: Path) -> None:
    first = single_agent_lock.identity(tmp_path / "a")
    assert single_agent_lock.identity(tmp_path / "a") == first != single_agent_lock.identity(tmp_path / "b")


async def test_a_name_that_another_agent_keeps_alive_is_refused(tmp_path: Path) -> None:
    async with node(tmp_path / "first") as bench:
        with pytest.raises(single_agent_lock.NodeTaken, match=f'another agent runs the node "{NODE}".*--name'):
            await single_agent_lock.check(bench.cluster.client, NODE, single_agent_lock.identity(tmp_path / "second"))
        lease = await lease_of(bench.cluster.client)
        assert lease["spec"]["holderIdentity"] == NODE, "as a kubelet's"


async def test_a_name_whose_agent_was_killed_is_free_after_a_missed_renewal(tmp_path: Path) -> None:
    async with left_by_a_killed_agent(tmp_path / "first") as client:
        assert await started_at(client, single_agent_lock.identity(tmp_path / "first")) == 0, "its own directory"
        waited = await started_at(client, single_agent_lock.identity(tmp_path / "second"))
        assert 10 < waited < 20
        await asyncio.sleep(40)
        assert await started_at(client, "third") == 0, "nobody has renewed it for long"


async def test_a_name_whose_agent_has_left_is_free_at_once(tmp_path: Path) -> None:
    async with node(tmp_path / "first") as bench:
        await bench.cluster.parts["node"].stop()
        assert await started_at(bench.cluster.client, "second") == 0
        await bench.cluster.parts["node"].start()


async def test_the_name_of_a_kubelet_is_refused(tmp_path: Path) -> None:
    async with left_by_a_killed_agent(tmp_path / "first") as client:

        async def renew() -> None:
            while True:
                patch = {"metadata": {"annotations": None}, "spec": {"renewTime": clock.micro_timestamp()}}
                await client.patch(LEASES, NODE, "kube-node-lease", patch)
                await asyncio.sleep(10)

        kubelet = asyncio.create_task(renew())
        await asyncio.sleep(1)
        with pytest.raises(single_agent_lock.NodeTaken):
            await single_agent_lock.check(client, NODE, "second")
        kubelet.cancel()


async def test_what_others_write_of_the_agent_does_not_stay(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        client = bench.cluster.client
        own = (await client.get(NODES, NODE))["status"]["addresses"]
        wrong = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 9}}}
        await client.patch(NODES, NODE, "", {"status": wrong}, PatchType.STRATEGIC, "status")
        await asyncio.sleep(11)
        status = (await client.get(NODES, NODE))["status"]
        port = (status["daemonEndpoints"].get("kubeletEndpoint") or {}).get("Port", 0)
        assert (port, status["addresses"]) == (bench.agent.state.port, own)
