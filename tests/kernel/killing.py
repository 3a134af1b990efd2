"""Whole agents, each a process of its own with its API server elsewhere, that are killed in the middle of a resize.

The same resize comes again and again; the agent that carries it out is killed before its first write, the next one
before its second, and so on until one is through. Writes are those to cgroups and those to records, a record before it
is written and before it is renamed. Every successor has to come to the same end.
"""

import asyncio
import mmap
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tests.kernel.bench import Bench, block, equal, process_agent, status_of

from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.http.https_server import HttpsServer
from kohort.kube.client import Client
from kohort.kube.manager import Manager
from kohort.kube.resources import PODS
from kohort.kube.transport import Connection, HttpsTransport
from kohort.node.agent import NodeOptions
from kohort.node.cgroups import MOUNT, node_cgroups
from kohort.objects.json_types import JsonObject

NODE = "mortal"
PARENT = MOUNT / "mortal"
PLENTY = 1 << 30
FILES = ("cpu.max", "cpu.weight", "memory.max", "memory.high")
SMALL = (block(("200m", "400m"), ("64Mi", "400Mi")), block(("100m", "200m"), ("8Mi", "80Mi")))
LARGE = (block(("300m", "600m"), ("32Mi", "300Mi")), block(("50m", "100m"), ("16Mi", "100Mi")))
"""Of the pod and of one container, which go opposite ways for each resource; the other container inherits."""


class Left:
    """How many writes an agent has left: a number that two processes share."""

    def __init__(self, path: Path) -> None:
        path.touch()
        os.truncate(path, 8)
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 8)

    def get(self) -> int:
        return int.from_bytes(self._shared[:])

    def set(self, count: int) -> None:
        self._shared[:] = count.to_bytes(8)

    def take(self) -> None:
        """One of them; whoever has none left dies."""
        if self.get() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.set(self.get() - 1)


def live(url: str, directory: str) -> None:
    """Be the agent, as long as writes are left."""
    left = Left(Path(directory, "left"))

    def observer(kind: str, path: Path, content: str) -> None:
        left.take()

    async def serve() -> None:
        manager = Manager(Client(HttpsTransport(Connection(url))), name="node")
        place = Path(directory)
        process_agent(manager, NodeOptions(NODE, place), node_cgroups(PARENT, observer), observer)
        await manager.run()

    asyncio.run(serve())


class Mortal:
    """An agent that can be killed; its successor finds everything as it was left."""

    def __init__(self, directory: Path, live: Callable[..., None], *words: str) -> None:
        """`live(*words, directory)` is the agent, in a process of its own."""
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([live.__module__])
        self._live, self._words = live, (*words, str(directory))
        self.left = Left(directory / "left")
        self.process = self._born()
        self.deaths = 0

    def _born(self) -> ForkServerProcess:
        self.left.set(PLENTY)
        process = self._context.Process(target=self._live, args=self._words, daemon=True)
        process.start()
        return process

    async def replace(self) -> None:
        """Whenever it was killed."""
        loop = asyncio.get_running_loop()
        while True:
            dead, sentinel = asyncio.Event(), self.process.sentinel
            loop.add_reader(sentinel, dead.set)
            try:
                await dead.wait()
            finally:
                loop.remove_reader(sentinel)
            self.process.join()
            equal(self.process.exitcode, -signal.SIGKILL)
            self.process = self._born()
            self.deaths += 1

    def end(self) -> None:
        self.process.kill()
        self.process.join()


async def whole_agents_may_be_killed_at_any_write(bench: Bench) -> None:
    front = HttpsServer(bench.server, lambda headers, certificate: ADMIN)
    await front.start()
    mortal = Mortal(Path(tempfile.mkdtemp(prefix="mortal-")), live, f"http://127.0.0.1:{front.port}")
    try:
        async with asyncio.TaskGroup() as tasks:
            replacing = tasks.create_task(mortal.replace())
            await resized_at_every_point(bench, mortal)
            replacing.cancel()
    finally:
        mortal.end()
        await front.stop()


async def resized_at_every_point(bench: Bench, mortal: Mortal) -> None:
    pod = await bench.run("killed", containers(SMALL[1]), SMALL[0], NODE)
    place = PARENT / "burstable" / f"pod{pod['metadata']['uid']}"
    first = processes(place)
    await resized(bench, LARGE)
    expected, granted = files(place), 0
    while True:
        mortal.left.set(PLENTY)
        await resized(bench, SMALL)
        mortal.left.set(granted)
        pod = await resized(bench, LARGE)
        equal((granted, files(place)), (granted, expected))
        equal((granted, processes(place)), (granted, first))
        equal([each["restartCount"] for each in pod["status"]["containerStatuses"]], [0, 0])
        if 0 < mortal.left.get() <= granted:
            break  # and it had one more than it needed
        granted += 1
    assert mortal.deaths > 15, mortal.deaths
    mortal.left.set(PLENTY)
    await bench.client.delete(PODS, "killed", "default", grace_seconds=0)
    while place.exists():  # noqa: ASYNC110  the kernel tells nobody
        await asyncio.sleep(0.02)


def containers(own: JsonObject) -> list[JsonObject]:
    return [{"name": "c1", "resources": own}, {"name": "heir"}]


async def resized(bench: Bench, sizes: tuple[JsonObject, JsonObject]) -> JsonObject:
    """Ask for other sizes, and wait until all of the status says that they are there."""
    whole, own = sizes
    asked = {"resources": whole, "containers": [{"name": "c1", "resources": own}]}
    await bench.resize("killed", asked)
    return await bench.until(
        "killed",
        lambda pod: pod["status"]["resources"] == whole and status_of(pod, "c1")["resources"] == own,
    )


def files(place: Path) -> dict[str, str]:
    return {
        f"{name}/{file}": (place / name / file).read_text().strip() for name in (".", "c1", "heir") for file in FILES
    }


def processes(place: Path) -> dict[str, list[str]]:
    return {name: (place / name / "cgroup.procs").read_text().split() for name in ("c1", "heir")}
