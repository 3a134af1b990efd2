"""Buffers of TLS connections."""

import asyncio
import ssl
from collections.abc import Iterator

import pytest

from kohort.admission.certificates import issue
from kohort.admission.server import load
from kohort.kube import tls_buffers

LONG = 1_000_003
"""Bytes: many buffers full, and no multiple of one."""


@pytest.fixture
def small() -> Iterator[None]:
    before = asyncio.sslproto.SSLProtocol.max_size
    tls_buffers.limit_tls_buffers()
    yield
    asyncio.sslproto.SSLProtocol.max_size = before


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.readexactly(LONG))
    await writer.drain()
    writer.close()


async def test_a_connection_holds_a_small_buffer_and_long_messages_pass(small: None) -> None:
    server_side, client_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bundle = issue(["localhost"])
    load(server_side, bundle)
    client_side.load_verify_locations(cadata=bundle.ca_certificate.decode())
    message = bytes(number % 251 for number in range(LONG))
    async with await asyncio.start_server(_echo, "127.0.0.1", 0, ssl=server_side) as server:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_side, server_hostname="localhost")
        writer.write(message)
        assert await reader.read(-1) == message
        protocol = writer.transport._ssl_protocol  # type: ignore[attr-defined]
        assert len(protocol._ssl_buffer) == tls_buffers.SIZE
        writer.close()
