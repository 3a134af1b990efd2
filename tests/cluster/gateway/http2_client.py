"""A client that speaks HTTP/2, with as little between the test and the wire as possible."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, ResponseReceived, StreamEnded, StreamReset


class Http2Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        configuration = H2Configuration(client_side=True, header_encoding="utf-8", validate_outbound_headers=False)
        self.h2 = H2Connection(configuration)
        self.closed = asyncio.Event()
        self.h2.initiate_connection()
        self._events: dict[int, asyncio.Queue[Event | None]] = {}
        self._task = asyncio.ensure_future(self._read())
        self.flush()

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    async def _read(self) -> None:
        """Until the connection ends. If the gateway closes it while data is under way to it, the kernel resets it."""
        with contextlib.suppress(ConnectionError):
            while data := await self._reader.read(65536):
                self._receive(data)
        self.closed.set()
        for queue in self._events.values():
            queue.put_nowait(None)

    def _receive(self, data: bytes) -> None:
        for event in self.h2.receive_data(data):
            stream = getattr(event, "stream_id", None)
            if isinstance(event, DataReceived):
                self.h2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
            if stream in self._events:
                self._events[stream].put_nowait(event)
        self.flush()

    def send(self, path: str, *headers: tuple[str, str], method: str = "GET", end: bool = True) -> int:
        stream = self.h2.get_next_available_stream_id()
        self._events[stream] = asyncio.Queue()
        head: Sequence[tuple[str, str]] = [
            (":method", method),
            (":path", path),
            (":scheme", "http"),
            (":authority", "llm.example"),
            *headers,
        ]
        self.h2.send_headers(stream, head, end_stream=end)
        self.flush()
        return stream

    async def event(self, stream: int) -> Event | None:
        async with asyncio.timeout(120):
            return await self._events[stream].get()

    async def status(self, stream: int) -> int:
        """Of the head of the answer; 0 if the stream was reset, -1 if the connection ended."""
        while True:
            match await self.event(stream):
                case ResponseReceived(headers=headers):
                    return next(int(value) for name, value in headers or () if name in (":status", b":status"))
                case StreamReset():
                    return 0
                case None:
                    return -1

    async def part(self, stream: int) -> bytes:
        """The next part of the body, empty at its end."""
        while True:
            match await self.event(stream):
                case DataReceived(data=data) if data:
                    return data
                case StreamEnded():
                    return b""
                case StreamReset() | None:
                    raise ConnectionResetError(stream)

    async def body(self, stream: int) -> bytes:
        text = b""
        while part := await self.part(stream):
            text += part
        return text

    async def get(self, path: str) -> tuple[int, bytes]:
        stream = self.send(path)
        return await self.status(stream), await self.body(stream)

    async def close(self) -> None:
        self._task.cancel()
        self.writer.close()


@asynccontextmanager
async def http2(port: int, tls: ssl.SSLContext | None = None, name: str = "") -> AsyncIterator[Http2Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name or None)
    client = Http2Client(reader, writer)
    try:
        yield client
    finally:
        await client.close()
