"""Runs on a pure cgroup v2 kernel: times and memory of both nodes, in turns. `measure.py RESULT ROUNDS`.

Every round takes both nodes, the other one first than in the round before. All figures of a round are of one node
process: pods one after the other from the request to Ready; resizes of a container and of a pod from the request to the
status without a resize condition; eight pods that are resized at the same time, until the last one is done; and the
resident memory of the process, with no pod and with eight.
"""

import asyncio
import contextlib
import json
import shutil
import sys
import time
from collections.abc import Awaitable
from pathlib import Path

from tests.containers.containerd import image_archive, pause_archive
from tests.kernel.twin.cases import FOREVER, IMAGE, Condition, block, change, ready, resized, spec
from tests.kernel.twin.nodes import NAME, Kind, Machine, Node

from kohort.kube.client import Client, PatchType
from kohort.kube.errors import NotFound
from kohort.kube.resources import PODS
from kohort.objects.json_types import JsonObject

PLACE = Path("/run/measure")
STARTS = 3
RESIZES = 6
GROUP = 8
SECONDS = 180.0
POLL_SECONDS = 0.02
SIZES = (block(("20m", "40m"), ("16Mi", "24Mi")), block(("30m", "60m"), ("20Mi", "32Mi")))
POD_SIZES = (block(("50m", "100m"), ("32Mi", "48Mi")), block(("60m", "120m"), ("40Mi", "64Mi")))
Figures = dict[str, list[float]]


class Measured:
    def __init__(self, node: Node, client: Client) -> None:
        self._node = node
        self._client = client
        self.figures: Figures = {}

    def _note(self, what: str, value: float) -> None:
        self.figures.setdefault(what, []).append(round(value, 3))

    async def measure(self) -> Figures:
        await self._node.start(self._client)
        self._note("memory without pods, MB", memory_megabytes(self._node.pid))
        for number in range(STARTS):
            self._note("pod start, s", await self._timed(self._run(f"one-{number}")))
        await self._run("whole", resources=POD_SIZES[0])
        for number in range(1, RESIZES + 1):
            container = change(SIZES[number % 2])
            self._note("resize of a container, s", await self._timed(self._resize("one-0", container)))
            pod = {"resources": POD_SIZES[number % 2]}
            self._note("resize of a pod, s", await self._timed(self._resize("whole", pod)))
        names = ["one-0", "one-1", "one-2", *(f"more-{number}" for number in range(GROUP - STARTS))]
        for name in names[STARTS:]:
            await self._run(name)
        self._note(f"memory with {GROUP + 1} pods, MB", memory_megabytes(self._node.pid))
        for number in (1, 2, 3):
            size = change(SIZES[number % 2])
            together = asyncio.gather(*(self._resize(name, size) for name in names))
            self._note(f"resize of {GROUP} pods at once, s", await self._timed(together))
        for name in [*names, "whole"]:
            await self._client.delete(PODS, name, "default", grace_seconds=0)
        await self._gone([*names, "whole"])
        await self._node.stop(self._client)
        return self.figures

    async def _timed(self, work: Awaitable[object]) -> float:
        begun = time.monotonic()
        await work
        return time.monotonic() - begun

    async def _run(self, name: str, **more: object) -> None:
        container: JsonObject = {"name": "c", "image": IMAGE}
        if not more:
            container["resources"] = SIZES[0]
        metadata = {"name": name, "namespace": "default"}
        body = {"nodeName": NAME, **spec(container, **more)}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}
        await self._client.create(PODS, pod, "default")
        await self._until(name, ready)

    async def _resize(self, name: str, patch: JsonObject) -> None:
        await self._client.patch(PODS, name, "default", {"spec": patch}, PatchType.STRATEGIC, "resize")
        await self._until(name, resized)

    async def _until(self, name: str, holds: Condition) -> None:
        deadline = time.monotonic() + SECONDS
        while True:
            pod = await self._client.get(PODS, name, "default")
            if holds(pod):
                return
            assert time.monotonic() < deadline, json.dumps(pod["status"])
            await asyncio.sleep(POLL_SECONDS)

    async def _gone(self, names: list[str]) -> None:
        for name in names:
            with contextlib.suppress(NotFound):
                await self._until(name, lambda pod: False)


def memory_megabytes(pid: int) -> float:
    """Resident memory of a process and of all that it has started and not left to another."""
    try:
        own = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6
        children = [
            int(each) for path in Path(f"/proc/{pid}/task").glob("*/children") for each in path.read_text().split()
        ]
    except OSError:
        return 0.0  # it has ended meanwhile
    return own + sum(map(memory_megabytes, children))


async def compare(machine: Machine, rounds: int) -> list[tuple[Kind, Figures]]:
    found: list[tuple[Kind, Figures]] = []
    try:
        client = await machine.start()
        machine.containerd.load(pause_archive())
        machine.containerd.load(image_archive(IMAGE, command=FOREVER))
        for number in range(rounds):
            order: tuple[Kind, Kind] = ("kubelet", "kohort") if number % 2 == 0 else ("kohort", "kubelet")
            for kind in order:
                figures = await Measured(Node(kind, machine), client).measure()
                found.append((kind, figures))
                print(f"INFO {kind} {json.dumps(figures)}", flush=True)
    finally:
        machine.stop()
    return found


def main(result: str, rounds: str) -> None:
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    Path(result).write_text(json.dumps(asyncio.run(compare(Machine(PLACE), int(rounds)))) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
