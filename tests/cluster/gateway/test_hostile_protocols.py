"""Clients and backends that use the protocols against the gateway: floods, trickles, early ends."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientError
from tests.cluster.gateway.http2_client import http2
from tests.cluster.gateway.plane import GATEWAY, Stage, backend, http_route, ingress, stage

from kohort.cluster.gateway import http2_connection, proxy
from kohort.cluster.gateway.views import GATEWAYS
from kohort.kube.resources import HTTP_ROUTES, INGRESSES
from kohort.testing import virtual_time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Stage, int]]:
    async with stage("stable") as scene:
        await scene.cluster.client.create(INGRESSES, ingress("llm", "llm"))
        await scene.open()
        assert scene.plane.proxy is not None
        yield scene, scene.plane.proxy.port


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


async def until_closed(port: int, sent: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    with contextlib.suppress(ConnectionResetError):
        async with asyncio.timeout(60):
            while await reader.read(65536):
                pass
    writer.close()


SETTINGS = frame(4, 0, 0)


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param(
            frame(1, 0, 1, b"\x82\x86\x84") + frame(9, 0, 1, b"\x40\x01a\x01b" * 2000) * 200, id="continuations"
        ),
        pytest.param(SETTINGS * (http2_connection.CONTROL_FRAMES + 1), id="settings"),
        pytest.param(frame(6, 0, 0, bytes(8)) * (http2_connection.CONTROL_FRAMES + 1), id="pings"),
        pytest.param(
            frame(1, 4, 1, b"\x83\x86\x84\x41\x01a") + frame(0, 0, 1) * (http2_connection.CONTROL_FRAMES + 1),
            id="empty parts of a body",
        ),
        pytest.param(
            frame(8, 0, 0, b"\0\0\0\x01") * (http2_connection.CONTROL_FRAMES + 1), id="windows of nothing that was sent"
        ),
        pytest.param(frame(0xCC, 0, 0, b"?") * (http2_connection.CONTROL_FRAMES + 1), id="unknown frames"),
    ],
)
async def test_a_flood_of_frames_ends_the_connection(flood: bytes) -> None:
    async with served() as (scene, port):
        await until_closed(port, PREFACE + SETTINGS + flood)
        assert await scene.get() == (200, "stable")


async def test_an_empty_part_is_not_the_end_of_a_body() -> None:
    async with served() as (_, port), http2(port) as client:
        stream = client.send("/", method="POST", end=False)
        for part in (b"a", b"", b"b"):
            client.h2.send_data(stream, part)
            client.flush()
        client.h2.end_stream(stream)
        client.flush()
        assert await client.status(stream) == 200
        assert await client.body(stream) == b"ab"


def test_a_head_that_trickles_in_does_not_hold_a_connection() -> None:
    virtual_time.run(trickle())


async def trickle() -> None:
    async with served() as (scene, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n")
        loop = asyncio.get_running_loop()
        begun = loop.time()
        with contextlib.suppress(ConnectionError):
            while loop.time() < begun + 3 * proxy.IDLE_SECONDS:
                writer.write(b"x-more: 1\r\n")
                with contextlib.suppress(TimeoutError):
                    if await asyncio.wait_for(reader.read(100), 5.0) == b"":
                        break
        writer.close()
        assert loop.time() < begun + 2 * proxy.IDLE_SECONDS
        assert await scene.get() == (200, "stable")


class EarlyEnd:
    """A backend that answers the first request of a connection and ends it with the second, without an answer."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            for answered in (True, False):
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests.append(head.split(b" ")[0])
                if head.startswith(b"POST"):
                    await reader.readexactly(4)
                if answered:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                    await writer.drain()
        writer.close()


@pytest.mark.parametrize(("method", "status", "seen"), [("GET", 200, 3), ("POST", 502, 2)])
async def test_only_a_request_that_may_be_repeated_is_sent_again(method: str, status: int, seen: int) -> None:
    async with served() as (scene, _):
        early = EarlyEnd()
        server = await asyncio.start_server(early.serve, "127.0.0.1", 0)
        scene.servers["stable"].port, before = server.sockets[0].getsockname()[1], scene.servers["stable"].port
        assert await scene.get() == (200, "ok")
        data = b"body" if method == "POST" else None
        async with scene.http.request(method, scene.plane.address + "/", data=data) as answer:
            assert answer.status == status
        assert len(early.requests) == seen
        assert early.requests.count(b"POST") == (1 if method == "POST" else 0)
        server.close()
        scene.servers["stable"].port = before


async def test_a_gateway_that_stops_answers_what_it_has_begun() -> None:
    async with served() as (scene, port):
        asking = asyncio.ensure_future(scene.get("/slow"))
        await scene.servers["stable"].entered.wait()
        assert scene.plane.proxy is not None
        closing = asyncio.ensure_future(scene.plane.proxy.close())
        await asyncio.sleep(0)
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", port)
        scene.servers["stable"].release.set()
        assert await asking == (200, "stable")
        await closing
        scene.plane.proxy = None


@pytest.mark.parametrize(
    "change",
    [
        {"set": [{"name": "x-a", "value": "1\r\nx-injected: 1"}]},
        {"add": [{"name": "x-a", "value": "1\nx-injected: 1"}]},
        {"set": [{"name": "x-a: 1\r\nx-injected", "value": "1"}]},
    ],
    ids=["value", "value with one line end", "name"],
)
async def test_a_header_of_a_route_cannot_hold_another_line(change: dict[str, object]) -> None:
    async with stage("stable") as scene:
        client = scene.cluster.client
        await client.create(GATEWAYS, GATEWAY)
        filters = [
            {"type": "ResponseHeaderModifier", "responseHeaderModifier": change},
            {"type": "RequestHeaderModifier", "requestHeaderModifier": change},
        ]
        good = {"matches": [{"path": {"value": "/good"}}], "backendRefs": [backend("llm")]}
        await client.create(HTTP_ROUTES, http_route(good, {"filters": filters, "backendRefs": [backend("llm")]}))
        await scene.open()
        assert (await scene.get("/good"))[0] == 200
        with contextlib.suppress(ClientError):
            async with scene.http.get(scene.plane.address + "/headers") as answer:
                assert answer.status == 500
                assert "x-injected" not in answer.headers
