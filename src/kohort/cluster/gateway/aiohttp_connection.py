"""Requests that aiohttp reads: HTTP/1.1 that is not simple, HTTP/1.0, and WebSockets.

aiohttp refuses what is not HTTP, and reads chunked bodies. A WebSocket is a connection on both sides, and messages pass
in both directions until one side closes; a message that is too large ends it with code 1009.
"""

import asyncio
import contextlib
from typing import Final

from aiohttp import (
    ClientError,
    ClientSession,
    ClientTimeout,
    ClientWebSocketResponse,
    ConnectionTimeoutError,
    DummyCookieJar,
    HttpVersion11,
    TCPConnector,
    WSMsgType,
    WSServerHandshakeError,
    web,
)
from multidict import CIMultiDict
from yarl import URL

from kohort.cluster.gateway.backend_client import CONNECT_SECONDS
from kohort.cluster.gateway.backends import Address
from kohort.cluster.gateway.client_request import ClientRequest, RefusedRequest, reason_of
from kohort.kube.tasks import cancel_all

MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""Of one WebSocket message; aiohttp gathers it before it can be passed on."""
_OWN: Final = frozenset({"sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions"})
_PROTOCOL: Final = "Sec-WebSocket-Protocol"


class AiohttpRequest(ClientRequest):
    __slots__ = ("_continued", "raw", "response")

    def __init__(self, request: web.BaseRequest, server_name: str = "") -> None:
        self.raw = request
        self.server_name = server_name
        self.method = request.method
        self.target = request.raw_path
        self.headers = CIMultiDict(request.headers)
        self.hosts = request.headers.getall("Host", [])
        self.old = request.version < HttpVersion11
        self.remote = request.remote or ""
        self.secure = request.secure
        self.has_body = request.body_exists
        self._continued = request.headers.get("Expect", "").lower() != "100-continue"
        self.response: web.StreamResponse | None = None

    @property
    def is_websocket(self) -> bool:
        return self.headers.get("Upgrade", "").lower() == "websocket"

    async def read(self) -> bytes:
        if not self._continued:
            self._continued = True
            await self.raw.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return await self.raw.content.readany()

    async def begin(self, status: int, reason: str, headers: CIMultiDict[str], *, bodiless: bool) -> None:
        self.response = web.StreamResponse(status=status, reason=reason or reason_of(status), headers=headers)
        await self.response.prepare(self.raw)

    async def write(self, part: bytes) -> None:
        assert self.response is not None
        await self.response.write(part)

    async def end(self) -> None:
        assert self.response is not None
        await self.response.write_eof()

    def cut(self) -> None:
        if self.raw.transport is not None:
            self.raw.transport.abort()


class WebSocketClient:
    """WebSockets to backends."""

    def __init__(self) -> None:
        self._session: ClientSession | None = None

    async def connect(self, url: str, headers: CIMultiDict[str], address: Address) -> ClientWebSocketResponse | None:
        """None if the backend does not want a WebSocket here; then it is asked as for any page."""
        if self._session is None:
            self._session = ClientSession(
                connector=TCPConnector(limit=0),
                cookie_jar=DummyCookieJar(),
                timeout=ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            )
        own = CIMultiDict(headers)
        offered = [name.strip() for line in own.popall(_PROTOCOL, []) for name in line.split(",")]
        for name in _OWN:
            own.popall(name, None)
        try:
            return await self._session.ws_connect(
                URL(url, encoded=True),
                headers=own,
                protocols=offered,
                autoping=False,
                autoclose=False,
                max_msg_size=MESSAGE_BYTES,
            )
        except WSServerHandshakeError:
            return None
        except ConnectionTimeoutError:
            text = f"no connection to {address.host}:{address.port} within {CONNECT_SECONDS:g} s"
            raise RefusedRequest(504, text) from None
        except ClientError as problem:
            raise RefusedRequest(502, f"no connection to {address.host}:{address.port}: {problem}") from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


async def tunnel(request: AiohttpRequest, there: ClientWebSocketResponse) -> None:
    """Messages in both directions, until one side closes."""
    protocols = [there.protocol] if there.protocol else ()
    here = web.WebSocketResponse(protocols=protocols, autoping=False, max_msg_size=MESSAGE_BYTES, compress=False)
    request.response = here
    try:
        await here.prepare(request.raw)
        pumps = [asyncio.ensure_future(_pump(here, there)), asyncio.ensure_future(_pump(there, here))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_all(*pumps)
    finally:
        await there.close()
        await here.close()


async def _pump(
    source: web.WebSocketResponse | ClientWebSocketResponse, sink: web.WebSocketResponse | ClientWebSocketResponse
) -> None:
    while True:
        message = await source.receive()
        if message.type == WSMsgType.TEXT:
            await sink.send_str(message.data)
        elif message.type == WSMsgType.BINARY:
            await sink.send_bytes(message.data)
        elif message.type == WSMsgType.PING:
            await sink.ping(message.data)
        elif message.type == WSMsgType.PONG:
            await sink.pong(message.data)
        else:
            with contextlib.suppress(ConnectionError, ClientError):
                code = message.data if message.type == WSMsgType.CLOSE and message.data else source.close_code or 1000
                await sink.close(code=code, message=(message.extra or "").encode())
            return
