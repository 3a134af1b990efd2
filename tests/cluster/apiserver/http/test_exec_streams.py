"""Logs, exec and port-forward, from the client through the API server to a node agent and back."""

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from tests.cluster.apiserver.caller import AllowAll, Api
from tests.cluster.apiserver.http.conftest import authenticate

from kohort.cluster.apiserver.auth.certificates import ensure_pki
from kohort.cluster.apiserver.catalog.builtin_kinds import builtin_kinds
from kohort.cluster.apiserver.catalog.catalog import Catalog
from kohort.cluster.apiserver.http.https_server import HttpsServer
from kohort.cluster.apiserver.http.node_client import HttpsNodeClient
from kohort.cluster.apiserver.server import ApiServer, OutgoingClients
from kohort.cluster.apiserver.storage.store import open_store
from kohort.rules.stream_protocols import SPDY_TUNNEL

PODS = "/api/v1/namespaces/default/pods"
WEBSOCKET = {
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "sec-websocket-protocol": f"v5.channel.k8s.io, {SPDY_TUNNEL}",
}


class NodeAgent:
    """What a node answers: its log says what was asked, its shell echoes, its port 80 shouts."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def log(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path_qs)
        if request.match_info["container"] == "broken":
            return web.Response(status=400, text="container is waiting to start")
        answer = web.StreamResponse()
        await answer.prepare(request)
        for line in (b"one\n", b"two\n"):
            await answer.write(line)
        return answer

    async def shell(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["container"] == "broken":
            return web.Response(status=400, text="container is waiting to start")
        if "Upgrade" not in request.headers:
            return web.Response(status=400, text="Upgrade request required")
        self.asked.append(request.path_qs)
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io", "v4.channel.k8s.io"))
        await socket.prepare(request)
        async for message in socket:
            if message.data[0] == 255:
                break
            await socket.send_bytes(b"\x01" + message.data[1:].upper())
        await socket.send_bytes(b"\x03" + json.dumps({"metadata": {}, "status": "Success"}).encode())
        await socket.close()
        return socket

    async def port(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=(SPDY_TUNNEL, "v4.channel.k8s.io"))
        if not socket.can_prepare(request).ok:
            return web.Response(status=400, text="Upgrade request required")
        self.asked.append(request.path_qs)
        await socket.prepare(request)
        async for message in socket:
            await socket.send_bytes(message.data.upper())
            if message.data == b"bye":
                break
        await socket.close()
        return socket

    async def site(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path_qs}")
        path = request.match_info["path"]
        if path == "/moved":
            return web.Response(status=302, headers={"location": "/site/there?x=1"})
        if path.startswith("/page"):
            page = web.Response(text=PAGE.format(host=request.host), content_type="text/html")
            if path == "/page.gz":
                page.enable_compression(web.ContentCoding.gzip)
            return page
        return web.Response(text=f"{request.method} {request.headers.get('x-forwarded-uri')}")


PAGE = """<!DOCTYPE html><!-- <a href="/not"> --><html><body background='/b.png'>
<a class=x href="/a?b=1&amp;c=2">A</a><a href="relative">B</a><A HREF=/c>C</A><a href="https://elsewhere/d">D</a>
<a href="http://{host}/own">E</a><a href="/api/v1/nodes/n/proxy/inside">F</a><p href="/g">G</p>
<script src="/s.js">if (a < b) {{ x = '<a href="/h">' }}</script>\u00e4</body></html>"""


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[tuple[NodeAgent, int]]:
    agent = NodeAgent()
    application = web.Application()
    application.router.add_get("/containerLogs/{ns}/{pod}/{container}", agent.log)
    application.router.add_get("/exec/{ns}/{pod}/{container}", agent.shell)
    application.router.add_get("/portForward/{ns}/{pod}", agent.port)
    application.router.add_route("*", "/site{path:.*}", agent.site)
    runner = web.AppRunner(application)
    await runner.setup()
    pki = ensure_pki(tmp_path / "pki")
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=pki.server_context())
    await site.start()
    yield agent, runner.addresses[0][1]
    await runner.cleanup()


@pytest.fixture
async def client(agent: tuple[NodeAgent, int]) -> AsyncIterator[aiohttp.ClientSession]:
    nodes = HttpsNodeClient()
    server = ApiServer(open_store(None), Catalog(builtin_kinds()), AllowAll(), outgoing=OutgoingClients(nodes, nodes))
    front = HttpsServer(server, authenticate, nodes=nodes)
    await front.start()
    api = Api(server, AllowAll())
    await api.post("/api/v1/nodes", {"metadata": {"name": "n"}})
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": agent[1]}},
    }
    patched = await api.patch("/api/v1/nodes/n/status", {"status": status})
    assert patched.code == 200, patched.raw
    await api.pod("p", nodeName="n")
    two = [{"name": "c", "image": "i"}, {"name": "broken", "image": "i"}]
    await api.pod("two", nodeName="n", containers=two)
    await api.pod("nowhere")
    await api.post("/api/v1/nodes", {"metadata": {"name": "gone"}})
    status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": 1}}
    await api.patch("/api/v1/nodes/gone/status", {"status": status})
    await api.pod("lost", nodeName="gone")
    async with aiohttp.ClientSession(f"http://127.0.0.1:{front.port}") as session:
        yield session
    await front.stop()
    await nodes.close()
    await server.close()


async def test_logs_are_passed_on(client: aiohttp.ClientSession, agent: tuple[NodeAgent, int]) -> None:
    async with client.get(f"{PODS}/p/log", params={"follow": "true", "tailLines": "5"}) as answer:
        assert (answer.status, answer.headers["content-type"]) == (200, "text/plain")
        assert await answer.read() == b"one\ntwo\n"
    assert agent[0].asked == ["/containerLogs/default/p/c?follow=true&tailLines=5"]


@pytest.mark.parametrize(
    ("pod", "query", "code", "message"),
    [
        ("missing", {}, 404, 'pods "missing" not found'),
        ("two", {}, 400, "a container name must be specified for pod two, choose one of: [c broken]"),
        ("two", {"container": "x"}, 400, "container x is not valid for pod two"),
        ("two", {"container": "broken"}, 400, "container is waiting to start"),
        ("p", {"tailLines": "-1"}, 422, 'PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater '),
    ],
)
async def test_logs_that_cannot_be_had(
    client: aiohttp.ClientSession, pod: str, query: dict[str, str], code: int, message: str
) -> None:
    async with client.get(f"{PODS}/{pod}/log", params=query) as answer:
        assert answer.status == code
        assert (await answer.json())["message"].startswith(message)


async def test_a_pod_without_a_node_has_an_empty_log(client: aiohttp.ClientSession) -> None:
    async with client.get(f"{PODS}/nowhere/log") as answer:
        assert (answer.status, await answer.read()) == (204, b"")


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
async def test_exec(client: aiohttp.ClientSession, agent: tuple[NodeAgent, int], protocol: str) -> None:
    query = [("command", "sh"), ("command", "-c"), ("stdin", "true"), ("stdout", "true"), ("container", "c")]
    async with client.ws_connect(f"{PODS}/p/exec", params=query, protocols=(protocol,)) as socket:
        assert socket.protocol == protocol
        await socket.send_bytes(b"\x00hello")
        assert (await socket.receive_bytes()) == b"\x01HELLO"
        await socket.send_bytes(b"\xff\x00")
        assert (await socket.receive_bytes())[:1] == b"\x03"
        assert (await socket.receive()).type == aiohttp.WSMsgType.CLOSE
    assert agent[0].asked == ["/exec/default/p/c?input=1&output=1&command=sh&command=-c"]


@pytest.mark.parametrize("protocol", ["binary.k8s.io", "base64.binary.k8s.io", ""])
async def test_logs_over_a_websocket(client: aiohttp.ClientSession, protocol: str) -> None:
    protocols = (protocol,) if protocol else ()
    async with client.ws_connect(f"{PODS}/p/log", protocols=protocols) as socket:
        assert (socket.protocol or "") == protocol
        received = [message.data async for message in socket]
    assert received[0] in ("", b""), "an empty message says that the log begins"
    text = [base64.b64decode(one) if isinstance(one, str) else one for one in received]
    assert b"".join(text) == b"one\ntwo\n"


async def test_a_log_that_cannot_be_had_is_refused_before_the_upgrade(client: aiohttp.ClientSession) -> None:
    headers = {"connection": "Upgrade", **WEBSOCKET}
    async with client.get(f"{PODS}/missing/log", headers=headers) as answer:
        assert (answer.status, (await answer.json())["message"]) == (404, 'pods "missing" not found')


async def test_a_watch_over_a_websocket_has_one_message_for_each_event(client: aiohttp.ClientSession) -> None:
    async with client.ws_connect(PODS, params={"watch": "true", "resourceVersion": "0"}) as socket:
        events = [json.loads(await socket.receive_str()) for _ in range(4)]
    assert {event["type"] for event in events} == {"ADDED"}
    assert {event["object"]["metadata"]["name"] for event in events} == {"p", "two", "nowhere", "lost"}


async def test_exec_is_refused_before_the_upgrade(client: aiohttp.ClientSession) -> None:
    for pod, query in (("nowhere", {"stdout": "1"}), ("p", {}), ("missing", {"stdout": "1"})):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.ws_connect(f"{PODS}/{pod}/exec", params=query, protocols=("v5.channel.k8s.io",))
        assert refused.value.status in (400, 404)
    async with client.get(f"{PODS}/p/exec", params={"stdout": "1"}) as answer:
        assert (answer.status, (await answer.json())["message"]) == (400, "Upgrade request required")


@pytest.mark.parametrize("upgrade", [WEBSOCKET, {"upgrade": "SPDY/3.1"}], ids=["websocket", "spdy"])
@pytest.mark.parametrize(
    ("pod", "container", "code", "message"),
    [
        ("missing", "c", 404, 'pods "missing" not found'),
        ("two", "x", 400, "container x is not valid for pod two"),
        ("two", "broken", 400, "container is waiting to start"),
        ("lost", "c", 500, 'Get "https://127.0.0.1:1/exec/default/lost/c": '),
    ],
)
async def test_whatever_the_protocol_a_refusal_says_why(
    client: aiohttp.ClientSession, upgrade: dict[str, str], pod: str, container: str, code: int, message: str
) -> None:
    """kubectl shows only what was answered to the last protocol that it tried."""
    headers = {"connection": "Upgrade", **upgrade}
    query = {"container": container, "stdout": "1"}
    async with client.get(f"{PODS}/{pod}/exec", params=query, headers=headers) as answer:
        status = await answer.json()
        assert (answer.status, status["kind"]) == (code, "Status")
        assert status["message"].startswith(message)


async def test_a_node_that_speaks_only_websockets_says_so(
    client: aiohttp.ClientSession, agent: tuple[NodeAgent, int]
) -> None:
    headers = {"connection": "Upgrade", "upgrade": "SPDY/3.1"}
    async with client.get(f"{PODS}/p/portforward", headers=headers) as answer:
        assert (answer.status, (await answer.json())["message"]) == (400, "Upgrade request required")
    assert agent[0].asked == []


@pytest.mark.parametrize("protocol", [SPDY_TUNNEL, "v4.channel.k8s.io"])
async def test_port_forward(client: aiohttp.ClientSession, agent: tuple[NodeAgent, int], protocol: str) -> None:
    """What it says inside is between the client and the node."""
    query = {"ports": "80"}
    async with client.ws_connect(f"{PODS}/p/portforward", params=query, protocols=(protocol,)) as socket:
        assert socket.protocol == protocol
        for word in (b"hello", b"bye"):
            await socket.send_bytes(word)
            assert await socket.receive_bytes() == word.upper()
        assert (await socket.receive()).type == aiohttp.WSMsgType.CLOSE
    assert agent[0].asked == ["/portForward/default/p?port=80"]


async def test_port_forward_speaks_only_what_nodes_speak(client: aiohttp.ClientSession) -> None:
    both = ("v5.channel.k8s.io", "v4.channel.k8s.io")
    async with client.ws_connect(f"{PODS}/p/portforward", params={"ports": "80"}, protocols=both) as socket:
        assert socket.protocol == "v4.channel.k8s.io"
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await client.ws_connect(f"{PODS}/p/portforward", params={"ports": "80"}, protocols=both[:1])
    assert refused.value.status == 400


@pytest.mark.parametrize("action", ["exec", "attach", "portforward"])
@pytest.mark.parametrize("upgrade", [WEBSOCKET, {"upgrade": "SPDY/3.1"}], ids=["websocket", "spdy"])
async def test_a_node_that_cannot_be_reached_is_named_before_the_upgrade(
    client: aiohttp.ClientSession, action: str, upgrade: dict[str, str]
) -> None:
    headers = {"connection": "Upgrade", **upgrade}
    async with client.get(f"{PODS}/lost/{action}", params={"stdout": "1"}, headers=headers) as answer:
        assert answer.status == 500
        assert (await answer.json())["message"].endswith(": dial tcp 127.0.0.1:1: connect: connection refused")


async def test_a_node_is_reached_through_its_proxy(client: aiohttp.ClientSession, agent: tuple[NodeAgent, int]) -> None:
    path = "/api/v1/nodes/n/proxy/containerLogs/default/p/c"
    async with client.get(path, params={"tailLines": "1"}, headers={"authorization": "Bearer good"}) as answer:
        assert (answer.status, await answer.read()) == (200, b"one\ntwo\n")
    assert agent[0].asked == ["/containerLogs/default/p/c?tailLines=1"]
    async with client.get("/api/v1/nodes/missing/proxy/") as answer:
        assert answer.status == 404
    async with client.get(f"{PODS}/p/proxy/") as answer:
        assert (answer.status, (await answer.json())["message"]) == (400, "address not allowed")


PROXY = "/api/v1/nodes/n/proxy"


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/site", "/site/", "/site/x/y/"])
async def test_a_proxy_passes_on_every_method_and_the_path_to_its_last_slash(
    client: aiohttp.ClientSession, agent: tuple[NodeAgent, int], method: str, path: str
) -> None:
    async with client.request(method, PROXY + path, params={"q": "1"}) as answer:
        told = f"{method} {PROXY}{path}".encode()
        assert (answer.status, await answer.read()) == (200, b"" if method == "HEAD" else told)
        assert method != "HEAD" or answer.headers["content-length"] == str(len(told))
    assert agent[0].asked == [f"{method} {path}?q=1"]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_reader_of_a_proxy_is_sent_to_its_directory(client: aiohttp.ClientSession, method: str) -> None:
    async with client.request(method, PROXY, params={"q": "1"}, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["location"]) == (301, f"{PROXY}/?q=1")


async def test_other_subresources_have_no_such_methods(client: aiohttp.ClientSession) -> None:
    for method in ("HEAD", "OPTIONS"):
        async with client.request(method, f"{PODS}/p/status") as answer:
            assert answer.status == 405


async def test_a_redirect_stays_within_the_proxy(client: aiohttp.ClientSession) -> None:
    async with client.get(f"{PROXY}/site/moved", allow_redirects=False) as answer:
        assert (answer.status, answer.headers["location"]) == (302, f"{PROXY}/site/there?x=1")


@pytest.mark.parametrize("name", ["page", "page.gz"])
async def test_links_of_a_page_stay_within_the_proxy(client: aiohttp.ClientSession, name: str) -> None:
    async with client.get(f"{PROXY}/site/{name}", headers={"accept-encoding": "gzip"}) as answer:
        page = await answer.text()
    expected = PAGE.format(host="HOST")
    for old, new in (
        ("background='/b.png'", f'background="{PROXY}/b.png"'),
        ('href="/a?b', f'href="{PROXY}/a?b'),
        ("HREF=/c>", f'HREF="{PROXY}/c">'),
        ('href="http://HOST/own"', f'href="{PROXY}/own"'),
        ('src="/s.js"', f'src="{PROXY}/s.js"'),
    ):
        assert old in expected
        expected = expected.replace(old, new)
    assert page == expected
