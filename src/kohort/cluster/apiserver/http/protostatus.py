"""A Status in protobuf, for clients that accept nothing else.

It is the only thing that is ever answered in that form: such a client is told that we speak JSON, in its own language.
"""

from kohort.kube.errors import Status, StatusCause, StatusDetails

MAGIC = b"k8s\x00"


def encode_status(status: Status) -> bytes:
    """The Status in the envelope that Kubernetes puts around everything: magic, type, message."""
    kind = _text(1, "v1") + _text(2, "Status")
    message = _message(1, _text(3, status.metadata.continue_)) + _text(2, status.status or "Failure")
    message += _text(3, status.message) + _text(4, status.reason)
    if status.details is not None:
        message += _message(5, _details(status.details))
    message += _number(6, status.code)
    return MAGIC + _message(1, kind) + _message(2, message) + _text(3, "") + _text(4, "")


def _details(details: StatusDetails) -> bytes:
    fields = _text(1, details.name) + _text(2, details.group) + _text(3, details.kind)
    fields += b"".join(_message(4, _cause(cause)) for cause in details.causes)
    return fields + _number(5, details.retry_after_seconds) + _text(6, details.uid)


def _cause(cause: StatusCause) -> bytes:
    return _text(1, cause.reason) + _text(2, cause.message) + _text(3, cause.field)


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
