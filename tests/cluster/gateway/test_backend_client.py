"""Answers of backends, in pieces of any size, and answers that are not HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kohort.cluster.gateway.backend_client import (
    AnswerTimeout,
    BackendConnection,
    BackendError,
    BackendPool,
    BadAnswer,
    CannotConnect,
    ConnectionLost,
)
from kohort.cluster.gateway.backends import Address

OK = b"HTTP/1.1 200 OK\r\n"


@asynccontextmanager
async def answering(answer: bytes, *, pieces: int = 0, close: bool = True) -> AsyncIterator[BackendConnection]:
    """A connection to a server that sends this answer, in pieces of so many bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for start in range(0, len(answer), pieces or len(answer) or 1):
            writer.write(answer[start : start + (pieces or len(answer))])
            await writer.drain()
            await asyncio.sleep(0)
        if close:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    pool = BackendPool()
    try:
        connection = await pool.connect(Address("127.0.0.1", server.sockets[0].getsockname()[1]))
        connection.send(b"GET / HTTP/1.1\r\n\r\n")
        yield connection
        connection.close()
    finally:
        pool.close()
        server.close()


async def whole(connection: BackendConnection, method: str = "GET") -> tuple[int, bytes]:
    connection.expect(5.0)
    head = await connection.head(method)
    body = b""
    while part := await connection.read():
        body += part
    return head.status, body


COMPLETE: dict[str, tuple[bytes, bytes]] = {
    "length": (OK + b"Content-Length: 5\r\n\r\nhello", b"hello"),
    "chunks": (OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nx: trailer\r\n\r\n", b"hello"),
    "until closed": (OK + b"\r\nhello", b"hello"),
    "old": (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
    "interim": (b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK + b"content-length: 5\r\n\r\nhello", b"hello"),
    "empty": (OK + b"Content-Length: 0\r\n\r\n", b""),
    "same length twice": (OK + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
    "no reason": (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", b"ok"),
}


@pytest.mark.parametrize("pieces", [0, 1, 7])
@pytest.mark.parametrize("name", COMPLETE)
async def test_an_answer_is_read_to_its_end(name: str, pieces: int) -> None:
    answer, body = COMPLETE[name]
    async with answering(answer, pieces=pieces) as connection:
        assert await whole(connection) == (200, body)


BAD = [
    b"nonsense\r\n\r\n",
    b"HTTP/2.0 200 OK\r\n\r\n",
    OK + b"no colon\r\n\r\n",
    OK + b"a b: c\r\n\r\n",
    OK + b"a: b\r\n folded\r\n\r\n",
    OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    OK + b"Content-Length: -1\r\n\r\n",
    OK + b"Content-Length: +5\r\n\r\nhello",
    OK + b"Transfer-Encoding: gzip\r\n\r\n",
    OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    OK + b"x: " + b"y" * 70_000 + b"\r\n\r\n",
]


@pytest.mark.parametrize("answer", BAD)
async def test_what_is_not_http_is_an_error(answer: bytes) -> None:
    async with answering(answer) as connection:
        with pytest.raises(BadAnswer):
            await whole(connection)


SHORT = [
    b"",
    OK,
    OK + b"Content-Length: 6\r\n\r\nhello",
    OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
    OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
]


@pytest.mark.parametrize("answer", SHORT)
async def test_an_answer_that_ends_early_is_an_error(answer: bytes) -> None:
    async with answering(answer) as connection:
        with pytest.raises(ConnectionLost):
            await whole(connection)


REUSED = {
    OK + b"Content-Length: 5\r\n\r\nhello": True,
    OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n": True,
    OK + b"Connection: close\r\nContent-Length: 5\r\n\r\nhello": False,
    OK + b"Content-Length: 5\r\n\r\nhello and more": False,
    OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n": False,
    b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello": False,
}


@pytest.mark.parametrize("answer", REUSED)
async def test_a_connection_is_used_again_only_if_the_answer_ended_beyond_doubt(answer: bytes) -> None:
    async with answering(answer, close=False) as connection:
        assert await whole(connection) == (200, b"hello")
        assert connection.finish() is REUSED[answer]


async def test_an_answer_without_a_body_ends_with_its_head() -> None:
    async with answering(OK + b"Content-Length: 5\r\n\r\n", close=False) as connection:
        assert await whole(connection, "HEAD") == (200, b"")
        assert connection.finish()


async def test_a_backend_that_says_nothing_in_time_is_given_up() -> None:
    async with answering(OK, close=False) as connection:
        with pytest.raises(AnswerTimeout):
            connection.expect(0.05)
            await connection.head("GET")


async def test_an_address_that_nothing_listens_at() -> None:
    with pytest.raises(CannotConnect):
        await BackendPool().connect(Address("127.0.0.1", 9))
    assert issubclass(CannotConnect, BackendError)
