"""The name server of a node: answers for the cluster, and passes every other question on to the machine's own.

It listens at an address that only this node has, so that several can live on one machine; pods find it in their
/etc/resolv.conf. It needs the right to use port 53; without it, the hosts file is all there is.
"""

import asyncio
import contextlib
import random
import struct
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Final

from kohort.node.names.dns_messages import (
    NO_ERROR,
    NO_SUCH_NAME,
    SERVER_FAILURE,
    Question,
    Unreadable,
    answer,
    parse_question,
    shortened,
)
from kohort.node.names.dns_zone import Zone
from kohort.node.names.etc_hosts import DOMAIN

PORT: Final = 53
UPSTREAM_SECONDS: Final = 2.0
_LENGTH: Final = struct.Struct(">H")


class NameServer:
    def __init__(self, zone: Callable[[], Zone], upstream: Callable[[], list[str]]) -> None:
        self._zone = zone
        self._upstream = upstream
        self._datagrams: asyncio.DatagramTransport | None = None
        self._streams: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, address: str, port: int = PORT) -> int:
        """Listen; the port. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._streams = await asyncio.start_server(self._stream, address, port)
        port = int(self._streams.sockets[0].getsockname()[1])
        try:
            self._datagrams, _ = await loop.create_datagram_endpoint(lambda: _Asked(self), (address, port))
        except OSError:
            self.stop()
            raise
        return port

    def stop(self) -> None:
        if self._datagrams is not None:
            self._datagrams.close()
        if self._streams is not None:
            self._streams.close()
        for task in self._tasks:
            task.cancel()

    def datagram(self, data: bytes, sender: tuple[str, int]) -> None:
        task = asyncio.ensure_future(self._reply(data, sender))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reply(self, data: bytes, sender: tuple[str, int]) -> None:
        with contextlib.suppress(Unreadable):
            question = parse_question(data)
            message = shortened(await self._answer(question, data, _by_datagram), question)
            if self._datagrams is not None:
                self._datagrams.sendto(message, sender)

    async def _stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, Unreadable):
            while True:
                (length,) = _LENGTH.unpack(await reader.readexactly(2))
                data = await reader.readexactly(length)
                message = await self._answer(parse_question(data), data, _by_stream)
                writer.write(_LENGTH.pack(len(message)) + message)
                await writer.drain()
        writer.close()

    async def _answer(self, question: Question, data: bytes, ask: "Ask") -> bytes:
        zone = self._zone()
        if not zone.responsible(question.name):
            return await self._passed_on(question, data, ask)
        found = zone.answers(question.name, question.kind)
        if found is None:
            return answer(question, (), NO_SUCH_NAME, zone=DOMAIN)
        random.shuffle(found)
        return answer(question, found, NO_ERROR, zone=DOMAIN)

    async def _passed_on(self, question: Question, data: bytes, ask: "Ask") -> bytes:
        for server in self._upstream():
            with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                return await asyncio.wait_for(ask(server, data), UPSTREAM_SECONDS)
        return answer(question, (), SERVER_FAILURE)


class _Asked(asyncio.DatagramProtocol):
    def __init__(self, server: NameServer) -> None:
        self._server = server

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._server.datagram(data, addr)


class _Answered(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.message: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if not self.message.done():
            self.message.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self.message.done():
            self.message.set_exception(exc)


async def _by_datagram(server: str, data: bytes) -> bytes:
    loop = asyncio.get_running_loop()
    transport, answered = await loop.create_datagram_endpoint(_Answered, remote_addr=(server, PORT))
    try:
        transport.sendto(data)
        return await answered.message
    finally:
        transport.close()


async def _by_stream(server: str, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(server, PORT)
    try:
        writer.write(_LENGTH.pack(len(data)) + data)
        (length,) = _LENGTH.unpack(await reader.readexactly(2))
        return await reader.readexactly(length)
    finally:
        writer.close()


Ask = Callable[[str, bytes], Coroutine[None, None, bytes]]


def machine_nameservers(path: Path = Path("/etc/resolv.conf")) -> list[str]:
    return [words[1] for words in _lines(path) if words[0] == "nameserver" and len(words) > 1]


def machine_search(path: Path = Path("/etc/resolv.conf")) -> list[str]:
    found: list[str] = []
    for words in _lines(path):
        if words[0] in ("search", "domain"):
            found = words[1:]
    return found


def _lines(path: Path) -> list[list[str]]:
    try:
        return [words for line in path.read_text().splitlines() if (words := line.split())]
    except OSError:
        return []
