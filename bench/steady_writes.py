"""Latency of writes at a steady rate, and of their arrival at watchers.

    python -m bench.steady_writes [--pods 2000] [--watchers 50] [--rate 200] [--seconds 10] [--real]

Pods are there and are annotated at a steady rate; watchers of all of them note when each change arrives. A write is
sent when its time has come, whether or not the ones before it are answered, so that a server that stalls is seen to
stall. One process serves, one watches, this one writes.
"""

import argparse
import asyncio
import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from bench import pods, raw_client, servers

from kohort.kube import kubeconfig
from kohort.kube.client import Client
from kohort.kube.resources import PODS
from kohort.objects.meta import PartialObject

NUMBER = "bench.kohort.dev/number"
READY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class WriteLatencies:
    writes: Sequence[float]
    """Seconds from sending to the answer, of each."""
    lags: Sequence[float]
    """Seconds from the answer to the arrival, of each write at each watcher."""
    lost: int

    def lines(self) -> list[str]:
        write, lag = quantiles(self.writes), quantiles(self.lags)
        return [
            f"write: p50 {write[0] * 1000:.1f} ms, p99 {write[1] * 1000:.1f} ms",
            f"  seen by watchers after p50 {lag[0] * 1000:.1f} ms, p99 {lag[1] * 1000:.1f} ms; {self.lost} lost",
        ]


def quantiles(values: Sequence[float]) -> tuple[float, float]:
    """The median, and what 99 of 100 do not exceed."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]


def measure(server: servers.Server, count: int, watchers: int, rate: int, seconds: int) -> WriteLatencies:
    target = raw_client.Target.of(server.kubeconfig)
    raw_client.send_all(target, pods.requests(target, range(count)), pods.CLIENTS)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_watch, args=(server.kubeconfig, watchers, rate * seconds, theirs), name="watchers", daemon=True
    )
    process.start()
    try:
        if not ours.poll(READY_SECONDS) or ours.recv() != "ready":
            raise RuntimeError("the watches did not begin")
        sent, answered = asyncio.run(_write(server.kubeconfig, count, rate, seconds))
        arrived: list[dict[int, float]] = ours.recv()
    finally:
        process.terminate()
        process.join()
    writes = [answered[number] - sent[number] for number in answered]
    lags = [max(0.0, at - answered[number]) for one in arrived for number, at in one.items()]
    return WriteLatencies(writes, lags, watchers * len(answered) - len(lags))


async def _write(path: Path, count: int, rate: int, seconds: int) -> tuple[dict[int, float], dict[int, float]]:
    """When each write was sent, and when it was answered."""
    client = Client(kubeconfig.load(path))
    sent: dict[int, float] = {}
    answered: dict[int, float] = {}

    async def one(number: int) -> None:
        body = {"metadata": {"annotations": {NUMBER: str(number)}}}
        sent[number] = time.monotonic()
        await client.patch(PODS, f"pod-{number % count}", "default", body)
        answered[number] = time.monotonic()

    begun = time.monotonic()
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(rate * seconds):
                await asyncio.sleep(begun + number / rate - time.monotonic())
                group.create_task(one(number))
    finally:
        await client.close()
    return sent, answered


def _watch(path: Path, watchers: int, wanted: int, pipe: Pipe) -> None:
    pipe.send(asyncio.run(_seen(path, watchers, wanted, pipe)))


async def _seen(path: Path, watchers: int, wanted: int, pipe: Pipe) -> list[dict[int, float]]:
    """For each watcher, when each write arrived."""
    client = Client(kubeconfig.load(path))
    found: list[dict[int, float]] = [{} for _ in range(watchers)]
    version = (await client.list(PODS, "default", type=PartialObject)).resource_version

    async def one(seen: dict[int, float]) -> None:
        async for event in client.watch(PODS, "default", type=PartialObject, resource_version=version):
            number = event.object.metadata.annotations.get(NUMBER)
            if number is not None:
                seen[int(number)] = time.monotonic()
            if len(seen) == wanted:
                return

    tasks = [asyncio.create_task(one(seen)) for seen in found]
    await asyncio.sleep(1.0)  # Watches say nothing before the first event; from `version` on, they miss none.
    pipe.send("ready")
    _, left = await asyncio.wait(tasks, timeout=READY_SECONDS)
    for task in left:
        task.cancel()
    await client.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--watchers", type=int, default=50)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--real", action="store_true")
    options = parser.parse_args()
    with servers.api_server(real=options.real) as server:
        found = measure(server, options.pods, options.watchers, options.rate, options.seconds)
        print(f"{options.pods:,} pods, {options.watchers} watchers, {options.rate} writes/s")
        print("\n".join(found.lines()))


if __name__ == "__main__":
    main()
