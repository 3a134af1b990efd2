"""Relays the bytes of SPDY connections between a client and a node unchanged.

Clients that do not use WebSockets ask for `Upgrade: SPDY/3.1`. The node is asked the same, the client gets the node's
answer, and from then on both sides are only carried to each other.
"""

import asyncio
from typing import Final

from aiohttp import ClientResponse, web
from aiohttp.base_protocol import BaseProtocol

from kohort.cluster.apiserver.http.node_client import VERSIONS
from kohort.cluster.apiserver.http.response_writer import encode_head

FULL, EMPTY_AGAIN = 64, 16
"""Pieces that wait to be passed on: when to stop listening, and when to go on."""
_AGREEMENT_HEADERS: Final = ("connection", "upgrade", VERSIONS)
"""Headers with which a node agrees."""


class RelayEnd:
    """One end of a relay. aiohttp calls what it hands the bytes of a connection a parser."""

    def __init__(self, protocol: BaseProtocol) -> None:
        assert isinstance(protocol.transport, asyncio.Transport)
        self.transport = protocol.transport
        self._drained = protocol._drain_helper
        self._arrived: asyncio.Queue[bytes | None] = asyncio.Queue()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._arrived.put_nowait(bytes(data))
        if self._arrived.qsize() == FULL:
            self.transport.pause_reading()
        return False, b""

    def feed_eof(self) -> None:
        self._arrived.put_nowait(None)

    def set_exception(self, *problem: object) -> None:
        self._arrived.put_nowait(None)

    async def pass_on(self, other: "RelayEnd") -> None:
        """What arrives here goes there, until nothing more will arrive."""
        while (data := await self._arrived.get()) is not None:
            if self._arrived.qsize() == EMPTY_AGAIN:
                self.transport.resume_reading()
            other.transport.write(data)
            await other._drained()


def join_connections(incoming: web.BaseRequest, answer: ClientResponse) -> tuple[RelayEnd, RelayEnd]:
    """Send the client the answer of the node, and take both connections away from HTTP."""
    connection = answer.connection
    assert connection is not None
    assert connection.protocol is not None
    client, node = RelayEnd(incoming.protocol), RelayEnd(connection.protocol)
    headers = {key.lower(): value for key, value in answer.headers.items() if key.lower() in _AGREEMENT_HEADERS}
    client.transport.write(encode_head(101, headers))
    incoming.protocol.set_parser(client)  # type: ignore[arg-type]
    connection.protocol.set_parser(node, node)
    return client, node
