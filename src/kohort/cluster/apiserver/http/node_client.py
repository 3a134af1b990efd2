"""HTTPS and WebSocket connections to node agents."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from kohort.cluster.apiserver.endpoints.node_connections import NodeLocation, unreachable
from kohort.cluster.apiserver.endpoints.proxy import ProxyTarget
from kohort.cluster.apiserver.outgoing.connections import (
    CALLERS_OWN,
    CONNECT_TIMEOUT,
    chunks,
    connection_problem,
    open_session,
    passed_on,
)
from kohort.kube import errors
from kohort.kube.http import Response
from kohort.rules.stream_protocols import misses_upgrade

if TYPE_CHECKING:
    import aiohttp

MAX_MESSAGE: Final = 16 * 1024 * 1024
"""Bytes of one message of a WebSocket, which is buffered until it is complete."""
VERSIONS: Final = "x-stream-protocol-version"
"""Names what is spoken above SPDY."""


def trusting_context(certificate: str = "", key: str = "") -> ssl.SSLContext:
    """For nodes whose serving certificates are their own; the client certificate is how they know the server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if certificate:
        context.load_cert_chain(certificate, key or None)
    return context


class HttpsNodeClient:
    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, location: NodeLocation) -> Response:
        import aiohttp

        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                answer = await self._connections().get(self._url(location, "https"), ssl=self._context())
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise unreachable(location, connection_problem(problem, location.host, location.port)) from None
        if answer.status >= 400:
            text = (await answer.read()).decode(errors="replace")
            raise refused(answer.status, text)
        return Response(answer.status, {}, chunks(answer))

    async def websocket(self, location: NodeLocation, protocols: tuple[str, ...]) -> "aiohttp.ClientWebSocketResponse":
        import aiohttp

        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                return await self._connections().ws_connect(
                    self._url(location, "wss"),
                    protocols=protocols,
                    ssl=self._context(),
                    max_msg_size=MAX_MESSAGE,
                    autoping=True,
                )
        except aiohttp.WSServerHandshakeError as problem:
            raise await self.objection(location) or refused(problem.status, problem.message) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise unreachable(location, connection_problem(problem, location.host, location.port)) from None

    async def upgraded(
        self, location: NodeLocation, protocol: str, versions: Sequence[str]
    ) -> "aiohttp.ClientResponse":
        """The answer of a node that agrees to speak another protocol; `versions` are what may be spoken above it."""
        import aiohttp

        headers = [("Connection", "Upgrade"), ("Upgrade", protocol), *((VERSIONS, version) for version in versions)]
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                url = self._url(location, "https")
                answer = await self._connections().get(url, headers=headers, ssl=self._context())
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            raise unreachable(location, connection_problem(problem, location.host, location.port)) from None
        if answer.status != 101:
            raise refused(answer.status, (await answer.read()).decode(errors="replace"))
        return answer

    async def objection(self, location: NodeLocation) -> errors.ApiError | None:
        """What a node has against a request to be upgraded, other than that it is none: asked without an upgrade it
        says why in words, which a WebSocket's handshake does not carry."""
        try:
            answer = await self.get(location)
        except errors.ApiError as problem:
            return None if problem.code == 400 and misses_upgrade(problem.message) else problem
        if isinstance(answer.body, AsyncGenerator):
            await answer.body.aclose()
        return None

    async def forward(
        self,
        method: str,
        target: ProxyTarget,
        path: str,
        query: tuple[tuple[str, str], ...],
        headers: dict[str, str],
        body: bytes,
    ) -> Response:
        """Pass a request on as it is; redirects are returned to the caller."""
        import aiohttp

        location = NodeLocation("", target.host, target.port, path, query)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                answer = await self._connections().request(
                    method,
                    self._url(location, target.scheme),
                    headers=headers,
                    data=body or None,
                    ssl=self._context() if target.is_agent else trusting_context(),
                    allow_redirects=False,
                    skip_auto_headers=CALLERS_OWN,
                )
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            message = f"error trying to reach service: {connection_problem(problem, location.host, location.port)}"
            raise errors.failure(503, "ServiceUnavailable", message) from None
        return passed_on(answer)

    def _connections(self) -> "aiohttp.ClientSession":
        if self._session is None:
            self._session = open_session()
        return self._session

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = trusting_context()
        return self._tls

    def _url(self, location: NodeLocation, scheme: str) -> str:
        host = f"[{location.host}]" if ":" in location.host else location.host
        query = f"?{urlencode(location.query)}" if location.query else ""
        return f"{scheme}://{host}:{location.port}{quote(location.path)}{query}"


def refused(code: int, text: str) -> errors.ApiError:
    """What a node agent says no to is said on with its own code."""
    message = text.strip() or f"the node answered {code}"
    reasons = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound"}
    return errors.failure(code, reasons.get(code, "InternalError"), message)
