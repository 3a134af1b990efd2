"""A connection of a client that sends simple HTTP/1.1 requests.

A request is simple if its whole head is made of what any two programs read alike: a target that begins with a slash,
one Host, at most one Content-Length, no Transfer-Encoding, no Upgrade, no Expect, no folded lines. Nearly all are, and
most of those are answered without a task (`direct_exchange.py`). With the first other request the connection is handed
over to aiohttp (`aiohttp_connection.py`) with all that was read, and stays there; a connection that begins as HTTP/2
does goes to `http2_connection.py`. A head that has not arrived as a whole waits here, for a limited time.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from multidict import CIMultiDict

from kohort.cluster.gateway.backend_client import header_lines
from kohort.cluster.gateway.client_request import ClientGone, ClientRequest, RefusedRequest, answer_lines
from kohort.cluster.gateway.direct_exchange import DirectExchange
from kohort.cluster.gateway.request_plan import RequestPlan
from kohort.cluster.gateway.request_turn import RequestTurn
from kohort.kube.log import Log

HEAD_LIMIT: Final = 32 * 1024
HELD_LIMIT: Final = 64 * 1024
"""Bytes that may wait for a backend, or for the answer to an earlier request, before nothing more is read."""
LINGER_SECONDS: Final = 2.0
"""How long the rest of a body is read and dropped after an answer that did not wait for it."""
HTTP2_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_END: Final = b"\r\n\r\n"
_REQUEST: Final = re.compile(
    rb"([A-Z]{1,20}) (/[!-~]{0,8000}) HTTP/1\.1\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t !-~\x80-\xff]*\r\n)+)\r\n"
)
_NOT_SIMPLE: Final = frozenset({"transfer-encoding", "upgrade", "expect", "http2-settings", "te", "trailer"})
_SINGLE: Final = frozenset(
    {
        *("content-length", "content-location", "content-range", "content-type", "etag", "host", "max-forwards"),
        *("server", "user-agent"),
    }
)
"""Headers that a request has once; programs differ in which one they take of two."""
_SIMPLE_CONNECTION: Final = frozenset({"", "keep-alive", "close"})

_log = Log(module="kohort.cluster.gateway")


class ConnectionOwner(Protocol):
    connections: "set[Http1Connection]"

    def read_head(self, data: bytes, connection: "Http1Connection") -> "SimpleHead | None": ...

    def begin(
        self, connection: "Http1Connection", head: "SimpleHead", body: bytes | None
    ) -> DirectExchange | RequestTurn: ...

    def serve(self, request: ClientRequest, turn: RequestTurn | None = None) -> Awaitable[None]: ...

    def fallback(self) -> asyncio.Protocol: ...

    def http2(self) -> asyncio.Protocol: ...

    def server_name(self, tls: ssl.SSLObject | None) -> str: ...


class SimpleHead:
    """The head of a simple request, which is the same for all requests with the same bytes."""

    __slots__ = ("headers", "keep_alive", "length", "method", "plan", "target")

    plan: RequestPlan | RefusedRequest
    """Set by the port that the request came by."""

    def __init__(self, method: str, target: str, headers: CIMultiDict[str]) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        length = headers.get("Content-Length")
        self.length = None if length is None else int(length)
        self.keep_alive = headers.get("Connection", "").lower() != "close"


class Http1Request(ClientRequest):
    __slots__ = ("_body", "_connection", "_framed", "keep_alive", "left")

    def __init__(self, head: SimpleHead, body: bytes | None, connection: "Http1Connection") -> None:
        """`body` is all of it; None if it has not arrived."""
        self.method = head.method
        self.target = head.target
        self.headers = head.headers
        self.hosts = head.headers.getall("Host", [])
        self.old = False
        self.has_body = head.length is not None
        self.left = (head.length or 0) if body is None else 0
        """Bytes of the body that were not read yet."""
        self.keep_alive = head.keep_alive
        self.remote = connection.remote
        self.secure = connection.secure
        self.server_name = connection.server_name
        self._body = body
        self._connection = connection
        self._framed = False

    def ready_body(self) -> bytes | None:
        return self._body

    async def read(self) -> bytes:
        return await self._connection.read_body(self) if self.left else b""

    async def begin(self, status: int, reason: str, headers: CIMultiDict[str], *, bodiless: bool) -> None:
        if "Connection" in headers or self.left:
            # A body that was not read stands before the next request.
            self.keep_alive = False
        more = []
        self._framed = "Content-Length" not in headers and not bodiless
        if self._framed:
            more.append("Transfer-Encoding: chunked")
        if not self.keep_alive and "Connection" not in headers:
            more.append("Connection: close")
        self._connection.hold_head(answer_lines(status, reason, headers, *more))

    def flush(self) -> None:
        self._connection.flush_head()

    async def write(self, part: bytes) -> None:
        if self._framed:
            part = b"%x\r\n%b\r\n" % (len(part), part)
        await self._connection.write(part)

    async def end(self) -> None:
        self._connection.finish(b"0\r\n\r\n" if self._framed else b"")

    def cut(self) -> None:
        self._connection.abort()


def read_simple_head(data: bytes) -> SimpleHead | None:
    """From the bytes of a head with its empty line; None if the request is not simple."""
    found = _REQUEST.fullmatch(data)
    if found is None or len(data) > HEAD_LIMIT:
        return None
    headers = header_lines(found[3])
    different = set(map(str.lower, headers))
    length = headers.get("Content-Length", "0")
    if (
        "host" not in different
        or not _NOT_SIMPLE.isdisjoint(different)
        or (len(headers) > len(different) and any(len(headers.getall(name, ())) > 1 for name in _SINGLE))
        or not (length.isascii() and length.isdigit() and len(length) <= 18)
        or ("Connection" in headers and ",".join(headers.getall("Connection")).lower() not in _SIMPLE_CONNECTION)
    ):
        return None
    return SimpleHead(found[1].decode("ascii"), found[2].decode("ascii"), headers)


class Http1Connection(asyncio.Protocol):
    def __init__(
        self, owner: ConnectionOwner, admitted: Callable[[str], bool], released: Callable[[str], None]
    ) -> None:
        """`admitted` says whether an address may have one more connection, `released` that one has ended."""
        self._owner = owner
        self._admitted = admitted
        self._released = released
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._held = bytearray()
        self._head = b""
        """The head of an answer that waits for the first part of its body: one packet instead of two."""
        self._present: SimpleHead | None = None
        """Of the request that is being answered."""
        self._body: bytes | None = None
        """Of that request, if all of it is here."""
        self._exchange: DirectExchange | None = None
        """If no task answers it."""
        self._waiting: RequestTurn | None = None
        """Its turn, while the task that answers it has not begun."""
        self._answered: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._reading = True
        self._waiter: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._closing = False
        self._dropping = False
        self._counted = False
        self.remote = ""
        self.secure = False
        self.server_name = ""
        self.since = self._loop.time()
        """When it became idle, or when the head that is not complete began to come."""

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.remote = str(peer[0]) if peer else ""
        if not self._admitted(self.remote):
            text = b"too many connections from this address\n"
            transport.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: %d\r\n" % len(text))
            transport.write(b"Content-Type: text/plain\r\nConnection: close\r\nServer: kohort\r\n\r\n" + text)
            transport.close()
            self._closing = True
            return
        self._counted = True
        tls = transport.get_extra_info("ssl_object")
        self.secure = tls is not None
        self.server_name = self._owner.server_name(tls)
        stream: socket.socket | None = transport.get_extra_info("socket")
        if stream is not None:
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None and tls.selected_alpn_protocol() == "h2":
            self._hand_over(self._owner.http2())
            return
        self._owner.connections.add(self)

    def data_received(self, data: bytes) -> None:
        if self._present is not None:
            if self._dropping:
                return
            self._held += data
            if len(self._held) > HELD_LIMIT:
                self._pause()
            self._wake()
        elif self._dropping or self._closing:
            return
        elif self._held:
            self._held += data
            self._next_held()
        else:
            self._next(data)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.connections.discard(self)
        self._release()
        self._transport = None
        self._wake()
        self.resume_writing()
        if self._exchange is not None:
            self._exchange.client_gone()
            self._end()
        if self._task is not None:
            self._task.cancel()
        if self._waiting is not None:
            # A task that is cancelled before it begins runs none of its code.
            self._waiting.abandon()
            self._waiting = self._task = None
            self._end()

    def pause_writing(self) -> None:
        if self._room is None:
            self._room = self._loop.create_future()

    def resume_writing(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)
        if self._present is not None and self._exchange is None and self._task is None:
            self._end()

    def _release(self) -> None:
        if self._counted:
            self._counted = False
            self._released(self.remote)

    # Called by the owner

    @property
    def idle(self) -> bool:
        return self._present is None

    def close(self) -> None:
        """Take no more requests: close at once, or when the present one is answered."""
        self._closing = True
        if self._present is None and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def ended(self) -> None:
        """The present request is answered."""
        if self._present is not None:
            self._answered = self._answered or self._loop.create_future()
            await asyncio.shield(self._answered)

    # Requests

    def _next(self, data: bytes) -> None:
        """Take the request that `data` begins with. Nothing is held."""
        size = data.find(_END) + len(_END)
        head = None
        if size >= len(_END) and self._transport is not None and not self._transport.is_closing():
            head = self._owner.read_head(data[:size], self)
        if head is None:
            self._held += data
            self._wait_or_hand_over()
            return
        end = size + (head.length or 0)
        if len(data) < end:
            self._held += data[size:]
            self._begin(head, None)
            return
        if len(data) > end:
            self._held += data[end:]
        self._begin(head, data[size:end])

    def _next_held(self) -> None:
        held = self._held
        if _END in held:
            self._held = bytearray()
            self._next(bytes(held))
        else:
            self._wait_or_hand_over()

    def _wait_or_hand_over(self) -> None:
        """What is held does not begin with a simple request, or not yet."""
        held = self._held
        if not held or self._transport is None or self._transport.is_closing():
            return
        if held.startswith(HTTP2_PREFACE[: len(held)]):
            if len(held) >= len(HTTP2_PREFACE):
                self._hand_over(self._owner.http2())
            return
        # What is not complete may still become simple, unless it is too long or has line ends of its own.
        if _END in held or len(held) > HEAD_LIMIT or b"\n\n" in held or held[0] in b"\r\n \t":
            self._hand_over(self._owner.fallback())

    def _begin(self, head: SimpleHead, body: bytes | None) -> None:
        self._present = head
        self._body = body
        begun = self._owner.begin(self, head, body)
        if isinstance(begun, DirectExchange):
            self._exchange = begun
        else:
            self.go_on_in_task(begun)

    # Called by a direct exchange, and for requests without one

    def go_on_in_task(self, turn: RequestTurn) -> None:
        assert self._present is not None
        self._exchange = None
        self._waiting = turn
        request = Http1Request(self._present, self._body, self)
        self._task = self._loop.create_task(self._answer_in_task(request, turn))

    def answer(self, data: bytes) -> None:
        assert self._transport is not None
        self._exchange = None
        self._transport.write(data)
        if self._room is None:
            self._end()

    async def _answer_in_task(self, request: Http1Request, turn: RequestTurn) -> None:
        self._waiting = None
        try:
            await self._owner.serve(request, turn)
        except ConnectionError:
            self.abort()
        except asyncio.CancelledError:
            self.abort()
            raise
        except Exception:
            _log.exception("request failed", method=request.method, target=request.target)
            self.abort()
        finally:
            self._task = None
            self._end(request)

    def _end(self, request: Http1Request | None = None) -> None:
        """The present request is answered."""
        head, self._present, self._body = self._present, None, None
        assert head is not None
        self.since = self._loop.time()
        answered, self._answered = self._answered, None
        if answered is not None and not answered.done():
            answered.set_result(None)
        if self._transport is None:
            return
        if request is not None and request.left:
            self._linger()
            return
        if self._closing or not (head.keep_alive if request is None else request.keep_alive):
            self._transport.close()
            return
        self._resume()
        if self._held:
            self._loop.call_soon(self._next_if_idle)

    def _next_if_idle(self) -> None:
        if self._present is None and not self._dropping and not self._closing:
            self._next_held()

    def _linger(self) -> None:
        """A connection that is closed while data comes in is reset, and the answer lost with it."""
        assert self._transport is not None
        self._dropping = True
        self._held.clear()
        self._resume()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._loop.call_later(LINGER_SECONDS, self.abort)

    def _hand_over(self, protocol: asyncio.Protocol) -> None:
        assert self._transport is not None
        self._owner.connections.discard(self)
        released = _Released(protocol, self._release)
        self._transport.set_protocol(released)
        released.connection_made(self._transport)
        if self._held:
            held = bytes(self._held)
            self._held.clear()
            released.data_received(held)

    # The body of the present request

    async def read_body(self, request: Http1Request) -> bytes:
        while not self._held:
            if self._transport is None:
                raise ClientGone("the client closed the connection")
            self._resume()
            self._waiter = self._loop.create_future()
            await self._waiter
        part = bytes(self._held[: request.left])
        del self._held[: len(part)]
        request.left -= len(part)
        return part

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _pause(self) -> None:
        if self._reading and self._transport is not None:
            self._reading = False
            self._transport.pause_reading()

    def _resume(self) -> None:
        if not self._reading and self._transport is not None:
            self._reading = True
            self._transport.resume_reading()

    # Its answer

    def hold_head(self, head: bytes) -> None:
        self._head = head

    def flush_head(self) -> None:
        head, self._head = self._head, b""
        if head and self._transport is not None:
            self._transport.write(head)

    async def write(self, part: bytes) -> None:
        if self._transport is None:
            raise ClientGone("the client closed the connection")
        head, self._head = self._head, b""
        self._transport.write(head + part if head else part)
        if self._room is not None:
            await self._room
            if self._transport is None:
                raise ClientGone("the client closed the connection")

    def finish(self, last: bytes) -> None:
        head, self._head = self._head, b""
        if (head or last) and self._transport is not None:
            self._transport.write(head + last)


class _Released(asyncio.Protocol):
    """Passes everything on to the protocol that took a connection over, and reports its end."""

    def __init__(self, protocol: asyncio.Protocol, release: Callable[[], None]) -> None:
        self._protocol = protocol
        self._release = release

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._release()
        self._protocol.connection_lost(exc)
