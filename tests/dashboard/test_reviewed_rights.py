"""How many reviews the API server is asked for, and whose clients are kept."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import msgspec
import pytest
from tests.dashboard.scene import Scene, model_set, scene

from kohort.cli.actions.dashboard_commands import CliCommands
from kohort.dashboard import access
from kohort.dashboard.access import Caller, CertificateUsers, ReviewedRights, TokenReviewer, User
from kohort.dashboard.cluster_cache import ClusterCache
from kohort.dashboard.views import Views
from kohort.kube.client import Client
from kohort.kube.credentials import Credentials, Static
from kohort.kube.http import Request, Response, Stream, Transport
from kohort.kube.manager import Manager
from kohort.kube.resources import PODS
from kohort.kube.transport import Connection, HttpsTransport
from kohort.objects.json_types import JsonObject

NAMESPACES = [f"team-{number}" for number in range(8)]
CONNECTION = Connection("https://127.0.0.1:1")


class Reviews:
    """An API server where every user may list nodes, and everything within namespaces. It answers about the kind
    `together` once reviews of all namespaces wait."""

    def __init__(self, together: str = "") -> None:
        self._together = together
        self._all = asyncio.Barrier(len(NAMESPACES))
        self.asked: list[tuple[str, str]] = []

    async def send(self, request: Request) -> Response:
        body: JsonObject = msgspec.json.decode(request.body)
        if "token" in body["spec"]:
            user = {"username": body["spec"]["token"]}
            return Response(201, {}, msgspec.json.encode({"status": {"authenticated": True, "user": user}}))
        about = body["spec"]["resourceAttributes"]
        kind, namespace = about["resource"], about.get("namespace", "")
        self.asked.append((kind, namespace))
        if namespace and kind == self._together:
            await self._all.wait()
        return Response(201, {}, msgspec.json.encode({"status": {"allowed": bool(namespace) or kind == "nodes"}}))

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        raise AssertionError("a review is no stream")

    async def close(self) -> None:
        pass


def caller_of(transport: Transport) -> Caller:
    return Caller(User("ada"), Client(transport))


async def test_an_answer_is_asked_for_again_only_if_it_is_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_REMEMBERED", 4)
    reviews = Reviews()
    rights, ada = ReviewedRights(Client(reviews)), caller_of(reviews)
    for one in NAMESPACES[:5]:
        await rights.may_list(ada, PODS, one)
    for one in NAMESPACES[1:5]:
        assert await rights.may_list(ada, PODS, one)
    assert len(reviews.asked) == 5
    assert await rights.may_list(ada, PODS, NAMESPACES[0])
    assert len(reviews.asked) == 6


async def test_answers_that_have_ended_leave_before_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_REMEMBERED", 4)
    reviews = Reviews()
    rights, ada = ReviewedRights(Client(reviews)), caller_of(reviews)
    monkeypatch.setattr(access, "REMEMBER_SECONDS", 0.0)
    for one in NAMESPACES[:3]:
        await rights.may_list(ada, PODS, one)
    monkeypatch.setattr(access, "REMEMBER_SECONDS", 20.0)
    for one in NAMESPACES[3:7]:
        await rights.may_list(ada, PODS, one)
    asked = len(reviews.asked)
    for one in NAMESPACES[3:7]:
        assert await rights.may_list(ada, PODS, one)
    assert len(reviews.asked) == asked


@asynccontextmanager
async def views_of(found: Scene, reviews: Reviews) -> AsyncIterator[Views]:
    manager = Manager(found.client, name="dashboard")
    cache = ClusterCache(manager)
    views = Views(cache, ReviewedRights(Client(reviews)), CliCommands())
    await cache.add_optional()
    async with manager.running():
        yield views


@pytest.mark.parametrize(
    ("kind", "path"), [("rollouts", [""]), ("pods", ["nodes"]), ("rollouts", ["nodes", "sim-0", "drain"])]
)
async def test_namespaces_are_reviewed_together(kind: str, path: list[str]) -> None:
    """One after the other, 200 namespaces would take 200 times as long."""
    reviews = Reviews(together=kind)
    async with scene(nodes=1) as found:
        await found.namespace(*NAMESPACES)
        await found.create(*(model_set("llm", one, replicas=1, size=1, gpus=1) for one in NAMESPACES))
        for one in NAMESPACES:
            await found.ready("llm", one)
        async with views_of(found, reviews) as views, asyncio.timeout(20):
            await views.find(Caller(User("ada"), found.client), path, {})
    assert {one for asked, one in reviews.asked if asked == kind} >= set(NAMESPACES)


async def test_a_client_in_use_is_not_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is followed would end, and the client would open connections again that are never closed."""
    monkeypatch.setattr(access, "_MOST_CALLERS", 2)
    users = CertificateUsers(HttpsTransport(CONNECTION, Credentials(Static(bearer="t"))))
    ada = await users.caller(User("ada"))
    with ada.use.request():
        bob = await users.caller(User("bob"))
        await users.caller(User("eve"))
        assert await users.caller(User("ada")) is ada
        assert await users.caller(User("bob")) is not bob
    await users.close()


async def test_the_client_that_was_idle_for_longest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_MOST_CALLERS", 2)
    tokens = TokenReviewer(Client(Reviews()), CONNECTION)
    ada, bob = await tokens.caller("ada"), await tokens.caller("bob")
    assert await tokens.caller("ada") is ada
    await tokens.caller("eve")
    assert (await tokens.caller("ada"), tokens.knows("bob")) == (ada, False)
    assert bob is not None
    await tokens.close()


async def test_a_client_of_a_token_that_is_in_use_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_MOST_CALLERS", 1)
    tokens = TokenReviewer(Client(Reviews()), CONNECTION)
    ada = await tokens.caller("ada")
    assert ada is not None
    with ada.use.request():
        await tokens.caller("bob")
        assert tokens.knows("ada")
    await tokens.caller("eve")
    assert not tokens.knows("ada")
    await tokens.close()
