"""HTTP/2 from clients: streams in parallel, bodies in both directions, and clients that mean harm."""

import asyncio
import contextlib
import json

import pytest
from tests.cluster.gateway.http2_client import http2
from tests.cluster.gateway.plane import GATEWAY, HTTP_ROUTES, Stage, backend, http_route, ingress, stage

from kohort.cluster.gateway import http2_connection
from kohort.cluster.gateway.views import GATEWAYS
from kohort.kube.resources import INGRESSES


async def port(scene: Stage) -> int:
    await scene.cluster.client.create(INGRESSES, ingress("llm", "llm"))
    return int((await scene.open()).rpartition(":")[2])


async def test_requests_on_one_connection_do_not_wait_for_each_other() -> None:
    async with stage("stable") as scene, http2(await port(scene)) as client:
        slow = client.send("/slow")
        await scene.servers["stable"].entered.wait()
        assert await client.get("/") == (200, b"stable")
        scene.servers["stable"].release.set()
        assert (await client.status(slow), await client.body(slow)) == (200, b"stable")


async def test_events_of_a_stream_arrive_when_they_are_sent() -> None:
    async with stage("stable") as scene, http2(await port(scene)) as client:
        stream = client.send("/events")
        assert await client.status(stream) == 200
        assert await client.part(stream) == b"data: first\n\n"
        scene.servers["stable"].release.set()
        assert await client.body(stream) == b"data: second\n\n"


async def test_large_bodies_pass_in_both_directions() -> None:
    body = bytes(range(256)) * 8_000
    async with stage("stable") as scene, http2(await port(scene)) as client:
        stream = client.send("/", method="POST", end=False)
        left = memoryview(body)
        async with asyncio.timeout(120):
            while left:
                room = min(client.h2.local_flow_control_window(stream), client.h2.max_outbound_frame_size, len(left))
                if room:
                    client.h2.send_data(stream, bytes(left[:room]), end_stream=room == len(left))
                    client.flush()
                    left = left[room:]
                await asyncio.sleep(0)
        assert await client.status(stream) == 200
        assert await client.body(stream) == body
        # A client that reads in small pieces updates its window for each of them.
        assert len(body) // 1024 > http2_connection.CONTROL_FRAMES
        for _ in range(len(body) // 1024):
            client.h2.increment_flow_control_window(1024)
        client.flush()
        assert (await client.get("/"))[0] == 200


async def test_heads_reach_the_backend_as_those_of_http1_do() -> None:
    async with stage("stable") as scene, http2(await port(scene)) as client:
        stream = client.send("/headers", ("cookie", "a=1"), ("cookie", "b=2"), ("x-forwarded-for", "192.0.2.1"))
        assert await client.status(stream) == 200
        got = dict(tuple(pair) for pair in json.loads(await client.body(stream)))
        assert (got["host"], got["cookie"], got["x-forwarded-for"]) == ("llm.example", "a=1; b=2", "127.0.0.1")


async def test_a_stream_that_began_before_a_switch_ends_normally() -> None:
    async with stage("stable", "canary") as scene:
        client = scene.cluster.client
        await client.create(GATEWAYS, GATEWAY)
        await client.create(HTTP_ROUTES, http_route({"backendRefs": [backend("llm")]}))
        number = int((await scene.open()).rpartition(":")[2])
        async with http2(number) as connection:
            stream = connection.send("/events")
            assert await connection.part(stream) == b"data: first\n\n"
            switched = {"spec": {"rules": [{"backendRefs": [backend("llm-canary")]}]}}
            await client.patch(HTTP_ROUTES, "llm", "default", switched)
            async with asyncio.timeout(120):
                while await connection.get("/") != (200, b"canary"):
                    pass
            scene.servers["stable"].release.set()
            assert await connection.body(stream) == b"data: second\n\n"


async def test_an_answer_that_breaks_off_is_not_taken_for_complete() -> None:
    async with stage("stable") as scene, http2(await port(scene)) as client:
        stream = client.send("/broken")
        assert await client.status(stream) == 200
        with pytest.raises(ConnectionResetError):
            await client.body(stream)
        assert await client.get("/") == (200, b"stable")


HARMFUL = [
    (("x", "a\r\ny: b"),),
    (("x\r\ny", "a"),),
    (("x", "a\x00"),),
    ((":method", "GET / HTTP/1.1\r\n\r\nGET"),),
]


@pytest.mark.parametrize("headers", HARMFUL)
async def test_heads_that_would_be_two_requests_on_the_way_on_are_not_passed_on(
    headers: tuple[tuple[str, str], ...],
) -> None:
    async with stage("stable") as scene:
        number = await port(scene)
        async with http2(number) as client:
            assert await client.status(client.send("/headers", *headers)) in (0, -1, 400)
        assert scene.servers["stable"].requests == 0
        async with http2(number) as client:
            assert await client.get("/") == (200, b"stable")


async def test_a_path_that_names_another_host_is_not_served() -> None:
    """The host of a request is its :authority; a certificate was shown for that one."""
    async with stage("stable") as scene, http2(await port(scene)) as client:
        assert await client.status(client.send("http://other.example/")) == 0
        assert scene.servers["stable"].requests == 0
        assert await client.get("/") == (200, b"stable")


async def test_a_client_that_resets_its_streams_at_once_loses_its_connection() -> None:
    """Some more than are allowed, and again: a request whose reset comes late is answered, and then allows for one
    more."""
    async with stage("stable") as scene, http2(await port(scene)) as client:
        async with asyncio.timeout(120):
            while not client.closed.is_set():
                for _ in range(http2_connection.RESETS + 50):
                    client.h2.reset_stream(client.send("/slow"))
                    client.flush()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(client.closed.wait(), 5)
        assert (await scene.get())[0] == 200


async def test_more_streams_than_allowed_are_refused() -> None:
    async with stage("stable") as scene, http2(await port(scene)) as client:
        await client.get("/")
        assert client.h2.remote_settings.max_concurrent_streams == http2_connection.STREAMS
