"""A SPDY connection from the node's side: streams that a client opens, over whatever carries bytes.

API servers before 1.36, and clients that are configured so, ask for `Upgrade: SPDY/3.1`: the HTTP connection itself
carries the frames. kubectl forwards ports by putting the same frames into the messages of a WebSocket. `Carrier` is
what both have in common.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final, Protocol

from aiohttp import WSMsgType, web

from kohort.kube import spdy

UPGRADE: Final = "SPDY/3.1"
VERSIONS: Final = "X-Stream-Protocol-Version"
FULL, EMPTY_AGAIN = 256, 64
"""Chunks that wait to be read: when to stop listening to the peer, and when to go on."""
MAX_MESSAGE: Final = 16 * 1024 * 1024
"""Bytes of one message of a WebSocket, which is buffered until it is complete."""
MAX_STREAMS: Final = 1000
"""Streams of one connection that may be open at a time; more are refused. Port-forward uses two per TCP connection."""
MAX_UNREAD: Final = 4 * 1024 * 1024
"""Bytes of one connection that may wait in its streams before nothing more is read from the client."""


class Carrier(Protocol):
    def received(self) -> AsyncIterator[bytes]: ...
    async def send(self, data: bytes) -> None: ...
    async def close(self) -> None: ...


class Tunnel:
    """Frames in messages of a WebSocket."""

    def __init__(self, channels: web.WebSocketResponse) -> None:
        self._channels = channels

    async def received(self) -> AsyncIterator[bytes]:
        async for message in self._channels:
            if message.type == WSMsgType.BINARY:
                yield message.data

    async def send(self, data: bytes) -> None:
        await self._channels.send_bytes(data)

    async def close(self) -> None:
        await self._channels.close()


class Upgraded(web.StreamResponse):
    """An HTTP connection that has stopped being one."""

    _length_check = False

    def __init__(self, version: str) -> None:
        headers = {"Connection": "Upgrade", "Upgrade": UPGRADE}
        if version:
            headers[VERSIONS] = version
        super().__init__(status=101, headers=headers)
        self._waiting: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._connection: web.BaseRequest | None = None

    async def begin(self, request: web.Request) -> None:
        self._connection = request
        request.protocol.set_parser(self)  # type: ignore[arg-type]
        await self.prepare(request)
        self.force_close()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Called by the server with what arrives from now on."""
        self._waiting.put_nowait(bytes(data))
        if self._waiting.qsize() == FULL and (transport := self._transport) is not None:
            transport.pause_reading()
        return False, b""

    def feed_eof(self) -> None:
        self._waiting.put_nowait(None)

    def set_exception(self, *problem: object) -> None:
        self._waiting.put_nowait(None)

    async def received(self) -> AsyncIterator[bytes]:
        while (data := await self._waiting.get()) is not None:
            if self._waiting.qsize() == EMPTY_AGAIN and (transport := self._transport) is not None:
                transport.resume_reading()
            yield data

    async def send(self, data: bytes) -> None:
        await self.write(data)

    async def close(self) -> None:
        if (transport := self._transport) is not None:
            transport.close()

    @property
    def _transport(self) -> asyncio.ReadTransport | None:
        found = self._connection.transport if self._connection is not None else None
        assert found is None or isinstance(found, asyncio.ReadTransport)
        return found


class Stream:
    def __init__(self, connection: "SpdyConnection", number: int, headers: dict[str, str]) -> None:
        self.number = number
        self.headers = headers
        self._connection = connection
        self._arrived: asyncio.Queue[bytes | None] = asyncio.Queue()

    def arrived(self, data: bytes | None) -> None:
        self._arrived.put_nowait(data)

    async def read(self) -> bytes | None:
        """None when the client has closed its side of the stream."""
        data = await self._arrived.get()
        self._connection.consumed(len(data or b""))
        return data

    async def write(self, data: bytes, *, last: bool = False) -> None:
        await self._connection.send(self.number, data, last)


class SpdyConnection:
    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._reader, self._writer = spdy.Reader(), spdy.Writer()
        self._streams: dict[int, Stream] = {}
        self._half_closed: set[int] = set()
        """Streams that one of the two sides has closed."""
        self._sending = asyncio.Lock()
        self._unread = 0
        self._room = asyncio.Event()
        self._room.set()

    async def opened(self) -> AsyncIterator[Stream]:
        """Streams as the client opens them, until it goes or breaks the protocol. Data arrives only while the caller
        iterates, and waits while MAX_UNREAD bytes are unread."""
        try:
            async for data in self._carrier.received():
                for frame in self._reader.feed(data):
                    match frame:
                        case spdy.StreamOpened(number) if len(self._streams) >= MAX_STREAMS:
                            await self._send(self._writer.reset(number, spdy.REFUSED_STREAM))
                        case spdy.StreamOpened(number) if number in self._streams:
                            return
                        case spdy.StreamOpened(number, headers, _):
                            stream = self._streams[number] = Stream(self, number, headers)
                            await self._send(self._writer.reply(number))
                            yield stream
                        case spdy.StreamData(number, content, fin):
                            self._arrived(number, content, fin)
                            await self._room.wait()
                        case spdy.StreamReset(number):
                            self._arrived(number, b"", True)
                            self._streams.pop(number, None)
                            self._half_closed.discard(number)
                        case spdy.Ping(number) if number % 2:
                            await self._send(self._writer.ping(number))
                        case spdy.GoAway():
                            return
        except (spdy.ProtocolError, ConnectionError):
            return
        finally:
            for stream in self._streams.values():
                stream.arrived(None)

    async def send(self, number: int, data: bytes, last: bool) -> None:
        await self._send(self._writer.data(number, data, fin=last))
        if last:
            self._closed_one_side(number)

    def consumed(self, size: int) -> None:
        """Account for bytes that were read from a stream."""
        self._unread -= size
        if self._unread <= MAX_UNREAD:
            self._room.set()

    async def close(self) -> None:
        with contextlib.suppress(ConnectionError):
            await self._carrier.close()

    async def _send(self, frames: bytes) -> None:
        async with self._sending:
            await self._carrier.send(frames)

    def _arrived(self, number: int, content: bytes, fin: bool) -> None:
        stream = self._streams.get(number)
        if stream is not None:
            if content:
                stream.arrived(content)
                self._unread += len(content)
                if self._unread > MAX_UNREAD:
                    self._room.clear()
            if fin:
                stream.arrived(None)
                self._closed_one_side(number)

    def _closed_one_side(self, number: int) -> None:
        """Forget a stream when both sides have closed it."""
        if number in self._half_closed:
            self._half_closed.discard(number)
            self._streams.pop(number, None)
        elif number in self._streams:
            self._half_closed.add(number)


def asks_for_spdy(request: web.Request) -> bool:
    return request.headers.get("Upgrade", "").upper().startswith("SPDY/")


def offered_versions(request: web.Request) -> list[str]:
    """What the client would speak above SPDY, as many headers or one with commas."""
    return [each.strip() for line in request.headers.getall(VERSIONS, []) for each in line.split(",") if each.strip()]
