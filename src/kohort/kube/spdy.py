"""As much of SPDY/3.1 as streams to containers need.

kubectl forwards ports over SPDY streams that travel inside a WebSocket, and API servers before 1.36 reach their nodes
over SPDY itself. This module turns bytes into frames and frames into bytes; it knows nothing about sockets. Header
blocks are compressed with one zlib context per direction for the whole connection, so frames must be read and written
in order. Flow control is not part of it: the peers that speak this dialect ignore windows.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Final

import msgspec

VERSION: Final = 3
SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
FLAG_FIN: Final = 1
MAX_FRAME: Final = (1 << 24) - 1
MAX_CONTROL_FRAME: Final = 64 * 1024
"""Bytes of a control frame that a peer may send. Data frames may be of any size: they are passed on in pieces."""
MAX_HEADERS: Final = 64 * 1024
"""Bytes of one header block after decompression."""
REFUSED_STREAM, CANCEL = 3, 5
"""Reasons for which a stream is reset."""

_NAMES: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
)
_OTHERS: Final = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
_TEXT: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY: Final = (
    b"".join(struct.pack(">I", len(word)) + word.encode() for word in (*_NAMES.split(), *_OTHERS)) + _TEXT.encode()
)
"""The dictionary that both sides start compressing headers with, as the protocol defines it."""


class ProtocolError(Exception):
    """The peer sent something that is not SPDY/3.1."""


class StreamOpened(msgspec.Struct, frozen=True):
    stream: int
    headers: dict[str, str]
    fin: bool


class StreamData(msgspec.Struct, frozen=True):
    stream: int
    data: bytes
    fin: bool


class StreamReset(msgspec.Struct, frozen=True):
    stream: int


class Ping(msgspec.Struct, frozen=True):
    number: int


class GoAway(msgspec.Struct, frozen=True): ...


Frame = StreamOpened | StreamData | StreamReset | Ping | GoAway


class Reader:
    """Decodes frames from bytes as they arrive.

    Memory is bounded whatever the peer sends: a data frame that has not arrived completely is returned in pieces, and
    only control frames of at most MAX_CONTROL_FRAME bytes are buffered. ProtocolError beyond the limits.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._stream, self._unread, self._fin = 0, 0, False
        """The data frame that has arrived in part: its stream, the bytes still to come, and its last flag."""

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._buffer += data
        while True:
            if self._unread:
                if not self._buffer:
                    return
                yield self._next_piece()
                continue
            if len(self._buffer) < 8:
                return
            size = int.from_bytes(self._buffer[5:8], "big")
            if not self._buffer[0] & 0x80:
                yield from self._begin_data(size)
                continue
            if size > MAX_CONTROL_FRAME:
                raise ProtocolError(f"control frame of {size} bytes, at most {MAX_CONTROL_FRAME} are allowed")
            if len(self._buffer) < 8 + size:
                return
            head, payload = bytes(self._buffer[:8]), bytes(self._buffer[8 : 8 + size])
            del self._buffer[: 8 + size]
            frame = self._control_frame(head, payload)
            if frame is not None:
                yield frame

    def _begin_data(self, size: int) -> Iterator[Frame]:
        self._stream, self._fin = int.from_bytes(self._buffer[:4], "big"), bool(self._buffer[4] & FLAG_FIN)
        self._unread = size
        del self._buffer[:8]
        if not size:
            yield StreamData(self._stream, b"", self._fin)

    def _next_piece(self) -> Frame:
        piece = bytes(self._buffer[: self._unread])
        del self._buffer[: len(piece)]
        self._unread -= len(piece)
        return StreamData(self._stream, piece, self._fin and not self._unread)

    def _control_frame(self, head: bytes, payload: bytes) -> Frame | None:
        fin = bool(head[4] & FLAG_FIN)
        version, kind = int.from_bytes(head[:2], "big") & 0x7FFF, int.from_bytes(head[2:4], "big")
        if version != VERSION:
            raise ProtocolError(f"SPDY version {version} is not {VERSION}")
        if kind in (SYN_STREAM, SYN_REPLY, HEADERS):
            # Every header block moves the compression state, wanted or not.
            start = 10 if kind == SYN_STREAM else 4
            headers = self._headers(payload[start:])
            return StreamOpened(_number(payload), headers, fin) if kind == SYN_STREAM else None
        if kind == RST_STREAM:
            return StreamReset(_number(payload))
        if kind == PING:
            return Ping(int.from_bytes(payload[:4], "big"))
        return GoAway() if kind == GOAWAY else None

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            plain = self._inflate.decompress(block, MAX_HEADERS)
            if self._inflate.unconsumed_tail:
                raise ProtocolError(f"headers of more than {MAX_HEADERS} bytes")
            (count,) = struct.unpack_from(">I", plain)
            position, headers = 4, {}
            for _ in range(count):
                name, position = _text(plain, position)
                value, position = _text(plain, position)
                headers[name.lower()] = value.partition("\0")[0]
            return headers
        except (zlib.error, struct.error, UnicodeDecodeError) as problem:
            raise ProtocolError(f"unreadable headers: {problem}") from None


def _number(payload: bytes) -> int:
    return int.from_bytes(payload[:4], "big") & 0x7FFFFFFF


def _text(plain: bytes, position: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">I", plain, position)
    start = position + 4
    return plain[start : start + size].decode(), start + size


class Writer:
    """Makes the bytes of frames."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def open(self, stream: int, headers: dict[str, str]) -> bytes:
        payload = struct.pack(">IIBB", stream, 0, 0, 0) + self._block(headers)
        return _control(SYN_STREAM, payload)

    def reply(self, stream: int, headers: dict[str, str] | None = None) -> bytes:
        return _control(SYN_REPLY, struct.pack(">I", stream) + self._block(headers or {}))

    def data(self, stream: int, data: bytes, *, fin: bool = False) -> bytes:
        frames = []
        for start in range(0, max(len(data), 1), MAX_FRAME):
            part = data[start : start + MAX_FRAME]
            last = start + MAX_FRAME >= len(data)
            head = struct.pack(">I", stream) + bytes([FLAG_FIN if fin and last else 0]) + len(part).to_bytes(3, "big")
            frames.append(head + part)
        return b"".join(frames)

    def reset(self, stream: int, reason: int = CANCEL) -> bytes:
        return _control(RST_STREAM, struct.pack(">II", stream, reason))

    def ping(self, number: int) -> bytes:
        return _control(PING, struct.pack(">I", number))

    def _block(self, headers: dict[str, str]) -> bytes:
        texts = [text.encode() for name, value in headers.items() for text in (name.lower(), value)]
        plain = [struct.pack(">I", len(headers)), *(struct.pack(">I", len(text)) + text for text in texts)]
        return self._deflate.compress(b"".join(plain)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def _control(kind: int, payload: bytes) -> bytes:
    return struct.pack(">HHI", 0x8000 | VERSION, kind, len(payload)) + payload
