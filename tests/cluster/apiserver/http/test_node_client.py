"""Requests that the API server passes on to pods and nodes."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from kohort.cluster.apiserver.endpoints.proxy import ProxyTarget
from kohort.cluster.apiserver.http.node_client import HttpsNodeClient
from kohort.kube.errors import ApiError


async def answer(request: web.Request) -> web.Response:
    response = web.Response(text=request.path, headers={"X-Own": "kept", "Keep-Alive": "timeout=5"})
    response.headers.add("Set-Cookie", "a=1")
    response.headers.add("Set-Cookie", "b=2")
    return response


@pytest.fixture
async def port() -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield runner.addresses[0][1]
    await runner.cleanup()


@pytest.fixture
async def client() -> AsyncIterator[HttpsNodeClient]:
    made = HttpsNodeClient()
    yield made
    await made.close()


async def test_a_header_that_comes_twice_is_passed_on_twice(port: int, client: HttpsNodeClient) -> None:
    found = await client.forward("GET", ProxyTarget("http", "127.0.0.1", port), "/a", (), {}, b"")
    assert found.headers["set-cookie"] == "a=1\nb=2"
    assert found.headers["x-own"] == "kept"


async def test_headers_of_the_connection_are_not_passed_on(port: int, client: HttpsNodeClient) -> None:
    found = await client.forward("GET", ProxyTarget("http", "127.0.0.1", port), "/a", (), {}, b"")
    assert not {"connection", "keep-alive", "transfer-encoding", "content-length"} & set(found.headers)


async def test_the_length_is_passed_on_for_a_request_without_a_body(port: int, client: HttpsNodeClient) -> None:
    found = await client.forward("HEAD", ProxyTarget("http", "127.0.0.1", port), "/abc", (), {}, b"")
    assert (found.headers["content-length"], found.body) == ("4", b"")


async def test_a_server_that_does_not_listen_is_named(client: HttpsNodeClient) -> None:
    listener = await asyncio.start_server(lambda *streams: None, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    listener.close()
    await listener.wait_closed()
    with pytest.raises(ApiError, match=f"dial tcp 127.0.0.1:{port}: connect: connection refused"):
        await client.forward("GET", ProxyTarget("http", "127.0.0.1", port), "/a", (), {}, b"")
