"""A port that the gateway listens on, with the routes that count there and the connections that came by it."""

import asyncio
import ssl
from collections.abc import Awaitable
from typing import Final, Protocol

from aiohttp import web

from kohort.cluster.gateway.aiohttp_connection import AiohttpRequest
from kohort.cluster.gateway.certificates import Certificates
from kohort.cluster.gateway.client_request import ClientRequest, RefusedRequest
from kohort.cluster.gateway.direct_exchange import DirectExchange
from kohort.cluster.gateway.forwarded_headers import Network, is_trusted
from kohort.cluster.gateway.http1_connection import Http1Connection, Http1Request, SimpleHead, read_simple_head
from kohort.cluster.gateway.http2_connection import Http2Connection
from kohort.cluster.gateway.recent import Recent
from kohort.cluster.gateway.request_plan import RequestPlan
from kohort.cluster.gateway.request_turn import RequestTurn
from kohort.cluster.gateway.route_table import ListenerTables, RouteTable
from kohort.kube.tasks import cancel_all

STOP_SECONDS: Final = 5.0
"""For requests in flight when a port closes."""
_BACKLOG: Final = 1024

_KNOWN_HEADS: Final = 256
_HEAD_BYTES: Final = 1024
"""Of a head that is remembered."""


class RequestServer(Protocol):
    """What takes requests to backends."""

    def plan(self, request: ClientRequest, port: "ListeningPort") -> RequestPlan | RefusedRequest: ...

    def begin(self, client: Http1Connection, head: SimpleHead, body: bytes | None) -> DirectExchange | RequestTurn: ...

    def serve(
        self, request: ClientRequest, port: "ListeningPort", turn: RequestTurn | None = None
    ) -> Awaitable[None]: ...


class ConnectionLimit:
    """How many connections a client may have; trusted proxies any number."""

    def __init__(self, limit: int, trusted: tuple[Network, ...]) -> None:
        self._limit = limit
        self._trusted = trusted
        self._open: dict[str, int] = {}

    def admit(self, address: str) -> bool:
        count = self._open.get(address, 0)
        if count >= self._limit and not is_trusted(address, self._trusted):
            return False
        self._open[address] = count + 1
        return True

    def release(self, address: str) -> None:
        left = self._open.get(address, 1) - 1
        if left > 0:
            self._open[address] = left
        else:
            self._open.pop(address, None)


class ListeningPort:
    def __init__(self, server: RequestServer, limit: ConnectionLimit, certificates: Certificates | None = None) -> None:
        """With certificates, connections are encrypted."""
        self.port = 0
        """0 while it is closed."""
        self._routes: RouteTable | ListenerTables = RouteTable()
        self.known_heads: Recent[tuple[bytes, str, str], SimpleHead] = Recent(_KNOWN_HEADS)
        """By their bytes, the address of the client and the name that it opened its connection for."""
        self.certificates = certificates
        self.connections: set[Http1Connection] = set()
        self._http2_connections: set[Http2Connection] = set()
        self._server = server
        self._limit = limit
        self._listener: asyncio.Server | None = None
        self._aiohttp = web.Server(self._handle, handler_cancellation=True, access_log=None)

    async def open(self, host: str, port: int) -> None:
        """Raises OSError."""
        context: ssl.SSLContext | None = None if self.certificates is None else self.certificates.context
        self._listener = await asyncio.get_running_loop().create_server(
            self._connection, host, port, ssl=context, backlog=_BACKLOG
        )
        self.port = int(self._listener.sockets[0].getsockname()[1])

    def _connection(self) -> Http1Connection:
        return Http1Connection(self, self._limit.admit, self._limit.release)

    def _open_connections(self) -> list[Http1Connection | Http2Connection]:
        return [*self.connections, *self._http2_connections]

    def close_idle(self, before: float) -> None:
        for connection in self._open_connections():
            if connection.idle and connection.since < before:
                connection.close()

    def stop_listening(self) -> None:
        """No new connections; those that are open end with the request that they carry."""
        listener, self._listener = self._listener, None
        self.port = 0
        if listener is not None:
            listener.close()
        for connection in self._open_connections():
            connection.close()

    @property
    def ended(self) -> bool:
        return self._listener is None and not self._open_connections()

    async def close(self) -> None:
        """No new requests; those in flight have some seconds to end."""
        self.stop_listening()
        open_connections = self._open_connections()
        ending = [asyncio.ensure_future(connection.ended()) for connection in open_connections]
        if ending:
            await asyncio.wait(ending, timeout=STOP_SECONDS)
            await cancel_all(*ending)
        await self._aiohttp.shutdown(STOP_SECONDS)
        for connection in open_connections:
            connection.abort()

    @property
    def routes(self) -> RouteTable | ListenerTables:
        """Replaced as a whole."""
        return self._routes

    @routes.setter
    def routes(self, routes: RouteTable | ListenerTables) -> None:
        self._routes = routes
        self.known_heads.clear()

    # Called by connections

    def read_head(self, data: bytes, connection: Http1Connection) -> SimpleHead | None:
        key = (data, connection.remote, connection.server_name)
        head = self.known_heads.get(key)
        if head is None:
            head = read_simple_head(data)
            if head is not None:
                head.plan = self._server.plan(Http1Request(head, b"", connection), self)
                if isinstance(head.plan, RequestPlan) and len(data) <= _HEAD_BYTES:
                    self.known_heads.put(key, head)
        return head

    def begin(self, connection: Http1Connection, head: SimpleHead, body: bytes | None) -> DirectExchange | RequestTurn:
        return self._server.begin(connection, head, body)

    def serve(self, request: ClientRequest, turn: RequestTurn | None = None) -> Awaitable[None]:
        return self._server.serve(request, self, turn)

    def fallback(self) -> asyncio.Protocol:
        """What reads requests that are not simple."""
        return self._aiohttp()

    def http2(self) -> asyncio.Protocol:
        return Http2Connection(self.serve, self._http2_connections, self.server_name)

    def server_name(self, tls: ssl.SSLObject | None) -> str:
        return "" if self.certificates is None else self.certificates.server_name(tls)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        tls = None if request.transport is None else request.transport.get_extra_info("ssl_object")
        incoming = AiohttpRequest(request, self.server_name(tls))
        await self.serve(incoming)
        assert incoming.response is not None
        return incoming.response
