"""Simple requests: complete in one piece, with no feature of HTTP that needs more than a look at the headers.

Nearly all requests to an API server are simple, thousands a second, and reading one takes no more than finding the end
of its head. `read_simple_request` returns None for everything else, from chunked bodies to malformed headers, and the
HTTP parser of aiohttp decides on those. Nothing that could be understood in two ways is accepted here, so there is no
room for request smuggling.

The same client sends the same headers with every request, except for the length of its bodies, so parsed headers are
cached by their bytes.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

LONG_BLOCK: Final = 4096
"""Blocks of headers longer than this are not remembered."""
MAX_BLOCK: Final = 64 * 1024

_REQUEST_LINE: Final = re.compile(rb'(GET|POST|PUT|PATCH|DELETE) (/[!"$-~]*) HTTP/1\.1\r\n')
_BLOCK: Final = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]++:[ -~\t]*+\r\n)++")
_LENGTH: Final = re.compile(r"[0-9]{1,15}")
_SPECIAL: Final = frozenset({"expect", "te", "trailer", "transfer-encoding", "upgrade"})
"""Headers that change how a request is read or answered."""
_ONCE: Final = frozenset({"host", "content-length", "connection", "authorization"})
_KEEP_ALIVE: Final = {"": True, "keep-alive": True, "close": False}


@dataclass(frozen=True, slots=True)
class HeaderFields:
    """A block of headers, parsed."""

    headers: dict[str, str]
    length: int
    """Of the body."""
    keep_alive: bool
    """Whether another request may follow on the same connection."""


@dataclass(frozen=True, slots=True)
class SimpleRequest:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    keep_alive: bool
    size: int
    """Bytes of all of it."""


def read_simple_request(data: bytes) -> SimpleRequest | None:
    """The request that `data` begins with, if it is simple and has arrived completely."""
    line = _REQUEST_LINE.match(data)
    if line is None:
        return None
    begin = line.end()
    end = data.find(b"\r\n\r\n", begin, begin + MAX_BLOCK) + 2
    if end < 2:
        return None
    block = data[begin:end]
    fields = _remembered_header_fields(block) if len(block) <= LONG_BLOCK else parse_header_fields(block)
    if fields is None:
        return None
    start = end + 2
    size = start + fields.length
    if size > len(data):
        return None
    method, target = line.groups()
    return SimpleRequest(
        method.decode(), target.decode(), dict(fields.headers), data[start:size], fields.keep_alive, size
    )


def parse_header_fields(block: bytes) -> HeaderFields | None:
    """The fields of header lines, if they can be understood in one way only."""
    if _BLOCK.fullmatch(block) is None:
        return None
    headers: dict[str, str] = {}
    for line in block.decode().split("\r\n")[:-1]:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip(" \t")
        if name in _SPECIAL or (name in _ONCE and name in headers):
            return None
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    length = headers.get("content-length", "0")
    keep_alive = _KEEP_ALIVE.get(headers.get("connection", "").lower())
    if "host" not in headers or keep_alive is None or not _LENGTH.fullmatch(length):
        return None
    return HeaderFields(headers, int(length), keep_alive)


_remembered_header_fields: Final = lru_cache(maxsize=512)(parse_header_fields)
