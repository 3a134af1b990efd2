"""Kill the whole server with SIGKILL while clients write to it, start it again, and compare with what they were told.

Other than the test of the store alone, this one goes through the socket: what a client got an answer for must be there.
"""

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.children import environment

from kohort.kube import errors, kubeconfig
from kohort.kube.client import Client
from kohort.kube.resources import CONFIG_MAPS
from kohort.objects.json_types import JsonObject

ROUNDS = max(int(os.environ.get("KOHORT_CRASH_ROUNDS", "6")) // 3, 1)
WRITERS = 16


class Server:
    """One life of a server on a data directory."""

    def __init__(self, data: Path) -> None:
        command = [sys.executable, "-m", "kohort", "up", "--data-dir", str(data), "--port", "0", "--parts", "apiserver"]
        self._child = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
        assert self._child.stdout is not None
        assert self._child.stdout.readline().startswith("ready ")
        self._kubeconfig = data / "kubeconfig"

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        client = Client(kubeconfig.load(self._kubeconfig))
        try:
            yield client
        finally:
            await client.close()

    def kill(self) -> None:
        self._child.send_signal(signal.SIGKILL)
        self._child.wait()


class Book:
    """What clients were told, object by object."""

    def __init__(self) -> None:
        self.told: dict[str, JsonObject] = {}
        self.revisions: set[int] = set()
        self._awaited: tuple[int, asyncio.Event] | None = None

    async def answers(self, count: int) -> None:
        """Wait for so many more answers."""
        self._awaited = (len(self.revisions) + count, asyncio.Event())
        await self._awaited[1].wait()

    def note(self, document: JsonObject) -> None:
        revision = int(document["metadata"]["resourceVersion"])
        assert revision not in self.revisions, f"revision {revision} was given out twice"
        self.revisions.add(revision)
        self.told[document["metadata"]["name"]] = document
        if self._awaited is not None and len(self.revisions) >= self._awaited[0]:
            self._awaited[1].set()


async def write_until_gone(client: Client, book: Book, writer: int, seed: int) -> None:
    """Create and update until the server is killed; only answers count."""
    pick = random.Random(f"{seed}/{writer}")
    with contextlib.suppress(errors.Unreachable):
        for count in range(1_000_000):
            name = f"map-{writer}-{pick.randrange(10)}"
            try:
                book.note(await written(client, name, f"{seed}/{count}", book.told.get(name)))
            except (errors.Conflict, errors.AlreadyExists):
                # The last life ended after the write and before its answer: look at what became of it.
                book.note(await client.get(CONFIG_MAPS, name, "default"))


async def written(client: Client, name: str, value: str, known: JsonObject | None) -> JsonObject:
    document: JsonObject = {"metadata": {"name": name, "namespace": "default"}, "data": {"value": value}}
    if known is None:
        created: JsonObject = await client.create(CONFIG_MAPS, document)
        return created
    document["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"]
    updated: JsonObject = await client.update(CONFIG_MAPS, document)
    return updated


async def live(server: Server, book: Book, seed: int) -> None:
    async with server.client() as client:
        writers = [asyncio.create_task(write_until_gone(client, book, number, seed)) for number in range(WRITERS)]
        await book.answers(random.Random(seed).randrange(50, 400))
        server.kill()
        await asyncio.gather(*writers)


async def check(server: Server, book: Book) -> None:
    async with server.client() as client:
        found = {item["metadata"]["name"]: item for item in (await client.list(CONFIG_MAPS, "default")).items}
    for name, told in book.told.items():
        revision = int(told["metadata"]["resourceVersion"])
        present = int(found[name]["metadata"]["resourceVersion"])
        assert present >= revision, f"{name} went back from {revision} to {present}"
        assert found[name] == told or present not in book.revisions


@pytest.mark.crash
@pytest.mark.timeout(60 + 20 * ROUNDS)
def test_what_clients_were_told_is_there_after_a_kill(tmp_path: Path) -> None:
    book = Book()
    for seed in range(ROUNDS):
        server = Server(tmp_path / "data")
        asyncio.run(check(server, book))
        asyncio.run(live(server, book, seed))
    server = Server(tmp_path / "data")
    try:
        asyncio.run(check(server, book))
    finally:
        server.kill()
