"""Containers whose end is reported before the agent has recorded their start."""

import asyncio
from pathlib import Path

import pytest
from tests.node.agent.node_bench import Bench, container, node

from kohort.kube.resources import PODS
from kohort.node.runtimes.interface import Instance, Launch


def end_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str, code: int) -> None:
    """Every start of this container returns only after its end was reported."""
    start = bench.runtime.start

    async def started(launch: Launch) -> Instance:
        instance = await start(launch)
        if f"_{name}_" in launch.id:
            bench.runtime.end(launch.id, code)
            await asyncio.sleep(0.1)
        return instance

    monkeypatch.setattr(bench.runtime, "start", started)


async def test_a_failed_init_container_ends_its_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with node(tmp_path) as bench:
        end_at_once(bench, monkeypatch, "prep", 4)
        await bench.create(restartPolicy="Never", initContainers=[container("prep")], terminationGracePeriodSeconds=1)
        await bench.until(lambda: bench.phase() == "Failed")
        assert bench.status("prep")["state"]["terminated"]["exitCode"] == 4
        assert bench.running() == []


async def test_a_container_that_ends_at_once_is_restarted_and_its_pod_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(tmp_path) as bench:
        end_at_once(bench, monkeypatch, "c", 4)
        await bench.create(terminationGracePeriodSeconds=1)
        await bench.until(lambda: bench.status().get("restartCount", 0) >= 2)
        assert bench.status()["lastState"]["terminated"]["exitCode"] == 4
        await bench.cluster.client.delete(PODS, "p", "default")
        await bench.until(lambda: bench.cluster.find(PODS, "p", "default") is None)
