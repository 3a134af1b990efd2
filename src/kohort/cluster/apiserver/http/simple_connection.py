"""One connection of a client, as long as all of its requests are simple ones (`simple_request.py`).

Requests are read one after the other, each is answered by a task of its own, and bytes that arrive meanwhile wait. With
the first other request the connection is handed over to aiohttp, with all bytes that were read, and stays there.
"""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Mapping
from typing import Final, Protocol

from kohort.cluster.apiserver.auth.model import User
from kohort.cluster.apiserver.http.response_writer import ResponseWriter
from kohort.cluster.apiserver.http.simple_request import SimpleRequest, read_simple_request
from kohort.kube.log import Log

HELD_LIMIT: Final = 64 * 1024
"""Bytes that may wait for the answer to an earlier request before nothing more is read."""
READING: Final = frozenset({"GET"})
"""Methods that are cancelled when the client disconnects. A write must not stop half way."""

Certificate = Mapping[str, object]
Authenticate = Callable[[Mapping[str, str], Certificate | None], User]
"""From headers and the client certificate to an identity; raises 401."""


class ConnectionOwner(Protocol):
    """The server that connections belong to."""

    connections: "set[Connection]"

    def serve(
        self, request: SimpleRequest, writer: ResponseWriter, certificate: Certificate | None
    ) -> Coroutine[None, None, None]: ...


class Connection(asyncio.Protocol):
    def __init__(self, owner: ConnectionOwner, fallback: Callable[[], asyncio.Protocol], log: Log) -> None:
        """`fallback` makes the protocol that takes the connection over at the first request that is not simple."""
        self._owner = owner
        self._fallback = fallback
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._certificate: Certificate | None = None
        self._held = b""
        self._reading = False
        """Whether the present request only reads."""
        self._closing = False
        self._resumed: asyncio.Future[None] | None = None
        """Exists while the write buffer of the transport is full."""
        self.task: asyncio.Task[None] | None = None
        """Answers the present request."""
        self.idle_since = self._loop.time()

    # --- called by the transport --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._certificate = transport.get_extra_info("peercert")
        stream: socket.socket | None = transport.get_extra_info("socket")
        if stream is not None:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._owner.connections.add(self)

    def data_received(self, data: bytes) -> None:
        if self.task is not None or self._closing:
            self._hold(data)
            return
        request = read_simple_request(data)
        if request is None:
            self._hand_over(data)
            return
        self._held = data[request.size :]
        self._reading = request.method in READING
        self.task = self._loop.create_task(self._answer(request))

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.connections.discard(self)
        self._transport = None
        self._held = b""
        if self.task is not None and self._reading:
            self.task.cancel()
        self.resume_writing()

    def pause_writing(self) -> None:
        self._resumed = self._resumed or self._loop.create_future()

    def resume_writing(self) -> None:
        resumed, self._resumed = self._resumed, None
        if resumed is not None and not resumed.done():
            resumed.set_result(None)

    # --- called by the owner ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Take no more requests: close at once, or when the present one is answered."""
        self._closing = True
        if self.task is None and self._transport is not None:
            self._transport.close()

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _answer(self, request: SimpleRequest) -> None:
        writer = ResponseWriter(
            self._transport, self._drained, request.method, request.keep_alive and not self._closing
        )
        try:
            await self._owner.serve(request, writer, self._certificate)
        except ConnectionError:
            writer.abandon()
        except asyncio.CancelledError:
            writer.abandon()
            raise
        except Exception:
            self._log.exception("failed to serve a request", method=request.method, target=request.target)
            writer.abandon()
        finally:
            self.task = None
            self._go_on(keep_alive=writer.keep_alive)

    def _go_on(self, *, keep_alive: bool) -> None:
        self.idle_since = self._loop.time()
        if self._transport is None:
            return
        if not keep_alive or self._closing:
            self._transport.close()
            return
        if self._held:
            held, self._held = self._held, b""
            self._transport.resume_reading()
            self.data_received(held)

    def _hold(self, data: bytes) -> None:
        self._held += data
        if len(self._held) > HELD_LIMIT and self._transport is not None:
            self._transport.pause_reading()

    def _hand_over(self, data: bytes) -> None:
        assert self._transport is not None
        fallback_protocol = self._fallback()
        self._owner.connections.discard(self)
        self._transport.set_protocol(fallback_protocol)
        fallback_protocol.connection_made(self._transport)
        fallback_protocol.data_received(data)

    async def _drained(self) -> None:
        if self._resumed is not None:
            await asyncio.shield(self._resumed)
