"""One user cannot keep others from being answered: large work is done beside the loop, and users take turns."""

import asyncio
import threading
from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.security.hostile_bodies import CONFIG_MAPS, DEFINITIONS, WIDGET_DEFINITION, WIDGETS, config_map, post, widget

from kohort.cluster.apiserver.auth.model import User
from kohort.cluster.apiserver.endpoints.large_documents import LARGE, LargeWork
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.server_setup import assemble
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube.errors import ApiError
from kohort.kube.http import Request

MALLORY = User("mallory", ("system:masters",))
JANE = User("jane", ("system:masters",))
DUPLICATES = b'{"metadata":{"name":"x"},"data":{' + b",".join([b'"a":"b"'] * 30_000) + b"}}"
"""Legal, and slow to read."""


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    server, _ = await assemble(open_store(None))
    await server.handle(post(DEFINITIONS, WIDGET_DEFINITION, dry_run=False), JANE)
    await server.handle(post(CONFIG_MAPS, config_map(), dry_run=False), JANE)
    yield server
    await server.close()


def change(method: str, body: bytes, media: str = "application/json") -> Request:
    return Request(method, f"{CONFIG_MAPS}/x", (("dryRun", "All"),), {"content-type": media}, body)


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
LONG_SELECTOR = ",".join(f"k{number}!=v" for number in range(1000))


@pytest.fixture
async def full_server(server: ApiServer) -> ApiServer:
    """With so many objects that showing or selecting them takes long."""
    for number in range(400):
        data = {f"k{key}": "v" * 10 for key in range(40)}
        document = config_map(data=data, metadata={"name": f"many-{number}"})
        created = await server.handle(post(CONFIG_MAPS, document, dry_run=False), JANE)
        assert created.status == 201, created.body
    return server


def listing(accept: str = "application/json", **query: str) -> Request:
    return Request("GET", CONFIG_MAPS, tuple(query.items()), {"accept": accept})


@pytest.mark.parametrize(
    "request_",
    [
        listing(TABLE, includeObject="Object"),
        listing("application/yaml"),
        listing("application/vnd.kubernetes.protobuf"),
        listing("application/yaml;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
        listing(labelSelector=LONG_SELECTOR),
        listing(labelSelector=LONG_SELECTOR, limit="700"),
        listing(METADATA, labelSelector=LONG_SELECTOR),
    ],
    ids=["table", "yaml", "protobuf", "metadata as yaml", "selector", "selector and limit", "selector and metadata"],
)
async def test_others_are_answered_while_a_large_answer_is_made(full_server: ApiServer, request_: Request) -> None:
    working = asyncio.ensure_future(full_server.handle(request_, MALLORY))
    await asyncio.sleep(0)
    for _ in range(5):
        answer = await full_server.handle(Request("GET", f"{CONFIG_MAPS}/x"), JANE)
        assert answer.status == 200
    assert not working.done()
    assert (await working).status == 200


async def test_users_take_turns_between_the_slices_of_a_large_answer(full_server: ApiServer) -> None:
    finished: list[str] = []

    async def send(request: Request, user: User) -> None:
        assert (await full_server.handle(request, user)).status in (200, 409)
        finished.append(user.name)

    await asyncio.gather(
        *(send(listing("application/yaml"), MALLORY) for _ in range(2)), send(post(CONFIG_MAPS, DUPLICATES), JANE)
    )
    assert finished[0] == "jane"


async def test_others_are_answered_between_the_initial_events_of_a_watch(full_server: ApiServer) -> None:
    query = (("watch", "true"), ("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan"))
    request = Request("GET", CONFIG_MAPS, (*query, ("allowWatchBookmarks", "true")), {"accept": TABLE})
    watch = await full_server.handle(request, MALLORY)
    assert not isinstance(watch.body, bytes)
    rounds = 0

    async def count_rounds() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count_rounds())
    async for frame in watch.body:
        if b"initial-events-end" in frame:
            break
    counting.cancel()
    assert rounds > 5


