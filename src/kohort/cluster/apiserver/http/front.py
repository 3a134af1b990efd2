"""The socket in front of the API server: TLS, HTTP/1.1, and nothing that has an opinion about Kubernetes.

A request is translated into `kohort.kube.http.Request` and back. Three things are done with care. Paths are decoded
segment by segment, so an encoded slash cannot turn one segment into two. Bodies are taken as they come: what claims to
be compressed is not unpacked, in Kubernetes neither, so nobody can send a gigabyte in a kilobyte. And the frames of a
watch are written straight to the transport, without a task or a copy per frame; when a reader does not keep up, its
stream waits, falls behind the history of the store and is closed, which costs the others nothing.
"""

import asyncio
import contextlib
import gzip
import logging
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final, Protocol
from urllib.parse import parse_qsl, unquote_to_bytes

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from aiohttp.web_protocol import RequestHandler
from multidict import CIMultiDict

from kohort.cluster.apiserver.auth.model import User
from kohort.cluster.apiserver.http.answering import UNSENT_LIMIT, Answer, drained
from kohort.cluster.apiserver.http.pacing import Rounds
from kohort.cluster.apiserver.server import MAX_BODY, ApiServer, failure_response, too_large
from kohort.kube import errors
from kohort.kube.http import Request, Response
from kohort.kube.log import Log

BACKLOG: Final = 4096
GZIP_FROM: Final = 128 * 1024
MAX_LINE: Final = 1024 * 1024
"""A selector can name many objects."""
MAX_FIELD: Final = 128 * 1024
_NO_BODY: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_PROTOCOLS: Final = frozenset({"websocket", "spdy/3.1"})
_ORIGIN: Final = re.compile(r"\Ahttps?://[^/?#]+", re.IGNORECASE)
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")

_QUIET: Final = logging.getLogger("kohort.front")
_QUIET.setLevel(logging.CRITICAL)
"""What clients get wrong about HTTP is answered, not logged: anybody could fill the log with it."""

Authenticate = Callable[[Mapping[str, str], Mapping[str, object] | None], User]
"""From headers and the client certificate to an identity; raises 401."""


class Upgrades(Protocol):
    """What takes over a connection after an upgrade: exec, attach, port-forward."""

    async def serve(self, request: Request, user: User, web_request: web.BaseRequest) -> web.StreamResponse: ...


class Incoming(web.BaseRequest):
    """A request whose answer may be given up when its sender hangs up.

    aiohttp gives up all or none. A write must not stop half way, but a watch that nobody reads has to end.
    """

    _answering: "asyncio.Task[object] | None" = None

    def end_with_client(self) -> None:
        """Whoever hangs up wants no answer of the present task any more."""
        self._answering = asyncio.current_task()

    def _cancel(self, exc: BaseException) -> None:
        super()._cancel(exc)
        if self._answering is not None:
            self._answering.cancel()


def incoming_request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: RequestHandler,
    writer: AbstractStreamWriter,
    task: "asyncio.Task[None]",
) -> Incoming:
    return Incoming(message, payload, protocol, writer, task, asyncio.get_running_loop())


class Front:
    """A listening API server. `port` is known once it is started."""

    def __init__(
        self,
        server: ApiServer,
        authenticate: Authenticate,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        upgrades: Upgrades | None = None,
    ) -> None:
        self._server = server
        self._authenticate = authenticate
        self._host = host
        self._tls = tls
        self._upgrades = upgrades
        self._runner: web.ServerRunner | None = None
        self._streams: set[asyncio.Task[None]] = set()
        self._rounds = Rounds()
        self._log = Log(part="front")
        self.port = port

    async def start(self) -> None:
        inner = web.Server(
            self._handle,
            request_factory=incoming_request,
            access_log=None,
            logger=_QUIET,
            max_line_size=MAX_LINE,
            max_field_size=MAX_FIELD,
            keepalive_timeout=180.0,
            auto_decompress=False,
        )
        self._runner = web.ServerRunner(inner, shutdown_timeout=2.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self.port, ssl_context=self._tls, backlog=BACKLOG)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """End all streams cleanly, let running requests finish, close."""
        for stream in list(self._streams):
            stream.cancel()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, incoming: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(incoming, Incoming)
        request = Request(incoming.method, "/", (), headers_of(incoming))
        try:
            request = head_of(incoming, request.headers)
            user = self._authenticate(request.headers, peer_certificate(incoming))
            upgrades = self._upgrades if is_upgrade(request.headers) else None
            if request.method in _NO_BODY or upgrades is not None:
                incoming.end_with_client()
            if upgrades is not None:
                return await upgrades.serve(request, user, incoming)
            body = await body_of(incoming)
        except errors.ApiError as error:
            return await self._send(incoming, request, failure_response(request, error))
        if body:
            request = Request(request.method, request.path, request.query, request.headers, body)
        response = await self._server.handle(request, user)
        return await self._send(incoming, request, response)

    async def _send(self, incoming: web.BaseRequest, request: Request, response: Response) -> web.StreamResponse:
        body, headers = response.body, response.headers
        if not isinstance(body, bytes):
            return await self._stream(incoming, response.status, outgoing_headers(response), body)
        if len(body) > GZIP_FROM and "gzip" in request.headers.get("accept-encoding", ""):
            body = gzip.compress(body, 1)
            headers = {**headers, "content-encoding": "gzip", "vary": "Accept-Encoding"}
        return Answer(response.status, headers, body)

    async def _stream(
        self, incoming: web.BaseRequest, status: int, headers: CIMultiDict[str], frames: AsyncIterator[bytes]
    ) -> web.StreamResponse:
        outgoing = web.StreamResponse(status=status, headers=headers)
        outgoing.enable_chunked_encoding()
        await outgoing.prepare(incoming)
        pump = asyncio.ensure_future(_pump(frames, incoming, self._rounds))
        self._streams.add(pump)
        self._rounds.streams = len(self._streams)
        try:
            await pump
        except asyncio.CancelledError:
            if not pump.cancelled() or _closing(incoming):
                pump.cancel()
                raise
        except (ConnectionError, TimeoutError) as problem:
            self._log.debug("stream dropped", path=incoming.path, problem=str(problem) or type(problem).__name__)
            outgoing.force_close()
            if incoming.transport is not None:
                incoming.transport.abort()
            return outgoing
        finally:
            self._streams.discard(pump)
            self._rounds.streams = len(self._streams)
        with contextlib.suppress(ConnectionError):
            await outgoing.write_eof()
        return outgoing


