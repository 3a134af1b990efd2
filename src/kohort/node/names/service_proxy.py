"""Carries what arrives at one port of a service on to one of its endpoints.

TCP: every connection goes to the endpoint that `endpoint_choice` names, or to the next one if it does not answer. UDP:
everything from one sender goes to the same endpoint, until that is gone or nothing has come either way for a while.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Final

from kohort.node.names.endpoint_choice import Backend, EndpointChoice

CHUNK: Final = 65536
SILENCE_SECONDS: Final = 30.0


class TcpForwarder:
    def __init__(self, choice: EndpointChoice) -> None:
        self._choice = choice
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, listening: socket.socket) -> None:
        self._server = await asyncio.start_server(self._handle, sock=listening)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._carry(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = str((writer.get_extra_info("peername") or ("",))[0])
        for backend in self._choice.candidates(client):
            try:
                onward_reader, onward_writer = await asyncio.open_connection(*backend)
            except OSError:
                continue
            self._choice.chosen(client, backend)
            try:
                await asyncio.gather(_copy(reader, onward_writer), _copy(onward_reader, writer))
            finally:
                onward_writer.close()
            return


class UdpForwarder(asyncio.DatagramProtocol):
    def __init__(self, choice: EndpointChoice) -> None:
        self._choice = choice
        self._transport: asyncio.DatagramTransport | None = None
        self._senders: dict[Backend, _UdpFlow] = {}

    async def start(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, sock=listening)

    def close(self) -> None:
        for onward in list(self._senders.values()):
            onward.close()
        if self._transport is not None:
            self._transport.close()

    def datagram_received(self, data: bytes, addr: Backend) -> None:
        if addr in self._senders and self._senders[addr].backend not in self._choice.backends:
            self._senders[addr].close()
        if addr not in self._senders and (candidates := self._choice.candidates(addr[0])):
            with contextlib.suppress(OSError):
                self._senders[addr] = _UdpFlow(candidates[0], addr, self._answer, self._forget)
                self._choice.chosen(addr[0], candidates[0])
        if addr in self._senders:
            self._senders[addr].send(data)

    def _answer(self, sender: Backend, data: bytes) -> None:
        if self._transport is not None:
            self._transport.sendto(data, sender)

    def _forget(self, sender: Backend) -> None:
        self._senders.pop(sender, None)


class _UdpFlow:
    """What one sender says to an endpoint, and what that one answers."""

    def __init__(
        self,
        backend: Backend,
        sender: Backend,
        answer: Callable[[Backend, bytes], None],
        over: Callable[[Backend], None],
    ) -> None:
        self.backend = backend
        self._sender = sender
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.connect(backend)
        self._answer = answer
        self._on_close = over
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._receive)
        self._timer = self._loop.call_later(SILENCE_SECONDS, self.close)

    def send(self, data: bytes) -> None:
        self._reset_idle_timer()
        with contextlib.suppress(OSError):
            self._socket.send(data)

    def close(self) -> None:
        self._timer.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._on_close(self._sender)

    def _receive(self) -> None:
        self._reset_idle_timer()
        with contextlib.suppress(OSError):
            self._answer(self._sender, self._socket.recv(CHUNK))

    def _reset_idle_timer(self) -> None:
        self._timer.cancel()
        self._timer = self._loop.call_later(SILENCE_SECONDS, self.close)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()
