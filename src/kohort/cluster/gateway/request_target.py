"""Which host and path a request is for: one reading, used for routing and sent to the backend. Pure.

A rule for `/public` says nothing about `/admin`. If the gateway read a path in one way and the backend in another,
`/public/../admin` would pass the rule for one and be served as the other. So a path is brought into its one normal form
before it is compared, and that form is forwarded:

| in the path                             | becomes                                                               |
|-----------------------------------------|-----------------------------------------------------------------------|
| `%2e`, `%41`: escapes that need not be  | the character; other escapes get capital letters                      |
| `.` and `..` as segments, or escaped    | what they stand for; above the root is the root                       |
| `//`                                    | `/`, unless slashes are to be kept                                    |
| a backslash                             | `/`                                                                   |
| `%2F` and `%5C` (escaped slashes)       | `/` for comparing, and for forwarding too if a `.` or `..` stands     |
|                                         | beside one; otherwise they are forwarded as they are: names of models |
|                                         | contain them                                                          |
| characters that must be escaped         | escaped                                                               |
| `..;x`, `%00`, `%zz`, `#`               | refused: programs differ in how they read them                        |

Escapes are read once: `%252e` is the text `%2e`, as it will be for the backend.

A target with a host (`GET http://a.example/x`) decides which host is meant, whatever the Host header says (RFC 9112).
"""

import re
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple
from urllib.parse import unquote

_PLAIN: Final = re.compile(r"(?:/[A-Za-z0-9_~!$&'()*+,=:@-][A-Za-z0-9_~!$&'()*+,=:@.-]*)+/?|/")
"""A path that is in its normal form already."""
_ESCAPE: Final = re.compile(rb"%(..)|([^!$&'()*+,/:;=@A-Za-z0-9._~-])", re.DOTALL)
_HEX: Final = re.compile(rb"[0-9A-Fa-f]{2}")
_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ESCAPED_SLASH: Final = re.compile(r"%2F|%5C")
_SLASHES: Final = re.compile(r"/{2,}")
_NOT_VISIBLE: Final = re.compile(rb"[^!-~]")
_HOST: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]*)?")
_ABSOLUTE: Final = re.compile(r"(?i:https?)://([^/?#]*)(.*)", re.DOTALL)


class BadTarget(Enum):
    """Why a request is not routed; the value is what the client is told."""

    FORM = "the request target must begin with '/' or 'http://'"
    ESCAPE = "the path has a '%' that is not followed by two hexadecimal digits"
    ZERO = "the path contains an escaped zero byte"
    FRAGMENT = "the request target contains a '#'"
    DOT_PARAMETER = "the path has parameters at a '.' or '..'"
    HOST = "the request must have one Host header with a valid host"


class Target(NamedTuple):
    host: str
    """Lower case, without the port."""
    authority: str
    """The Host header to forward; empty if there was none."""
    path: str
    """In normal form and without escapes, to be compared with rules."""
    forwarded: str
    """In normal form, with escapes and with the query."""


def read_target(raw: str, hosts: Sequence[str], *, old: bool = False, merge_slashes: bool = True) -> Target | BadTarget:
    """`raw` is the second word of a request, `hosts` are its Host headers; `old` requests (HTTP/1.0) may have none."""
    if len(hosts) > 1 or (not hosts and not old):
        return BadTarget.HOST
    authority = hosts[0].strip() if hosts else ""
    if not raw.startswith("/") and (absolute := _ABSOLUTE.fullmatch(raw)) is not None:
        authority, raw = absolute[1], absolute[2]
        raw = raw if raw.startswith("/") else f"/{raw}"
        if not authority:
            return BadTarget.HOST
    if _HOST.fullmatch(authority) is None:
        return BadTarget.HOST
    if not raw.startswith("/"):
        return BadTarget.FORM
    if "#" in raw:
        return BadTarget.FRAGMENT
    path, mark, query = raw.partition("?")
    found = normal_path(path, merge_slashes=merge_slashes)
    if isinstance(found, BadTarget):
        return found
    compared, forwarded = found
    if mark:
        forwarded = f"{forwarded}?{_quoted(query)}"
    return Target(_name(authority), authority, compared, forwarded)


def normal_path(raw: str, *, merge_slashes: bool = True) -> tuple[str, str] | BadTarget:
    """The path to compare and the path to forward."""
    if _PLAIN.fullmatch(raw) is not None:
        return raw, raw
    escaped = _escaped(raw.encode("utf-8", "surrogateescape"))
    if isinstance(escaped, BadTarget):
        return escaped
    opened = _ESCAPED_SLASH.sub("/", escaped)
    segments = opened.split("/")
    for segment in segments:
        name, mark, _ = segment.replace("%3B", ";").partition(";")
        if mark and name in (".", ".."):
            return BadTarget.DOT_PARAMETER
    if "." in segments or ".." in segments:
        escaped = opened
    compared, forwarded = (_resolved(each, merge_slashes=merge_slashes) for each in (opened, escaped))
    return unquote(compared), forwarded


def _escaped(raw: bytes) -> str | BadTarget:
    """With the escapes that are needed and no others."""
    problems: list[BadTarget] = []

    def one(found: re.Match[bytes]) -> bytes:
        digits, character = found[1], found[2]
        if character == b"\\":
            return b"/"
        if character == b"%" or (digits is not None and _HEX.fullmatch(digits) is None):
            problems.append(BadTarget.ESCAPE)
            return b""
        value = int(digits, 16) if digits is not None else character[0]
        if value == 0:
            problems.append(BadTarget.ZERO)
        return bytes([value]) if value in _UNRESERVED else b"%%%02X" % value

    text = _ESCAPE.sub(one, raw)
    return problems[0] if problems else text.decode("ascii")


def _resolved(path: str, *, merge_slashes: bool) -> str:
    """Without dot segments; slashes are merged first, as a file system does it."""
    if merge_slashes:
        path = _SLASHES.sub("/", path)
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", "..") and (not kept or kept[-1]):
        kept.append("")
    return "/" + "/".join(kept)


def _quoted(query: str) -> str:
    """Readers agree on escapes in a query, and no path is made of it: it stays as it is, in visible characters."""
    return _NOT_VISIBLE.sub(lambda found: b"%%%02X" % found[0][0], query.encode("utf-8", "surrogateescape")).decode()


def _name(authority: str) -> str:
    host = authority.lower()
    return host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
