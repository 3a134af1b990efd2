"""Whether memory and database stop growing while pods are created and deleted at a steady rate.

    python -m bench.endurance [--pods 100000] [--rate 100] [--live 200] [--nodes 20]

Small pods are created at a steady rate on simulated nodes, and each is deleted when `--live` newer ones exist, so the
cluster always holds about as many. Twenty times during the run it is noted what the process and its files take, and how
many events there are. Growth is judged over the second half, when every bounded thing (events, watch windows, the log
in the database) has reached its bound: `--most` bytes per pod, else the exit code is 1.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from bench import pods, servers

from kohort.kube import kubeconfig
from kohort.kube.client import Client
from kohort.kube.errors import NotFound
from kohort.kube.resources import PODS

SAMPLES = 20
IN_FLIGHT = 64


@dataclass(frozen=True, slots=True)
class Sample:
    pods: int
    seconds: float
    cpu: float
    resident: float
    database: float
    wal: float
    events: int

    HEAD = "|    pods | seconds | ms/pod | resident MB | database MB | WAL MB | events |\n" + "|--:" * 7 + "|"

    def line(self) -> str:
        each = self.cpu / self.pods * 1000 if self.pods else 0.0
        return (
            f"| {self.pods:7,} | {self.seconds:7.0f} | {each:6.2f} | {self.resident:11.1f} | {self.database:11.1f} "
            f"| {self.wal:6.1f} | {self.events:6,} |"
        )


class Churn:
    def __init__(self, server: servers.Server, live: int) -> None:
        self._server = server
        self._live = live
        self._client = Client(kubeconfig.load(server.kubeconfig))
        self._places = asyncio.Semaphore(IN_FLIGHT)
        self._begun = time.monotonic()
        self._cpu = server.cpu_seconds()

    async def run(self, count: int, rate: float) -> list[Sample]:
        samples: list[Sample] = []
        print(Sample.HEAD, flush=True)
        async with asyncio.TaskGroup() as group:
            for number in range(count + 1):
                if number % (count // SAMPLES) == 0:
                    samples.append(await self._sample(number))
                    print(samples[-1].line(), flush=True)
                await asyncio.sleep(self._begun + number / rate - time.monotonic())
                await self._places.acquire()
                group.create_task(self._replace(number))
        await self._client.close()
        return samples

    async def _replace(self, number: int) -> None:
        try:
            await self._client.create(PODS, pods.pod(number), "default")
            if number >= self._live:
                await self._delete(number - self._live)
        finally:
            self._places.release()

    async def _delete(self, number: int) -> None:
        try:
            await self._client.delete(PODS, f"pod-{number}", "default", grace_seconds=1)
        except NotFound:
            return

    async def _sample(self, number: int) -> Sample:
        directory = self._server.kubeconfig.parent
        events = msgspec.json.decode(await self._client.raw("GET", "/api/v1/events", [("limit", "1")]))
        return Sample(
            number,
            time.monotonic() - self._begun,
            self._server.cpu_seconds() - self._cpu,
            self._server.resident_megabytes(),
            _megabytes(directory / "store.db"),
            _megabytes(directory / "store.db-wal"),
            len(events["items"]) + events["metadata"].get("remainingItemCount", 0),
        )


def _megabytes(path: Path) -> float:
    return path.stat().st_size / (1 << 20) if path.exists() else 0.0


def growth(samples: Sequence[Sample]) -> float:
    """Bytes of resident memory per pod over the second half of the run, by least squares: one sample may be high."""
    half = samples[len(samples) // 2 :]
    middle_x = sum(one.pods for one in half) / len(half)
    middle_y = sum(one.resident for one in half) / len(half)
    spread = sum((one.pods - middle_x) ** 2 for one in half)
    return (1 << 20) * sum((one.pods - middle_x) * (one.resident - middle_y) for one in half) / spread


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=100.0, help="pods per second, if the machine can do that")
    parser.add_argument("--live", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--most", type=float, help="fail if memory grows by more bytes per pod in the second half")
    options = parser.parse_args()
    words = ("--simulated-nodes", str(options.nodes), "--simulated-capacity", "cpu=64,memory=256Gi,pods=500")
    with servers.kohort(*words) as server:
        samples = asyncio.run(churned(server, options.live, options.pods, options.rate))
    found = growth(samples)
    print(f"memory grew by {found:,.0f} bytes per pod over the second half")
    if options.most is not None and found > options.most:
        sys.exit(f"that is more than {options.most:,.0f}")


async def churned(server: servers.Server, live: int, count: int, rate: float) -> list[Sample]:
    return await Churn(server, live).run(count, rate)


if __name__ == "__main__":
    main()
