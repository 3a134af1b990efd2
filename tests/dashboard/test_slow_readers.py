"""Browsers that take nothing: what waits for them is bounded, in bytes."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from tests.builders import lws, pod
from tests.dashboard.scene import Scene, Visit, dashboard, visit

from kohort.dashboard import server
from kohort.dashboard.log_stream import MOST_CHARACTERS, MOST_WAITING_CHARACTERS, LogLine, WaitingLines
from kohort.dashboard.running import RunningDashboard
from kohort.dashboard.sessions import COOKIE
from kohort.groups.crd import definition
from kohort.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, LEADER_WORKER_SETS, PODS
from kohort.manager.web_server import listen
from kohort.operator import wait_established
from kohort.rules import group_labels
from kohort.testing import Cluster

READERS = 50
GROUPS, SIZE = 24, 16
EVENT_BYTES = 300_000


@asynccontextmanager
async def place() -> AsyncIterator[tuple[Scene, RunningDashboard, Visit]]:
    """A large set in a cluster without controllers: its pods are only shown."""
    async with Cluster() as cluster:
        of = Scene(cluster)
        await of.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
        await wait_established(of.client, definition()["metadata"]["name"])
        await large_set(of)
        async with dashboard(of) as running, visit(running) as user:
            yield of, running, user


async def large_set(of: Scene) -> None:
    await of.client.create(LEADER_WORKER_SETS, lws("llm").replicas(GROUPS).size(SIZE), "default")
    for number in range(GROUPS * SIZE):
        group, worker = divmod(number, SIZE)
        labels = {
            group_labels.NAME: "llm",
            group_labels.GROUP_INDEX: str(group),
            group_labels.WORKER_INDEX: str(worker),
        }
        name = f"llm-{group}" if not worker else f"llm-{group}-{worker}"
        await of.client.create(PODS, pod(name).labels(labels), "default")


async def silent_reader(port: int, cookie: str = "") -> asyncio.StreamWriter:
    """Asks for a live page with the smallest buffer, and reads nothing."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=connection, limit=1)
    assert reader
    head = f"GET /dashboard/live?view=/dashboard/sets/default/llm HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
    writer.write(f"{head}Cookie: {COOKIE}={cookie}\r\n\r\n".encode())
    await writer.drain()
    return writer


async def change(of: Scene, number: int) -> None:
    """Another word in every cell."""
    for group in range(GROUPS):
        body = {"status": {"phase": "Pending", "reason": f"Reason{number}"}}
        await of.client.patch(PODS, f"llm-{group}", "default", body, subresource="status")


async def test_what_waits_for_browsers_that_read_nothing_is_bounded() -> None:
    """However long events are made for them: one event each, and what the connection holds."""
    streams: list[server.EventStream] = []
    made = 0

    async def follow(request: web.Request) -> web.StreamResponse:
        nonlocal made
        stream = server.EventStream(request)
        streams.append(stream)
        await stream.begin()
        while True:
            await stream("sections", ["x" * EVENT_BYTES])
            made += 1

    application = web.Application()
    application.router.add_get("/{path:.*}", follow)
    runner, port = await listen(application, ("127.0.0.1", 0))
    readers = [await silent_reader(port) for _ in range(READERS)]
    async with asyncio.timeout(60):
        before = -1
        while len(streams) < READERS or made != before:
            before = made
            await asyncio.sleep(0.5)
    waiting = [one.queued_bytes for one in streams]
    assert min(waiting) > 0
    assert max(waiting) < EVENT_BYTES + 3 * server.PIECE_BYTES
    for one in readers:
        one.transport.abort()
    await runner.cleanup()


async def test_a_browser_that_reads_nothing_loses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "TAKE_SECONDS", 0.5)
    async with place() as (found, running, user):
        (cookie,) = [one.value for one in user.session.cookie_jar if one.key == COOKIE]
        reader = await silent_reader(running.port, cookie)
        await found.cluster.until(lambda: running.stream_load().streams == 1, timeout=60)
        for number in range(1000):
            await change(found, number)
            await asyncio.sleep(0.2)
            if running.stream_load().streams == 0:
                break
        assert running.stream_load() == server.StreamLoad(0, 0)
        assert (await user.json("/dashboard/sets/default/llm"))["set"]["name"] == "llm"
        reader.transport.abort()


async def test_waiting_lines_are_bounded_by_their_characters() -> None:
    waiting = WaitingLines()

    async def write() -> None:
        for _ in range(10_000):
            await waiting.put(LogLine("llm-0", "x" * MOST_CHARACTERS, 0))

    writing = asyncio.create_task(write())
    for _ in range(3):
        await waiting.any()
        await asyncio.sleep(1.0)
        assert MOST_WAITING_CHARACTERS <= waiting.characters < MOST_WAITING_CHARACTERS + MOST_CHARACTERS
        assert len(await waiting.take()) < 100
    writing.cancel()
