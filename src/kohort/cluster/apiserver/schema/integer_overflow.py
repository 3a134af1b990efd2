"""Numbers that are too large for their field, where Go takes them without looking.

A body that is decoded is refused if a number does not fit. The result of a strategic merge patch or of an apply is not
decoded: it is converted, and there a number keeps its lowest 32 bits. Validation then sees a value that the client did
not write, and usually refuses it by the name of its field.
"""

from kohort.cluster.apiserver.schema.node import Node
from kohort.objects.json_types import Json


def wrapped(value: Json, node: Node) -> Json:
    """The value, with all 32-bit integers that overflow wrapped around, in place where it can be."""
    if type(value) is int:
        return _wrap(value) if node.format == "int32" and not -(2**31) <= value < 2**31 else value
    if type(value) is dict:
        for key, below in value.items():
            if (field := node.field(key)) is not None:
                value[key] = wrapped(below, field)
    elif type(value) is list and node.type == "array":
        value[:] = [wrapped(item, node.items) for item in value]
    return value


def _wrap(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31
