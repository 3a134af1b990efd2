"""The base of all typed views of API objects.

A view holds only the fields that kohort reads; everything else on the wire is skipped while decoding, which is
what makes a cache of ten thousand pods small. Views are frozen, so a cache hands them out without copying.

Absent fields take the API's zero value: empty text, empty tuple, empty dictionary. Only where absent and zero mean
different things is a field optional. JSON `null` stands for an absent value in Kubernetes; fields for which servers are
known to write it (`creationTimestamp`, the lists of an EndpointSlice, …) accept it, and `without_nulls` clears any
other document that does not decode.
"""

import msgspec

from kohort.objects.json_types import Json


class View(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Fields in Python's spelling, `camelCase` on the wire. Views never form cycles, so the collector skips them."""


def without_nulls(document: bytes) -> bytes:
    """The same JSON document without `null` members: what Go's decoder would have made of it.

    >>> without_nulls(b'{"spec":{"containers":null,"nodeName":"a"},"items":[null,1]}')
    b'{"spec":{"nodeName":"a"},"items":[null,1]}'
    """
    return msgspec.json.encode(_stripped(msgspec.json.decode(document)))


def _stripped(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _stripped(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_stripped(member) for member in value]
    return value
