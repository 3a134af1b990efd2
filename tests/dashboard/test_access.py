"""Who gets in, and what a browser is told to allow."""

import re
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, CookieJar
from tests.dashboard.scene import Scene, Visit, dashboard, model_set, scene, visit

from kohort.dashboard import server
from kohort.dashboard.running import RunningDashboard


@pytest.fixture
async def running() -> AsyncIterator[RunningDashboard]:
    async with scene(nodes=2) as found, dashboard(found) as made:
        yield made


def base_of(running: RunningDashboard) -> str:
    return f"http://127.0.0.1:{running.port}"


async def test_a_link_works_once(running: RunningDashboard) -> None:
    link = base_of(running) + running.link()
    async with (
        ClientSession(cookie_jar=CookieJar(unsafe=True)) as first,
        first.get(link, allow_redirects=False) as answer,
    ):
        assert answer.status == 303
        cookie = answer.headers["Set-Cookie"]
    assert all(word in cookie for word in ("HttpOnly", "Secure", "SameSite=Strict", "Path=/dashboard"))
    async with ClientSession() as second, second.get(link) as answer:
        assert answer.status == 403
        assert "Set-Cookie" not in answer.headers
    assert base_of(running) + running.link() != link


async def test_nothing_is_shown_without_a_session(running: RunningDashboard) -> None:
    base = base_of(running)
    async with ClientSession() as session:
        for path in ("/dashboard/", "/dashboard/live?view=/dashboard/", "/dashboard/nodes", "/dashboard/sets/a/b"):
            async with session.get(base + path, headers={"Accept": "application/json"}) as answer:
                assert answer.status == 401, path
        async with session.get(base + "/dashboard/", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/dashboard/login")
        async with session.get(base + "/dashboard/login?key=wrong") as answer:
            assert answer.status == 403


async def test_another_host_name_is_refused(running: RunningDashboard) -> None:
    """A page of another site whose name resolves to this machine must not read anything."""
    async with visit(running) as user:
        headers = {"Host": f"evil.example.com:{running.port}"}
        async with user.session.get(user.base + "/dashboard/", headers=headers) as answer:
            assert answer.status == 421
        async with user.session.get(user.base + "/dashboard/", headers={"Host": f"localhost:{running.port}"}) as answer:
            assert answer.status == 200


async def test_headers_forbid_what_pages_do_not_need(running: RunningDashboard) -> None:
    async with visit(running) as user:
        for path in ("/dashboard/", "/dashboard/static/style.css", "/dashboard/nowhere"):
            async with user.session.get(user.base + path) as answer:
                policy = answer.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert answer.headers["Referrer-Policy"] == "same-origin"
        async with user.session.get(user.base + "/dashboard/") as answer:
            assert answer.headers["Cache-Control"] == "no-store"
            text = await answer.text()
        assert re.findall(r"<script(?![^>]* src=)", text) == []
        assert " style=" not in text and " onclick" not in text


async def csrf_of(user: Visit) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', await user.text("/dashboard/"))
    assert found is not None
    return found[1]


async def test_a_write_needs_the_token_of_the_session(running: RunningDashboard) -> None:
    async with visit(running) as user:
        token = await csrf_of(user)
        address = user.base + "/dashboard/logout"
        for body, headers in (
            ({}, {}),
            ({"csrf": "wrong"}, {}),
            ({"csrf": token}, {"Origin": "https://evil.example.com"}),
            ({"csrf": token}, {"Origin": "null"}),
        ):
            async with user.session.post(address, data=body, headers=headers) as answer:
                assert answer.status == 403
        assert await user.json("/dashboard/")
        async with user.session.post(address, data={"csrf": token}, allow_redirects=False) as answer:
            assert answer.status == 303
        await user.json("/dashboard/", status=401)


async def test_too_many_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an address without a user, and of a user, each by its own limit."""
    for name, most in (("ANONYMOUS", 10), ("REQUESTS", 5)):
        monkeypatch.setattr(server, f"{name}_PER_SECOND", 0.01)
        monkeypatch.setattr(server, f"{name}_AT_ONCE", most)
    async with scene(nodes=2) as found, dashboard(found) as made, visit(made) as user:

        async def statuses(path: str) -> list[int]:
            seen = []
            for _ in range(12):
                async with user.session.get(user.base + path) as answer:
                    seen.append(answer.status)
                    assert answer.headers.get("Retry-After") == ("1" if answer.status == 429 else None)
            return seen

        assert await statuses("/dashboard/") == [200] * 4 + [429] * 8  # the first one was the page after the login
        anonymous = await statuses("/dashboard/healthz")
        assert (anonymous[0], anonymous[-1]) == (200, 429)


async def test_guessing_links_is_slow(running: RunningDashboard) -> None:
    async with ClientSession() as session:
        statuses = []
        for number in range(server.LOGINS_AT_ONCE + 5):
            async with session.get(f"{base_of(running)}/dashboard/login?key={number}") as answer:
                statuses.append(answer.status)
        assert statuses[0] == 403
        assert statuses[-1] == 429


async def test_wrong_addresses_are_explained() -> None:
    async with scene(nodes=2) as found, dashboard(found) as made, visit(made) as user:
        await Scene(found.cluster).create(model_set("llm"))
        answer = await user.json("/dashboard/?state=Fine", status=400)
        assert answer["message"].startswith("state: 'Fine' is not a state of a set")
        answer = await user.json("/dashboard/nowhere", status=404)
        assert answer["message"] == "there is no page nowhere"
