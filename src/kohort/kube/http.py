"""The one request and the one response between a client and an API server.

Both sides use them: a client hands a `Request` to a `Transport`; the embedded API server answers a `Request` directly.
The HTTPS transport and the HTTPS front only translate, so an in-process call takes the same path as a socket.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec


class Request(msgspec.Struct, frozen=True):
    method: str
    path: str
    """Percent-decoded path without query. A path segment never contains a slash after decoding."""
    query: tuple[tuple[str, str], ...] = ()
    headers: dict[str, str] = {}
    """Keys are lower case."""
    body: bytes = b""

    def param(self, name: str, default: str = "") -> str:
        for key, value in self.query:
            if key == name:
                return value
        return default

    def params(self, name: str) -> list[str]:
        return [value for key, value in self.query if key == name]


class Response(msgspec.Struct):
    """An answer. `body` is bytes, or, for watches and followed logs, an iterator of frames to flush one by one."""

    status: int
    headers: dict[str, str]
    """Keys are lower case. The values of a header that occurs several times are separated by newlines."""
    body: bytes | AsyncIterator[bytes] = b""

    async def whole_body(self, largest: int) -> bytes:
        """The body in one piece. ValueError when it comes in frames and is longer than `largest` bytes."""
        if isinstance(self.body, bytes):
            return self.body
        body = bytearray()
        async for chunk in self.body:
            body += chunk
            if len(body) > largest:
                raise ValueError(f"the answer is longer than {largest} bytes")
        return bytes(body)


class Stream(Protocol):
    status: int
    headers: dict[str, str]

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Chunks as they arrive; chunk borders mean nothing."""
        ...


class Transport(Protocol):
    async def send(self, request: Request) -> Response:
        """One exchange with a buffered body (`Response.body` is bytes)."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """One exchange whose body is read while it grows. Leaving the context ends the exchange."""
        ...

    async def close(self) -> None: ...
