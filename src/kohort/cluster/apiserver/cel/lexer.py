"""Text to tokens."""

import re
from typing import NamedTuple

from kohort.cluster.apiserver.cel.errors import Issue

_TOKEN = re.compile(
    r"""
    (?P<space>(?:[ \t\r\n\f]+|//[^\n]*)+)
  | (?P<float>(?:\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?))
  | (?P<uint>(?:0x[0-9a-fA-F]+|\d+)[uU])
  | (?P<int>(?:0x[0-9a-fA-F]+|\d+))
  | (?P<bytes>(?:[bB][rR]?|[rR][bB])(?:\"{3}(?:\\(?s:.)|[^\\])*?\"{3}|'{3}(?:\\(?s:.)|[^\\])*?'{3}
        |"(?:\\.|[^"\\\n\r])*"|'(?:\\.|[^'\\\n\r])*'))
  | (?P<rawstring>[rR](?:\"{3}(?s:.)*?\"{3}|'{3}(?s:.)*?'{3}|"[^"\n\r]*"|'[^'\n\r]*'))
  | (?P<string>(?:\"{3}(?:\\(?s:.)|[^\\])*?\"{3}|'{3}(?:\\(?s:.)|[^\\])*?'{3}
        |"(?:\\.|[^"\\\n\r])*"|'(?:\\.|[^'\\\n\r])*'))
  | (?P<ident>[_a-zA-Z][_a-zA-Z0-9]*)
  | (?P<op>==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    kind: str
    """`ident`, `keyword` (true false null in), a literal kind, `op`, or `end`."""
    text: str
    offset: int


_KEYWORDS = frozenset({"true", "false", "null", "in"})


def tokens(source: str) -> tuple[list[Token], list[Issue]]:
    """The tokens, and what is none; recognition goes on after it."""
    found: list[Token] = []
    issues: list[Issue] = []
    offset = 0
    match = _TOKEN.match
    while offset < len(source):
        hit = match(source, offset)
        if hit is None:
            text = _unrecognized(source[offset:])
            issues.append(Issue(offset, f"Syntax error: token recognition error at: '{text}'"))
            offset += len(text)
            continue
        kind = hit.lastgroup or ""
        text = hit.group()
        if kind == "ident" and text in _KEYWORDS:
            kind = "keyword"
        if kind != "space":
            found.append(Token(kind, text, offset))
        offset = hit.end()
    found.append(Token("end", "<EOF>", len(source)))
    return found, issues


def _unrecognized(rest: str) -> str:
    """What is skipped: an open string up to the end of its line, half an operator with what made it one."""
    if rest[0] in "\"'":
        return rest.split("\n")[0]
    return rest[:2] if rest[0] in "=&|" else rest[:1]


_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "`": "`",
    "?": "?",
}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|X[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|(?s:.))")


def string_value(text: str) -> str:
    """The value of a string token. ValueError when an escape sequence is not one."""
    raw = text[0] in "rR"
    body = _unquoted(text[1:] if raw else text)
    if raw or "\\" not in body:
        return body.replace("\r\n", "\n").replace("\r", "\n") if "\r" in body else body
    return _ESCAPE.sub(_escaped_character, body)


def bytes_value(text: str) -> bytes:
    """The value of a bytes token: characters as UTF-8, `\\x` and octal escapes as single bytes."""
    prefix = 2 if text[1] in "rRbB" else 1
    raw = "r" in text[:prefix].lower()
    body = _unquoted(text[prefix:])
    if raw or "\\" not in body:
        return body.encode()
    pieces: list[bytes] = []
    end = 0
    for hit in _ESCAPE.finditer(body):
        pieces.append(body[end : hit.start()].encode())
        pieces.append(_escaped_byte(hit))
        end = hit.end()
    pieces.append(body[end:].encode())
    return b"".join(pieces)


def _unquoted(text: str) -> str:
    width = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    return text[width:-width]


def _escaped_character(hit: re.Match[str]) -> str:
    body = hit.group(1)
    if len(body) == 1:
        if body not in _ESCAPES:
            raise ValueError("unable to unescape string")
        return _ESCAPES[body]
    code = int(body, 8) if body[0].isdigit() else int(body[1:], 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError("invalid unicode code point")
    return chr(code)


def _escaped_byte(hit: re.Match[str]) -> bytes:
    body = hit.group(1)
    if len(body) == 1:
        if body not in _ESCAPES:
            raise ValueError("unable to unescape string")
        return _ESCAPES[body].encode()
    if body[0] in "uU":
        raise ValueError("unable to unescape string")
    return bytes([int(body, 8) if body[0].isdigit() else int(body[1:], 16)])
