"""Sessions and forwarded ports over SPDY, as API servers before 1.36 ask nodes for them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from kohort.kube import spdy
from kohort.node.api.exec_sessions import serve_session
from kohort.node.api.port_forward import serve_forwarding
from kohort.node.runtimes.interface import CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT, CannotStart, Session


class Echo:
    """A process that repeats its input, says how large its window is, and ends with 3 when its input does."""

    def __init__(self) -> None:
        self._output: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()

    async def read(self) -> tuple[int, bytes] | None:
        return await self._output.get()

    async def write(self, channel: int, data: bytes) -> None:
        if channel == STDIN:
            self._output.put_nowait((STDOUT, data))
            self._output.put_nowait((STDERR, data.upper()))
        elif channel == RESIZE:
            self._output.put_nowait((STDOUT, data))
        elif channel == CLOSE:
            self._output.put_nowait((ERROR, b"3"))

    async def close(self) -> None:
        pass


class Pod:
    def __init__(self, port: int) -> None:
        self._port = port

    async def connect(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if port != 80:
            raise ConnectionRefusedError("nobody listens")
        return await asyncio.open_connection("127.0.0.1", self._port)


class Client:
    """Speaks SPDY by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._frames, self.make = spdy.Reader(), spdy.Writer()
        self.received: dict[int, bytes] = {}
        self.finished: set[int] = set()
        self.head = b""

    async def upgrade(self, path: str, versions: str) -> None:
        words = f"POST {path} HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        self._writer.write(f"{words}X-Stream-Protocol-Version: {versions}\r\nContent-Length: 0\r\n\r\n".encode())
        self.head = await self._reader.readuntil(b"\r\n\r\n")

    def send(self, *frames: bytes) -> None:
        self._writer.write(b"".join(frames))

    async def until_finished(self, *streams: int) -> None:
        await self.until(lambda: set(streams) <= self.finished)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(120):
            while not holds():
                for frame in self._frames.feed(await self._reader.read(65536)):
                    if isinstance(frame, spdy.StreamData):
                        self.received[frame.stream] = self.received.get(frame.stream, b"") + frame.data
                        if frame.fin:
                            self.finished.add(frame.stream)

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def connected(session: Session | CannotStart | None = None, port: int = 0) -> AsyncIterator[Client]:
    async def begin() -> Session:
        if isinstance(session, CannotStart):
            raise session
        assert session is not None
        return session

    async def execute(request: web.Request) -> web.StreamResponse:
        return await serve_session(request, begin)

    async def forward(request: web.Request) -> web.StreamResponse:
        return await serve_forwarding(request, Pod(port).connect)

    app = web.Application()
    app.router.add_post("/exec", execute)
    app.router.add_post("/forward", forward)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert isinstance(site._server, asyncio.Server)
    client = Client(*await asyncio.open_connection(*site._server.sockets[0].getsockname()))
    try:
        yield client
    finally:
        client.close()
        await runner.cleanup()


def opened(client: Client, **streams: int) -> bytes:
    return b"".join(client.make.open(number, {"streamtype": name}) for name, number in streams.items())


async def test_a_command_has_its_streams_and_its_code() -> None:
    async with connected(Echo()) as client:
        await client.upgrade("/exec?input=1&output=1&error=1", "v4.channel.k8s.io, v1.channel.k8s.io")
        assert (
            client.head.startswith(b"HTTP/1.1 101") and b"X-Stream-Protocol-Version: v4.channel.k8s.io" in client.head
        )
        client.send(opened(client, error=1, stdin=3, stdout=5, stderr=7))
        client.send(client.make.data(3, b"hello"), client.make.data(3, b"", fin=True))
        await client.until_finished(1, 5, 7)
        assert (client.received[5], client.received[7]) == (b"hello", b"HELLO")
        status = json.loads(client.received[1])
        assert status["reason"] == "NonZeroExitCode" and status["details"]["causes"][0]["message"] == "3"


async def test_the_size_of_a_window_comes_in_pieces() -> None:
    async with connected(Echo()) as client:
        await client.upgrade("/exec?input=1&output=1&tty=1", "v4.channel.k8s.io")
        client.send(opened(client, error=1, stdin=3, stdout=5, resize=7), client.make.ping(1))
        first, second = b'{"Width":80,"Height":24}', b'{"Width":90,"Height":30}'
        client.send(client.make.data(7, first[:9]), client.make.data(7, first[9:] + b"\n" + second + b"\n"))
        await client.until(lambda: first + second in client.received.get(5, b""))
        client.send(client.make.data(3, b"", fin=True))
        await client.until_finished(1)


async def test_what_cannot_start_is_told_on_the_error_stream() -> None:
    async with connected(CannotStart("no such program")) as client:
        await client.upgrade("/exec?output=1", "v4.channel.k8s.io")
        client.send(opened(client, error=1, stdout=3))
        await client.until_finished(1)
        assert json.loads(client.received[1])["message"] == "no such program"


async def test_an_unknown_protocol_version_is_refused() -> None:
    async with connected(Echo()) as client:
        await client.upgrade("/exec?output=1", "v99.channel.k8s.io")
        assert client.head.startswith(b"HTTP/1.1 403")


@pytest.mark.parametrize(
    ("port", "data", "problem"),
    [
        ("80", b"PING", b""),
        ("81", b"", b"nobody listens"),
        *((port, b"", b"not a number from 1 to 65535") for port in ("65536", "0", "-1", "x", "\u00b2", "9" * 5000)),
    ],
)
async def test_a_port_is_a_pair_of_streams(port: str, data: bytes, problem: bytes) -> None:
    async def upper(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        writer.close()

    server = await asyncio.start_server(upper, "127.0.0.1", 0)
    async with server, connected(port=server.sockets[0].getsockname()[1]) as client:
        await client.upgrade("/forward", "portforward.k8s.io")
        for number, kind in ((1, "error"), (3, "data")):
            client.send(client.make.open(number, {"streamtype": kind, "port": port, "requestid": "0"}))
        client.send(client.make.data(3, b"ping", fin=True))
        await client.until_finished(1, 3)
        assert client.received.get(3, b"") == data and problem in client.received.get(1, b"")
