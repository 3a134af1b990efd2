"""Listening sockets.

asyncio would accept as many connections at once as may wait, and when the process has no file left for one, it would
fail and say so as many times, again and again. Here a few are accepted at a time, and a process without files says it
once, and rests for a second.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from kohort.kube.log import Log

BACKLOG: Final = 4096
"""Connections that may wait to be accepted."""
AT_ONCE: Final = 32
REST_SECONDS: Final = 1.0
_GONE: Final = (BlockingIOError, InterruptedError, ConnectionAbortedError)
"""No client is connected, or not any more."""


class Listener:
    def __init__(self, protocol: Callable[[], asyncio.BaseProtocol], log: Log) -> None:
        """`protocol` is made for every connection."""
        self._protocol = protocol
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._beginning: set[asyncio.Task[object]] = set()
        self._resting: asyncio.TimerHandle | None = None
        self._complained = False

    async def open(self, host: str, port: int) -> int:
        """Listen on all addresses of a host; the port, which is any free one if 0 was wanted."""
        found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, _, _, _, (name, _, *scope) in dict.fromkeys(found):
                self._sockets.append(_bound(family, (name, port, *scope)))
                port = self._sockets[0].getsockname()[1]
        except OSError:
            self.close()
            raise
        self._listen()
        return port

    def close(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
        for one in self._sockets:
            self._loop.remove_reader(one)
            one.close()
        self._sockets = []

    def _listen(self) -> None:
        for one in self._sockets:
            self._loop.add_reader(one, self._accept, one)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, _ = listening.accept()
            except _GONE:
                return
            except OSError as problem:
                self._rest(problem)
                return
            self._complained = False
            connection.setblocking(False)
            beginning = self._loop.create_task(self._begin(connection))
            self._beginning.add(beginning)
            beginning.add_done_callback(self._beginning.discard)

    async def _begin(self, connection: socket.socket) -> None:
        await self._loop.connect_accepted_socket(self._protocol, connection)

    def _rest(self, problem: OSError) -> None:
        if not self._complained:
            self._log.error("failed to accept connections", problem=str(problem))
            self._complained = True
        for one in self._sockets:
            self._loop.remove_reader(one)
        self._resting = self._loop.call_later(REST_SECONDS, self._listen)


def _bound(family: int, address: tuple[object, ...]) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.setblocking(False)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening
