"""The tensor-parallel example as real processes on this machine: four pods that compute one product."""

import asyncio
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.children import environment

from kohort.kube.client import Client
from kohort.kube.kubeconfig import load
from kohort.kube.resources import CONFIG_MAPS, LEADER_WORKER_SETS, PODS, SERVICES
from kohort.objects.json_types import JsonObject

FILE = Path(__file__).parents[2] / "examples" / "tensor-parallel.yaml"
RESOURCES = {one.kind: one for one in (CONFIG_MAPS, LEADER_WORKER_SETS, SERVICES)}


def kohort(*arguments: str, timeout: float = 280) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "kohort", *arguments]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=timeout, check=False)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """Of a cluster whose only node is this machine."""
    data = tmp_path / "data"
    started = kohort("up", "--data-dir", str(data), "--port", "0", "--detach")
    assert started.returncode == 0, started.stderr
    try:
        yield data / "kubeconfig"
    finally:
        kohort("down", "--data-dir", str(data))


async def applied(kubeconfig: Path) -> None:
    client = Client(load(kubeconfig))
    try:
        for one in yaml.safe_load_all(FILE.read_text()):
            one["metadata"]["namespace"] = "default"
            await client.apply(RESOURCES[one["kind"]], one)
    finally:
        await client.close()


async def leader(kubeconfig: Path) -> JsonObject:
    client = Client(load(kubeconfig))
    try:
        return await client.get(PODS, "tensor-0", "default")
    finally:
        await client.close()


@pytest.mark.e2e
@pytest.mark.skipif(os.geteuid() != 0, reason="networks of pods need root")
def test_four_processes_compute_one_product(kubeconfig: Path) -> None:
    asyncio.run(applied(kubeconfig))
    where = ("--kubeconfig", str(kubeconfig))
    waited = kohort("status", "-w", "tensor", "--timeout", "60", *where)
    assert waited.returncode == 0, waited.stdout + waited.stderr
    address = asyncio.run(leader(kubeconfig))["status"]["podIP"]
    with urllib.request.urlopen(f"http://{address}:8080/multiply", b"[1, 0, 0, 1]", timeout=10) as answer:
        product = json.load(answer)
    # Row r, column c of the matrix is (r + 1)(c + 1): rows 1 and 4 add up to 5(c + 1).
    assert product == {str(column): 5 * (column + 1) for column in range(8)}
    told = kohort("logs", "tensor", "--group", "0", *where)
    assert told.returncode == 0, told.stderr
    asked = {line.split()[0] for line in told.stdout.splitlines() if "POST /shard" in line}
    assert asked == {"tensor-0-1", "tensor-0-2", "tensor-0-3"}
    (line,) = [line for line in told.stdout.splitlines() if "POST /multiply" in line]
    assert line.startswith("tensor-0 ")
