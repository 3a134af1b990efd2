"""Whole answers as they are on the wire."""

import asyncio
import json
import re

import pytest
from tests.cluster.apiserver.http.waiting import Waiting

from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.http.https_server import HttpsServer
from kohort.cluster.apiserver.http.response_writer import encode_head

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def exchange(front: HttpsServer, *requests: str) -> bytes:
    """All that the server says on one connection until it closes it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    writer.write("".join(requests).encode())
    async with asyncio.timeout(5):
        answer = await reader.read()
    writer.close()
    return answer


def request(method: str, path: str, *headers: str, version: str = "1.1", body: str = "") -> str:
    length = [f"Content-Length: {len(body)}", "Content-Type: application/json"] if body else []
    return "\r\n".join([f"{method} {path} HTTP/{version}", "Host: x", *headers, *length, "", body])


def split(answer: bytes) -> tuple[str, dict[str, str], bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return first, dict(line.split(": ", 1) for line in lines), body


async def test_an_answer_names_its_length_and_the_time(front: HttpsServer) -> None:
    line, headers, body = split(await exchange(front, request("GET", "/version", "Connection: close")))
    assert line == "HTTP/1.1 200 OK"
    assert headers["content-length"] == str(len(body))
    assert headers["connection"] == "close"
    assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", headers["date"])
    assert json.loads(body)["major"]


async def test_a_connection_serves_one_request_after_the_other(front: HttpsServer) -> None:
    """Also when the second one arrives before the first is answered."""
    answer = await exchange(front, request("GET", "/livez"), request("GET", "/readyz", "Connection: close"))
    assert answer.count(b"HTTP/1.1 ") == 2
    assert answer.count(b"connection: close") == 1


@pytest.mark.parametrize(
    ("headers", "connection"), [((), "close"), (("Connection: keep-alive", "X-Last: no"), "keep-alive")]
)
async def test_an_http_1_0_client_learns_whether_its_connection_stays_open(
    front: HttpsServer, headers: tuple[str, ...], connection: str
) -> None:
    last = request("GET", "/livez", version="1.0") if headers else ""
    _, found, _ = split(await exchange(front, request("GET", "/livez", *headers, version="1.0"), last))
    assert found["connection"] == connection


async def test_the_head_of_an_answer_has_no_body(front: HttpsServer) -> None:
    _, headers, body = split(await exchange(front, request("HEAD", "/healthz", "Connection: close")))
    assert int(headers["content-length"]) > 0
    assert body == b""


async def test_a_write_goes_on_when_its_sender_hangs_up() -> None:
    server = Waiting()
    front = HttpsServer(server, lambda *_: ADMIN)
    await front.start()
    _, writer = await asyncio.open_connection("127.0.0.1", front.port)
    body = json.dumps({"metadata": {"name": "left"}})
    writer.write(request("POST", CONFIG_MAPS, body=body).encode())
    async with asyncio.timeout(5):
        await server.arrived.wait()
        writer.transport.abort()
        await exchange(front, request("GET", "/livez", "Connection: close"))  # so that the server has noticed
        server.released.set()
        await server.over.wait()
    assert server.store.get("configmaps", "default", "left") is not None
    await front.stop()
    await server.close()


def test_several_values_of_a_header_get_a_line_each() -> None:
    assert encode_head(201, {"warning": "one\ntwo", "x": "y"}) == (
        b"HTTP/1.1 201 Created\r\nwarning: one\r\nwarning: two\r\nx: y\r\n\r\n"
    )


@pytest.mark.parametrize("value", ["a\r\nevil: 1", "a\rb", "a\0b"])
def test_a_header_cannot_end_the_head(value: str) -> None:
    with pytest.raises(ValueError, match="header"):
        encode_head(200, {"audit-id": value})
