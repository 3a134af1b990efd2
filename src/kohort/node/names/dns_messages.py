"""DNS messages, as far as a name server of a node needs them (RFC 1035; sizes of RFC 6891). Pure."""

import socket
import struct
from collections.abc import Iterable
from typing import Final

import msgspec

A, CNAME, SOA, PTR, AAAA, SRV, OPT, ANY = 1, 5, 6, 12, 28, 33, 41, 255
INTERNET: Final = 1
NO_ERROR, FORMAT_ERROR, SERVER_FAILURE, NO_SUCH_NAME = 0, 1, 2, 3
RESPONSE, AUTHORITATIVE, TRUNCATED, RECURSION_DESIRED, RECURSION = 0x8000, 0x0400, 0x0200, 0x0100, 0x0080
PLAIN_SIZE: Final = 512
LARGEST_SIZE: Final = 4096
TTL: Final = 5
_HEADER: Final = struct.Struct(">HHHHHH")


class Unreadable(Exception):
    """Not a question that can be answered."""


class Question(msgspec.Struct, frozen=True):
    number: int
    name: str
    """Lower case, without the dot at the end."""
    kind: int
    flags: int = 0
    size: int = PLAIN_SIZE
    """The longest answer that the other side takes in a datagram."""
    original: bytes = b""
    """The name as it was written, with its kind and class: answers repeat it."""


class Srv(msgspec.Struct, frozen=True, order=True):
    target: str
    port: int


class Record(msgspec.Struct, frozen=True):
    """`value` is an address, a name, or an Srv, as `kind` says."""

    name: str
    kind: int
    value: str | Srv


def parse_question(data: bytes) -> Question:
    """Raises Unreadable."""
    try:
        number, flags, questions, _, _, extras = _HEADER.unpack_from(data)
        if flags & RESPONSE or questions != 1:
            raise Unreadable("not one question")
        name, end = _name(data, _HEADER.size)
        kind, family = struct.unpack_from(">HH", data, end)
    except (struct.error, IndexError, UnicodeDecodeError) as problem:
        raise Unreadable(str(problem)) from None
    if family != INTERNET:
        raise Unreadable("not about the internet")
    end += 4
    size = PLAIN_SIZE
    if extras and data[end : end + 1] == b"\0" and data[end + 1 : end + 3] == struct.pack(">H", OPT):
        size = min(max(int.from_bytes(data[end + 3 : end + 5], "big"), PLAIN_SIZE), LARGEST_SIZE)
    return Question(number, name.lower(), kind, flags, size, data[_HEADER.size : end])


def answer(question: Question, records: Iterable[Record], code: int = NO_ERROR, *, zone: str = "") -> bytes:
    """The whole message. When there is nothing to say, `zone` says who knows that."""
    given = [_record(each, question) for each in records]
    authority = [] if given or not zone else [_start_of_authority(zone)]
    flags = RESPONSE | AUTHORITATIVE | RECURSION | (question.flags & RECURSION_DESIRED) | code
    head = _HEADER.pack(question.number, flags, 1, len(given), len(authority), 0)
    return head + question.original + b"".join(given) + b"".join(authority)


def shortened(message: bytes, question: Question) -> bytes:
    """What fits into a datagram: all of it, or the word that it does not."""
    if len(message) <= question.size:
        return message
    number, flags, *_ = _HEADER.unpack_from(message)
    return _HEADER.pack(number, flags | TRUNCATED, 1, 0, 0, 0) + question.original


def written_name(name: str) -> bytes:
    labels = [label.encode() for label in name.split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def _name(data: bytes, position: int) -> tuple[str, int]:
    """A name without pointers, as questions have it."""
    labels = []
    while length := data[position]:
        if length > 63:
            raise Unreadable("a compressed question")
        labels.append(data[position + 1 : position + 1 + length].decode())
        position += 1 + length
    return ".".join(labels), position + 1


def _record(record: Record, question: Question) -> bytes:
    name = b"\xc0\x0c" if record.name == question.name else written_name(record.name)
    match record.value:
        case Srv(target, port):
            content = struct.pack(">HHH", 0, 100, port) + written_name(target)
        case str(text) if record.kind == A:
            content = socket.inet_aton(text)
        case str(text):
            content = written_name(text)
    return name + struct.pack(">HHIH", record.kind, INTERNET, TTL, len(content)) + content


def _start_of_authority(zone: str) -> bytes:
    content = written_name(f"ns.dns.{zone}") + written_name(f"hostmaster.{zone}")
    content += struct.pack(">IIIII", 1, 7200, 1800, 86400, TTL)
    return written_name(zone) + struct.pack(">HHIH", SOA, INTERNET, TTL, len(content)) + content
