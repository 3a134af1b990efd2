"""HTTP/1.1 to backends: one request at a time on a connection, bodies as streams in both directions.

What a backend sends is read strictly: an answer whose end is in doubt is an error, and so is one that is too large in
its head. Interim answers (1xx) are skipped. A connection is used again when an answer was complete, its end was marked,
and neither side asked to close; it is kept idle for a few seconds only, shorter than common servers keep theirs (5 s):
a request on a connection that the server is just closing would be lost, and one that is not idempotent could not be
repeated.
"""

import asyncio
import re
import socket
from collections.abc import Iterator
from typing import Final, Protocol

from multidict import CIMultiDict

from kohort.cluster.gateway.backends import Address

CONNECT_SECONDS: Final = 5.0
KEPT_SECONDS: Final = 4.0
KEPT_CONNECTIONS: Final = 256
"""Idle connections to one address."""
HEAD_LIMIT: Final = 64 * 1024
BUFFER_LIMIT: Final = 64 * 1024
"""Bytes of an answer that may wait for the client before nothing more is read."""
_SWEEP_SECONDS: Final = 1.0
_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: ([\t -~\x80-\xff]*))?")
_HEADERS: Final = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t !-~\x80-\xff]*\r\n)*")
_HEADER: Final = re.compile(r"([^:]+):[ \t]*([^\r]*)\r\n")
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")
_LINE_LIMIT: Final = 8 * 1024


class BackendError(Exception):
    pass


class CannotConnect(BackendError):
    """Nothing was sent."""


class ConnectTimeout(BackendError):
    """Nothing was sent."""


class ConnectionLost(BackendError):
    """The connection ended before the answer did."""


class BadAnswer(BackendError):
    """What came is not HTTP."""


class AnswerTimeout(BackendError):
    pass


class AnswerHead:
    __slots__ = ("headers", "old", "reason", "status")

    def __init__(self, status: int, reason: str, headers: CIMultiDict[str], *, old: bool) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers
        self.old = old


def read_answer_head(data: bytes) -> AnswerHead:
    """`data` is everything before the empty line. Raises BadAnswer."""
    first, _, rest = data.partition(b"\r\n")
    found = _STATUS.fullmatch(first)
    if found is None:
        raise BadAnswer(f"the status line is {first[:80]!r}")
    if _HEADERS.fullmatch(rest) is None:
        raise BadAnswer(f"the header lines are not valid: {rest[:80]!r}")
    headers = header_lines(rest)
    reason = (found[3] or b"").decode("utf-8", "surrogateescape")
    return AnswerHead(int(found[2]), reason, headers, old=found[1] == b"0")


def header_lines(data: bytes) -> CIMultiDict[str]:
    """From lines that are valid, each with its end."""
    text = data.decode("utf-8", "surrogateescape")
    found = _HEADER.findall(text)
    if " \r" in text or "\t\r" in text:
        found = [(name, value.rstrip(" \t")) for name, value in found]
    return CIMultiDict(found)


class Body:
    """Where the body of an answer ends: after `left` bytes, with the last chunk, or with the connection."""

    __slots__ = ("chunked", "done", "left", "reusable")

    def __init__(self, head: AnswerHead, method: str) -> None:
        self.chunked = False
        self.left: int | None = None
        self.done = False
        headers = head.headers
        closing = "Connection" in headers and any("close" in each.lower() for each in headers.getall("Connection"))
        self.reusable = not head.old and not closing
        coding = ",".join(headers.getall("Transfer-Encoding", ())).strip().lower()
        lengths = {value.strip() for value in headers.getall("Content-Length", ())}
        if method == "HEAD" or head.status in (204, 304):
            self.left = 0
        elif coding:
            if coding != "chunked" or head.old:
                raise BadAnswer(f"transfer-encoding {coding!r} is not chunked")
            self.chunked = True
            self.reusable = self.reusable and not lengths
        elif lengths:
            (length, *more) = lengths
            if more or not length.isascii() or not length.isdigit() or len(length) > 18:
                raise BadAnswer(f"content-length is {', '.join(sorted(lengths))!r}")
            self.left = int(length)
        else:
            self.reusable = False
        if self.left == 0:
            self.done = True


class AnswerReceiver(Protocol):
    """Takes the answer to a request in place of a task that waits for it; called once."""

    def received(self, data: bytes, /) -> bool:
        """Whether these first bytes were the whole answer."""

    def go_on_in_task(self) -> None:
        """The connection is lost, or the answer does not come in time."""


