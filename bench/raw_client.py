"""An HTTP client that uses little processor time, so that figures are those of the server.

HTTP/1.1 over TLS on plain sockets. Bodies are prepared before; answers are read to their end and otherwise ignored. The
same program drives every server that is compared.
"""

import asyncio
import selectors
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kohort.kube import kubeconfig
from kohort.kube.credentials import Certificate, Credentials
from kohort.kube.transport import ssl_context

RECORD_BYTES = 1 << 14
"""What one TLS record holds at most; a read never returns more than one."""
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


def receive_into(connection: ssl.SSLSocket, buffer: bytearray) -> int:
    """Bytes of the next record on a socket that does not block; 0 when there is none yet."""
    try:
        size = connection.recv_into(buffer)
    except (ssl.SSLWantReadError, BlockingIOError):
        return 0
    if not size:
        raise ConnectionError("the server closed the connection")
    return size


_record = bytearray(RECORD_BYTES)


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
        """Read the next record; whether the answer is complete. RuntimeError if it is a refusal."""
        size = receive_into(self.socket, _record)
        self._buffer += _record[:size]
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
    with connected(target, connections) as exchanges:
        return send_over(exchanges, requests)


@contextmanager
def connected(target: Target, connections: int) -> Iterator[list[Exchange]]:
    """Connections that are ready: shaking hands is not what is measured."""
    exchanges = [Exchange(target) for _ in range(connections)]
    try:
        yield exchanges
    finally:
        for exchange in exchanges:
            exchange.socket.close()


def send_over(exchanges: list[Exchange], requests: Iterable[bytes]) -> float:
    """Send requests over connections, one at a time over each; seconds from the first to the last answer."""
    waiting = iter(requests)
    selector = selectors.DefaultSelector()
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
    return time.monotonic() - begun
