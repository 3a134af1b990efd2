"""SPDY connections of exec and port-forward: whatever a client sends, the node buffers a bounded part of it."""

import asyncio
import contextlib
import struct
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Iterable

import pytest

from kohort.kube import spdy
from kohort.node.api.port_forward import serve_streams
from kohort.node.api.spdy_connection import MAX_STREAMS, MAX_UNREAD, SpdyConnection, Stream

MEGABYTE = 1024 * 1024


class Carrier:
    """Delivers what a client sends, and records what it is sent."""

    def __init__(self, sent: Iterable[bytes]) -> None:
        self._sent = iter(sent)
        self.delivered = 0
        self.answers: list[bytes] = []
        self.closed = False

    async def received(self) -> AsyncIterator[bytes]:
        for data in self._sent:
            self.delivered += len(data)
            yield data

    async def send(self, data: bytes) -> None:
        self.answers.append(data)

    async def close(self) -> None:
        self.closed = True


class UnreachablePod:
    async def connect(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise ConnectionRefusedError("connection refused")


async def streams_of(carrier: Carrier) -> list[Stream]:
    return [stream async for stream in SpdyConnection(carrier).opened()]


def control_head(kind: int, size: int) -> bytes:
    return struct.pack(">HHI", 0x8000 | spdy.VERSION, kind, size)


def opened_with(block: bytes) -> bytes:
    payload = struct.pack(">IIBB", 1, 0, 0, 0) + block
    return control_head(spdy.SYN_STREAM, len(payload)) + payload


def compressed(plain: bytes) -> bytes:
    compressor = zlib.compressobj(9, zdict=spdy.DICTIONARY)
    return compressor.compress(plain) + compressor.flush(zlib.Z_SYNC_FLUSH)


# --- frames -----------------------------------------------------------------------------------------------------------


def test_a_data_frame_of_the_largest_size_is_passed_on_in_pieces() -> None:
    reader = spdy.Reader()
    tracemalloc.start()
    try:
        begin = struct.pack(">I", 1) + b"\1" + spdy.MAX_FRAME.to_bytes(3, "big")
        frames = list(reader.feed(begin))
        total, last = 0, False
        while total < spdy.MAX_FRAME:
            for frame in reader.feed(bytes(min(65536, spdy.MAX_FRAME - total))):
                assert isinstance(frame, spdy.StreamData)
                assert not last, "the end comes with the last piece"
                total, last = total + len(frame.data), frame.fin
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (frames, total, last) == ([], spdy.MAX_FRAME, True)
    assert peak < MEGABYTE
    assert list(reader.feed(spdy.Writer().ping(1))) == [spdy.Ping(1)], "the next frame is understood"


@pytest.mark.parametrize("kind", [spdy.SYN_STREAM, spdy.SETTINGS, spdy.PING, 77])
def test_a_control_frame_that_is_too_large_is_refused_before_it_arrives(kind: int) -> None:
    with pytest.raises(spdy.ProtocolError, match="at most 65536 are allowed"):
        list(spdy.Reader().feed(control_head(kind, spdy.MAX_FRAME)))


@pytest.mark.parametrize("size", [100 * 1024, 50 * MEGABYTE])
def test_headers_that_decompress_to_much_more_are_refused(size: int) -> None:
    block = compressed(struct.pack(">II", 1, 1) + b"a" + struct.pack(">I", size) + bytes(size))
    assert len(block) < 60_000
    tracemalloc.start()
    try:
        with pytest.raises(spdy.ProtocolError, match="headers of more than"):
            list(spdy.Reader().feed(opened_with(block)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEGABYTE


def test_a_number_of_headers_that_are_not_there_is_refused() -> None:
    with pytest.raises(spdy.ProtocolError):
        list(spdy.Reader().feed(opened_with(compressed(struct.pack(">I", 0xFFFFFFFF)))))


def test_header_frames_without_end_are_not_collected() -> None:
    writer, reader = spdy.Writer(), spdy.Reader()
    list(reader.feed(writer.open(1, {"streamtype": "error"})))
    tracemalloc.start()
    try:
        for number in range(2000):
            assert list(reader.feed(writer.reply(1, {"name": f"{number}" * 50}))) == []
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 100_000


# --- streams ----------------------------------------------------------------------------------------------------------


async def test_more_streams_than_allowed_are_refused_one_by_one() -> None:
    writer = spdy.Writer()
    carrier = Carrier(writer.open(2 * number + 1, {"streamtype": "data"}) for number in range(MAX_STREAMS + 10))
    assert len(await streams_of(carrier)) == MAX_STREAMS
    refused = [answer for answer in carrier.answers if answer[2:4] == bytes([0, spdy.RST_STREAM])]
    assert len(refused) == 10
    assert {int.from_bytes(answer[12:16], "big") for answer in refused} == {spdy.REFUSED_STREAM}


async def test_streams_that_both_sides_have_closed_make_room_for_others() -> None:
    writer = spdy.Writer()

    def frames() -> Iterable[bytes]:
        for number in range(1, 4 * MAX_STREAMS, 2):
            yield writer.open(number, {"streamtype": "data"}) + writer.data(number, b"", fin=True)

    carrier = Carrier(frames())
    count = 0
    async for stream in SpdyConnection(carrier).opened():
        await stream.write(b"", last=True)
        count += 1
    assert count == 2 * MAX_STREAMS


async def test_a_stream_that_is_opened_twice_ends_the_connection() -> None:
    writer = spdy.Writer()
    carrier = Carrier([writer.open(1, {}), writer.open(1, {}), writer.open(3, {})])
    assert [stream.number for stream in await streams_of(carrier)] == [1]


async def test_streams_opened_and_reset_without_end_end_the_connection() -> None:
    writer = spdy.Writer()

    def frames() -> Iterable[bytes]:
        for number in range(1, 20 * MAX_STREAMS, 2):
            yield writer.open(number, {"streamtype": "error", "requestid": str(number)}) + writer.reset(number)

    carrier = Carrier(frames())
    await serve_streams(SpdyConnection(carrier), UnreachablePod().connect)
    assert carrier.closed
    assert len(carrier.answers) <= MAX_STREAMS + 1


async def test_data_that_is_not_read_stops_the_client() -> None:
    writer = spdy.Writer()

    def frames() -> Iterable[bytes]:
        yield writer.open(1, {"streamtype": "data"})
        for _ in range(100):
            yield writer.data(1, bytes(MEGABYTE))

    carrier = Carrier(frames())
    opened = SpdyConnection(carrier).opened()
    stream = await anext(opened)
    listening = asyncio.ensure_future(anext(opened, None))
    for _ in range(300):
        await asyncio.sleep(0)
    assert carrier.delivered < MAX_UNREAD + 2 * MEGABYTE
    before = carrier.delivered
    for _ in range(3):
        await stream.read()
        for _ in range(10):
            await asyncio.sleep(0)
    assert before < carrier.delivered < MAX_UNREAD + 5 * MEGABYTE
    listening.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await listening
