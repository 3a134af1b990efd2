"""Pods with devices on a cluster of `kohort up`: scheduled by count, started with what the plugin says, kept through a
crash of the cluster."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from tests.children import environment
from tests.node.devices.fake_plugin import FakePlugin
from tests.node.processes import Bench, shell

from kohort.kube import kubeconfig
from kohort.kube.client import Client
from kohort.kube.resources import NODES
from kohort.objects.json_types import JsonObject

pytestmark = pytest.mark.e2e
GPU = "example.com/gpu"


@contextlib.contextmanager
def up(data: Path, plugins: Path, end: signal.Signals = signal.SIGTERM) -> Iterator[None]:
    command = [sys.executable, "-m", "kohort", "up", "--data-dir", str(data), "--port", "0", "--runtime", "process"]
    child = subprocess.Popen(
        [*command, "--device-plugins", str(plugins)], env=environment(), stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None and child.stdout.readline().startswith("ready ")
        yield
    finally:
        child.send_signal(end)
        child.wait(60)


@contextlib.asynccontextmanager
async def bench_of(data: Path) -> AsyncIterator[Bench]:
    client = Client(kubeconfig.load(data / "kubeconfig"))
    try:
        yield Bench(client, data)
    finally:
        await client.close()


async def offered(client: Client, capacity: str, allocatable: str) -> None:
    def holds(status: JsonObject) -> bool:
        return (status["capacity"].get(GPU), status["allocatable"].get(GPU)) == (capacity, allocatable)

    async with asyncio.timeout(60):
        while not any(holds(node["status"]) for node in (await client.list(NODES)).items):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def plugin(folder: Path, *devices: str) -> AsyncIterator[FakePlugin]:
    made = FakePlugin(folder)
    made.announce(*devices)
    await made.start()
    await made.register()
    try:
        yield made
    finally:
        await made.stop()


def with_gpus(count: int, file: Path) -> JsonObject:
    """Writes down what it was given, and stays."""
    script = f'echo "$EXAMPLE_VISIBLE_DEVICES" >> {file}; exec sleep 1000'
    return shell(script, resources={"limits": {GPU: str(count)}})


def running(status: JsonObject) -> bool:
    return bool(status["containerStatuses"][0]["state"].get("running"))


def unschedulable(status: JsonObject) -> bool:
    return any(f"Insufficient {GPU}" in each.get("message", "") for each in status["conditions"])


async def written(file: Path, holds: Callable[[str], bool]) -> str:
    def content() -> str:
        return file.read_text() if file.exists() else ""

    async with asyncio.timeout(120):
        while not holds(content()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return content()


async def test_pods_get_devices_and_keep_them_through_a_crash(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounts of plugins are only sure to work for root")
    data, plugins = tmp_path / "data", tmp_path / "plugins"
    with up(data, plugins, end=signal.SIGKILL):
        async with bench_of(data) as bench, plugin(plugins, "gpu-0", "gpu-1") as gpus:
            await offered(bench.client, "2", "2")
            await bench.run("a", with_gpus(2, tmp_path / "a"))
            await bench.until("a", running)
            assert await written(tmp_path / "a", bool) == "gpu-0,gpu-1\n"
            assert gpus.allocated == [("gpu-0", "gpu-1")]

            await bench.run("b", with_gpus(1, tmp_path / "b"))
            await bench.until("b", unschedulable)
            node = (await bench.client.list(NODES)).items[0]["metadata"]["name"]
            await bench.run("bound", with_gpus(1, tmp_path / "bound"), nodeName=node)
            failed = await bench.ended("bound", "Failed")
            assert failed["reason"] == "UnexpectedAdmissionError"
            assert "Requested: 1, Available: 0" in failed["message"]

            gpus.announce("gpu-0", unhealthy=["gpu-1"])
            await offered(bench.client, "2", "1")
            assert (await bench.until("a", running))["containerStatuses"][0]["restartCount"] == 0

    with up(data, plugins):
        async with bench_of(data) as bench:
            await offered(bench.client, "0", "0")
            async with plugin(plugins, "gpu-0", "gpu-1") as gpus:
                await offered(bench.client, "2", "2")
                status = await bench.until("a", running)
                assert status["containerStatuses"][0]["restartCount"] == 0
                assert gpus.allocated == []
                assert (tmp_path / "a").read_text() == "gpu-0,gpu-1\n"
                await bench.gone("a")
                await bench.until("b", running)
                assert await written(tmp_path / "b", bool) == "gpu-0\n"
