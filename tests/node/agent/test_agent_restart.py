"""An agent that was killed leaves containers running; the next one asks them how they are, as the first one did."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.node.agent.node_bench import Bench, container, node

from kohort.objects.json_types import JsonObject

PROBES = {"periodSeconds": 5, "failureThreshold": 1}


@asynccontextmanager
async def listening(address: str) -> AsyncIterator[int]:
    """Something that answers at the address of a pod, and only there: its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.readline():
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, address, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def killed_and_followed(bench: Bench) -> None:
    before = bench.agent
    await bench.cluster.parts["node"].crash()
    await bench.cluster.parts["node"].restart()
    await bench.until(lambda: bench.agent is not before and bench.agent.pods.find("default", "p") is not None)


async def address_of_the_first_pod(directory: Path) -> str:
    """What a node gives out first, so that something can listen there before the pod is made."""
    async with node(directory) as bench:
        await bench.create()
        await bench.until(lambda: bench.phase() == "Running")
        return str(bench.pod()["status"]["podIP"])


@pytest.mark.parametrize("kind", ["httpGet", "tcpSocket"])
async def test_probes_ask_the_pod_after_the_agent_was_killed(tmp_path: Path, kind: str) -> None:
    address = await address_of_the_first_pod(tmp_path / "sample")
    async with listening(address) as port, node(tmp_path / "node") as bench:
        probe: JsonObject = {kind: {"port": port}, **PROBES}
        await bench.create(containers=[container("c", livenessProbe=probe, readinessProbe=probe)])
        await bench.until(lambda: bench.conditions().get("Ready", {}).get("status") == "True")
        assert bench.pod()["status"]["podIP"] == address
        await killed_and_followed(bench)
        await asyncio.sleep(120)
        assert (bench.running(), bench.status()["restartCount"]) == (["c_0"], 0)
        assert bench.conditions()["Ready"]["status"] == "True" and "Unhealthy" not in bench.events()


async def test_commands_that_probe_wait_until_they_can_run(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        probe: JsonObject = {"exec": {"command": ["alive"]}, **PROBES}
        await bench.create(containers=[container("c", livenessProbe=probe, readinessProbe=probe)])
        await bench.until(lambda: bench.conditions().get("Ready", {}).get("status") == "True")
        await killed_and_followed(bench)
        await asyncio.sleep(120)
        assert bench.running() == ["c_0"] and "Unhealthy" not in bench.events()


async def test_a_container_that_died_with_the_agent_is_not_taken_for_healthy(tmp_path: Path) -> None:
    address = await address_of_the_first_pod(tmp_path / "sample")
    async with node(tmp_path / "node") as bench:
        async with listening(address) as port:
            probe: JsonObject = {"tcpSocket": {"port": port}, **PROBES}
            await bench.create(containers=[container("c", livenessProbe=probe)], terminationGracePeriodSeconds=1)
            await bench.until(lambda: bench.phase() == "Running")
        await killed_and_followed(bench)
        await bench.until(lambda: bench.status()["restartCount"] == 1)


async def test_a_pod_that_is_not_taken_in_takes_no_address(tmp_path: Path) -> None:
    async with node(tmp_path, cpu="1") as bench:
        await bench.create("big", containers=[container("c", resources={"requests": {"cpu": "2"}})])
        await bench.until(lambda: bench.phase("big") == "Failed")
        await bench.create()
        await bench.until(lambda: bench.phase() == "Running")
        assert str(bench.pod()["status"]["podIP"]).endswith(".1"), "the first of the block"
