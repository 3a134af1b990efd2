"""Bodies in chunks and compressed bodies: the server reads no more than its limits and unpacks nothing."""

import asyncio
import contextlib
import gzip
import json
import tracemalloc
from collections.abc import AsyncIterator

import pytest
from tests.cluster.apiserver.caller import AllowAll

from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.catalog.builtin_kinds import builtin_kinds
from kohort.cluster.apiserver.catalog.catalog import Catalog
from kohort.cluster.apiserver.endpoints.request_bodies import MAX_BODY
from kohort.cluster.apiserver.http.body_budget import ReadDeadlines
from kohort.cluster.apiserver.http.https_server import HttpsServer
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.storage.store import open_store

PATH = "/api/v1/namespaces/default/configmaps"
CONFIG_MAP = b'{"metadata":{"name":"x"}}'


@pytest.fixture
async def front() -> AsyncIterator[HttpsServer]:
    server = ApiServer(open_store(None), Catalog(builtin_kinds()), AllowAll())
    front = HttpsServer(server, lambda headers, certificate: ADMIN, deadlines=ReadDeadlines(head=0.2, body=0.2))
    await front.start()
    yield front
    await front.stop()
    await server.close()


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, front: HttpsServer, headers: str = "Transfer-Encoding: chunked") -> "Connection":
        connection = cls(*await asyncio.open_connection("127.0.0.1", front.port))
        await connection.send(f"POST {PATH} HTTP/1.1\r\nHost: h\r\n{headers}\r\n\r\n".encode())
        return connection

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def flood(self, piece: bytes) -> None:
        """Send without end; returns when the server closes the connection."""
        async with asyncio.timeout(10):
            with contextlib.suppress(ConnectionError):
                while True:
                    await self.send(piece)
                    await asyncio.sleep(0)

    async def answer(self) -> bytes:
        with contextlib.suppress(ConnectionError):
            return await self.reader.read(65536)
        return b""

    def close(self) -> None:
        self.writer.close()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def test_chunks_are_put_together(front: HttpsServer) -> None:
    connection = await Connection.to(front)
    for byte in CONFIG_MAP:
        await connection.send(chunk(bytes([byte])))
    await connection.send(b"0\r\nX-Trailer: ignored\r\n\r\n")
    assert (await connection.answer()).startswith(b"HTTP/1.1 201 ")
    connection.close()


@pytest.mark.parametrize("size", [b"7fffffff", b"7fffffffffffffff"])
async def test_a_chunk_that_claims_to_be_huge_is_read_only_up_to_the_limit(front: HttpsServer, size: bytes) -> None:
    connection = await Connection.to(front)
    await connection.send(size + b"\r\n")
    await connection.send(b" " * (MAX_BODY + 1))
    assert (await connection.answer()).startswith(b"HTTP/1.1 413 ")
    await connection.flood(b" " * 65536)
    connection.close()


async def test_too_many_chunks_are_too_large(front: HttpsServer) -> None:
    connection = await Connection.to(front)
    for _ in range(MAX_BODY // 65536 + 1):
        await connection.send(chunk(b" " * 65536))
    assert (await connection.answer()).startswith(b"HTTP/1.1 413 ")
    await connection.flood(chunk(b" " * 65536))
    connection.close()


@pytest.mark.parametrize("size", [b"ffffffffffffffffff", b"-1", b"x", b"1" * 100_000, b"5;" + b"e" * 2_000_000])
async def test_a_size_that_is_not_one_is_refused(front: HttpsServer, size: bytes) -> None:
    connection = await Connection.to(front)
    with contextlib.suppress(ConnectionError):
        await connection.send(size + b"\r\n")
    assert b" 201 " not in await connection.answer()
    connection.close()


async def test_chunks_that_arrive_slowly_have_a_deadline_together(front: HttpsServer) -> None:
    connection = await Connection.to(front)

    async def drip() -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                await connection.send(chunk(b" "))
                await asyncio.sleep(0.01)

    dripping = asyncio.ensure_future(drip())
    assert (await connection.answer()).startswith(b"HTTP/1.1 408 ")
    dripping.cancel()
    connection.close()


async def test_trailers_without_end_are_not_collected(front: HttpsServer) -> None:
    connection = await Connection.to(front)
    await connection.send(chunk(CONFIG_MAP) + b"0\r\n")
    piece = b"".join(b"X-T%d: %b\r\n" % (n, b"v" * 1000) for n in range(64))
    tracemalloc.start()
    try:
        await connection.flood(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * MAX_BODY
    connection.close()


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_compressed_body_is_never_unpacked(front: HttpsServer, encoding: str, chunked: bool) -> None:
    packed = gzip.compress(CONFIG_MAP + b" " * 50_000_000, 1)
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(packed)}"
    connection = await Connection.to(
        front, f"Content-Encoding: {encoding}\r\nContent-Type: application/json\r\n{framing}"
    )
    await connection.send(chunk(packed) + b"0\r\n\r\n" if chunked else packed)
    head, _, body = (await connection.answer()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["reason"] == "BadRequest"
    connection.close()
