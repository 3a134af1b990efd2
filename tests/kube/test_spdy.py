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
