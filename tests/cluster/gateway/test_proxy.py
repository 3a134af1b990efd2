"""What a proxy owes its clients: streams, sockets, requests in flight, honest errors."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import ClientPayloadError, WSMsgType
from tests.builders import pod
from tests.cluster.gateway.plane import GATEWAY, Stage, backend, http_route, ingress, slice_of, stage, until_answered

from kohort.cluster.gateway import backend_client
from kohort.cluster.gateway.views import GATEWAYS
from kohort.kube.resources import ENDPOINT_SLICES, HTTP_ROUTES, INGRESSES, PODS, SERVICES, Resource
from kohort.objects.json_types import JsonObject


async def opened(scene: Stage, **annotations: str) -> str:
    await scene.cluster.client.create(INGRESSES, ingress("llm", "llm", **annotations))
    return await scene.open()


async def test_events_of_a_stream_arrive_when_they_are_sent() -> None:
    async with stage("stable") as scene:
        address = await opened(scene)
        async with scene.http.get(address + "/events") as answer:
            assert answer.content_type == "text/event-stream"
            assert await answer.content.readany() == b"data: first\n\n"
            # Only now is the server allowed to go on: a proxy that gathers would hang at the line above.
            scene.servers["stable"].release.set()
            assert await answer.content.read() == b"data: second\n\n"


async def test_a_websocket_in_both_directions() -> None:
    async with stage("stable") as scene:
        address = await opened(scene)
        async with scene.http.ws_connect(address + "/socket", protocols=("other", "tokens")) as socket:
            assert socket.protocol == "tokens"
            await socket.send_str("hello")
            assert await socket.receive_str() == "stable: hello"
            await socket.send_bytes(b"\x00abc" * 50_000)
            assert await socket.receive_bytes() == b"cba\x00" * 50_000
            await socket.ping()
            await socket.send_str("again")
            assert await socket.receive_str() == "stable: again"
            await socket.close(code=1000)


async def test_a_websocket_that_the_server_closes_is_closed_here() -> None:
    async with stage("stable") as scene:
        address = await opened(scene)
        async with scene.http.ws_connect(address + "/socket") as socket:
            await scene.servers["stable"].stop()
            message = await socket.receive()
            assert message.type in (WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.CLOSING)


async def test_a_page_asked_for_as_a_websocket_is_a_page() -> None:
    async with stage("stable") as scene:
        address = await opened(scene)
        headers = {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-version": "13"}
        headers["sec-websocket-key"] = "dGhlIHNhbXBsZSBub25jZQ=="
        async with scene.http.get(address + "/", headers=headers) as answer:
            assert (answer.status, await answer.text()) == (200, "stable")


async def test_requests_in_flight_finish_where_they_began() -> None:
    async with stage("stable", "canary") as scene:
        client = scene.cluster.client
        await client.create(GATEWAYS, GATEWAY)
        await client.create(HTTP_ROUTES, http_route({"backendRefs": [backend("llm")]}))
        address = await scene.open()
        slow = asyncio.ensure_future(scene.get("/slow"))
        await scene.servers["stable"].entered.wait()
        await client.patch(
            HTTP_ROUTES, "llm", "default", {"spec": {"rules": [{"backendRefs": [backend("llm-canary")]}]}}
        )
        await scene.endpoints("llm")
        await until_answered(scene, "canary")
        scene.servers["stable"].release.set()
        assert await slow == (200, "stable")
        assert address == scene.plane.address


CHANGES: dict[str, Callable[[Stage], Awaitable[object]]] = {
    "switched": lambda scene: scene.cluster.client.patch(
        HTTP_ROUTES, "llm", "default", {"spec": {"rules": [{"backendRefs": [backend("llm-canary")]}]}}
    ),
    "route deleted": lambda scene: scene.cluster.client.delete(HTTP_ROUTES, "llm", "default"),
    "gateway deleted": lambda scene: scene.cluster.client.delete(GATEWAYS, "front", "default"),
    "endpoints removed": lambda scene: scene.endpoints("llm"),
    "service deleted": lambda scene: scene.cluster.client.delete(SERVICES, "llm", "default"),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_stream_that_began_before_a_change_of_routes_ends_normally(change: str) -> None:
    """New requests follow the change, those on a connection that is open already too."""
    async with stage("stable", "canary") as scene:
        client = scene.cluster.client
        await client.create(GATEWAYS, GATEWAY)
        await client.create(HTTP_ROUTES, http_route({"backendRefs": [backend("llm")]}))
        address = await scene.open()
        assert await scene.get() == (200, "stable")
        async with (
            scene.http.get(address + "/events") as stream,
            scene.http.ws_connect(address + "/socket", protocols=("tokens",)) as socket,
        ):
            assert await stream.content.readany() == b"data: first\n\n"
            await CHANGES[change](scene)
            async with asyncio.timeout(120):
                while await scene.get() == (200, "stable"):
                    pass
            if change == "switched":
                assert await scene.get() == (200, "canary")
            await socket.send_str("hello")
            assert await socket.receive_str() == "stable: hello"
            scene.servers["stable"].release.set()
            assert await stream.content.read() == b"data: second\n\n", "to its end, without an error"


async def test_endpoints_take_turns_and_a_dead_one_causes_no_error() -> None:
    async with stage("a", "b", "c") as scene:
        address = await opened(scene)
        await scene.endpoints("llm", 0, 1, 2)
        await until_answered(scene, "c")
        seen = await scene.count(90)
        assert seen == {"a": 30, "b": 30, "c": 30}
        await scene.servers["b"].stop()
        seen = await scene.count(90)
        assert seen.keys() == {"a", "c"} and sum(seen.values()) == 90
        async with scene.http.post(address, data=b"not repeatable") as answer:
            assert await answer.read() == b"not repeatable"


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ("none", 404, "no Ingress or HTTPRoute"),
        ("not ready", 503, "Service default/llm has no ready endpoint"),
        ("no service", 503, "there is no Service default/llm with port 80"),
        ("refused", 502, "no connection to 127.0.0.1"),
    ],
)
async def test_what_cannot_be_served_is_said_by_status_and_word(change: str, status: int, words: str) -> None:
    async with stage("stable") as scene:
        client = scene.cluster.client
        await client.create(INGRESSES, ingress("llm", "llm", path="/here"))
        await scene.open()
        assert (await scene.get("/here"))[0] == 200
        if change == "not ready":
            await scene.endpoints("llm", 0, ready=False)
        elif change == "no service":
            await client.delete(SERVICES, "llm", "default")
        elif change == "refused":
            await scene.endpoints("llm", 77)
        path = "/elsewhere" if change == "none" else "/here"
        async with asyncio.timeout(120):
            while (answer := await scene.get(path))[0] == 200:
                pass
        assert answer[0] == status
        assert words in answer[1]


async def test_a_pod_that_is_going_serves_until_there_is_another() -> None:
    async with stage("stable", "other") as scene:
        await opened(scene)
        going = slice_of("llm", 0)
        going["endpoints"][0]["conditions"] = {"ready": False, "serving": True, "terminating": True}
        await scene.cluster.client.update(ENDPOINT_SLICES, going)
        assert await scene.count(20) == {"stable": 20}
        going["endpoints"] += slice_of("llm", 1)["endpoints"]
        await scene.cluster.client.update(ENDPOINT_SLICES, going)
        await until_answered(scene, "other")
        assert await scene.count(20) == {"other": 20}


async def test_a_backend_that_does_not_answer_in_time_is_a_504() -> None:
    async with stage("stable") as scene:
        client = scene.cluster.client
        await client.create(GATEWAYS, GATEWAY)
        rule = {"backendRefs": [backend("llm")], "timeouts": {"request": "200ms"}}
        await client.create(HTTP_ROUTES, http_route(rule))
        await scene.open()
        status, text = await scene.get("/slow")
        assert status == 504 and "in time" in text


async def test_an_answer_that_breaks_off_is_not_taken_for_complete() -> None:
    async with stage("stable") as scene:
        address = await opened(scene)
        with pytest.raises((ClientPayloadError, ConnectionError)):
            async with scene.http.get(address + "/broken") as answer:
                await answer.read()
        assert (await scene.get())[0] == 200


async def test_a_client_that_leaves_ends_the_request_behind() -> None:
    async with stage("stable") as scene:
        address = await opened(scene)
        async with scene.http.get(address + "/events") as answer:
            await answer.content.readany()
            answer.close()
        assert (await scene.get())[0] == 200


async def test_large_bodies_pass_in_both_directions() -> None:
    async with stage("stable") as scene:
        address = await opened(scene)
        body = bytes(range(256)) * 40_000
        async with scene.http.post(address, data=body, expect100=True) as answer:
            assert await answer.read() == body

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(100):
                yield b"x" * 1000

        async with scene.http.post(address, data=pieces()) as answer:
            assert await answer.read() == b"x" * 100_000


async def test_heads_are_passed_on_as_a_proxy_should() -> None:
    async with stage("stable") as scene:
        address = await opened(scene)
        sent = {"host": "a.example.com", "connection": "x-private", "x-private": "1", "x-forwarded-for": "192.0.2.1"}
        async with scene.http.get(address + "/headers?q=a%2Fb", headers=sent) as answer:
            got = dict(tuple(pair) for pair in await answer.json())
        assert got["host"] == "a.example.com"
        assert got["x-forwarded-host"] == "a.example.com"
        assert got["x-forwarded-for"] == "127.0.0.1", "a client is not believed what it says about itself"
        assert got["x-forwarded-proto"] == "http"
        assert "x-private" not in got


async def test_one_connection_serves_many_requests_of_different_routes() -> None:
    async with stage("stable", "canary") as scene:
        client = scene.cluster.client
        await client.create(INGRESSES, ingress("llm", "llm", path="/a"))
        await client.create(INGRESSES, ingress("other", "llm-canary", path="/b"))
        await scene.open()
        await scene.cluster.until(lambda: len(scene.plane.proxy.table) == 2)  # type: ignore[union-attr]
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.plane.proxy.port)  # type: ignore[union-attr]
        for path, body in ((b"/a", b"stable"), (b"/b", b"canary"), (b"/a/x", b"stable")):
            writer.write(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert await reader.readexactly(len(body)) == body
        writer.close()


async def test_nothing_is_opened_for_nothing_and_the_address_is_shown() -> None:
    async with stage("stable") as scene:
        await scene.cluster.client.create(
            SERVICES, {"metadata": {"name": "x"}, "spec": {"ports": [{"port": 1}]}}, "default"
        )
        assert scene.plane.address == ""
        address = await opened(scene)
        client = scene.cluster.client
        await client.create(GATEWAYS, GATEWAY)
        await client.create(HTTP_ROUTES, http_route({"backendRefs": [backend("llm")]}))
        port = int(address.rpartition(":")[2])
        expected = {"loadBalancer": {"ingress": [{"ip": "127.0.0.1", "ports": [{"port": port, "protocol": "TCP"}]}]}}
        await scene.cluster.until(lambda: status(scene, INGRESSES, "llm") == expected)
        await scene.cluster.until(lambda: bool(status(scene, GATEWAYS, "front").get("addresses")))
        await scene.cluster.until(lambda: status(scene, GATEWAYS, "front")["listeners"][0]["attachedRoutes"] == 1)
        values = [one["value"] for one in status(scene, GATEWAYS, "front")["addresses"]]
        assert values[1:] == [address]
        await scene.cluster.until(lambda: bool(status(scene, HTTP_ROUTES, "llm").get("parents")))
        (parent,) = status(scene, HTTP_ROUTES, "llm")["parents"]
        assert {one["type"]: one["status"] for one in parent["conditions"]} == {
            "Accepted": "True",
            "ResolvedRefs": "True",
        }
        writes = scene.cluster.writes
        await scene.count(20)
        await scene.cluster.settle(quiet=2)
        assert scene.cluster.writes == writes, "a status that is right is not written again"


def status(scene: Stage, resource: Resource, name: str) -> JsonObject:
    found = scene.cluster.find(resource, name, "default")
    assert found is not None
    return found.get("status") or {}


async def test_pods_on_loopback_are_reached_although_no_slice_can_name_them() -> None:
    async with stage("stable") as scene:
        client = scene.cluster.client
        await scene.endpoints("llm")
        await opened(scene)
        await client.create(PODS, pod("llm-0").labels(app="llm"))
        status = {"podIP": "127.16.0.0", "conditions": [{"type": "Ready", "status": "True"}]}
        await client.patch(PODS, "llm-0", "default", {"status": status}, subresource="status")
        await until_answered(scene, "stable")


async def test_a_restart_keeps_the_address_and_answers_are_counted() -> None:
    async with stage("stable") as scene:
        address = await opened(scene)
        await scene.cluster.until(lambda: bool(status(scene, INGRESSES, "llm").get("loadBalancer")))
        assert (await scene.get())[0] == 200
        text = scene.plane.manager.metrics.render().decode()
        assert 'kohort_gateway_requests_total{code="200",namespace="default",pod="pod-0",service="llm"} 1.0' in text
        await scene.cluster.parts["gateway"].restart()
        assert await scene.open() == address
        assert (await scene.get())[0] == 200


def test_idle_connections_are_given_up_before_common_servers_close_theirs() -> None:
    assert backend_client.KEPT_SECONDS < 5
