"""Pods per second: created over HTTPS and durable, and on simulated nodes from create to Ready.

    python -m bench.pods [--pods 1000] [--nodes 50] [--parts LIST] [--real]

32 connections create small pods. Without nodes (`--nodes 0`) only the API server runs and the rate of creates is what
is measured; `--real` drives etcd and kube-apiserver with the same program. With nodes, pods are scheduled, started and
reported ready by the whole control plane while more of them are created.
"""

import argparse
import asyncio
import multiprocessing
import time
from dataclasses import dataclass

import msgspec
from bench import raw_client, servers

from kohort.kube import kubeconfig
from kohort.kube.client import Client
from kohort.kube.resources import PODS
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import Pod

CLIENTS = 32
PATH = "/api/v1/namespaces/default/pods"


@dataclass(frozen=True, slots=True)
class Created:
    pods: int
    seconds: float
    cpu: float
    """Processor time of the server."""

    @property
    def rate(self) -> float:
        return self.pods / self.seconds

    @property
    def milliseconds(self) -> float:
        """Of processor time per pod."""
        return self.cpu / self.pods * 1000

    def lines(self) -> list[str]:
        return [f"{self.pods:,} pods created: {self.rate:,.0f}/s, {self.milliseconds:.2f} ms of processor time per pod"]


@dataclass(frozen=True, slots=True)
class Readied(Created):
    creating: float
    """Seconds until the last create was answered."""

    def lines(self) -> list[str]:
        return [
            f"{self.pods:,} pods: {self.pods / self.creating:,.0f}/s created meanwhile, "
            f"{self.rate:,.0f}/s from create to Ready",
            f"  {self.milliseconds:.2f} ms of processor time per pod in the whole control plane",
        ]


def pod(number: int) -> JsonObject:
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    container = {"name": "main", "image": "host", "resources": resources}
    return {"metadata": {"name": f"pod-{number}", "namespace": "default"}, "spec": {"containers": [container]}}


def requests(target: raw_client.Target, numbers: range) -> list[bytes]:
    documents = ({"apiVersion": "v1", "kind": "Pod", **pod(number)} for number in numbers)
    return [target.request("POST", PATH, msgspec.json.encode(document)) for document in documents]


def measure_creates(server: servers.Server, count: int) -> Created:
    target = raw_client.Target.of(server.kubeconfig)
    raw_client.send_all(target, requests(target, range(CLIENTS)), 1)
    prepared = requests(target, range(CLIENTS, CLIENTS + count))
    cpu = server.cpu_seconds()
    seconds = raw_client.send_all(target, prepared, CLIENTS)
    return Created(count, seconds, server.cpu_seconds() - cpu)


async def until_ready(client: Client, count: int) -> None:
    ready: set[str] = set()
    async for event in client.watch(PODS, "default", type=Pod):
        if event.object.ready:
            ready.add(event.object.metadata.name)
        if len(ready) == count:
            return


async def measure_ready(server: servers.Server, target: raw_client.Target, count: int) -> Readied:
    client = Client(kubeconfig.load(server.kubeconfig))
    prepared = requests(target, range(count))
    watching = asyncio.create_task(until_ready(client, count))
    await asyncio.sleep(0.5)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def create() -> None:
        with raw_client.connected(target, CLIENTS) as exchanges:
            theirs.send("connected")
            theirs.recv()
            theirs.send(raw_client.send_over(exchanges, prepared))

    process = context.Process(target=create, daemon=True)
    process.start()
    await asyncio.to_thread(ours.recv)
    cpu, begun = server.cpu_seconds(), time.perf_counter()
    ours.send("begin")
    await asyncio.wait_for(watching, 600)
    elapsed, cpu = time.perf_counter() - begun, server.cpu_seconds() - cpu
    creating: float = ours.recv()
    process.join()
    await client.close()
    return Readied(count, elapsed, cpu, creating)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--parts", default="")
    parser.add_argument("--real", action="store_true")
    options = parser.parse_args()
    if options.real or not options.nodes:
        with servers.api_server(real=options.real) as server:
            print("\n".join(measure_creates(server, options.pods).lines()))
        return
    with servers.kohort("--simulated-nodes", str(options.nodes), "--parts", options.parts) as server:
        target = raw_client.Target.of(server.kubeconfig)
        print("\n".join(asyncio.run(measure_ready(server, target, options.pods)).lines()))


if __name__ == "__main__":
    main()
