"""A connection of a client that speaks HTTP/2: any number of requests at once, up to a limit.

The library h2 reads and writes frames and keeps the state of streams; here they become requests. Bytes of a body are
acknowledged when the backend has taken them, so a client cannot send more than a window ahead; parts of an answer wait
for the window of the client. Trailers are dropped in both directions, as those of HTTP/1.1 are.

A client that resets streams as fast as it opens them makes work that is never answered; after too many of them the
connection ends, as it does after too many frames that carry nothing.
"""

import asyncio
import contextlib
import re
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    PingReceived,
    PriorityUpdated,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    UnknownFrameReceived,
    WindowUpdated,
)
from h2.exceptions import ProtocolError, StreamClosedError
from h2.settings import SettingCodes, Settings
from multidict import CIMultiDict

from kohort.cluster.gateway.client_request import ClientGone, ClientRequest
from kohort.kube.log import Log

STREAMS: Final = 128
RESETS: Final = 200
"""Streams that a client may reset, beside as many as it let end."""
CONTROL_FRAMES: Final = 1000
"""Frames that ask for work and carry nothing (settings, pings, priorities, empty parts, updates of windows that nothing
was sent for, unknown ones) within `CONTROL_SECONDS`."""
CONTROL_SECONDS: Final = 10.0
UPDATE_BYTES: Final = 512
"""A client may update its windows once for so many bytes, twice for each part of an answer, once for each request."""
HEADER_BYTES: Final = 32 * 1024
UNREAD_BYTES: Final = 1024 * 1024
_NAME: Final = re.compile(r":?[!#$%&'*+.^_`|~0-9a-z-]+")
_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_METHOD: Final = re.compile(r"[A-Z]{1,20}")
_CONNECTION_ONLY: Final = frozenset({"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"})

_log = Log(module="kohort.cluster.gateway")


class Http2Request(ClientRequest):
    """A stream."""

    __slots__ = ("_connection", "ended", "gone", "parts", "stream", "task", "unacknowledged", "waiter", "window")

    def __init__(self, connection: "Http2Connection", stream: int, head: list[tuple[str, str]], *, ended: bool) -> None:
        self._connection = connection
        self.stream = stream
        self.old = False
        self.remote, self.secure, self.server_name = connection.remote, connection.secure, connection.server_name
        special = {name: value for name, value in head if name.startswith(":")}
        self.method = special.get(":method", "")
        self.target = special.get(":path", "")
        self.headers = CIMultiDict((name, value) for name, value in head if not name.startswith(":"))
        cookies = self.headers.popall("cookie", [])
        if cookies:
            self.headers["cookie"] = "; ".join(cookies)
        authority = special.get(":authority", "")
        self.hosts = [authority] if authority else self.headers.getall("host", [])
        self.headers.popall("host", None)
        if self.hosts:
            self.headers["Host"] = self.hosts[0]
        self.has_body = not ended
        self.ended = ended
        self.gone = False
        self.parts: list[tuple[bytes, int]] = []
        """Of the body, with what is to be acknowledged for each."""
        self.waiter: asyncio.Future[None] | None = None
        self.window: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None

    async def read(self) -> bytes:
        while not self.parts:
            if self.gone:
                raise ClientGone("the client reset the stream")
            if self.ended:
                return b""
            self.waiter = asyncio.get_running_loop().create_future()
            await self.waiter
        part, size = self.parts.pop(0)
        self._connection.acknowledge(self.stream, size)
        return part

    async def begin(self, status: int, reason: str, headers: CIMultiDict[str], *, bodiless: bool) -> None:
        pairs = [(b":status", b"%d" % status)]
        pairs += [
            (name.lower().encode("ascii"), value.encode("utf-8", "surrogateescape"))
            for name, value in headers.items()
            if name.lower() not in _CONNECTION_ONLY
        ]
        self._connection.send_head(self, pairs)

    async def write(self, part: bytes) -> None:
        await self._connection.send_body(self, part)

    async def end(self) -> None:
        self._connection.end(self)

    def cut(self) -> None:
        self._connection.reset(self.stream, ErrorCodes.INTERNAL_ERROR)

    def wake(self) -> None:
        for waiter in (self.waiter, self.window):
            if waiter is not None and not waiter.done():
                waiter.set_result(None)
        self.waiter = self.window = None


