"""Calls over a unix socket: one connection for all of them, made when a call needs it.

| what happens                                   | what the caller gets                                              |
|------------------------------------------------|-------------------------------------------------------------------|
| no server listens, or the connection is lost   | UNAVAILABLE at once; the next call connects anew                  |
| the deadline passes                            | DEADLINE_EXCEEDED; the server sees the stream reset               |
| the caller is cancelled                        | the server sees the stream reset                                  |
| a server answers something that is not gRPC    | INTERNAL or UNKNOWN, with what it said                            |

A call that was under way when the connection was lost may have been carried out: nothing is repeated here.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import TypeVar

from kohort.kube.tasks import cancel_all
from kohort.node.grpc.codec import DecodeError, Message, decode, encode
from kohort.node.grpc.http2 import Connection, HeadersArrived, Stream, StreamFailed, StreamFinished
from kohort.node.grpc.status import Code, Method, RpcError, code_of, timeout_text, unescaped

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)

REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM, INADEQUATE_SECURITY = 7, 8, 11, 12
RESETS = {
    REFUSED_STREAM: Code.UNAVAILABLE,
    CANCEL: Code.CANCELLED,
    ENHANCE_YOUR_CALM: Code.RESOURCE_EXHAUSTED,
    INADEQUATE_SECURITY: Code.PERMISSION_DENIED,
}
HTTP_CODES = {
    "400": Code.INTERNAL,
    "401": Code.UNAUTHENTICATED,
    "403": Code.PERMISSION_DENIED,
    "404": Code.UNIMPLEMENTED,
    "429": Code.UNAVAILABLE,
    "502": Code.UNAVAILABLE,
    "503": Code.UNAVAILABLE,
    "504": Code.UNAVAILABLE,
}


class Channel:
    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._connection: Connection | None = None
        self._connections = 0
        self._reading: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()

    @property
    def connection(self) -> int:
        """The number of the connection that calls use now, counted from 1; 0 if none is open. A new number may mean
        another server, or another version of it."""
        return self._connections if self._connection is not None and not self._connection.ended else 0

    async def call(self, method: Method[Q, A], request: Q, *, timeout: float | None) -> A:
        """One request, one answer. Raises RpcError."""
        try:
            async with asyncio.timeout(timeout):
                async with contextlib.aclosing(self._exchange(method, request, timeout)) as answers:
                    found = [each async for each in answers]
        except TimeoutError:
            message = f"no answer within {timeout:g} seconds"
            raise RpcError(Code.DEADLINE_EXCEEDED, message, method.name) from None
        if len(found) != 1:
            raise RpcError(Code.INTERNAL, f"{len(found)} answers to one request", method.name)
        return found[0]

    def stream(self, method: Method[Q, A], request: Q) -> AsyncGenerator[A, None]:
        """One request, any number of answers, until the server ends them. Raises RpcError. Close the iterator
        (`contextlib.aclosing`) to end the call."""
        return self._exchange(method, request, None)

    async def close(self) -> None:
        if self._reading is not None:
            await cancel_all(self._reading)
        self._connection = self._reading = None

    async def _exchange(self, method: Method[Q, A], request: Q, timeout: float | None) -> AsyncGenerator[A, None]:
        connection = await self._connected(method.name)
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", method.path),
            (":authority", "localhost"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "kohort"),
        ]
        if timeout is not None:
            headers.append(("grpc-timeout", timeout_text(timeout)))
        try:
            stream = await connection.open(headers, encode(request))
        except OSError as problem:
            raise RpcError(Code.UNAVAILABLE, str(problem), method.name) from problem
        try:
            async for message in _answers(stream, method.name):
                try:
                    yield decode(method.answer, message)
                except DecodeError as problem:
                    raise RpcError(Code.INTERNAL, f"the answer is malformed: {problem}", method.name) from problem
        finally:
            stream.reset()

    async def _connected(self, method: str) -> Connection:
        async with self._connecting:
            if self._connection is None or self._connection.ended:
                try:
                    reader, writer = await asyncio.open_unix_connection(str(self.socket))
                except OSError as problem:
                    message = f"cannot connect to {self.socket}: {problem.strerror or problem}"
                    raise RpcError(Code.UNAVAILABLE, message, method) from problem
                self._connection = Connection(reader, writer)
                self._connections += 1
                self._reading = asyncio.create_task(self._connection.run(), name="grpc-client")
            return self._connection


async def _answers(stream: Stream, method: str) -> AsyncIterator[bytes]:
    """The messages of a call until its status, which is raised unless it is OK."""
    answered: HeadersArrived | None = None
    trailers: HeadersArrived | None = None
    while True:
        item = await stream.read()
        match item:
            case HeadersArrived():
                answered, trailers = answered or item, item
            case StreamFailed(reason, error):
                code = Code.UNAVAILABLE if error is None else RESETS.get(error, Code.INTERNAL)
                raise RpcError(code, reason, method)
            case StreamFinished():
                _check_status(answered, trailers, method)
                return
            case message:
                yield message


def _check_status(answered: HeadersArrived | None, trailers: HeadersArrived | None, method: str) -> None:
    if answered is None or trailers is None:
        raise RpcError(Code.INTERNAL, "the server has ended the call without an answer", method)
    if (http := answered.fields.get(":status", "")) != "200":
        raise RpcError(HTTP_CODES.get(http, Code.UNKNOWN), f"the server answered with HTTP status {http}", method)
    status = trailers.fields.get("grpc-status")
    if status is None:
        raise RpcError(Code.INTERNAL, "the server has ended the call without a status", method)
    if (code := code_of(status)) != Code.OK:
        raise RpcError(code, unescaped(trailers.fields.get("grpc-message", "")), method)


@contextlib.asynccontextmanager
async def channel(socket: Path) -> AsyncIterator[Channel]:
    """A channel that is closed at the end."""
    made = Channel(socket)
    try:
        yield made
    finally:
        await made.close()