@pytest.mark.parametrize(
    "large",
    [
        post(CONFIG_MAPS, DUPLICATES),
        change("PUT", DUPLICATES),
        change("PATCH", DUPLICATES, "application/merge-patch+json"),
        post(WIDGETS, widget(map=[{"name": f"k{i}", "value": "v"} for i in range(20_000)])),
        post(WIDGETS, widget(numbers=["x"] * 30_000)),
        post(CONFIG_MAPS, b"data:\n" + b"".join(b"  k%d: v\n" % i for i in range(50_000)), "application/yaml"),
        post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", DUPLICATES),
        change("DELETE", DUPLICATES + b"x"),
    ],
    ids=["create", "update", "patch", "custom", "wrong custom", "yaml", "review", "delete options"],
)
async def test_others_are_answered_while_a_large_request_is_worked_on(server: ApiServer, large: Request) -> None:
    assert len(large.body) > LARGE
    working = asyncio.ensure_future(server.handle(large, MALLORY))
    await asyncio.sleep(0)
    for _ in range(5):
        answer = await server.handle(Request("GET", f"{CONFIG_MAPS}/x"), JANE)
        assert answer.status == 200
    assert not working.done()
    await working


async def test_a_large_request_of_another_user_comes_next_however_many_one_has_sent(server: ApiServer) -> None:
    finished: list[str] = []

    async def send(user: User) -> None:
        answer = await server.handle(post(CONFIG_MAPS, DUPLICATES), user)
        assert answer.status == 409, "read, checked, and there already"
        finished.append(user.name)

    await asyncio.gather(*(send(MALLORY) for _ in range(4)), send(JANE))
    assert finished.index("jane") <= 2


async def test_users_take_turns() -> None:
    order: list[str] = []
    work = LargeWork()

    async def do(user: str) -> None:
        await work.run(user, LARGE + 1, lambda: order.append(user))

    await asyncio.gather(*(do("a") for _ in range(3)), *(do("b") for _ in range(2)), do("c"))
    assert order == ["a", "b", "c", "a", "b", "a"]
    work.close()


async def test_requests_of_one_user_beyond_the_limit_are_refused() -> None:
    begun, go_on = threading.Event(), threading.Event()
    work = LargeWork(waiting=2)

    def slow() -> None:
        begun.set()
        go_on.wait()

    first = asyncio.ensure_future(work.run("a", LARGE + 1, slow))
    await asyncio.to_thread(begun.wait)
    others = [asyncio.ensure_future(work.run("a", LARGE + 1, int)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(ApiError) as refused:
        await work.run("a", LARGE + 1, int)
    assert (refused.value.code, refused.value.retry_after) == (429, 1)
    of_another = asyncio.ensure_future(work.run("b", LARGE + 1, int))
    assert await work.run("a", 1, int) == 0, "small requests do not wait"
    go_on.set()
    assert await asyncio.gather(first, *others, of_another) == [None, 0, 0, 0]
    work.close()


async def test_an_error_in_the_thread_is_answered(server: ApiServer) -> None:
    answer = await server.handle(post(CONFIG_MAPS, b'{"zz":' + b"[" * LARGE), MALLORY)
    assert answer.status == 400
    assert isinstance(answer.body, bytes)
    assert msgspec.json.decode(answer.body)["reason"] == "BadRequest"


async def test_a_request_that_is_given_up_is_not_worked_on() -> None:
    begun, go_on = threading.Event(), threading.Event()
    done: list[str] = []
    work = LargeWork()

    def slow() -> None:
        begun.set()
        go_on.wait()

    first = asyncio.ensure_future(work.run("a", LARGE + 1, slow))
    given_up = asyncio.ensure_future(work.run("a", LARGE + 1, lambda: done.append("given up")))
    last = asyncio.ensure_future(work.run("a", LARGE + 1, lambda: done.append("last")))
    await asyncio.to_thread(begun.wait)
    given_up.cancel()
    go_on.set()
    await asyncio.gather(first, last)
    assert done == ["last"]
    work.close()
