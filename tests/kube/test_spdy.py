"""SPDY/3.1 framing, as far as port forwarding uses it."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.kube import spdy


def test_the_dictionary_is_that_of_the_protocol() -> None:
    # Length and checksum of the dictionary in the published draft of SPDY/3.
    assert len(spdy.DICTIONARY) == 1423
    assert zlib.adler32(spdy.DICTIONARY) == 0xE3C6A7C2


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=5), st.integers(1, 50))
def test_frames_survive_any_chunking(payloads: list[bytes], step: int) -> None:
    writer, reader = spdy.Writer(), spdy.Reader()
    sent = writer.open(1, {"streamtype": "data", "port": "80"})
    sent += b"".join(writer.data(1, payload) for payload in payloads)
    sent += writer.data(1, b"", fin=True) + writer.open(3, {"streamtype": "error", "port": "80"})
    frames = [frame for start in range(0, len(sent), step) for frame in reader.feed(sent[start : start + step])]
    assert frames[0] == spdy.StreamOpened(1, {"streamtype": "data", "port": "80"}, False)
    data = [frame for frame in frames[1:-2] if isinstance(frame, spdy.StreamData)]
    assert len(data) == len(frames[1:-2])
    assert {(frame.stream, frame.fin) for frame in data} == {(1, False)}
    assert b"".join(frame.data for frame in data) == b"".join(payloads)
    assert frames[-2] == spdy.StreamData(1, b"", True)
    assert frames[-1] == spdy.StreamOpened(3, {"streamtype": "error", "port": "80"}, False)


def test_a_captured_syn_stream() -> None:
    # The first frame of a SPDY connection by the reference implementation: stream 1, streamtype error, port 8080.
    plain = b"\0\0\0\2\0\0\0\x0astreamtype\0\0\0\x05error\0\0\0\x04port\0\0\0\x048080"
    compressor = zlib.compressobj(9, zdict=spdy.DICTIONARY)
    block = compressor.compress(plain) + compressor.flush(zlib.Z_SYNC_FLUSH)
    frame = b"\x80\x03\x00\x01\x00" + (10 + len(block)).to_bytes(3, "big") + b"\0\0\0\1\0\0\0\0\0\0" + block
    (opened,) = spdy.Reader().feed(frame)
    assert opened == spdy.StreamOpened(1, {"streamtype": "error", "port": "8080"}, False)


def test_control_frames() -> None:
    writer = spdy.Writer()
    assert list(spdy.Reader().feed(writer.ping(7) + writer.reset(5))) == [spdy.Ping(7), spdy.StreamReset(5)]
    assert list(spdy.Reader().feed(b"\x80\x03\x00\x07\x00\x00\x00\x08" + bytes(8))) == [spdy.GoAway()]
    assert list(spdy.Reader().feed(b"\x80\x03\x00\x04\x00\x00\x00\x04" + bytes(4))) == []


@pytest.mark.parametrize(
    "frame", [b"\x80\x02\x00\x01\x00\x00\x00\x00", b"\x80\x03\x00\x01\x00\x00\x00\x0c" + bytes(12)]
)
def test_what_is_not_spdy_is_refused(frame: bytes) -> None:
    with pytest.raises(spdy.ProtocolError):
        list(spdy.Reader().feed(frame))


@given(st.dictionaries(st.text("abcdefgh-", min_size=1, max_size=20), st.text(max_size=100), max_size=8))
def test_headers_survive_compression(headers: dict[str, str]) -> None:
    """Values end at a zero byte: SPDY joins several values of a header with it."""
    (opened,) = spdy.Reader().feed(spdy.Writer().open(1, headers))
    assert opened == spdy.StreamOpened(1, {name: value.partition("\0")[0] for name, value in headers.items()}, False)


def test_all_header_blocks_of_a_connection_share_one_compression() -> None:
    writer, reader = spdy.Writer(), spdy.Reader()
    first = writer.open(1, {"streamtype": "data"})
    reply = writer.reply(1, {"status": "ok"})
    second = writer.open(3, {"streamtype": "data"})
    frames = list(reader.feed(first + reply + second))
    assert frames == [
        spdy.StreamOpened(1, {"streamtype": "data"}, False),
        spdy.StreamOpened(3, {"streamtype": "data"}, False),
    ]
    with pytest.raises(spdy.ProtocolError, match="unreadable headers"):
        list(spdy.Reader().feed(second))


def test_large_data_is_sent_in_several_frames_and_only_the_last_ends_the_stream() -> None:
    data = bytes(spdy.MAX_FRAME + 1)
    sent = spdy.Writer().data(1, data, fin=True)
    frames = [frame for frame in spdy.Reader().feed(sent) if isinstance(frame, spdy.StreamData)]
    assert [frame.fin for frame in frames] == [False, True]
    assert b"".join(frame.data for frame in frames) == data


def test_a_data_frame_that_has_arrived_in_part_is_passed_on() -> None:
    sent, reader = spdy.Writer().data(5, b"abcdef", fin=True), spdy.Reader()
    assert list(reader.feed(sent[:11])) == [spdy.StreamData(5, b"abc", False)]
    assert list(reader.feed(sent[11:])) == [spdy.StreamData(5, b"def", True)]


def test_a_control_frame_that_is_too_large_is_rejected_before_it_is_buffered() -> None:
    head = b"\x80\x03\x00\x01\x00" + (spdy.MAX_CONTROL_FRAME + 1).to_bytes(3, "big")
    with pytest.raises(spdy.ProtocolError, match=f"at most {spdy.MAX_CONTROL_FRAME} are allowed"):
        list(spdy.Reader().feed(head))


def test_headers_that_grow_too_large_when_decompressed_are_rejected() -> None:
    sent = spdy.Writer().open(1, {"bomb": "x" * (spdy.MAX_HEADERS + 1)})
    with pytest.raises(spdy.ProtocolError, match=f"more than {spdy.MAX_HEADERS} bytes"):
        list(spdy.Reader().feed(sent))


@given(st.binary(max_size=300))
def test_any_bytes_are_frames_or_a_protocol_error(data: bytes) -> None:
    try:
        frames = list(spdy.Reader().feed(data))
    except spdy.ProtocolError:
        return
    assert sum(len(frame.data) for frame in frames if isinstance(frame, spdy.StreamData)) <= len(data)
