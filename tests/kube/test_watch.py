"""Following a collection: resuming, lost history, servers without streaming lists, broken connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import pytest
from tests.kube.model_server import ModelServer

from kohort.kube import errors
from kohort.kube.client import Client, Selection
from kohort.kube.http import Request, Response
from kohort.kube.informer import Informer
from kohort.kube.resources import CONFIG_MAPS, Key
from kohort.kube.tasks import cancel_all
from kohort.kube.transport import InProcessTransport
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import PartialObject
from kohort.testing.faults import Faults
from kohort.testing.request_matching import is_watch, watches

MAPS = "configmaps"


class Seen:
    """Everything an informer reported."""

    def __init__(self, informer: Informer[PartialObject]) -> None:
        self.changes: list[tuple[str, str | None, str | None]] = []
        self.informer = informer
        self.first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        informer.on_change(self._note)

    def _note(self, old: PartialObject | None, new: PartialObject | None) -> None:
        if not self.first.done():
            self.first.set_result(None)
        name = (old or new).metadata.name  # type: ignore[union-attr]
        self.changes.append(
            (name, old.metadata.resource_version if old else None, new.metadata.resource_version if new else None)
        )


@asynccontextmanager
async def following(server: ModelServer, faults: Faults | None = None) -> AsyncIterator[Seen]:
    transport = InProcessTransport(server.handle)
    client = Client(faults.wrap(transport) if faults else transport)
    informer = Informer.alone(client, Selection(CONFIG_MAPS), PartialObject)
    seen = Seen(informer)
    task = asyncio.create_task(informer.run())
    try:
        await informer.wait_synced()
        yield seen
    finally:
        await cancel_all(task)


async def settle() -> None:
    """Longer than any back-off."""
    await asyncio.sleep(120)


def names(informer: Informer[PartialObject]) -> set[str]:
    return {obj.metadata.name for obj in informer.list()}


@pytest.mark.parametrize("lists", ["yes", "refused", "ignored"])
async def test_the_first_state_and_later_changes_arrive(lists: Literal["yes", "refused", "ignored"]) -> None:
    server = ModelServer(lists)
    for number in range(3):
        server.put(MAPS, "n", f"old-{number}")
    async with following(server) as seen:
        assert names(seen.informer) == {"old-0", "old-1", "old-2"}
        server.put(MAPS, "n", "new")
        server.put(MAPS, "n", "old-0")
        server.remove(MAPS, "n", "old-1")
        await settle()
        assert seen.changes == [
            ("old-0", None, "101"),
            ("old-1", None, "102"),
            ("old-2", None, "103"),
            ("new", None, "104"),
            ("old-0", "101", "105"),
            ("old-1", "102", None),
        ]


async def test_a_server_without_streaming_lists_is_asked_for_them_once() -> None:
    server = ModelServer("refused")
    async with following(server):
        server.forget_history()
        server.put(MAPS, "n", "a")
        server.put(MAPS, "n", "b")
        server.forget_history()
        server.break_watches()
        await settle()
    asked = [request for request in server.requests if request.param("sendInitialEvents")]
    assert len(asked) == 1


async def test_lists_come_in_chunks_of_one_snapshot() -> None:
    server = ModelServer("refused")
    for number in range(1201):
        server.put(MAPS, "n", f"m-{number:04}")
    async with following(server) as seen:
        assert len(seen.informer) == 1201
    lists = [request for request in server.requests if not is_watch(request)]
    assert [request.param("limit") for request in lists] == ["500", "500", "500"]


async def test_a_list_whose_snapshot_expires_starts_again() -> None:
    server = ModelServer("refused")
    for number in range(600):
        server.put(MAPS, "n", f"m-{number:04}")
    faults = Faults()
    faults.refuse(errors.expired("the continue token is too old"), on=lambda request: bool(request.param("continue")))
    async with following(server, faults) as seen:
        assert len(seen.informer) == 600


async def test_a_list_without_a_version_is_not_asked_for_in_a_hurry() -> None:
    requests = 0

    async def broken(request: Request) -> Response:
        nonlocal requests
        requests += 1
        if is_watch(request):
            return Response(400, {}, b"")
        return Response(200, {}, b'{"metadata":{},"items":[]}')

    informer = Informer.alone(Client(InProcessTransport(broken)), Selection(CONFIG_MAPS), PartialObject)
    task = asyncio.create_task(informer.run())
    await asyncio.sleep(300)
    assert not informer.synced
    assert requests < 30
    await cancel_all(task)


async def test_after_a_cut_the_watch_resumes_where_it_was() -> None:
    server = ModelServer()
    server.put(MAPS, "n", "a")
    async with following(server) as seen:
        server.break_watches()
        await asyncio.sleep(0)
        server.put(MAPS, "n", "a")
        server.put(MAPS, "n", "b")
        await settle()
        assert seen.changes == [("a", None, "101"), ("a", "101", "102"), ("b", None, "103")]
    resumed = [request.param("resourceVersion") for request in server.requests if is_watch(request)]
    assert resumed[:2] == ["", "101"]


async def test_bookmarks_move_the_point_to_resume_from() -> None:
    server = ModelServer()
    async with following(server) as seen:
        server.put("secrets", "n", "of another kind")
        server.put("secrets", "n", "of another kind")
        server.send_bookmarks()
        await asyncio.sleep(1)
        server.forget_history()
        server.break_watches()
        await settle()
        server.put(MAPS, "n", "a")
        await settle()
        assert names(seen.informer) == {"a"}
    last = [request for request in server.requests if is_watch(request)][-1]
    assert last.param("resourceVersion") == "102"
    assert sum(1 for request in server.requests if request.param("sendInitialEvents")) == 1


async def test_lost_history_is_bridged_by_a_comparison_of_states() -> None:
    server = ModelServer()
    for name in ("same", "changed", "deleted"):
        server.put(MAPS, "n", name)
    async with following(server) as seen:
        same = seen.informer.get(Key("n", "same"))
        seen.changes.clear()
        server.break_watches()
        server.put(MAPS, "n", "changed")
        server.remove(MAPS, "n", "deleted")
        server.put(MAPS, "n", "created")
        server.forget_history()
        await settle()
        assert sorted(seen.changes) == [
            ("changed", "102", "104"),
            ("created", None, "106"),
            ("deleted", "103", None),
        ]
        assert seen.informer.get(Key("n", "same")) is same


async def test_an_object_deleted_and_created_anew_during_the_gap_is_one_change() -> None:
    server = ModelServer()
    server.put(MAPS, "n", "a")
    async with following(server) as seen:
        seen.changes.clear()
        server.break_watches()
        server.remove(MAPS, "n", "a")
        server.put(MAPS, "n", "a")
        server.forget_history()
        await settle()
        assert seen.changes == [("a", "101", "103")]


async def test_http_410_works_like_a_410_event() -> None:
    server, faults = ModelServer(), Faults()
    server.put(MAPS, "n", "a")
    async with following(server, faults) as seen:
        server.put(MAPS, "n", "b")
        await asyncio.sleep(1)
        faults.expire_history()
        await settle()
        server.put(MAPS, "n", "c")
        await settle()
        assert names(seen.informer) == {"a", "b", "c"}
        assert len(seen.changes) == 3


async def test_repeated_events_are_dropped() -> None:
    server, faults = ModelServer(), Faults()
    faults.duplicate_events()
    async with following(server, faults) as seen:
        server.put(MAPS, "n", "a")
        server.put(MAPS, "n", "a")
        server.remove(MAPS, "n", "a")
        await settle()
        assert seen.changes == [("a", None, "101"), ("a", "101", "102"), ("a", "102", None)]


async def test_a_quiet_end_is_followed_at_once() -> None:
    server = ModelServer()
    async with following(server) as seen:
        await asyncio.sleep(400)
        before = asyncio.get_running_loop().time()
        server.end_watches()
        server.put(MAPS, "n", "a")
        await seen.first
        assert asyncio.get_running_loop().time() - before < 0.1


async def test_a_server_that_closes_every_watch_at_once_is_not_stormed() -> None:
    server, faults = ModelServer(), Faults()
    async with following(server, faults):
        faults.refuse(errors.Unreachable("connection refused"), on=watches(), times=None)
        server.break_watches()
        before = len(server.requests)
        await asyncio.sleep(600)
        assert len(server.requests) - before < 40


async def test_a_server_that_was_away_and_lost_its_history_is_followed_again_soon() -> None:
    """A restart of the API server: connections are refused for minutes, and then the history begins anew."""
    server, faults = ModelServer(), Faults()
    server.put(MAPS, "n", "a")
    async with following(server, faults) as seen:
        faults.refuse(errors.Unreachable("connection refused"), times=None)
        server.break_watches()
        await asyncio.sleep(600)
        server.put(MAPS, "n", "b")
        server.forget_history()
        faults.clear()
        await asyncio.sleep(8)
        assert names(seen.informer) == {"a", "b"}


async def test_a_watch_that_hangs_is_given_up_after_its_timeout() -> None:
    server, faults = ModelServer(), Faults()
    async with following(server, faults) as seen:
        held = faults.hold()
        server.put(MAPS, "n", "a")
        await asyncio.sleep(700)
        faults.release(held)
        await settle()
        assert names(seen.informer) == {"a"}
        assert len(seen.changes) == 1


async def test_an_object_that_does_not_fit_the_view_is_left_out_and_comes_back() -> None:
    for lists in ("yes", "refused"):
        server = ModelServer(lists)
        bad: JsonObject = {"kind": 5}
        server.put(MAPS, "n", "bad", **bad)
        server.put(MAPS, "n", "good")
        async with following(server) as seen:
            expected = {"good"} if lists == "yes" else {"good", "bad"}
            assert names(seen.informer) == expected
            server.put(MAPS, "n", "good", **bad)
            await settle()
            assert "good" not in names(seen.informer)
            server.put(MAPS, "n", "good")
            await settle()
            assert "good" in names(seen.informer)
