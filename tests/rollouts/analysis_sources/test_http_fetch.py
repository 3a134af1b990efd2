"""Metrics over HTTP: bounded, without redirects, and only from addresses that users may send the operator to."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from kohort.kube.certificate_issuing import Authority, new_authority
from kohort.rollouts.analysis.http_fetch import (
    MAX_ANSWER,
    FetchError,
    FetchRequest,
    FetchTimeout,
    HttpFetch,
    refusal,
)


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("10.0.0.7", True),
        ("192.168.1.1", True),
        ("127.0.0.1", False),
        ("127.16.0.5", True),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("169.254.169.254", False),
        ("fe80::1", False),
        ("::ffff:169.254.169.254", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("name", False),
        ("", False),
    ],
)
def test_which_addresses_are_refused(address: str, allowed: bool) -> None:
    assert (refusal(address) == "") is allowed
    assert (refusal(address, pod=True) == "") is allowed


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("64:ff9b::127.0.0.1", "loopback"),
        ("64:ff9b::169.254.169.254", "link-local"),
        ("64:ff9b::10.0.0.7", ""),
        ("2002:7f00:1::", "loopback"),
        ("2002:a9fe:a9fe::1", "link-local"),
        ("2001:0:1:1:1:1:5601:5601", "link-local"),
        ("fd00:ec2::254", "credentials"),
        ("fd20:ce::254", "credentials"),
        ("100.100.100.200", "credentials"),
        ("fd00:ec2::253", ""),
    ],
)
def test_addresses_that_carry_another_one_and_those_of_clouds(address: str, reason: str) -> None:
    found = refusal(address)
    assert (reason in found) if reason else found == ""


def test_loopback_only_by_the_gate() -> None:
    assert refusal("127.0.0.1", loopback=True) == ""
    assert "link-local" in refusal("169.254.169.254", loopback=True)


Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def served(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(handler, access_log=None))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def answer(request: web.BaseRequest) -> web.StreamResponse:
    match request.path:
        case "/metrics":
            return web.Response(text=f"m 1\n# {request.headers.get('Authorization', '')}")
        case "/redirect":
            return web.Response(status=302, headers={"Location": "/metrics"})
        case "/large":
            return web.Response(body=b"x" * (MAX_ANSWER + 1))
        case "/endless":
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(b"x" * 65536)
        case "/compressed":
            return web.Response(body=b"x", headers={"Content-Encoding": "gzip"})
        case "/silent":
            await asyncio.Event().wait()
        case "/post":
            return web.Response(body=await request.read())
    return web.Response(status=500)


@asynccontextmanager
async def fetching(*, loopback: bool = True) -> AsyncIterator[HttpFetch]:
    fetch = HttpFetch(loopback=loopback)
    try:
        yield fetch
    finally:
        await fetch.close()


async def test_an_answer_is_read_with_its_token() -> None:
    async with served(answer) as host, fetching() as fetch:
        found = await fetch(FetchRequest(f"http://{host}/metrics", {"Authorization": "Bearer secret"}))
        assert found == b"m 1\n# Bearer secret"
        assert await fetch(FetchRequest(f"http://{host}/post", body=b"{}")) == b"{}"
        port = host.rpartition(":")[2]
        assert await fetch(FetchRequest(f"http://localhost:{port}/metrics")) == b"m 1\n# "


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("redirect", "HTTP 302"),
        ("large", "longer than 1048576 bytes"),
        ("endless", "longer than 1048576 bytes"),
        ("compressed", "compressed"),
        ("nothing", "HTTP 500"),
        ("silent", "no answer within 0.2 s"),
    ],
)
async def test_what_is_not_read(path: str, text: str) -> None:
    async with served(answer) as host, fetching() as fetch:
        seconds = 0.2 if path == "silent" else 10.0
        with pytest.raises(FetchError, match=text):
            await fetch(FetchRequest(f"http://{host}/{path}", seconds=seconds))


async def test_an_answer_has_two_seconds() -> None:
    now = asyncio.get_running_loop().time
    async with served(answer) as host, fetching() as fetch:
        began = now()
        with pytest.raises(FetchTimeout, match="no answer within 2 s"):
            await fetch(FetchRequest(f"http://{host}/silent"))
        assert 2.0 <= now() - began < 4.0


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(answer) as host, fetching() as fetch:
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.delenv("no_proxy", raising=False)
        assert await fetch(FetchRequest(f"http://{host}/metrics")) == b"m 1\n# "


async def test_a_certificate_must_be_of_the_authority_that_the_user_names(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    pair = new_authority("tests", timedelta(days=1), now=now)
    chain, key = Authority(*pair).issue(name="model", addresses=["model"], life=timedelta(days=1), server=True, now=now)
    other, _ = new_authority("others", timedelta(days=1), now=now)
    (tmp_path / "chain").write_bytes(chain)
    (tmp_path / "key").write_bytes(key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "chain", tmp_path / "key")
    async with served(answer, context) as host, fetching() as fetch:
        request = FetchRequest(f"https://{host}/metrics", server_name="model", seconds=10.0)
        trusted = msgspec.structs.replace(request, certificate_authority=pair[0].decode())
        assert await fetch(trusted) == b"m 1\n# "
        assert await fetch(msgspec.structs.replace(request, verifies=False)) == b"m 1\n# "
        for refused in (
            request,
            msgspec.structs.replace(request, certificate_authority=other.decode()),
            msgspec.structs.replace(trusted, server_name="another"),
        ):
            with pytest.raises(FetchError, match="certificate"):
                await fetch(refused)


async def test_neither_an_address_nor_a_name_leads_to_the_operators_machine() -> None:
    async with served(answer) as host, fetching(loopback=False) as fetch:
        port = host.rpartition(":")[2]
        for name in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]"):
            with pytest.raises(FetchError, match="loopback"):
                await fetch(FetchRequest(f"http://{name}:{port}/metrics"))
        with pytest.raises(FetchError, match="not the address of a pod"):
            await fetch(FetchRequest(f"http://{host}/metrics", pod=True))
        assert await fetch(FetchRequest(f"http://{host}/metrics", trusted=True)) == b"m 1\n# "
        with pytest.raises(FetchError, match="link-local"):
            await fetch(FetchRequest("http://169.254.169.254/latest", trusted=True))


async def test_a_port_without_a_server_is_an_error_that_names_it() -> None:
    async with served(answer) as host:
        pass
    async with fetching() as fetch:
        with pytest.raises(FetchError, match=host):
            await fetch(FetchRequest(f"http://{host}/metrics", seconds=5.0))
