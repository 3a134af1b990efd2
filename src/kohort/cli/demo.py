"""`kohort demo`: the story of a set of groups, told on a cluster of its own, in a few seconds."""

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kohort.objects.jsontypes import JsonObject

if TYPE_CHECKING:
    from kohort.kube.client import Client

PATIENCE = 60.0
NAME = "llm"

Step = Callable[["Client"], Awaitable[str]]


@click.command("demo")
def command() -> None:
    """Start a cluster, bring up two groups, roll and scale them, lose a pod, stop. Takes a few seconds."""
    sys.exit(asyncio.run(_demo()))


async def _demo() -> int:
    with tempfile.TemporaryDirectory(prefix="kohort-demo-") as directory:
        data = Path(directory) / "data"
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kohort", "up", "--data-dir", str(data), "--port", "0", "--simulated-nodes", "8"),
            *("--simulated-start", "0.2"),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            first = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
            if not first.startswith(b"ready"):
                click.echo("the cluster did not start", err=True)
                return 1
            _say("a cluster with 8 simulated nodes is ready", time.monotonic() - began)
            return await _tell(data / "kubeconfig")
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


async def _tell(kubeconfig: Path) -> int:
    from kohort.kube.client import Client
    from kohort.kube.kubeconfig import load

    client = Client(load(kubeconfig), field_manager="kohort-demo")
    steps: list[tuple[str, Step]] = [
        ("two groups of four pods are created", _create),
        ("a new image rolls through the groups, one at a time", _roll),
        ("a third group is added", _scale),
        ("a worker is lost: its whole group is recreated", _lose),
    ]
    try:
        for title, step in steps:
            began = time.monotonic()
            try:
                detail = await asyncio.wait_for(step(client), PATIENCE)
            except TimeoutError:
                click.echo(f"  ✗ {title}: not done after {PATIENCE:g} s", err=True)
                return 1
            _say(f"{title} ({detail})", time.monotonic() - began)
        click.echo("Everything worked. Next: kohort up --simulated-nodes 8, and kubectl apply -f examples/llm.yaml")
        return 0
    finally:
        await client.close()


def _say(text: str, seconds: float) -> None:
    click.echo(f"  ✓ {text:<78} {seconds:6.2f} s")


async def _create(client: "Client") -> str:
    from kohort.kube.resources import LEADER_WORKER_SETS

    await client.create(LEADER_WORKER_SETS, group_set("host:1"), "default")
    return await _settled(client, groups=2)


async def _roll(client: "Client") -> str:
    image = {"containers": [{"name": "server", "image": "host:2"}]}
    await _patch(client, {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": image}}}})
    return await _settled(client, groups=2)


async def _scale(client: "Client") -> str:
    await _patch(client, {"spec": {"replicas": 3}})
    return await _settled(client, groups=3)


async def _lose(client: "Client") -> str:
    from kohort.kube.resources import PODS

    before = await client.get(PODS, f"{NAME}-0", "default")
    await client.delete(PODS, f"{NAME}-0-1", "default")
    async for event in client.watch(PODS, "default", field_selector=f"metadata.name={NAME}-0"):
        if event.object["metadata"]["uid"] != before["metadata"]["uid"]:
            break
    return await _settled(client, groups=3)


async def _patch(client: "Client", body: JsonObject) -> None:
    from kohort.kube.resources import LEADER_WORKER_SETS

    await client.patch(LEADER_WORKER_SETS, NAME, "default", body)


async def _settled(client: "Client", groups: int) -> str:
    """Wait until the set says that all groups are ready, updated and observed."""
    from kohort.kube.resources import LEADER_WORKER_SETS

    async for event in client.watch(LEADER_WORKER_SETS, "default", field_selector=f"metadata.name={NAME}"):
        metadata, status = event.object["metadata"], event.object.get("status") or {}
        counters = [status.get(name) for name in ("readyReplicas", "updatedReplicas", "replicas")]
        if status.get("observedGeneration") == metadata["generation"] and counters == [groups] * 3:
            return f"{groups} groups, {groups * 4} pods ready"
    raise TimeoutError


def group_set(image: str) -> JsonObject:
    container = {"name": "server", "image": image, "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": NAME, "namespace": "default"},
        "spec": {
            "replicas": 2,
            "leaderWorkerTemplate": {
                "size": 4,
                "workerTemplate": {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}},
            },
        },
    }
