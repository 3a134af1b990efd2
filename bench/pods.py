"""Pods per second on simulated nodes: created over HTTPS by 32 clients, scheduled, started, ready, all durable.

python bench/pods.py [--pods 1000] [--nodes 50] [--parts apiserver,workloads,scheduler]
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kohort.kube import kubeconfig
from kohort.kube.client import Client
from kohort.kube.resources import PODS
from kohort.objects.jsontypes import JsonObject
from kohort.objects.pods import Pod

CLIENTS = 32


def pod(number: int) -> JsonObject:
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    container = {"name": "main", "image": "host", "resources": resources}
    return {"metadata": {"name": f"pod-{number}", "namespace": "default"}, "spec": {"containers": [container]}}


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def until_ready(client: Client, count: int) -> None:
    ready: set[str] = set()
    async for event in client.watch(PODS, "default", type=Pod):
        if event.object.ready:
            ready.add(event.object.metadata.name)
        if len(ready) == count:
            return


async def create_all(client: Client, count: int) -> None:
    numbers = iter(range(count))

    async def create_next() -> None:
        for number in numbers:
            await client.create(PODS, pod(number))

    await asyncio.gather(*(create_next() for _ in range(CLIENTS)))


async def measure(directory: Path, pid: int, count: int) -> None:
    client = Client(kubeconfig.load(directory / "kubeconfig"))
    watching = asyncio.create_task(until_ready(client, count))
    cpu, begun = cpu_seconds(pid), time.perf_counter()
    await create_all(client, count)
    created = time.perf_counter() - begun
    await asyncio.wait_for(watching, 300)
    elapsed = time.perf_counter() - begun
    cpu = cpu_seconds(pid) - cpu
    await client.close()
    print(f"{count} pods: {count / created:.0f}/s created, {count / elapsed:.0f}/s from create to Ready")
    print(f"  {cpu / count * 1000:.2f} ms of processor time per pod in the whole control plane")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--parts", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        command = ["up", "--data-dir", directory, "--port", "0", "--simulated-nodes", str(options.nodes)]
        command += ["--parts", options.parts]
        server = subprocess.Popen([sys.executable, "-m", "kohort", *command], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            if not server.stdout.readline().startswith("ready"):
                raise RuntimeError("kohort up did not become ready")
            asyncio.run(measure(Path(directory), server.pid, options.pods))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(30)


if __name__ == "__main__":
    main()
