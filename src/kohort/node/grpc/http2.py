"""One HTTP/2 connection that carries gRPC, in either role. `client` and `server` are built on it.

A reader task feeds `h2` and hands what arrives to the `Stream` it belongs to; a stream cuts the bytes into messages.
When the connection ends, for whatever reason, every stream ends with it, and opening another one fails: no call waits
for an answer that cannot come any more.

| limit                             | what happens beyond it                                                        |
|-----------------------------------|-------------------------------------------------------------------------------|
| a message larger than `LARGEST`   | the stream is reset, the call fails with RESOURCE_EXHAUSTED                   |
| more unread than that             | the peer may not send more until the reader of the stream has caught up       |
| streams that the peer permits     | `open` waits for a free one                                                   |
| frames that break the protocol    | the connection is closed                                                      |
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RequestReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import H2Error, NoSuchStreamError, StreamClosedError
from h2.settings import SettingCodes, Settings

LARGEST: Final = 16 << 20
"""Bytes of one message, as kubelet accepts them."""
WINDOW: Final = LARGEST + (1 << 20)
MOST_STREAMS: Final = 128
"""That a client may have open at once on a connection of ours."""
LARGEST_HEADERS: Final = 64 << 10
PREFIX: Final = 5
"""One byte that says whether a message is compressed, four with its length."""
CHUNK: Final = 65536

Headers = Sequence[tuple[str, str]]


class HeadersArrived(msgspec.Struct, frozen=True):
    """The first headers of the peer, or its trailers."""

    fields: dict[str, str]


class StreamFinished(msgspec.Struct, frozen=True):
    """The peer sends nothing more."""


class StreamFailed(msgspec.Struct, frozen=True):
    """The stream was reset, or the connection is lost (`error` is None then)."""

    reason: str
    error: int | None = None


Arrival = HeadersArrived | bytes | StreamFinished | StreamFailed
"""What a stream receives; bytes are one message."""


class Stream:
    """One call. What arrives is read in order; the end of it is the last item."""

    def __init__(self, connection: "Connection", id: int) -> None:
        self.id = id
        self.on_failure: Callable[[], object] | None = None
        """Called when the peer resets the stream or the connection is lost."""
        self.started = False
        """The server has sent its first headers."""
        self._connection = connection
        self._arrived: deque[Arrival] = deque()
        self._partial = bytearray()
        self._unread = 0
        self._withheld = 0
        self._wake = asyncio.Event()
        self._over = False

    async def read(self) -> Arrival:
        while not self._arrived:
            self._wake.clear()
            await self._wake.wait()
        item = self._arrived.popleft()
        if isinstance(item, bytes):
            self._unread -= len(item)
            if self._withheld and self._unread < LARGEST:
                self._connection.acknowledge(self, self._withheld)
                self._withheld = 0
        return item

    async def send(self, message: bytes, *, last: bool) -> None:
        """Send one message. Raises ConnectionError when the stream or the connection has ended."""
        await self._connection.send(self, b"\0" + len(message).to_bytes(4, "big") + message, last=last)

    def send_headers(self, headers: Headers, *, last: bool) -> None:
        """Raises ConnectionError."""
        self._connection.send_headers(self, headers, last=last)

    def reset(self, error: ErrorCodes = ErrorCodes.CANCEL) -> None:
        """End the stream on both sides; one that has ended stays as it is."""
        self._connection.reset(self, error)

    # For the connection

    def add(self, item: Arrival) -> None:
        if self._over:
            return
        self._over = isinstance(item, StreamFinished | StreamFailed)
        self._arrived.append(item)
        self._wake.set()

    def fail(self, reason: str, error: int | None = None) -> None:
        """The peer has reset the stream, or the connection is lost."""
        self.add(StreamFailed(reason, error))
        if self.on_failure is not None:
            self.on_failure()

    def add_data(self, data: bytes, counted: int) -> None:
        """`counted` is what the data takes of the window, which is given back unless too much is unread."""
        self._partial += data
        while len(self._partial) >= PREFIX:
            compressed, size = self._partial[0], int.from_bytes(self._partial[1:PREFIX], "big")
            if compressed or size > LARGEST:
                reason = "a compressed message" if compressed else f"a message of {size} bytes; at most {LARGEST}"
                self.add(StreamFailed(reason, ErrorCodes.ENHANCE_YOUR_CALM))
                self._partial.clear()
                break
            if len(self._partial) < PREFIX + size:
                break
            message = bytes(self._partial[PREFIX : PREFIX + size])
            del self._partial[: PREFIX + size]
            self._unread += size
            self.add(message)
        if self._unread < LARGEST:
            self._connection.acknowledge(self, counted)
        else:
            self._withheld += counted

    def finish(self) -> None:
        self.add(StreamFailed("the last message is incomplete") if self._partial else StreamFinished())


class Connection:
    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_request: Callable[[Stream, dict[str, str]], None] | None = None,
    ) -> None:
        """`on_request` makes this the server's side, and is called for every stream that the client opens."""
        self._reader = reader
        self._writer = writer
        self._on_request = on_request
        self._streams: dict[int, Stream] = {}
        self._changed = asyncio.Event()
        """Set when a window has grown or a stream has ended."""
        self.ended = ""
        """Why the connection cannot be used any more; empty while it can."""
        client = on_request is None
        self._h2 = H2Connection(H2Configuration(client_side=client, header_encoding="utf-8"))
        role = {SettingCodes.ENABLE_PUSH: 0} if client else {SettingCodes.MAX_CONCURRENT_STREAMS: MOST_STREAMS}
        settings = {
            SettingCodes.INITIAL_WINDOW_SIZE: WINDOW,
            SettingCodes.MAX_HEADER_LIST_SIZE: LARGEST_HEADERS,
            **role,
        }
        self._h2.local_settings = Settings(client=client, initial_values=settings)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(WINDOW)
        self._flush()

    async def run(self) -> None:
        """Read until the connection ends. Streams that are open then fail."""
        reason = "the connection was closed"
        try:
            while not self.ended and (data := await self._reader.read(CHUNK)):
                for event in self._h2.receive_data(data):
                    self._handle(event)
                self._flush()
        except H2Error as problem:
            reason = f"the peer broke the protocol: {problem}"
            self._flush()
        except (OSError, UnicodeDecodeError) as problem:
            reason = str(problem) or reason
        finally:
            self.close(self.ended or reason)

    def close(self, reason: str) -> None:
        self.ended = self.ended or reason
        for stream in list(self._streams.values()):
            stream.fail(self.ended)
        self._streams.clear()
        self._changed.set()
        self._writer.close()

    async def open(self, headers: Headers, message: bytes) -> Stream:
        """Begin a call with the only message of the client. Raises ConnectionError."""
        while not self.ended and len(self._streams) >= self._h2.remote_settings.max_concurrent_streams:
            await self._until_changed()
        self._check()
        try:
            stream = Stream(self, self._h2.get_next_available_stream_id())
            self._h2.send_headers(stream.id, headers)
        except H2Error as problem:
            self.close(str(problem))
            raise ConnectionError(self.ended) from problem
        self._streams[stream.id] = stream
        self._flush()
        try:
            await stream.send(message, last=True)
        except BaseException:
            stream.reset()
            raise
        return stream

    def send_headers(self, stream: Stream, headers: Headers, *, last: bool) -> None:
        self._check()
        try:
            self._h2.send_headers(stream.id, headers, end_stream=last)
        except H2Error as problem:
            raise ConnectionError(f"the stream has ended: {problem}") from problem
        self._flush()

    async def send(self, stream: Stream, data: bytes, *, last: bool) -> None:
        position = 0
        while position < len(data):
            self._check()
            try:
                room = min(self._h2.local_flow_control_window(stream.id), self._h2.max_outbound_frame_size)
                if room <= 0:
                    await self._until_changed()
                    continue
                chunk = data[position : position + room]
                position += len(chunk)
                self._h2.send_data(stream.id, chunk, end_stream=last and position == len(data))
            except H2Error as problem:
                raise ConnectionError(f"the stream has ended: {problem}") from problem
            self._flush()
            await self._writer.drain()

    def acknowledge(self, stream: Stream, amount: int) -> None:
        if amount and not self.ended:
            with contextlib.suppress(H2Error):
                self._h2.acknowledge_received_data(amount, stream.id)
            self._flush()

    def reset(self, stream: Stream, error: ErrorCodes) -> None:
        if self._streams.pop(stream.id, None) is not None and not self.ended:
            with contextlib.suppress(NoSuchStreamError, StreamClosedError):
                self._h2.reset_stream(stream.id, error)
            self._changed.set()
            self._flush()

    def finished(self, stream: Stream) -> None:
        """Both sides have sent everything."""
        if self._streams.pop(stream.id, None) is not None:
            self._changed.set()

    def _handle(self, event: Event) -> None:
        match event:
            case RequestReceived(stream_id=int(id), headers=headers) if self._on_request is not None:
                self._streams[id] = Stream(self, id)
                self._on_request(self._streams[id], _fields(headers))
            case ResponseReceived(stream_id=int(id), headers=headers):
                self._arrived(id, HeadersArrived(_fields(headers)))
            case TrailersReceived(stream_id=int(id), headers=headers):
                self._arrived(id, HeadersArrived(_fields(headers)))
            case DataReceived(stream_id=int(id), data=data, flow_controlled_length=counted):
                self._data_arrived(id, data or b"", counted or 0)
            case StreamEnded(stream_id=int(id)) if id in self._streams:
                self._streams[id].finish()
                if self._on_request is None:
                    self.finished(self._streams[id])
            case StreamReset(stream_id=int(id), error_code=error):
                if (stream := self._streams.pop(id, None)) is not None:
                    stream.fail("the peer has reset the stream", int(error or 0))
                self._changed.set()
            case ConnectionTerminated():
                self.ended = "the peer has announced its end"
            case _:
                self._changed.set()  # settings and window updates among others

    def _arrived(self, id: int, item: Arrival) -> None:
        if (stream := self._streams.get(id)) is not None:
            stream.add(item)

    def _data_arrived(self, id: int, data: bytes, counted: int) -> None:
        stream = self._streams.get(id)
        if stream is not None:
            stream.add_data(data, counted)
        elif counted:  # of a call that was given up: the window of the connection must not shrink
            with contextlib.suppress(H2Error):
                self._h2.acknowledge_received_data(counted, id)

    async def _until_changed(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _check(self) -> None:
        if self.ended:
            raise ConnectionError(self.ended)

    def _flush(self) -> None:
        if (data := self._h2.data_to_send()) and not self._writer.is_closing():
            self._writer.write(data)


def _fields(headers: "Sequence[tuple[bytes | str, bytes | str]] | None") -> dict[str, str]:
    return {_text(name): _text(value) for name, value in headers or ()}


def _text(value: "bytes | str") -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
