"""A client that costs next to nothing, so that servers are measured and not their client.

HTTP/1.1 over TLS on plain sockets. Bodies are prepared before; answers are read to their end and otherwise ignored. The
frames of a watch are counted by their newlines and summed into a checksum: watchers of the same changes must end with
the same sum, so that none of them lost, repeated or mixed up an event, without decoding any. The same program drives
every server that is compared.
"""

import asyncio
import multiprocessing
import selectors
import socket
import ssl
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from kohort.kube import kubeconfig
from kohort.kube.credentials import Certificate, Credentials
from kohort.kube.transport import ssl_context

RECEIVE_BYTES = 1 << 18
IDLE_SECONDS = 30.0
READY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Target:
    """A server, and who we are to it."""

    host: str
    port: int
    tls: ssl.SSLContext
    head: bytes
    """Headers of every request."""

    @staticmethod
    def of(path: Path) -> "Target":
        """The server of a kubeconfig."""
        transport = kubeconfig.load(path)
        host, _, port = transport.connection.server.partition("://")[2].partition(":")
        certificate, headers = asyncio.run(_identity(transport.credentials))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        head = f"host: {host}:{port}\r\naccept: application/json\r\nuser-agent: bench\r\n{lines}"
        return Target(host, int(port), ssl_context(transport.connection, certificate), head.encode())

    def connect(self) -> ssl.SSLSocket:
        plain = socket.create_connection((self.host, self.port), timeout=READY_SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.tls.wrap_socket(plain, server_hostname=self.host)

    def request(self, method: str, path: str, body: bytes = b"", media: str = "application/json") -> bytes:
        length = f"content-type: {media}\r\ncontent-length: {len(body)}\r\n" if body else ""
        return f"{method} {path} HTTP/1.1\r\n{length}".encode() + self.head + b"\r\n" + body


async def _identity(credentials: Credentials) -> tuple[Certificate | None, list[tuple[str, str]]]:
    return await credentials.certificate(), list(await credentials.headers())


def received(connection: ssl.SSLSocket) -> Iterator[bytes]:
    """What has arrived on a socket that does not block."""
    while True:
        try:
            data = connection.recv(RECEIVE_BYTES)
        except (ssl.SSLWantReadError, BlockingIOError):
            return
        if not data:
            raise ConnectionError("the server closed the connection")
        yield data


class Exchange:
    """A connection that sends one request after the other."""

    def __init__(self, target: Target) -> None:
        self.socket = target.connect()
        self.socket.setblocking(False)
        self._buffer = b""

    def send(self, request: bytes) -> None:
        self._buffer = b""
        if self.socket.send(request) != len(request):
            raise RuntimeError("a request did not fit into the socket")

    def answered(self) -> bool:
        """Read what is there; whether the answer is complete. RuntimeError if it is a refusal."""
        self._buffer += b"".join(received(self.socket))
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return False
        if head[9:10] != b"2":
            raise RuntimeError(self._buffer[:500].decode(errors="replace"))
        lower = head.lower()
        if b"transfer-encoding: chunked" in lower:
            return body.endswith(b"0\r\n\r\n")
        return len(body) >= int(lower.partition(b"content-length:")[2].split(b"\r\n", 1)[0])


def send_all(target: Target, requests: Iterable[bytes], connections: int) -> float:
    """Send requests, as many at once as there are connections; seconds from the first to the last answer."""
    waiting = iter(requests)
    selector = selectors.DefaultSelector()
    exchanges = [Exchange(target) for _ in range(connections)]
    begun = time.monotonic()
    for exchange in exchanges:
        if (request := next(waiting, None)) is not None:
            exchange.send(request)
            selector.register(exchange.socket, selectors.EVENT_READ, exchange)
    while selector.get_map():
        for key, _ in selector.select(IDLE_SECONDS):
            exchange = key.data
            if exchange.answered():
                if (request := next(waiting, None)) is not None:
                    exchange.send(request)
                else:
                    selector.unregister(exchange.socket)
    elapsed = time.monotonic() - begun
    for exchange in exchanges:
        exchange.socket.close()
    return elapsed


class Watching:
    """One watch: how many events came, and the sum of their bytes."""

    def __init__(self, target: Target, path: str, wanted: int) -> None:
        self.socket = target.connect()
        self.socket.sendall(target.request("GET", path))
        self.socket.setblocking(False)
        self.wanted = wanted
        self.events = 0
        self.checksum = 0
        self.last = 0.0
        """When the last event came."""
        self.started = False
        self._buffer = b""
        self._left = 0
        """Bytes of the present chunk that have not arrived."""

    def read(self) -> None:
        before = self.events
        for data in received(self.socket):
            self._take(self._buffer + data if self._buffer else data)
        if self.events > before:
            self.last = time.monotonic()

    @property
    def complete(self) -> bool:
        return self.events >= self.wanted

    def _take(self, data: bytes) -> None:
        position = 0
        if not self.started:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self._buffer = data
                return
            if b" 200 " not in data[:20]:
                raise RuntimeError(data[:500].decode(errors="replace"))
            self.started = True
            position = end + 4
        while position < len(data):
            if not self._left:
                end = data.find(b"\r\n", position)
                if end < 0:
                    break
                if end > position:
                    self._left = int(data[position:end], 16)
                position = end + 2
                continue
            part = data[position : position + self._left]
            self._left -= len(part)
            position += len(part)
            self.events += part.count(b"\n")
            self.checksum = zlib.crc32(part, self.checksum)
        self._buffer = data[position:]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a group of watchers got."""

    counts: list[int]
    checksums: set[int]
    last: float
    """When the last event came, on the clock of `time.monotonic`."""


def _watch(target: Target, path: str, watchers: int, wanted: int, pipe: Pipe) -> None:
    selector = selectors.DefaultSelector()
    streams = [Watching(target, path, wanted) for _ in range(watchers)]
    for stream in streams:
        selector.register(stream.socket, selectors.EVENT_READ, stream)
    told = False
    missing = watchers
    while missing and (found := selector.select(IDLE_SECONDS)):
        for key, _ in found:
            stream = key.data
            stream.read()
            if stream.complete:
                selector.unregister(stream.socket)
                missing -= 1
        if not told and all(stream.started for stream in streams):
            pipe.send("ready")
            told = True
    last = max(stream.last for stream in streams)
    pipe.send(Seen([stream.events for stream in streams], {stream.checksum for stream in streams}, last))


class Watchers:
    """Many watches in a process of their own."""

    def __init__(self, pipe: Pipe, process: multiprocessing.process.BaseProcess) -> None:
        self._pipe = pipe
        self._process = process

    def result(self) -> Seen:
        seen: Seen = self._pipe.recv()
        self._process.join()
        return seen


@contextmanager
def watching(target: Target, path: str, watchers: int, wanted: int) -> Iterator[Watchers]:
    """The body begins when all watches have begun; each ends after `wanted` events."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_watch, args=(target, path, watchers, wanted, theirs), daemon=True)
    process.start()
    try:
        if not ours.poll(READY_SECONDS) or ours.recv() != "ready":
            raise RuntimeError("the watches did not begin")
        yield Watchers(ours, process)
    finally:
        process.terminate()
        process.join()
