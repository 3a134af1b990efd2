"""Live updates: what is sent, and when."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
from aiohttp import ClientResponse
from tests.dashboard.scene import Visit, dashboard, model_set, scene, visit

from kohort.dashboard.fleet import FleetFilter
from kohort.dashboard.html import tag
from kohort.dashboard.live import SentSections
from kohort.dashboard.view import Section, SectionPart, View
from kohort.kube.resources import LEADER_WORKER_SETS
from kohort.objects.json_types import Json


def view(*rows: str, head: str = "head", caption: str = "") -> View:
    parts = tuple(SectionPart(one[0], tag("tr", one, id=one[0])) for one in rows)
    top = Section("top", tag("p", head, id="top"))
    table = Section("rows", tag("table", tag("caption", caption), *(one.html for one in parts), id="rows"), parts)
    return View("Test", "fleet", FleetFilter(), (top, table))


def ids(sent: SentSections, now: View) -> list[str]:
    return [one.id for one in sent.updates(now)]


def test_only_what_changed_is_sent() -> None:
    sent = SentSections()
    assert ids(sent, view("a1", "b1")) == ["top", "rows"]
    assert ids(sent, view("a1", "b1")) == []
    assert ids(sent, view("a1", "b2")) == ["b"]
    assert ids(sent, view("a1", "b2", head="other")) == ["top"]
    assert ids(sent, view("a1", "b2", "c1", head="other")) == ["rows"]
    assert ids(sent, view("b2", "a1", head="other")) == ["rows"]
    assert ids(sent, view("b2", "a1", head="other", caption="two of three")) == ["rows"]


def test_a_browser_that_has_the_page_gets_nothing() -> None:
    sent = SentSections()
    sent.has(view("a1"))
    assert ids(sent, view("a1")) == []
    assert ids(sent, view("a2")) == ["a"]


async def events(answer: ClientResponse) -> AsyncIterator[tuple[str, Json]]:
    name = ""
    async for line in answer.content:
        text = line.decode().rstrip("\n")
        if text.startswith("event: "):
            name = text.removeprefix("event: ")
        elif text.startswith("data: "):
            yield name, msgspec.json.decode(text.removeprefix("data: "))


def live(user: Visit, address: str) -> str:
    return f"{user.base}/dashboard/live?view={address}"


async def test_a_change_reaches_the_page() -> None:
    async with scene(nodes=2) as found, dashboard(found) as made, visit(made) as user:
        await found.create(model_set("llm"), model_set("other"))
        await found.ready("llm")
        await found.ready("other")
        async with user.session.get(live(user, "/dashboard/"), headers={"Accept": "text/event-stream"}) as answer:
            stream = events(answer)
            async with asyncio.timeout(120):
                name, first = await anext(stream)
                assert (name, [one["id"] for one in first]) == ("sections", ["summary", "filters", "rows", "pager"])
                await found.client.patch(LEADER_WORKER_SETS, "llm", "default", {"spec": {"replicas": 3}})
                seen: dict[str, str] = {}
                while "set-default.llm" not in seen:
                    _, updates = await anext(stream)
                    for one in updates:
                        assert seen.get(one["id"]) != one["html"], "sent though it has not changed"
                        seen[one["id"]] = one["html"]
            assert "rows" not in seen


async def test_a_stream_of_no_page_is_refused() -> None:
    async with scene(nodes=2) as found, dashboard(found) as made, visit(made) as user:
        async with user.session.get(live(user, "https://evil.example.com")) as answer:
            assert answer.status == 400
        async with user.session.get(live(user, "/dashboard/nowhere")) as answer:
            async with asyncio.timeout(5):
                assert await anext(events(answer)) == ("gone", [""])