async def _pump(frames: AsyncIterator[bytes], incoming: web.BaseRequest, rounds: Rounds) -> None:
    """Write frames to the transport as chunks of an HTTP body."""
    transport = incoming.transport
    protocol = incoming.protocol
    try:
        async for frame in frames:
            if transport is None or transport.is_closing():
                raise ConnectionResetError("the client is gone")
            if not frame:
                continue
            transport.write(rounds.chunks.of(frame))
            if transport.get_write_buffer_size() > UNSENT_LIMIT:
                await drained(protocol)
            await rounds.next()
    finally:
        close = getattr(frames, "aclose", None)
        if close is not None:
            await close()


def _closing(incoming: web.BaseRequest) -> bool:
    return incoming.transport is None or incoming.transport.is_closing()


def outgoing_headers(response: Response) -> CIMultiDict[str]:
    headers: CIMultiDict[str] = CIMultiDict()
    for key, value in response.headers.items():
        for one in value.split("\n"):
            headers.add(key, one)
    headers["server"] = "kohort"
    return headers


def headers_of(incoming: web.BaseRequest) -> dict[str, str]:
    """Header names in lower case; repeated headers joined with commas."""
    headers: dict[str, str] = {}
    for key, value in incoming.headers.items():
        key = key.lower()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return headers


def head_of(incoming: web.BaseRequest, headers: dict[str, str]) -> Request:
    target = incoming.raw_path
    if not target.startswith("/"):
        target = without_origin(target)
    raw_path, _, raw_query = target.partition("?")
    raw_query = raw_query.partition("#")[0]
    query = tuple(parse_qsl(raw_query, keep_blank_values=True, errors="replace")) if raw_query else ()
    return Request(incoming.method, decoded_path(raw_path), query, headers)


def without_origin(target: str) -> str:
    """A target as clients of proxies write it, `https://host/path`: who the host is has been settled by connecting."""
    return _ORIGIN.sub("", target, count=1)


def decoded_path(raw: str) -> str:
    """The path with its segments decoded one by one. What decodes to something that is no segment is refused."""
    if not raw.startswith("/"):
        raise errors.path_not_found()
    if "%" not in raw:
        return raw
    if _BAD_ESCAPE.search(raw):
        raise errors.bad_request("the path of the request has a percent sign that escapes nothing")
    segments = []
    for segment in raw.split("/"):
        try:
            decoded = unquote_to_bytes(segment).decode()
        except UnicodeDecodeError:
            raise errors.bad_request("the path of the request is not valid UTF-8") from None
        if "/" in decoded or "\0" in decoded:
            raise errors.bad_request("a path segment may not contain an encoded slash")
        segments.append(decoded)
    return "/".join(segments)


async def body_of(incoming: web.BaseRequest) -> bytes:
    if not incoming.can_read_body:
        return b""
    if (incoming.content_length or 0) > MAX_BODY:
        raise too_large()
    if incoming.content.is_eof():
        body = incoming.content.read_nowait()
        if len(body) > MAX_BODY:
            raise too_large()
        return body
    if incoming.headers.get("expect", "").lower() == "100-continue" and incoming.transport is not None:
        incoming.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    chunks: list[bytes] = []
    size = 0
    async for chunk in incoming.content.iter_any():
        size += len(chunk)
        if size > MAX_BODY:
            raise too_large()
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def peer_certificate(incoming: web.BaseRequest) -> Mapping[str, object] | None:
    certificate: Mapping[str, object] | None = incoming.get_extra_info("peercert")
    return certificate


def is_upgrade(headers: dict[str, str]) -> bool:
    """Whether a client asks for a protocol that something here speaks; other wishes are ignored, as HTTP has it."""
    return "upgrade" in headers.get("connection", "").lower() and headers.get("upgrade", "").lower() in _PROTOCOLS
