"""Attacks on the gateway: paths that mean two things, headers that lie, requests within requests."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.cluster.gateway.plane import Stage, ingress, stage

from kohort.kube.resources import INGRESSES

HOST = b"Host: a.example\r\n"
CLOSE = b"Connection: close\r\n"


@asynccontextmanager
async def two_rules() -> AsyncIterator[Stage]:
    """`/public` leads to one server, `/admin` and `/headers` to another."""
    async with stage("public", "admin") as scene:
        client = scene.cluster.client
        await client.create(INGRESSES, ingress("public", "llm", path="/public"))
        await client.create(INGRESSES, ingress("admin", "llm-canary", path="/admin"))
        await client.create(INGRESSES, ingress("headers", "llm-canary", path="/headers"))
        await scene.open()
        await scene.cluster.until(lambda: scene.plane.proxy is not None and len(scene.plane.proxy.table) == 3)
        yield scene


async def answer(scene: Stage, request: bytes) -> tuple[int, bytes]:
    """Status and body of the answer to these bytes."""
    assert scene.plane.proxy is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", scene.plane.proxy.port)
    writer.write(request)
    try:
        async with asyncio.timeout(10):
            text = await reader.read()
    finally:
        writer.close()
    head, _, body = text.partition(b"\r\n\r\n")
    assert len(re.findall(rb"HTTP/1\.[01] [0-9]{3} ", text)) == 1, text
    return int(head.split()[1]), body


async def asked(scene: Stage, target: bytes, headers: bytes = HOST) -> tuple[int, bytes]:
    return await answer(scene, b"GET " + target + b" HTTP/1.1\r\n" + headers + CLOSE + b"\r\n")


@pytest.mark.parametrize(
    "target",
    [
        b"/public/../admin/x",
        b"/public/%2e%2e/admin/x",
        b"/public/%2E./admin/x",
        b"/public/..%2Fadmin/x",
        b"/public/..%2fadmin/x",
        b"/public%2f..%2fadmin/x",
        b"/public/..%5Cadmin/x",
        b"/public/..\\admin/x",
        b"/public/x/../../admin/x",
        b"/public//../admin/x",
        b"//admin/x",
        b"/%61dmin/x",
        b"http://a.example/public/../admin/x",
    ],
)
async def test_what_is_compared_is_what_is_forwarded(target: bytes) -> None:
    async with two_rules() as scene:
        assert await asked(scene, target) == (200, b"admin")
        assert scene.servers["admin"].paths == ["/admin/x"]
        assert scene.servers["public"].requests == 0


@pytest.mark.parametrize(
    "target",
    [b"/public/..;/admin", b"/public/%00", b"/public/%zz", b"/public/%", b"/public#/admin", b"*", b"admin"],
)
async def test_a_target_that_programs_read_differently_is_refused(target: bytes) -> None:
    async with two_rules() as scene:
        assert (await asked(scene, target))[0] == 400
        assert scene.servers["public"].requests == scene.servers["admin"].requests == 0


async def test_a_path_that_leaves_its_prefix_and_meets_no_rule_is_not_served() -> None:
    async with two_rules() as scene:
        assert (await asked(scene, b"/public/../secret"))[0] == 404


async def test_names_with_escaped_slashes_arrive_as_they_were_sent() -> None:
    async with two_rules() as scene:
        assert await asked(scene, b"/public/models/org%2Fmodel?x=%2e%2e%2f") == (200, b"public")
        assert scene.servers["public"].paths == ["/public/models/org%2Fmodel?x=%2e%2e%2f"]


@pytest.mark.parametrize(
    "headers", [HOST + b"Host: b.example\r\n", HOST + HOST, b"", b"Host: a.example/x\r\n", b"Host: u@a.example\r\n"]
)
async def test_a_request_has_one_host(headers: bytes) -> None:
    async with two_rules() as scene:
        assert (await asked(scene, b"/public", headers))[0] == 400


async def test_the_host_of_the_target_is_the_host() -> None:
    async with two_rules() as scene:
        _, body = await asked(scene, b"http://b.example/headers")
        told = dict(json.loads(body))
        assert (told["host"], told["x-forwarded-host"]) == ("b.example", "b.example")


LIES = (
    b"X-Forwarded-For: 6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.example\r\n"
    b"X-Forwarded-Port: 443\r\nForwarded: for=6.6.6.6\r\nX_Real_IP: 6.6.6.6\r\nX_Forwarded_For: 6.6.6.6\r\n"
)


@pytest.mark.parametrize("more", [b"", b"Connection: X-Real-IP, X-Forwarded-For, X-Forwarded-Proto, Host\r\n"])
async def test_a_client_cannot_lie_about_itself(more: bytes) -> None:
    async with two_rules() as scene:
        status, body = await answer(
            scene, b"GET /headers HTTP/1.1\r\n" + HOST + LIES + more + b"Connection: close\r\n\r\n"
        )
        assert status == 200
        told = json.loads(body)
        assert sorted(value for name, value in told if "forward" in name or "real" in name) == [
            "127.0.0.1",
            "127.0.0.1",
            "a.example",
            "http",
        ]
        assert ["host", "a.example"] in told
        assert not any("_" in name for name, _ in told)


async def test_a_trusted_proxy_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOHORT_GATEWAY_TRUSTED_PROXIES", "127.0.0.0/8, 10.0.0.0/8")
    async with two_rules() as scene:
        _, body = await asked(scene, b"/headers", HOST + b"X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\n")
        told = dict(json.loads(body))
        assert told["x-forwarded-for"] == "6.6.6.6, 127.0.0.1"
        assert (told["x-real-ip"], told["x-forwarded-proto"]) == ("6.6.6.6", "https")


@pytest.mark.parametrize("value", ["all", "10.0.0.0/33"])
async def test_networks_that_cannot_be_read_are_refused_at_the_start(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KOHORT_GATEWAY_TRUSTED_PROXIES", value)
    with pytest.raises(ValueError, match=r"KOHORT_GATEWAY_TRUSTED_PROXIES: .*; write addresses and networks"):
        async with two_rules():
            pass


async def test_an_upgrade_to_another_protocol_is_not_passed_on() -> None:
    """Through such a connection requests would go that no rule has seen."""
    async with two_rules() as scene:
        upgrade = HOST + b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nConnection: Upgrade\r\n"
        status, body = await asked(scene, b"/headers", upgrade)
        assert status == 200
        assert not {"upgrade", "http2-settings"} & {name for name, _ in json.loads(body)}


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 6\r\nContent-Length: 7\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"Transfer-Encoding:\x0bchunked\r\n",
        b"Content-Length: 6\r\nConnection: Content-Length\r\nTransfer-Encoding: chunked\r\n",
    ],
)
async def test_a_second_request_cannot_hide_in_the_body_of_the_first(head: bytes) -> None:
    async with two_rules() as scene:
        hidden = b"GET /admin HTTP/1.1\r\n" + HOST + b"\r\n"
        request = b"POST /public HTTP/1.1\r\n" + HOST + head + b"\r\n0\r\n\r\n" + hidden
        assert scene.plane.proxy is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.plane.proxy.port)
        writer.write(request)
        async with asyncio.timeout(10):
            text = await reader.read()
        writer.close()
        assert text.split()[1] == b"400" and text.count(b"HTTP/1.") == 1, text
        assert scene.servers["admin"].requests == 0
