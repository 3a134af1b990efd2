"""Writes an answer to its connection: whole in one write, or as a stream of chunks.

Most answers are complete when they are begun, thousands a second, and cost one head made in one go and one write. The
frames of a watch are written straight to the transport, without a task or a copy per frame; when a reader does not keep
up, its stream waits, falls behind the history of the store and is closed, which costs the others nothing.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from functools import cache
from http import HTTPStatus
from typing import Final

from kohort.cluster.apiserver.http.stream_pacing import StreamRounds

UNSENT_LIMIT: Final = 1024 * 1024
"""Bytes that may wait in a transport before the writer has to wait."""
STALL_LIMIT: Final = 60.0
"""Seconds after which a reader that takes nothing is dropped."""
TOGETHER: Final = 16 * 1024
"""Bodies up to the size of a TLS record are sent with their head."""
_WITHOUT_LENGTH: Final = frozenset({204, 304})
_HEADER_LINE: Final = "%s: %s".__mod__


@dataclass(slots=True)
class ResponseWriter:
    """One request, and the connection that its answer is written to.

    Several values of a header are separated by line feeds. ConnectionError when the client is gone or takes nothing.
    """

    transport: asyncio.WriteTransport | None
    drained: Callable[[], Awaitable[None]]
    """Waits until the reader has taken what was written."""
    method: str
    keep_alive: bool
    """Whether another request may follow on the same connection."""
    http_1_0: bool = False
    """Whether the client speaks HTTP/1.0: connections are closed unless keep-alive is sent, and there are no chunks."""

    async def answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        framing = self._framing()
        if status not in _WITHOUT_LENGTH and not (self.method == "HEAD" and "content-length" in headers):
            framing["content-length"] = str(len(body))
        head = encode_head(status, {**headers, **framing})
        if self.method == "HEAD":
            body = b""
        transport = self._open()
        if len(body) <= TOGETHER:
            transport.write(head + body)
        else:
            transport.writelines((head, body))
        await self._wait_if_full(transport)

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Begin an answer whose length is not known. Without chunks it ends with the connection."""
        if self.http_1_0:
            self.keep_alive = False
        framing = self._framing()
        if not self.http_1_0:
            framing["transfer-encoding"] = "chunked"
        self._open().write(encode_head(status, {**headers, **framing}))

    async def pump(self, frames: AsyncIterator[bytes], rounds: StreamRounds) -> None:
        """Write frames as they come, until there are no more."""
        try:
            async for frame in frames:
                transport = self._open()
                if frame:
                    transport.write(frame if self.http_1_0 else rounds.chunks.of(frame))
                    await self._wait_if_full(transport)
                    await rounds.next()
        finally:
            close = getattr(frames, "aclose", None)
            if close is not None:
                await close()

    def end(self) -> None:
        if not self.http_1_0:
            self._open().write(b"0\r\n\r\n")

    def abandon(self) -> None:
        """Abort the connection, so that the client does not take a part of an answer for the whole."""
        self.keep_alive = False
        if self.transport is not None:
            self.transport.abort()

    @property
    def closing(self) -> bool:
        return self.transport is None or self.transport.is_closing()

    def _open(self) -> asyncio.WriteTransport:
        if self.transport is None or self.transport.is_closing():
            raise ConnectionResetError("the client is gone")
        return self.transport

    def _framing(self) -> dict[str, str]:
        framing = {"date": _date(int(time.time())), "server": "kohort"}
        if not self.keep_alive:
            framing["connection"] = "close"
        elif self.http_1_0:
            framing["connection"] = "keep-alive"
        return framing

    async def _wait_if_full(self, transport: asyncio.WriteTransport) -> None:
        if transport.get_write_buffer_size() <= UNSENT_LIMIT:
            return
        try:
            async with asyncio.timeout(STALL_LIMIT):
                await self.drained()
        except TimeoutError:
            self.abandon()
            raise ConnectionResetError("the client takes nothing") from None


def encode_head(status: int, headers: Mapping[str, str]) -> bytes:
    text = "\n".join((_status_line(status), *map(_HEADER_LINE, headers.items())))
    if text.count("\n") != len(headers):  # some header has several values
        pairs = ((name, one) for name, value in headers.items() for one in value.split("\n"))
        text = "\n".join((_status_line(status), *map(_HEADER_LINE, pairs)))
    if "\r" in text or "\0" in text:
        raise ValueError("a header may not contain a carriage return")
    return (text.replace("\n", "\r\n") + "\r\n\r\n").encode()


@cache
def _status_line(status: int) -> str:
    phrases = {one.value: one.phrase for one in HTTPStatus}
    return f"HTTP/1.1 {status} {phrases.get(status, '')}"


_dates: Final[dict[int, str]] = {}


def _date(second: int) -> str:
    """The time as HTTP writes it, made once a second."""
    if second not in _dates:
        _dates.clear()
        _dates[second] = formatdate(second, usegmt=True)
    return _dates[second]
