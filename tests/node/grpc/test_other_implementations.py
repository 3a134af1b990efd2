"""With grpcio on the other side: a server of theirs and our client, a client of theirs and our server."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.node.grpc.messages import COUNT, ECHO, FAIL, MISSING, Text
from tests.node.grpc.test_calls import Service

from kohort.node.grpc.client import channel
from kohort.node.grpc.codec import decode, encode
from kohort.node.grpc.server import Server
from kohort.node.grpc.status import Code, RpcError

MEGABYTES = [("grpc.max_send_message_length", 16 << 20), ("grpc.max_receive_message_length", 16 << 20)]


async def _echo(request: bytes, context: Any) -> bytes:
    return request


async def _count(request: bytes, context: Any) -> AsyncIterator[bytes]:
    for number in range(int(decode(Text, request).text)):
        yield encode(Text(str(number)))


async def _fail(request: bytes, context: Any) -> bytes:
    await context.abort(grpc.StatusCode.NOT_FOUND, "weg: ü 100%")
    return b""


async def test_our_client_with_their_server(tmp_path: Path) -> None:
    server = grpc.aio.server(options=MEGABYTES)
    handlers = {
        "Echo": grpc.unary_unary_rpc_method_handler(_echo),
        "Count": grpc.unary_stream_rpc_method_handler(_count),
        "Fail": grpc.unary_unary_rpc_method_handler(_fail),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", handlers),))
    server.add_insecure_port(f"unix:{tmp_path}/s")
    await server.start()
    async with asyncio.timeout(60), channel(tmp_path / "s") as client:
        assert (await client.call(ECHO, Text("hello"), timeout=30)).text == "hello"
        large = "z" * (8 << 20)
        assert (await client.call(ECHO, Text(large), timeout=30)).text == large
        assert [each.text async for each in client.stream(COUNT, Text("500"))] == [str(each) for each in range(500)]
        with pytest.raises(RpcError) as caught:
            await client.call(FAIL, Text(), timeout=30)
        assert (caught.value.code, caught.value.detail) == (Code.NOT_FOUND, "weg: ü 100%")
        with pytest.raises(RpcError) as caught:
            await client.call(MISSING, Text(), timeout=30)
        assert caught.value.code == Code.UNIMPLEMENTED
        await server.stop(grace=None)
        with pytest.raises(RpcError) as caught:
            await client.call(ECHO, Text(), timeout=30)
        assert caught.value.code == Code.UNAVAILABLE


async def test_their_client_with_our_server(tmp_path: Path) -> None:
    made = Service()
    server: Server = made.server
    await server.listen(tmp_path / "s")
    async with asyncio.timeout(60), grpc.aio.insecure_channel(f"unix:{tmp_path}/s", options=MEGABYTES) as client:
        echo = client.unary_unary(ECHO.path)
        assert await echo(encode(Text("hello"))) == encode(Text("hello"))
        large = encode(Text("z" * (8 << 20)))
        assert await echo(large) == large
        count = client.unary_stream(COUNT.path)(encode(Text("500")))
        assert [decode(Text, each).text async for each in count] == [str(each) for each in range(500)]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await client.unary_unary(FAIL.path)(encode(Text("weg: ü 100%")))
        assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.NOT_FOUND, "weg: ü 100%")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await client.unary_unary(MISSING.path)(b"")
        assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
    await server.close()