class Http2Connection(asyncio.Protocol):
    def __init__(
        self,
        serve: Callable[[ClientRequest], Awaitable[None]],
        connections: "set[Http2Connection]",
        name_of: Callable[[ssl.SSLObject | None], str],
    ) -> None:
        self._name_of = name_of
        self._serve = serve
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        limits = {SettingCodes.MAX_CONCURRENT_STREAMS: STREAMS, SettingCodes.MAX_HEADER_LIST_SIZE: HEADER_BYTES}
        self._h2.local_settings = Settings(client=False, initial_values=limits)
        self._h2.decoder.max_header_list_size = HEADER_BYTES
        self._requests: dict[int, Http2Request] = {}
        self._room: asyncio.Future[None] | None = None
        self._resets = 0
        self._control = 0
        self._control_since = self._loop.time()
        self._updates_due = 0
        """Updates of windows that a client may send for what it was sent; others wake all streams for nothing."""
        self._ended = 0
        self._closing = False
        self.remote = ""
        self.secure = False
        self.server_name = ""
        self.since = self._loop.time()

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.remote = str(peer[0]) if peer else ""
        tls = transport.get_extra_info("ssl_object")
        self.secure = tls is not None
        self.server_name = self._name_of(tls)
        self._connections.add(self)
        self._h2.initiate_connection()
        self._flush()

    def data_received(self, data: bytes) -> None:
        try:
            for event in self._h2.receive_data(data):
                match event:
                    case RequestReceived():
                        self._begin(event)
                    case DataReceived():
                        self._body(event)
                    case StreamEnded():
                        self._complete(event.stream_id or 0)
                    case StreamReset():
                        self._was_reset(event.stream_id or 0)
                    case WindowUpdated():
                        self._count_window_update()
                        self._wake(event.stream_id or 0)
                    case PingReceived() | RemoteSettingsChanged() | PriorityUpdated() | UnknownFrameReceived():
                        self._control += 1
                    case ConnectionTerminated():
                        self._closing = True
        except ProtocolError:
            # h2 has prepared the frame that tells the client what was wrong.
            self._flush()
            self._end_all()
            if self._transport is not None:
                self._transport.close()
            return
        self._flush()
        if self._resets > RESETS + self._ended or self._floods():
            self._close(ErrorCodes.ENHANCE_YOUR_CALM)
        elif self._transport is not None and self._transport.get_write_buffer_size() > UNREAD_BYTES:
            # It asks (pings, settings) without ever reading an answer.
            self._transport.abort()

    def _count_window_update(self) -> None:
        if self._updates_due:
            self._updates_due -= 1
        else:
            self._control += 1

    def _floods(self) -> bool:
        if self._control <= CONTROL_FRAMES:
            return False
        now = self._loop.time()
        if now - self._control_since < CONTROL_SECONDS:
            return True
        self._control, self._control_since = 0, now
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._transport = None
        self.resume_writing()
        self._end_all()

    def pause_writing(self) -> None:
        if self._room is None:
            self._room = self._loop.create_future()

    def resume_writing(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    # Called by the owner

    @property
    def idle(self) -> bool:
        return not self._requests

    def close(self) -> None:
        """Take no more requests; those that are running end."""
        self._closing = True
        if not self._requests:
            self._close(ErrorCodes.NO_ERROR)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def ended(self) -> None:
        tasks = [request.task for request in self._requests.values() if request.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    # Streams

    def _begin(self, event: RequestReceived) -> None:
        stream = event.stream_id or 0
        head = [(_text(name), _text(value)) for name, value in event.headers or ()]
        if not is_safe(head):
            self.reset(stream, ErrorCodes.PROTOCOL_ERROR)
            return
        request = Http2Request(self, stream, head, ended=event.stream_ended is not None)
        if self._closing or len(self._requests) >= STREAMS:
            self.reset(stream, ErrorCodes.REFUSED_STREAM)
            return
        self._requests[stream] = request
        self._updates_due += 1
        request.task = self._loop.create_task(self._answer(request))

    def _body(self, event: DataReceived) -> None:
        request = self._requests.get(event.stream_id or 0)
        size = event.flow_controlled_length or 0
        if request is None:
            self.acknowledge(event.stream_id or 0, size)
            return
        if not event.data:
            # Padding only, or nothing: not the end of the body, which an empty part would be taken for.
            self._control += 1
            self.acknowledge(request.stream, size)
            return
        request.parts.append((event.data, size))
        request.wake()

    def _complete(self, stream: int) -> None:
        if (request := self._requests.get(stream)) is not None:
            request.ended = True
            request.wake()

    def _was_reset(self, stream: int) -> None:
        self._resets += 1
        if (request := self._requests.get(stream)) is not None:
            request.gone = True
            request.wake()
            if request.task is not None:
                request.task.cancel()

    def _wake(self, stream: int) -> None:
        for request in [self._requests[stream]] if stream in self._requests else [*self._requests.values()]:
            request.wake()

    async def _answer(self, request: Http2Request) -> None:
        try:
            await self._serve(request)
            if request.stream in self._requests and not request.ended and not request.gone:
                # Answered before the body was complete: the rest is not wanted (RFC 9113, 8.1).
                self.reset(request.stream, ErrorCodes.NO_ERROR)
            self._ended += 1
        except ConnectionError:
            self.reset(request.stream, ErrorCodes.CANCEL)
        except asyncio.CancelledError:
            self.reset(request.stream, ErrorCodes.CANCEL)
            raise
        except Exception:
            _log.exception("request failed", method=request.method, target=request.target)
            self.reset(request.stream, ErrorCodes.INTERNAL_ERROR)
        finally:
            self._requests.pop(request.stream, None)
            for _, size in request.parts:
                self.acknowledge(request.stream, size)
            self.since = self._loop.time()
            if self._closing and not self._requests:
                self._close(ErrorCodes.NO_ERROR)

    def acknowledge(self, stream: int, size: int) -> None:
        if size and self._transport is not None:
            try:
                self._h2.acknowledge_received_data(size, stream)
            except (ProtocolError, ValueError):
                return
            self._flush()

    def send_head(self, request: Http2Request, pairs: list[tuple[bytes, bytes]]) -> None:
        self._check(request)
        try:
            self._h2.send_headers(request.stream, pairs)
        except ProtocolError as problem:
            raise ClientGone(str(problem)) from None
        self._flush()

    async def send_body(self, request: Http2Request, part: bytes) -> None:
        start = 0
        while start < len(part):
            self._check(request)
            try:
                room = min(self._h2.local_flow_control_window(request.stream), self._h2.max_outbound_frame_size)
                if room > 0:
                    sent = part[start : start + room]
                    self._h2.send_data(request.stream, sent)
                    self._updates_due += 2 + len(sent) // UPDATE_BYTES
                    start += room
                    self._flush()
            except ProtocolError as problem:
                raise ClientGone(str(problem)) from None
            if room <= 0:
                request.window = self._loop.create_future()
                await request.window
            elif self._room is not None:
                await self._room

    def end(self, request: Http2Request) -> None:
        if self._transport is None or request.gone:
            return
        try:
            self._h2.end_stream(request.stream)
        except (ProtocolError, StreamClosedError):
            return
        self._flush()

    def reset(self, stream: int, code: ErrorCodes) -> None:
        if self._transport is None:
            return
        try:
            self._h2.reset_stream(stream, code)
        except (ProtocolError, StreamClosedError):
            return
        self._flush()

    def _check(self, request: Http2Request) -> None:
        if self._transport is None or request.gone:
            raise ClientGone("the client closed the connection or the stream")

    def _end_all(self) -> None:
        for request in [*self._requests.values()]:
            request.gone = True
            request.wake()
            if request.task is not None:
                request.task.cancel()

    def _close(self, code: ErrorCodes) -> None:
        if self._transport is None:
            return
        with contextlib.suppress(ProtocolError):
            self._h2.close_connection(code)
        self._flush()
        self._end_all()
        self._transport.close()

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data)


def is_safe(head: list[tuple[str, str]]) -> bool:
    """Whether a head can be written as lines: HTTP/2 has no line ends, so values could contain them. A path names no
    host, which would be another one than that of the request (RFC 9113, 8.3.1)."""
    return all(
        _NAME.fullmatch(name) is not None
        and _VALUE.fullmatch(value) is not None
        and (name != ":method" or _METHOD.fullmatch(value) is not None)
        and (name != ":path" or value.startswith("/") or value == "*")
        for name, value in head
    )


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")
