import contextlib
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.node.grpc.messages import Empty, Everything, Inner, Text

from kohort.node.grpc.codec import DecodeError, decode, encode

SIGNED = st.integers(-(1 << 63), (1 << 63) - 1)
INNERS = st.builds(Inner, st.text(max_size=20), SIGNED)
MESSAGES = st.builds(
    Everything,
    text=st.text(),
    content=st.binary(),
    number=SIGNED,
    large=st.integers(0, (1 << 64) - 1),
    flag=st.booleans(),
    ratio=st.floats(allow_nan=False),
    inner=st.none() | INNERS,
    words=st.lists(st.text(max_size=20)).map(tuple),
    numbers=st.lists(SIGNED).map(tuple),
    inners=st.lists(INNERS, max_size=4).map(tuple),
    labels=st.dictionaries(st.text(max_size=9), st.text(max_size=9)),
    ratios=st.lists(st.floats(allow_nan=False), max_size=4).map(tuple),
    flags=st.lists(st.booleans(), max_size=4).map(tuple),
    far=st.text(max_size=9),
)

KNOWN = [
    # The first two are the examples of the description of the encoding; all others were worked out by hand from it.
    pytest.param(Everything(number=150), "18 96 01", id="varint"),
    pytest.param(Everything(text="testing"), "0a 07 74 65 73 74 69 6e 67", id="string"),
    pytest.param(Everything(), "", id="zero values are absent"),
    pytest.param(Everything(number=-1), "18 ff ff ff ff ff ff ff ff ff 01", id="negative: ten bytes"),
    pytest.param(Everything(number=-(1 << 63)), "18 80 80 80 80 80 80 80 80 80 01", id="smallest int64"),
    pytest.param(Everything(large=(1 << 64) - 1), "20 ff ff ff ff ff ff ff ff ff 01", id="largest uint64"),
    pytest.param(Everything(content=b"\x00\xff"), "12 02 00 ff", id="bytes"),
    pytest.param(Everything(flag=True), "28 01", id="bool"),
    pytest.param(Everything(ratio=1.0), "31 00 00 00 00 00 00 f0 3f", id="double"),
    pytest.param(Everything(inner=Inner("a", 3)), "3a 05 0a 01 61 10 03", id="message"),
    pytest.param(Everything(inner=Inner()), "3a 00", id="a message that is there and empty"),
    pytest.param(Everything(words=("a", "")), "42 01 61 42 00", id="repeated strings, empty ones too"),
    pytest.param(Everything(numbers=(3, 270, 86942)), "4a 06 03 8e 02 9e a7 05", id="packed"),
    pytest.param(Everything(numbers=(0,)), "4a 01 00", id="a zero in a list is written"),
    pytest.param(Everything(inners=(Inner(), Inner("b"))), "52 00 52 03 0a 01 62", id="repeated messages"),
    pytest.param(Everything(labels={"a": "b", "c": ""}), "5a 06 0a 01 61 12 01 62 5a 03 0a 01 63", id="map"),
    pytest.param(Everything(flags=(True, False)), "6a 02 01 00", id="packed bools"),
    pytest.param(Everything(far="x"), "fa ff ff ff 0f 01 78", id="the largest number of a field"),
]


@pytest.mark.parametrize(("message", "written"), KNOWN)
def test_messages_have_the_bytes_that_protobuf_says(message: Everything, written: str) -> None:
    assert encode(message) == bytes.fromhex(written)
    assert decode(Everything, bytes.fromhex(written)) == message


@given(MESSAGES)
def test_what_is_written_is_read_again(message: Everything) -> None:
    assert decode(Everything, encode(message)) == message


@given(MESSAGES)
def test_unknown_fields_are_skipped(message: Everything) -> None:
    assert decode(Empty, encode(message)) == Empty()
    assert decode(Text, encode(message)) == Text(message.text)


@given(MESSAGES, MESSAGES)
def test_two_messages_in_a_row_are_merged(first: Everything, second: Everything) -> None:
    merged = decode(Everything, encode(first) + encode(second))
    assert merged.words == first.words + second.words
    assert merged.labels == {**first.labels, **second.labels}
    assert merged.text == (second.text or first.text)
    if first.inner is not None and second.inner is not None:
        assert merged.inner == Inner(second.inner.name or first.inner.name, second.inner.attempt or first.inner.attempt)
    else:
        assert merged.inner == (second.inner if first.inner is None else first.inner)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    try:
        message = decode(Everything, data)
    except DecodeError:
        return
    assert decode(Everything, encode(message)) == message or any(
        math.isnan(each) for each in (message.ratio, *message.ratios)
    )


@given(MESSAGES, st.integers(0, 1 << 16), st.integers(0, 255))
def test_a_damaged_message_is_another_one_or_refused(message: Everything, place: int, byte: int) -> None:
    data = bytearray(encode(message))
    if data:
        data[place % len(data)] = byte
    with contextlib.suppress(DecodeError):
        decode(Everything, bytes(data))


@pytest.mark.parametrize(
    ("data", "because"),
    [
        ("18", "ends in the middle"),
        ("18 96", "ends in the middle"),
        ("18 " + "ff " * 11, "more than 10 bytes"),
        ("0a 05 61", "5 bytes, of which 1"),
        ("0a ff ff ff ff 0f", "of which 0"),
        ("31 00 00", "8 bytes, of which 2"),
        ("00 01", "field number 0"),
        ("1b", "wire type 3"),
        ("0a 01 ff", "not UTF-8"),
        ("3a 02 0a 05", "of which 0"),
        ("62 03 00 00 00", "a double has 3 bytes"),
    ],
)
def test_malformed_bytes_are_refused(data: str, because: str) -> None:
    with pytest.raises(DecodeError, match=because):
        decode(Everything, bytes.fromhex(data))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param("48 03 48 8e 02", Everything(numbers=(3, 270)), id="numbers that are not packed"),
        pytest.param("48 01 4a 02 02 03", Everything(numbers=(1, 2, 3)), id="both forms"),
        pytest.param("18 01 18 02", Everything(number=2), id="the last one counts"),
        pytest.param("3a 03 0a 01 61 3a 02 10 05", Everything(inner=Inner("a", 5)), id="parts of a message"),
        pytest.param("28 02", Everything(flag=True), id="any number but 0 is true"),
        pytest.param("1a 01 61", Everything(), id="another wire type than declared"),
        pytest.param("0d 01 02 03 04 18 05", Everything(number=5), id="32 bits, which no field here has"),
    ],
)
def test_every_permitted_form_is_read(data: str, message: Everything) -> None:
    assert decode(Everything, bytes.fromhex(data)) == message


def test_sixteen_megabytes_are_read_and_written() -> None:
    message = Everything(content=bytes(16 << 20), words=("a",) * 1000)
    assert decode(Everything, encode(message)) == message


def test_doubles_are_little_endian() -> None:
    assert encode(Everything(ratios=(0.5, -2.0))) == bytes.fromhex("62 10") + struct.pack("<dd", 0.5, -2.0)


def test_a_field_without_a_number_and_a_number_given_twice_are_refused() -> None:
    from typing import Annotated

    from kohort.node.grpc.codec import Message

    class Unnumbered(Message, frozen=True):
        name: str = ""

    class Twice(Message, frozen=True):
        one: Annotated[str, 1] = ""
        other: Annotated[str, 1] = ""

    with pytest.raises(TypeError, match=r"Unnumbered\.name has no number"):
        encode(Unnumbered())
    with pytest.raises(TypeError, match="one number to two fields"):
        decode(Twice, b"")
