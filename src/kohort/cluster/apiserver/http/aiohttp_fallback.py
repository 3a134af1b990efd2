"""Requests that are not simple, read by aiohttp: chunked and large bodies, upgrades, HTTP/1.0, malformed requests.

The first of them loads this module, and aiohttp with it: clusters start sooner without.

A body is read only when its sender may make the request (`body_budget.py`). Compressed bodies are not unpacked, as in
Kubernetes, so a kilobyte cannot become a gigabyte.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aiohttp import HttpVersion11, StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from aiohttp.web_protocol import RequestHandler

from kohort.cluster.apiserver.auth.model import User
from kohort.cluster.apiserver.endpoints.request_bodies import MAX_BODY, too_large
from kohort.cluster.apiserver.http.aiohttp_response import AlreadyWritten
from kohort.cluster.apiserver.http.body_budget import BodyBudget, ReadDeadlines, body_too_late
from kohort.cluster.apiserver.http.exec_streams import UpgradeHandler
from kohort.cluster.apiserver.http.node_client import HttpsNodeClient
from kohort.cluster.apiserver.http.request_target import split_target
from kohort.cluster.apiserver.http.request_turns import FairHandler
from kohort.cluster.apiserver.http.response_writer import ResponseWriter
from kohort.cluster.apiserver.http.simple_connection import Authenticate
from kohort.cluster.apiserver.server import ApiServer, failure_response
from kohort.kube import errors
from kohort.kube.http import Request, Response

MAX_LINE: Final = 1024 * 1024
"""A selector can name many objects."""
MAX_FIELD: Final = 128 * 1024
LINGER_SECONDS: Final = 0.5
"""How long the rest of a refused body is read and discarded, so that the client can read the answer first."""
_NO_BODY: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_PROTOCOLS: Final = frozenset({"websocket", "spdy/3.1"})

_QUIET: Final = logging.getLogger("kohort.front")
_QUIET.setLevel(logging.CRITICAL)
"""Malformed requests are answered, not logged: any client could fill the log with them."""


Send = Callable[[ResponseWriter, Request, Response], Awaitable[None]]


class AiohttpFallback:
    """Serves connections that are handed over."""

    def __init__(
        self,
        server: ApiServer,
        turns: FairHandler,
        authenticate: Authenticate,
        send: Send,
        nodes: HttpsNodeClient | None,
        idle: float,
        deadlines: ReadDeadlines,
    ) -> None:
        """`send` writes answers; `nodes` is where upgraded connections lead; `idle` seconds of silence end one."""
        self._server = server
        self._turns = turns
        self._authenticate = authenticate
        self._send = send
        self._streams = UpgradeHandler(server, nodes) if nodes is not None else None
        self.protocols = web.Server(
            self._handle,
            request_factory=_fallback_request,
            access_log=None,
            logger=_QUIET,
            max_line_size=MAX_LINE,
            max_field_size=MAX_FIELD,
            keepalive_timeout=idle,
            auto_decompress=False,
            lingering_time=LINGER_SECONDS,
        )
        self._deadlines = deadlines
        self._budget = BodyBudget()
        self._headless: dict[RequestHandler, asyncio.TimerHandle] = {}
        """Connections that have not sent the head of a request yet."""

    def protocol(self) -> asyncio.Protocol:
        """A protocol for a connection that is handed over. The head of its first request must arrive in time; aiohttp
        limits the time between requests itself."""
        protocol = self.protocols()
        timer = asyncio.get_running_loop().call_later(self._deadlines.head, self._close_headless, protocol)
        self._headless[protocol] = timer
        return protocol

    def _close_headless(self, protocol: RequestHandler) -> None:
        if self._headless.pop(protocol, None) is not None and protocol.transport is not None:
            protocol.transport.abort()

    async def _handle(self, incoming: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(incoming, FallbackRequest)
        timer = self._headless.pop(incoming.protocol, None)
        if timer is not None:
            timer.cancel()
        request = Request(incoming.method, "/", (), headers_of(incoming))
        writer = incoming.response_writer()
        try:
            path, query = split_target(incoming.raw_path)
            request = Request(request.method, path, query, request.headers)
            user = self._authenticate(request.headers, incoming.certificate())
            streams = self._streams if is_upgrade(request.headers) else None
            if request.method in _NO_BODY or streams is not None:
                incoming.end_with_client()
            if streams is not None:
                return await streams.serve(request, user, incoming)
            if incoming.can_read_body and not self._may_send_body(request, user):
                response = await self._turns.handle(request, user)
                writer.keep_alive = False
            else:
                response = await self._answer(request, user, incoming)
        except errors.ApiError as error:
            response = failure_response(request, error)
            writer.keep_alive = writer.keep_alive and incoming.content.is_eof()
        await self._send(writer, request, response)
        return AlreadyWritten(keep_alive=writer.keep_alive)

    def _may_send_body(self, request: Request, user: User) -> bool:
        """Whether a request will come to its body. If not, it is answered without."""
        try:
            self._server.check_access(request, user)
        except errors.ApiError:
            return False
        return True

    async def _answer(self, request: Request, user: User, incoming: web.BaseRequest) -> Response:
        reading = BodyReader(self._budget, user.name, self._deadlines.body)
        try:
            body = await reading.of(incoming)
            whole = Request(request.method, request.path, request.query, request.headers, body)
            return await self._turns.handle(whole, user)
        finally:
            reading.close()


class FallbackRequest(web.BaseRequest):
    """A request whose answer may be given up when its sender hangs up.

    aiohttp cancels all or none. A write must not stop half way, but a watch has to end when its client disconnects.
    """

    _answering: "asyncio.Task[object] | None" = None

    def end_with_client(self) -> None:
        """Cancel the present task when the client disconnects."""
        self._answering = asyncio.current_task()

    def response_writer(self) -> ResponseWriter:
        drained = self.protocol._drain_helper
        return ResponseWriter(self.transport, drained, self.method, bool(self.keep_alive), self.version < HttpVersion11)

    def certificate(self) -> Mapping[str, object] | None:
        found: Mapping[str, object] | None = self.get_extra_info("peercert")
        return found

    def _cancel(self, exc: BaseException) -> None:
        super()._cancel(exc)
        if self._answering is not None:
            self._answering.cancel()


def _fallback_request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: RequestHandler,
    writer: AbstractStreamWriter,
    task: "asyncio.Task[None]",
) -> FallbackRequest:
    return FallbackRequest(message, payload, protocol, writer, task, asyncio.get_running_loop())


def headers_of(incoming: web.BaseRequest) -> dict[str, str]:
    """Header names in lower case; repeated headers joined with commas."""
    headers: dict[str, str] = {}
    for key, value in incoming.headers.items():
        key = key.lower()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return headers


class BodyReader:
    """The body of one request, accounted for until the request is answered."""

    def __init__(self, budget: BodyBudget, user: str, seconds: float) -> None:
        """`seconds` is how long it may take to arrive."""
        self._budget = budget
        self._seconds = seconds
        self._user = user
        self._size = 0

    async def of(self, incoming: web.BaseRequest) -> bytes:
        if not incoming.can_read_body:
            return b""
        if (incoming.content_length or 0) > MAX_BODY:
            raise too_large()
        if incoming.content.is_eof():
            body = incoming.content.read_nowait()
            self._account(len(body))
            return body
        if incoming.headers.get("expect", "").lower() == "100-continue" and incoming.transport is not None:
            incoming.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        chunks: list[bytes] = []
        try:
            async with asyncio.timeout(self._seconds):
                async for chunk in incoming.content.iter_any():
                    self._account(len(chunk))
                    chunks.append(chunk)
        except TimeoutError:
            raise body_too_late(self._seconds) from None
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def close(self) -> None:
        self._budget.give_back(self._user, self._size)
        self._size = 0

    def _account(self, size: int) -> None:
        if self._size + size > MAX_BODY:
            raise too_large()
        self._budget.take(self._user, size)
        self._size += size


def is_upgrade(headers: dict[str, str]) -> bool:
    """Whether a client asks for a protocol that something here speaks; other wishes are ignored, as HTTP has it."""
    return "upgrade" in headers.get("connection", "").lower() and headers.get("upgrade", "").lower() in _PROTOCOLS
