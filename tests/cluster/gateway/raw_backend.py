"""A proxy between raw sockets: tests see every byte that a backend and a client get, and which requests need a task."""

import asyncio
import re
from collections.abc import AsyncIterator, Coroutine, Generator, Iterable
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry

from kohort.cluster.gateway.backends import Address
from kohort.cluster.gateway.metrics import RequestMetrics
from kohort.cluster.gateway.proxy import DEFAULT_SETTINGS, Proxy, Settings
from kohort.cluster.gateway.route_table import Backend, PathRule, RequestMatch, Route, RouteOrigin, RouteTable
from kohort.kube.resources import Key
from kohort.objects.json_types import Json

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello"
LAST = b"GET /last HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"
LAST_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlast"
_DATE = re.compile(rb"Date: [^\r]* GMT\r\n")
"""aiohttp adds it to its answers."""
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)


class RawBackend:
    """Gives each request the same answer; `/last` has one of its own."""

    def __init__(self, *parts: bytes, close: bool = False) -> None:
        """`close`: end the connection after an answer."""
        self.parts = parts or (ANSWER,)
        self.close = close
        self.requests: list[bytes] = []
        """Head and body of each, except `/last`."""
        self.arrived = asyncio.Event()
        self.lost = asyncio.Event()
        """A client's connection ended."""
        self.connections: set[_Connection] = set()
        self.port = 0

    async def open(self) -> asyncio.Server:
        server = await asyncio.get_running_loop().create_server(lambda: _Connection(self), "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    def send(self, *parts: bytes) -> None:
        """On the only connection."""
        (connection,) = self.connections
        connection.send(parts)


class _Connection(asyncio.Protocol):
    def __init__(self, backend: RawBackend) -> None:
        self._backend = backend
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._backend.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._backend.connections.discard(self)
        self._backend.lost.set()

    def data_received(self, data: bytes) -> None:
        self._held += data
        while (size := _size(self._held)) is not None:
            request, self._held = self._held[:size], self._held[size:]
            if b" /last " in request.partition(b"\r\n")[0]:
                self.transport.write(LAST_ANSWER)
                continue
            self._backend.requests.append(request)
            self._backend.arrived.set()
            self.send(self._backend.parts)
            if self._backend.close:
                self.transport.close()

    def send(self, parts: Iterable[bytes]) -> None:
        first, *rest = parts
        self.transport.write(first)
        for part in rest:
            # In a later turn of the event loop, which the proxy shares: it reads one part before the other is sent.
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, loop.call_soon, self.transport.write, part)


def _size(data: bytes) -> int | None:
    """Of the request at the beginning of `data`; None if it is not complete."""
    head, end, body = data.partition(b"\r\n\r\n")
    if not end:
        return None
    if b"chunked" in head.lower():
        last = body.find(b"0\r\n\r\n")
        return None if last < 0 else len(head) + 4 + last + 5
    length = _LENGTH.search(head)
    size = len(head) + 4 + (int(length[1]) if length else 0)
    return size if len(data) >= size else None


class FixedEndpoints:
    def __init__(self, ports: dict[str, int]) -> None:
        """By Service."""
        self._ports = ports

    def of(self, key: Key, port: int | str) -> list[Address] | None:
        return [Address("127.0.0.1", self._ports[key.name], f"pod-of-{key.name}")]


class Front:
    """A proxy before backends, and the tasks that were made since `count_tasks`."""

    def __init__(self, proxy: Proxy, registry: CollectorRegistry) -> None:
        self.proxy = proxy
        self.registry = registry
        self.tasks = 0

    def use(self, *routes: Route) -> None:
        self.proxy.table = RouteTable(routes)

    def count_tasks(self) -> None:
        def counted(
            loop: asyncio.AbstractEventLoop, work: Coroutine[Json, Json, Json] | Generator[Json, None, Json]
        ) -> "asyncio.Task[Json]":
            self.tasks += 1
            return asyncio.Task(work, loop=loop)

        self.tasks = 0
        asyncio.get_running_loop().set_task_factory(counted)

    def value(self, name: str, **labels: str) -> float:
        """Of a metric, summed over series with these labels."""
        return sum(
            sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    async def connect(self, address: str = "127.0.0.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.proxy.port, local_addr=(address, 0))

    async def ask(self, request: bytes, address: str = "127.0.0.1") -> bytes:
        """All that comes back for a request; another one follows, unless it says itself that it is the last one."""
        reader, writer = await self.connect(address)
        writer.write(request if b"close" in request else request + LAST)
        try:
            return _DATE.sub(b"", await reader.read())
        except ConnectionResetError:
            return b"reset"
        finally:
            writer.close()


def to(service: str = "llm", weight: int = 1) -> Backend:
    return Backend("default", service, 80, weight)


def route(*backends: Backend, path: str = "/", timeout: float | None = None) -> Route:
    return Route(RequestMatch(PathRule("Prefix", path)), backends or (to(),), RouteOrigin("route"), timeout=timeout)


@asynccontextmanager
async def front(settings: Settings = DEFAULT_SETTINGS, **backends: RawBackend) -> AsyncIterator[Front]:
    """Requests go to the backend `llm`."""
    servers = [await backend.open() for backend in backends.values()]
    registry = CollectorRegistry()
    endpoints = FixedEndpoints({name: backend.port for name, backend in backends.items()})
    proxy = Proxy(endpoints, metrics=RequestMetrics(registry), settings=settings)
    await proxy.open("127.0.0.1", 0)
    found = Front(proxy, registry)
    found.use(route())
    try:
        yield found
    finally:
        await proxy.close()
        for server in servers:
            server.close()