class BackendConnection(asyncio.Protocol):
    def __init__(self, address: Address) -> None:
        self.address = address
        self.idle_since = 0.0
        self.sent_before = False
        """Whether it carried a request already: the server may close it at any time."""
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._data = bytearray()
        self._eof = False
        self._lost: Exception | None = None
        self._paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timeout = 0.0
        self._heard = 0.0
        self._late = False
        self._body: Body | None = None
        self._receiver: AnswerReceiver | None = None

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        stream: socket.socket | None = transport.get_extra_info("socket")
        if stream is not None:
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        receiver = self._receiver
        if receiver is not None:
            self._receiver = None
            if receiver.received(data):
                return
        self._data += data
        self._heard = self._loop.time()
        if len(self._data) > BUFFER_LIMIT and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self._eof = True
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._eof = True
        self._lost = exc
        self._transport = None
        self._wake()
        self.resume_writing()

    def pause_writing(self) -> None:
        if self._room is None:
            self._room = self._loop.create_future()

    def resume_writing(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def _wake(self) -> None:
        if (receiver := self._receiver) is not None:
            self._receiver = None
            receiver.go_on_in_task()
            return
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # A request

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._eof and not self._data and not self._transport.is_closing()

    def send(self, data: bytes) -> None:
        if self._transport is None:
            raise ConnectionLost("the connection is closed")
        self._transport.write(data)

    async def send_part(self, data: bytes) -> None:
        self.send(data)
        if self._room is not None:
            await self._room

    # Its answer

    def expect(self, timeout: float, receiver: AnswerReceiver | None = None) -> None:
        """An answer, of which each part may take so long. Its first bytes go to the receiver, or to `head`."""
        now = self._loop.time()
        self._timeout, self._late, self._heard = timeout, False, now
        if self._timer is None or self._timer.when() > now + timeout:
            self._set_timer(timeout)
        self._receiver = receiver

    async def head(self, method: str) -> AnswerHead:
        """Of an answer that is expected."""
        searched = 0
        while True:
            end = self._data.find(b"\r\n\r\n", max(0, searched - 3))
            if 0 <= end <= HEAD_LIMIT:
                head = read_answer_head(bytes(self._data[: end + 2]))
                del self._data[: end + 4]
                if head.status >= 200:
                    self._body = Body(head, method)
                    return head
                if head.status == 101:
                    raise BadAnswer("the backend switched protocols without being asked to")
                searched = 0
                continue
            if len(self._data) > HEAD_LIMIT:
                raise BadAnswer(f"the head is larger than {HEAD_LIMIT // 1024} KiB")
            searched = len(self._data)
            await self._more()

    def read_now(self) -> bytes | None:
        """The next part of the body as far as it is here, empty at its end; None if it must be waited for."""
        body = self._body
        assert body is not None
        if body.done:
            return b""
        part = self._chunk(body) if body.chunked else self._plain(body)
        if part:
            self._resume()
            return part
        return b"" if body.done else None

    async def read(self) -> bytes:
        """The next part of the body, empty at its end."""
        body = self._body
        assert body is not None
        while not body.done:
            part = self._chunk(body) if body.chunked else self._plain(body)
            if part:
                self._resume()
                return part
            if body.done:
                break
            if self._eof and not body.chunked and body.left is None:
                body.done = True
                break
            await self._more()
        return b""

    @property
    def complete(self) -> bool:
        """The whole body is here; reading on does not wait."""
        body = self._body
        return body is not None and (body.done or (body.left is not None and len(self._data) >= body.left))

    def _plain(self, body: Body) -> bytes:
        if body.left is None or len(self._data) <= body.left:
            part = bytes(self._data)
            self._data.clear()
        else:
            part = bytes(self._data[: body.left])
            del self._data[: body.left]
        if body.left is not None:
            body.left -= len(part)
            body.done = body.left == 0
        return part

    def _chunk(self, body: Body) -> bytes:
        """All that is here of chunks, without their frames."""
        parts = list(self._chunks(body))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _chunks(self, body: Body) -> Iterator[bytes]:
        """`left` counts what is missing of a chunk, with the line end after it; None is before a size."""
        while True:
            if body.left is None:
                line = self._line()
                if line is None:
                    return
                size = _SIZE.fullmatch(line)
                if size is None:
                    raise BadAnswer(f"the size of a chunk is {line[:40]!r}")
                length = int(size[1], 16)
                body.left = length + 2 if length else -1
            if body.left == -1:
                while (line := self._line()) is not None:
                    if not line:
                        body.done = True
                        return
                return
            if body.left > 2:
                part = bytes(self._data[: body.left - 2])
                if not part:
                    return
                del self._data[: len(part)]
                body.left -= len(part)
                yield part
                continue
            if len(self._data) < 2:
                return
            if self._data[:2] != b"\r\n":
                raise BadAnswer("a chunk is longer than its size")
            del self._data[:2]
            body.left = None

    def _line(self) -> bytes | None:
        end = self._data.find(b"\r\n")
        if end < 0:
            if len(self._data) > _LINE_LIMIT:
                raise BadAnswer("a line within a chunked body is too long")
            return None
        line = bytes(self._data[:end])
        del self._data[: end + 2]
        return line

    async def _more(self) -> None:
        """Wait for more bytes."""
        self._resume()
        if self._late:
            raise AnswerTimeout(f"nothing came for {self._timeout:g} s")
        if self._eof:
            raise ConnectionLost(str(self._lost) if self._lost is not None else "the backend closed the connection")
        if self._timer is None:
            self._set_timer(max(0.0, self._heard + self._timeout - self._loop.time()))
        self._waiter = self._loop.create_future()
        before = len(self._data)
        await self._waiter
        if self._late and len(self._data) == before:
            raise AnswerTimeout(f"nothing came for {self._timeout:g} s")

    def _resume(self) -> None:
        if self._paused and len(self._data) <= BUFFER_LIMIT // 2 and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    def _set_timer(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """A timer per connection, that is set again if something came meanwhile. It outlives requests: to make and
        cancel one for each of them costs more than to look at an idle connection now and then."""
        self._timer = None
        if self._body is None and self._waiter is None and self._receiver is None:
            return
        left = self._heard + self._timeout - self._loop.time()
        if left > 0:
            self._set_timer(left)
            return
        self._late = True
        self._wake()

    def finish(self) -> bool:
        """The exchange is over; whether the connection can be used again. If not, it is closed."""
        body, self._body = self._body, None
        return self.finish_answered(reusable=body is not None and body.done and body.reusable)

    def finish_answered(self, *, reusable: bool) -> bool:
        """Likewise, after an answer that a receiver took."""
        if reusable and self.usable and self._room is None:
            self.sent_before = True
            self.idle_since = self._loop.time()
            return True
        self.close()
        return False

    def close(self) -> None:
        self._receiver = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()


class BackendPool:
    """Connections to backends, the one used last first."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, int], list[BackendConnection]] = {}
        self._sweeper: asyncio.TimerHandle | None = None

    def idle(self, address: Address) -> BackendConnection | None:
        """A connection that is open already."""
        found = self._idle.get(address[:2])
        while found:
            connection = found.pop()
            if connection.usable:
                return connection
            connection.close()
        return None

    async def connect(self, address: Address) -> BackendConnection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await loop.create_connection(
                    lambda: BackendConnection(address), address.host, address.port
                )
        except TimeoutError:
            raise ConnectTimeout(f"no connection within {CONNECT_SECONDS:g} s") from None
        except OSError as problem:
            raise CannotConnect(problem.strerror or str(problem)) from None
        return connection

    def give_back(self, connection: BackendConnection) -> None:
        if connection.finish():
            self._keep(connection)

    def give_back_answered(self, connection: BackendConnection, *, reusable: bool) -> None:
        if connection.finish_answered(reusable=reusable):
            self._keep(connection)

    def _keep(self, connection: BackendConnection) -> None:
        kept = self._idle.setdefault(connection.address[:2], [])
        if len(kept) >= KEPT_CONNECTIONS:
            connection.close()
            return
        kept.append(connection)
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        before = asyncio.get_running_loop().time() - KEPT_SECONDS
        for key, kept in list(self._idle.items()):
            for connection in kept:
                if connection.idle_since < before:
                    connection.close()
            kept[:] = [each for each in kept if each.idle_since >= before and each.usable]
            if not kept:
                del self._idle[key]
        self._sweeper = asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep) if self._idle else None

    def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for kept in self._idle.values():
            for connection in kept:
                connection.close()
        self._idle.clear()


def request_head(method: str, target: str, headers: CIMultiDict[str]) -> bytes:
    lines = "\r\n".join(map(": ".join, headers.items()))
    return f"{method} {target} HTTP/1.1\r\n{lines}\r\n\r\n".encode("utf-8", "surrogateescape")
