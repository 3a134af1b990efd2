"""The HTTPS server: requests, answers, and what is refused before a request reaches the API server."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest

from kohort.cluster.apiserver.http.https_server import HttpsServer
from kohort.cluster.apiserver.http.request_target import decoded_path
from kohort.kube.errors import ApiError

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def client(front: HttpsServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{front.port}", auto_decompress=False) as session:
        yield session


async def raw(front: HttpsServer, text: bytes) -> bytes:
    """What the server answers to these very bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    writer.write(text)
    async with asyncio.timeout(5):
        answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("sent", "path"),
    [
        ("/api/v1", "/api/v1"),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode", None),
        ("/a/%C3%BC", "/a/ü"),
    ],
)
def test_paths_are_decoded_by_segment(sent: str, path: str | None) -> None:
    assert decoded_path(sent) == (path or sent.replace("%3A", ":"))


@pytest.mark.parametrize("sent", ["/a%2Fb", "/a/%2e%2e%2fb", "/a%00", "/%ff", "a/b", "/%zz", "/a%2"])
def test_paths_that_hide_something_are_refused(sent: str) -> None:
    with pytest.raises(ApiError):
        decoded_path(sent)


@pytest.mark.parametrize("path", ["/api/v1/%2e%2e/secrets", "/api/v1/../../secrets", "/api/v1/namespaces/..%2f..%2fx"])
async def test_traversal_finds_nothing(front: HttpsServer, path: str) -> None:
    answer = await raw(front, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert answer.split(b" ")[1] in (b"400", b"404")


@pytest.mark.parametrize(
    "head",
    [
        b"POST /api HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x",
        b"GET /api HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"GET /api HTTP/1.1\r\nHost: x\r\nX-A: b\r\n c: d\r\nBad Header: 1\r\n\r\n",
    ],
)
async def test_smuggling_is_refused(front: HttpsServer, head: bytes) -> None:
    answer = await raw(front, head)
    assert answer.split(b" ")[1] == b"400"


async def test_a_round_trip(client: aiohttp.ClientSession) -> None:
    async with client.post(CONFIG_MAPS, json={"metadata": {"name": "a"}, "bogus": 1, "other": 2}) as answer:
        assert answer.status == 201
        assert answer.headers.getall("warning") == [
            '299 - "unknown field \\"bogus\\""',
            '299 - "unknown field \\"other\\""',
        ]
        assert answer.headers["audit-id"]
        assert answer.headers["cache-control"] == "no-cache, private"
    async with client.get(f"{CONFIG_MAPS}/a", params={"pretty": "true"}) as answer:
        assert answer.headers["content-type"] == "application/json"
        assert (await answer.read()).startswith(b'{\n  "kind": "ConfigMap"')
    async with client.head(f"{CONFIG_MAPS}/a") as answer:
        assert (answer.status, await answer.read()) == (405, b"")
    async with client.get("/healthz", headers={"authorization": "Bearer bad"}) as answer:
        assert answer.status == 401


async def test_big_answers_are_compressed_for_clients_that_accept_gzip(client: aiohttp.ClientSession) -> None:
    body = {"metadata": {"name": "big"}, "data": {"k": "x" * 200_000}}
    async with client.post(CONFIG_MAPS, json=body, headers={"Accept-Encoding": "identity"}) as answer:
        assert "content-encoding" not in answer.headers
    async with client.get(f"{CONFIG_MAPS}/big", headers={"Accept-Encoding": "gzip"}) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        assert json.loads(gzip.decompress(await answer.read()))["data"]["k"] == "x" * 200_000
    async with client.get("/version", headers={"Accept-Encoding": "gzip"}) as answer:
        assert "content-encoding" not in answer.headers


async def test_what_claims_to_be_compressed_is_not_unpacked(client: aiohttp.ClientSession) -> None:
    """As in Kubernetes: the claim is ignored, and what is no JSON is refused."""
    packed = gzip.compress(json.dumps({"metadata": {"name": "packed"}}).encode())
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    for body, code in ((packed, 400), (b'{"metadata":{"name":"plain"}}', 201)):
        async with client.post(CONFIG_MAPS, data=body, headers=headers) as answer:
            assert answer.status == code


async def test_a_client_that_expects_100_continue_gets_it(front: HttpsServer) -> None:
    body = b'{"metadata":{"name":"late"}}'
    head = f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    async with asyncio.timeout(5):
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode())
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert (await reader.readline()).split()[1] == b"201"
    writer.close()


