"""Clients that mean harm, or know no better, on raw sockets: whatever they send, a backend sees only whole requests,
one by one, and the next client is served."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.cluster.gateway.plane import Stage, ingress, stage

from kohort.kube.resources import INGRESSES

HOST = b"host: llm.example\r\n"
REFUSED = (b"HTTP/1.0 400", b"HTTP/1.1 400", b"HTTP/1.1 431")


@asynccontextmanager
async def wire(scene: Stage) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    assert scene.plane.proxy is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", scene.plane.proxy.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def answers(scene: Stage, request: bytes) -> bytes:
    """All that comes back until the proxy closes the connection, or nothing more comes."""
    async with wire(scene) as (reader, writer):
        writer.write(request)
        return await everything(reader)


async def everything(reader: asyncio.StreamReader, quiet: float = 0.5) -> bytes:
    text = b""
    try:
        while part := await asyncio.wait_for(reader.read(65536), quiet if text else 10.0):
            text += part
    except (TimeoutError, ConnectionResetError):
        pass
    return text


@asynccontextmanager
async def served() -> AsyncIterator[Stage]:
    async with stage("stable") as scene:
        await scene.cluster.client.create(INGRESSES, ingress("llm", "llm"))
        await scene.open()
        yield scene
        # Whoever was here before: the next one is served.
        assert await scene.get() == (200, "stable")


SMUGGLED = b"GET /headers HTTP/1.1\r\n" + HOST + b"\r\n"


DOUBTFUL = [
    b"content-length: 6\r\ntransfer-encoding: chunked\r\n",
    b"transfer-encoding: chunked\r\ncontent-length: 6\r\n",
    b"content-length: 6\r\ncontent-length: 7\r\n",
    b"content-length: 6, 7\r\n",
    b"content-length: +6\r\n",
    b"content-length: 0x6\r\n",
    b"content-length: -1\r\n",
    b"transfer-encoding: xchunked\r\n",
    b"transfer-encoding: chunked, identity\r\n",
    b"transfer-encoding : chunked\r\n",
    b"transfer-encoding:\x0bchunked\r\n",
    b"x: y\r\n content-length: 6\r\n",
    b"x: y\nz\r\n",
    b"a\x00b: c\r\n",
    b"transfer-encoding: chunked\r\n\r\n0\r\ncontent-length: 50\r\n",
]


async def test_a_request_whose_end_is_in_doubt_is_refused_and_ends_the_connection() -> None:
    """Two programs that see its end in different places would take a part of its body for a request of its own."""
    async with served() as scene:
        for head in DOUBTFUL:
            text = await answers(scene, b"POST / HTTP/1.1\r\n" + HOST + head + b"\r\n0\r\n\r\n" + SMUGGLED)
            assert text.startswith(REFUSED), (head, text[:200])
            assert text.count(b"HTTP/1.") == 1, (head, text)
        assert scene.servers["stable"].requests == 0


async def test_requests_in_a_row_are_answered_in_their_order() -> None:
    async with served() as scene:
        post = b"POST /echo HTTP/1.1\r\n" + HOST + b"content-length: 5\r\n\r\nhello"
        chunked = (
            b"POST /echo HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
        )
        last = b"GET / HTTP/1.1\r\n" + HOST + b"connection: close\r\n\r\n"
        text = await answers(scene, post + chunked + last)
        places = [text.rindex(part) for part in (b"hello", b"abcde", b"\r\n\r\nstable")]
        assert places == sorted(places)
        assert text.count(b"HTTP/1.1 200") == 3


async def test_trailers_end_a_body_and_are_not_taken_for_more() -> None:
    async with served() as scene:
        body = b"3\r\nabc\r\n0\r\nx-sum: 1\r\n\r\n"
        head = b"POST /echo HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n"
        text = await answers(scene, head + body + b"GET / HTTP/1.1\r\n" + HOST + b"connection: close\r\n\r\n")
        assert text.count(b"HTTP/1.1 200") == 2 and b"abc" in text and text.endswith(b"stable")


async def test_who_waits_to_be_told_to_go_on_is_told() -> None:
    async with served() as scene, wire(scene) as (reader, writer):
        writer.write(b"POST /echo HTTP/1.1\r\n" + HOST + b"content-length: 5\r\nexpect: 100-continue\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"hello")
        text = await everything(reader)
        assert text.startswith(b"HTTP/1.1 200") and text.endswith(b"hello") and b"100 Continue" not in text


LARGE = [
    b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"x: " + b"a" * 20_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"".join(b"x%d: y\r\n" % number for number in range(40_000)) + b"\r\n",
]


async def test_heads_that_are_too_large_are_refused() -> None:
    async with served() as scene:
        for request in LARGE:
            text = await answers(scene, request)
            assert text.startswith(REFUSED), (request[:20], text[:100])


async def test_bodies_go_on_as_they_come_however_slowly() -> None:
    """The backend has the first part while the client has not sent the second."""
    async with served() as scene, wire(scene) as (reader, writer):
        writer.write(b"POST /echo HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        await asyncio.wait_for(scene.servers["stable"].first_part.wait(), 10.0)
        writer.write(b"6\r\nsecond\r\n0\r\n\r\n")
        assert (await everything(reader)).endswith(b"firstsecond")


BEGUN = [
    b"GET / HT",
    b"POST /echo HTTP/1.1\r\n" + HOST + b"content-length: 100\r\n\r\nhalf",
    b"POST /echo HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\nffff\r\nhalf",
]


async def test_clients_that_vanish_leave_nothing_behind() -> None:
    async with served() as scene:
        await scene.get()
        before = asyncio.all_tasks()

        def left() -> list[str]:
            return [str(task) for task in asyncio.all_tasks() - before if not task.done()]

        for begun in BEGUN:
            for _ in range(3):
                async with wire(scene) as (_, writer):
                    writer.write(begun)
                    await writer.drain()
                    await asyncio.sleep(0.02)
                    writer.transport.abort()
            try:
                await scene.cluster.until(lambda: not left(), 10.0)
            except AssertionError as problem:
                raise AssertionError(f"after {begun!r}: {left()}") from problem
