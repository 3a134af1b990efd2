"""Answers that are complete when they are begun: one head and one body, written at once.

Most answers are of this kind, thousands a second. aiohttp would build the head in a dozen steps that are meant for
streams, cookies and compression as well; it takes a response of our own as long as that can be prepared and ended.
"""

import asyncio
import time
from collections.abc import Mapping
from email.utils import formatdate
from functools import cache
from http import HTTPStatus
from typing import Final

from aiohttp import HttpVersion11, web
from aiohttp.web_protocol import RequestHandler

UNSENT_LIMIT: Final = 1024 * 1024
"""Bytes that may wait in a transport before whoever writes to it has to wait."""
STALL_LIMIT: Final = 60.0
"""Seconds after which a reader that takes nothing is dropped."""
TOGETHER: Final = 16 * 1024
"""Bodies up to the size of a TLS record are sent with their head."""
_WITHOUT_LENGTH: Final = frozenset({204, 304})


class Answer(web.StreamResponse):
    """Status, headers and body as they are; several values of a header are separated by line feeds."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(status=status)
        self._given = headers
        self._content = body
        self._lasting = False

    @property
    def keep_alive(self) -> bool:
        return self._lasting

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write all there is to say."""
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        self._lasting = request.keep_alive
        framing = {"date": _date(int(time.time())), "server": "kohort"}
        if self.status not in _WITHOUT_LENGTH:
            framing["content-length"] = str(len(self._content))
        if not self._lasting:
            framing["connection"] = "close"
        elif request.version < HttpVersion11:
            framing["connection"] = "keep-alive"
        head = head_of(self.status, {**self._given, **framing})
        body = b"" if request.method == "HEAD" else self._content
        if len(body) <= TOGETHER:
            transport.write(head + body)
        else:
            transport.writelines((head, body))
        if transport.get_write_buffer_size() > UNSENT_LIMIT:
            try:
                await drained(request.protocol)
            except TimeoutError:
                transport.abort()
                raise ConnectionResetError("the client takes nothing") from None

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to write."""


async def drained(protocol: RequestHandler) -> None:
    """Wait until the reader took what was written; TimeoutError when it does not."""
    async with asyncio.timeout(STALL_LIMIT):
        await protocol._drain_helper()


def head_of(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [_status_line(status)]
    for name, value in headers.items():
        if "\n" in value:
            lines.extend(f"{name}: {one}" for one in value.split("\n"))
        else:
            lines.append(f"{name}: {value}")
    text = "\n".join(lines)
    if "\r" in text or "\0" in text:
        raise ValueError("a header may not contain a carriage return")
    return (text.replace("\n", "\r\n") + "\r\n\r\n").encode()


@cache
def _status_line(status: int) -> str:
    phrases = {one.value: one.phrase for one in HTTPStatus}
    return f"HTTP/1.1 {status} {phrases.get(status, '')}"


_dates: Final[dict[int, str]] = {}


def _date(second: int) -> str:
    """The time as HTTP writes it, made once a second."""
    if second not in _dates:
        _dates.clear()
        _dates[second] = formatdate(second, usegmt=True)
    return _dates[second]