async def test_a_selector_may_be_long(front: HttpsServer) -> None:
    path = f"{CONFIG_MAPS}?labelSelector=a+in+({','.join(f'name-{number}' for number in range(50_000))})"
    answer = await raw(front, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert answer.split(b" ")[1] == b"200"


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("https://elsewhere/version", b"200"),
        ("http://elsewhere", b"404"),
        ("elsewhere/version", b"400"),
        ("//version", b"404"),
        ("//api/v1", b"404"),
        ("/api/v1/namespaces?labelSelector=%zz", b"200"),
        ("/api/v1/namespaces?labelSelector=a;b", b"200"),
        ("//api/v1/namespaces/default/configmaps", b"404"),
        ("/api/v1/namespaces/default/configmaps/%2e%2e", b"400"),
        ("/api/v1/namespaces/default/configmaps/a%25b", b"400"),
        ("/api/v1/namespaces/a%25b/configmaps", b"200"),
    ],
)
async def test_targets_that_clients_rarely_write(front: HttpsServer, target: str, code: bytes) -> None:
    answer = await raw(front, f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert answer.split(b" ")[1] == code


async def test_an_upgrade_to_an_unknown_protocol_is_ignored(front: HttpsServer) -> None:
    head = b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: upgrade, close\r\nUpgrade: h2c\r\n\r\n"
    assert (await raw(front, head)).split(b" ")[1] == b"200"


async def test_bodies_have_a_limit(client: aiohttp.ClientSession) -> None:
    async with client.post(CONFIG_MAPS, data=b" " * (3 * 1024 * 1024 + 1)) as answer:
        assert (answer.status, (await answer.json())["reason"]) == (413, "RequestEntityTooLarge")

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * 100_000

    async with client.post(CONFIG_MAPS, data=endless()) as answer:
        assert answer.status == 413


async def test_a_watch_is_one_line_per_event_as_it_happens(client: aiohttp.ClientSession, front: HttpsServer) -> None:
    async with client.get(CONFIG_MAPS, params={"watch": "true", "resourceVersion": "1"}) as answer:
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        for name in ("a", "b"):
            async with client.post(CONFIG_MAPS, json={"metadata": {"name": name}}) as created:
                assert created.status == 201
            event = json.loads(await answer.content.readline())
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", name)
        stopping = asyncio.ensure_future(front.stop())
        assert await answer.content.read() == b""
        await stopping


async def test_a_watcher_that_hangs_up_is_forgotten(client: aiohttp.ClientSession, front: HttpsServer) -> None:
    answer = await client.get(CONFIG_MAPS, params={"watch": "true", "resourceVersion": "1"})
    (stream,) = front._streams
    answer.close()
    await asyncio.wait((stream,), timeout=5)
    assert stream.cancelled()


async def test_a_watch_ends_as_a_complete_answer(client: aiohttp.ClientSession) -> None:
    params = {"watch": "true", "resourceVersion": "1", "timeoutSeconds": "1"}
    async with client.get(CONFIG_MAPS, params=params) as answer:
        assert await answer.read() == b""
    async with client.get("/version") as answer:
        assert answer.status == 200


async def test_a_reader_that_takes_nothing_is_dropped(
    client: aiohttp.ClientSession, front: HttpsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.cluster.apiserver.http.response_writer.STALL_LIMIT", 0.1)
    _, writer = await asyncio.open_connection("127.0.0.1", front.port, limit=1)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(f"GET {CONFIG_MAPS}?watch=true&resourceVersion=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    big = {"k": "x" * 900_000}
    for number in range(12):
        async with client.post(CONFIG_MAPS, json={"metadata": {"name": f"c{number}"}, "data": big}) as created:
            assert created.status == 201
    async with asyncio.timeout(10):
        await asyncio.gather(*front._streams, return_exceptions=True)
    async with client.get("/version") as answer:
        assert answer.status == 200
    assert not front._streams
    writer.close()
