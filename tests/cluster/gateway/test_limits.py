"""What one client can take of the gateway."""

import asyncio
import contextlib

from aiohttp import WSMsgType
from tests.cluster.gateway.plane import ingress, stage

from kohort.cluster.gateway import aiohttp_connection
from kohort.kube.resources import INGRESSES


async def test_connections_of_one_client_are_bounded() -> None:
    async with stage("stable", connections_per_client=3) as scene:
        await scene.cluster.client.create(INGRESSES, ingress("llm", "llm"))
        port = int((await scene.open()).rpartition(":")[2])
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for reader, writer in held:
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert (await reader.read()).startswith(b"HTTP/1.1 503")
        writer.close()
        for _, writer in held:
            writer.close()
            await writer.wait_closed()
        async with asyncio.timeout(120):
            while (await scene.get())[0] != 200:
                pass


async def test_trusted_proxies_may_have_more_connections() -> None:
    async with stage("stable", connections_per_client=1, trusted_proxies="127.0.0.1") as scene:
        await scene.cluster.client.create(INGRESSES, ingress("llm", "llm"))
        await scene.open()
        assert await scene.count(40) == {"stable": 40}


async def test_a_websocket_message_that_is_too_large_ends_the_connection() -> None:
    async with stage("stable") as scene:
        await scene.cluster.client.create(INGRESSES, ingress("llm", "llm"))
        address = await scene.open()
        async with scene.http.ws_connect(address + "/socket", max_msg_size=0) as socket:
            with contextlib.suppress(ConnectionError):
                await socket.send_bytes(bytes(aiohttp_connection.MESSAGE_BYTES + 1))
            message = await socket.receive(timeout=20)
            assert message.type in (WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.ERROR), message
        assert (await scene.get())[0] == 200


async def test_a_body_that_no_backend_reads_does_not_keep_the_answer_back() -> None:
    """The route is unknown: the answer comes although the body is still on its way, and the connection ends."""
    async with stage("stable") as scene:
        await scene.cluster.client.create(INGRESSES, ingress("llm", "llm", host="known.example"))
        port = int((await scene.open()).rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: other.example\r\nContent-Length: 1000000\r\n\r\nbegin")
        text = await reader.read()
        assert text.startswith(b"HTTP/1.1 404") and b"Connection: close" in text
        writer.close()
