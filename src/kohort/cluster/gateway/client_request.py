"""A request of a client, as the proxy sees it, whichever protocol it came by.

| protocol                                              | read and answered by     |
|-------------------------------------------------------|--------------------------|
| HTTP/1.1, simple requests                             | `http1_connection.py`    |
| HTTP/1.1, any other; HTTP/1.0; WebSockets             | `aiohttp_connection.py`  |
| HTTP/2, by prior knowledge or negotiated by TLS       | `http2_connection.py`    |

Bodies are pulled in both directions: nothing more is read from one side than the other takes.
"""

from abc import ABC, abstractmethod
from http import HTTPStatus
from typing import Final

from multidict import CIMultiDict

from kohort.cluster.gateway.forwarded_headers import end_to_end
from kohort.cluster.gateway.route_table import HeaderChange

_FRAMING: Final = frozenset({"content-length", "transfer-encoding"})


class ClientGone(ConnectionError):
    """The client closed its connection, or reset its stream."""


class RefusedRequest(Exception):
    """Why a request is not forwarded; the text is the body of the answer."""

    def __init__(self, status: int, text: str, *, close: bool = False) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.close = close
        """The connection cannot be used for another request."""


class ClientRequest(ABC):
    """Its head, its body, and its answer."""

    __slots__ = ("has_body", "headers", "hosts", "method", "old", "remote", "secure", "server_name", "target")

    method: str
    target: str
    """The second word of the request line."""
    hosts: list[str]
    headers: CIMultiDict[str]
    has_body: bool
    old: bool
    """HTTP/1.0: it may have no host."""
    remote: str
    secure: bool
    server_name: str
    """The name that the client asked for when it opened its TLS connection; empty without TLS."""

    def ready_body(self) -> bytes | None:
        """The whole body, if it is here already; it is not read again then."""
        return None if self.has_body else b""

    @abstractmethod
    async def read(self) -> bytes:
        """The next part of the body; empty at its end. Raises ClientGone."""

    @abstractmethod
    async def begin(self, status: int, reason: str, headers: CIMultiDict[str], *, bodiless: bool) -> None:
        """Send the head of the answer. Without a Content-Length, the end of the body is marked as the protocol does."""

    def flush(self) -> None:
        """The next part of the body is not here yet; what was begun must not wait for it."""
        return

    @abstractmethod
    async def write(self, part: bytes) -> None:
        """Send a part of the body; returns when there is room for more. Raises ClientGone."""

    @abstractmethod
    async def end(self) -> None:
        """The answer is complete."""

    @abstractmethod
    def cut(self) -> None:
        """End the answer so that the client cannot take it for complete."""

    async def refuse(self, refused: RefusedRequest) -> None:
        """Answer in place of a backend."""
        body = f"{refused.text}\n".encode()
        headers = CIMultiDict(
            {"Server": "kohort", "Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body))}
        )
        if refused.close:
            headers["Connection"] = "close"
        await self.begin(refused.status, "", headers, bodiless=self.method == "HEAD")
        if self.method != "HEAD":
            await self.write(body)
        await self.end()


def change_headers(headers: CIMultiDict[str], change: HeaderChange) -> None:
    """A route cannot change where a message ends: the rest of a body would be read as the next message."""
    for name in change.remove:
        if name.lower() not in _FRAMING:
            headers.popall(name, None)
    for name, value in change.set:
        if name.lower() not in _FRAMING:
            headers[name] = value
    for name, value in change.add:
        if name.lower() not in _FRAMING:
            headers.add(name, value)


def is_bodiless(method: str, status: int) -> bool:
    """An answer that ends with its head, whatever its headers say."""
    return method == "HEAD" or status in (204, 304)


def answer_headers(given: CIMultiDict[str], change: HeaderChange) -> CIMultiDict[str]:
    """What a client gets of the headers of a backend's answer."""
    headers = end_to_end(given)
    headers.setdefault("Server", "kohort")
    change_headers(headers, change)
    if "Transfer-Encoding" in given:
        headers.popall("Content-Length", None)
    return headers


def answer_lines(status: int, reason: str, headers: CIMultiDict[str], *more: str) -> bytes:
    """The head of an answer in HTTP/1.1, with its empty line; `more` are further lines."""
    first = f"HTTP/1.1 {status} {reason or reason_of(status)}"
    return "\r\n".join((first, *map(": ".join, headers.items()), *more, "", "")).encode("utf-8", "surrogateescape")


def reason_of(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
