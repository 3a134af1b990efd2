"""A port that the gateway listens on, with the routes that count there and the connections that came by it."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from kohort.cluster.gateway.aiohttp_connection import AiohttpRequest
from kohort.cluster.gateway.certificates import Certificates
from kohort.cluster.gateway.client_request import ClientRequest
from kohort.cluster.gateway.forwarded_headers import Network, is_trusted
from kohort.cluster.gateway.http1_connection import Http1Connection
from kohort.cluster.gateway.http2_connection import Http2Connection
from kohort.cluster.gateway.route_table import ListenerTables, RouteTable
from kohort.kube.tasks import cancel_all

STOP_SECONDS: Final = 5.0
"""For requests in flight when a port closes."""
_BACKLOG: Final = 1024

Serve = Callable[[ClientRequest, "ListeningPort"], Awaitable[None]]


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
    def __init__(self, serve: Serve, limit: ConnectionLimit, certificates: Certificates | None = None) -> None:
        """With certificates, connections are encrypted."""
        self.port = 0
        """0 while it is closed."""
        self.routes: RouteTable | ListenerTables = RouteTable()
        self.certificates = certificates
        self.connections: set[Http1Connection] = set()
        self._http2_connections: set[Http2Connection] = set()
        self._serve = serve
        self._limit = limit
        self._server: asyncio.Server | None = None
        self._aiohttp = web.Server(self._handle, handler_cancellation=True, access_log=None)

    async def open(self, host: str, port: int) -> None:
        """Raises OSError."""
        context: ssl.SSLContext | None = None if self.certificates is None else self.certificates.context
        self._server = await asyncio.get_running_loop().create_server(
            self._connection, host, port, ssl=context, backlog=_BACKLOG
        )
        self.port = int(self._server.sockets[0].getsockname()[1])

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
        server, self._server = self._server, None
        self.port = 0
        if server is not None:
            server.close()
        for connection in self._open_connections():
            connection.close()

    @property
    def ended(self) -> bool:
        return self._server is None and not self._open_connections()

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

    # Called by connections

    def serve(self, request: ClientRequest) -> Awaitable[None]:
        return self._serve(request, self)

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
