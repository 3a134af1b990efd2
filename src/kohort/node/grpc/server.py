"""Serves methods on a unix socket: for device plugins that register, and for runtimes and plugins in tests.

A handler gets a request and answers, or raises `RpcError`. It is cancelled when its client gives up, when the client's
deadline passes, and when the server closes. Any other exception is logged and answered with INTERNAL.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from h2.errors import ErrorCodes

from kohort.kube.log import Log
from kohort.kube.tasks import cancel_all
from kohort.node.grpc.codec import DecodeError, Message, decode, encode
from kohort.node.grpc.http2 import Connection, Stream, StreamFailed, StreamFinished
from kohort.node.grpc.status import Code, Method, RpcError, escaped, parse_timeout

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)
REQUEST_SECONDS = 120.0
"""In which a client must have sent its request."""
HEADERS = [(":status", "200"), ("content-type", "application/grpc")]
_log = Log(part="grpc")


Handler = Callable[[bytes], AsyncGenerator[bytes, None]]
"""From the bytes of a request to those of the answers."""


class Server:
    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self._socket = Path()

    def unary(self, method: Method[Q, A], handle: Callable[[Q], Awaitable[A]]) -> None:
        """Answer a method with what `handle` returns."""

        async def answer(request: bytes) -> AsyncGenerator[bytes, None]:
            yield encode(await handle(_decoded(method, request)))

        self._handlers[method.path] = answer

    def streaming(self, method: Method[Q, A], handle: Callable[[Q], AsyncGenerator[A, None]]) -> None:
        """Answer a method with everything that `handle` yields."""

        async def answer(request: bytes) -> AsyncGenerator[bytes, None]:
            async with contextlib.aclosing(handle(_decoded(method, request))) as answers:
                async for each in answers:
                    yield encode(each)

        self._handlers[method.path] = answer

    async def listen(self, socket: Path, *, mode: int = 0o600) -> None:
        """Serve at a path. An existing socket is replaced: check first that no other program uses it."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(socket)
        self._socket = socket
        self._listener = await asyncio.start_unix_server(self._accepted, str(socket))
        os.chmod(socket, mode)

    async def close(self) -> None:
        """Stop to listen, and end all calls."""
        if self._listener is not None:
            self._listener.close()
            with contextlib.suppress(OSError):
                os.unlink(self._socket)
        self._listener = None
        await cancel_all(*self._connections)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        calls: set[asyncio.Task[None]] = set()

        def requested(stream: Stream, headers: dict[str, str]) -> None:
            call = asyncio.create_task(self._serve(connection, stream, headers), name="grpc-call")
            calls.add(call)
            call.add_done_callback(calls.discard)
            stream.on_failure = call.cancel

        connection = Connection(reader, writer, requested)
        try:
            await connection.run()
        except asyncio.CancelledError:
            pass  # the server closes
        finally:
            self._connections.discard(task)
            await cancel_all(*calls)

    async def _serve(self, connection: Connection, stream: Stream, headers: dict[str, str]) -> None:
        path = headers.get(":path", "")
        try:
            handler = self._handlers.get(path)
            if handler is None:
                raise RpcError(Code.UNIMPLEMENTED, f"unknown method {path}")
            if not headers.get("content-type", "").startswith("application/grpc"):
                raise RpcError(Code.INTERNAL, "the content type is not application/grpc")
            seconds = parse_timeout(headers.get("grpc-timeout", ""))
            async with asyncio.timeout(seconds):
                await self._answer(handler, stream)
            status = RpcError(Code.OK, "")
        except RpcError as problem:
            status = problem
        except TimeoutError:
            status = RpcError(Code.DEADLINE_EXCEEDED, "the deadline of the call has passed")
        except ConnectionError:
            connection.finished(stream)
            return
        except Exception as problem:
            _log.error("gRPC call failed", method=path, problem=repr(problem))
            status = RpcError(Code.INTERNAL, str(problem))
        self._finish(connection, stream, status)

    async def _answer(self, handler: Handler, stream: Stream) -> None:
        async with asyncio.timeout(REQUEST_SECONDS):
            request = await _request(stream)
        async with contextlib.aclosing(handler(request)) as answers:
            async for message in answers:
                if not stream.started:
                    stream.send_headers(HEADERS, last=False)
                    stream.started = True
                await stream.send(message, last=False)

    def _finish(self, connection: Connection, stream: Stream, status: RpcError) -> None:
        trailers = [("grpc-status", str(int(status.code))), ("grpc-message", escaped(status.detail))]
        with contextlib.suppress(ConnectionError):
            stream.send_headers(trailers if stream.started else [*HEADERS, *trailers], last=True)
        connection.finished(stream)


async def _request(stream: Stream) -> bytes:
    """The only message of the client."""
    messages = []
    while not isinstance(item := await stream.read(), StreamFinished):
        if isinstance(item, StreamFailed):
            too_large = item.error == ErrorCodes.ENHANCE_YOUR_CALM
            raise RpcError(Code.RESOURCE_EXHAUSTED if too_large else Code.CANCELLED, item.reason)
        if isinstance(item, bytes):
            messages.append(item)
    if len(messages) != 1:
        raise RpcError(Code.UNIMPLEMENTED, f"{len(messages)} messages in place of one request")
    return messages[0]


def _decoded(method: Method[Q, A], request: bytes) -> Q:
    try:
        return decode(method.request, request)
    except DecodeError as problem:
        raise RpcError(Code.INTERNAL, f"the request is malformed: {problem}") from problem
