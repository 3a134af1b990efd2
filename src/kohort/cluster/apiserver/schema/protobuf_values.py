"""Values that have a JSON form of their own, as protobuf carries them: quantities, moments, JSON in a message."""

import msgspec

from kohort.cluster.apiserver.schema import go_time, scalars
from kohort.cluster.apiserver.schema.protobuf_wire import LENGTH, VARINT, fields, signed
from kohort.objects.json_types import Json


def quantity(data: bytes, at: int, stop: int) -> Json:
    for number, wire, start, end in fields(data, at, stop):
        if number == 1 and wire == LENGTH and start != end:
            return scalars.quantity(data[start:end].decode())
    return "0"


def int_or_string(data: bytes, at: int, stop: int) -> Json:
    is_text, whole, text = False, 0, ""
    for number, wire, start, end in fields(data, at, stop):
        if number == 1 and wire == VARINT:
            is_text = start == 1
        elif number == 2 and wire == VARINT:
            whole = signed(start)
        elif number == 3 and wire == LENGTH:
            text = data[start:end].decode()
    return text if is_text else whole


def int_or_string_unless_zero(data: bytes, at: int, stop: int) -> Json:
    """Without a pointer, 0 is how Go says that nothing was set."""
    value = int_or_string(data, at, stop)
    return None if value == 0 else value


def moment(data: bytes, at: int, stop: int, micro: bool) -> Json:
    if at == stop:
        return None
    seconds = nanos = 0
    for number, wire, value, _ in fields(data, at, stop):
        if wire == VARINT and number == 1:
            seconds = signed(value)
        elif wire == VARINT and number == 2:
            nanos = signed(value)
    return go_time.from_unix(seconds, nanos, micro=micro)


def time(data: bytes, at: int, stop: int) -> Json:
    return moment(data, at, stop, micro=False)


def micro_time(data: bytes, at: int, stop: int) -> Json:
    return moment(data, at, stop, micro=True)


def embedded_json(data: bytes, at: int, stop: int) -> Json:
    for number, wire, start, end in fields(data, at, stop):
        if number == 1 and wire == LENGTH and start != end:
            return msgspec.json.decode(data[start:end])
    return None
