"""Users take turns with their requests, within limits for each of them."""

import asyncio

import pytest

from kohort.cluster.apiserver.auth.model import User
from kohort.cluster.apiserver.http.request_turns import FairHandler
from kohort.kube.errors import ApiError
from kohort.kube.http import Request, Response

MALLORY, JANE, JOHN = User("mallory"), User("jane"), User("john")
REQUEST = Request("GET", "/version")


class Handler:
    """Answers at once, or after `go_on`; records which users were answered."""

    def __init__(self, *, waits: bool = False) -> None:
        self.order: list[str] = []
        self.go_on = asyncio.Event()
        if not waits:
            self.go_on.set()

    async def handle(self, request: Request, user: User) -> Response:
        self.order.append(user.name)
        await self.go_on.wait()
        return Response(200, {}, b"")


async def test_a_flood_of_one_user_lets_others_in_after_one_round() -> None:
    handler = Handler()
    fair = FairHandler(handler.handle, per_round=5)
    flood = [asyncio.ensure_future(fair.handle(REQUEST, MALLORY)) for _ in range(100)]
    await asyncio.sleep(0)
    late = [asyncio.ensure_future(fair.handle(REQUEST, user)) for user in (JANE, JOHN)]
    await asyncio.gather(*flood, *late)
    assert len(handler.order) == 102
    assert max(handler.order.index("jane"), handler.order.index("john")) <= 2 * 5 + 2


async def test_all_waiting_users_get_their_share_of_every_round() -> None:
    handler = Handler()
    fair = FairHandler(handler.handle, per_round=2)
    await asyncio.gather(*(fair.handle(REQUEST, user) for user in [MALLORY] * 8 + [JANE] * 4))
    assert handler.order[:8].count("jane") == 4
    assert handler.order[-4:] == ["mallory"] * 4


async def test_requests_of_one_user_are_begun_in_their_order() -> None:
    paths: list[str] = []

    async def handle(request: Request, user: User) -> Response:
        paths.append(request.path)
        return Response(200, {}, b"")

    fair = FairHandler(handle, per_round=3)
    await asyncio.gather(*(fair.handle(Request("GET", f"/{number}"), MALLORY) for number in range(20)))
    assert paths == [f"/{number}" for number in range(20)]


async def test_only_so_many_requests_of_one_user_are_in_flight() -> None:
    handler = Handler(waits=True)
    fair = FairHandler(handler.handle, max_in_flight=3)
    of_mallory = [asyncio.ensure_future(fair.handle(REQUEST, MALLORY)) for _ in range(10)]
    of_jane = asyncio.ensure_future(fair.handle(REQUEST, JANE))
    for _ in range(20):
        await asyncio.sleep(0)
    assert handler.order == ["mallory"] * 3 + ["jane"]
    handler.go_on.set()
    await asyncio.gather(*of_mallory, of_jane)
    assert handler.order.count("mallory") == 10


async def test_more_than_may_wait_are_refused() -> None:
    handler = Handler(waits=True)
    fair = FairHandler(handler.handle, max_in_flight=1, max_waiting=2)
    accepted = [asyncio.ensure_future(fair.handle(REQUEST, MALLORY)) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(ApiError) as refused:
        await fair.handle(REQUEST, MALLORY)
    assert (refused.value.code, refused.value.retry_after) == (429, 1)
    handler.go_on.set()
    await asyncio.gather(*accepted)


@pytest.mark.parametrize("moment", range(6))
async def test_a_request_that_is_given_up_while_it_waits_leaves_room(moment: int) -> None:
    handler = Handler(waits=True)
    fair = FairHandler(handler.handle, max_in_flight=1)
    first, given_up, last = (asyncio.ensure_future(fair.handle(REQUEST, MALLORY)) for _ in range(3))
    await asyncio.sleep(0)
    handler.go_on.set()
    for _ in range(moment):
        await asyncio.sleep(0)
    given_up.cancel()
    async with asyncio.timeout(5):
        await asyncio.gather(first, given_up, last, return_exceptions=True)
    assert (await last).status == 200
    assert (await fair.handle(REQUEST, MALLORY)).status == 200


async def test_an_error_in_a_handler_gives_its_place_back() -> None:
    async def fail(request: Request, user: User) -> Response:
        raise ConnectionError("gone")

    fair = FairHandler(fail, max_in_flight=1)
    for _ in range(3):
        with pytest.raises(ConnectionError):
            await fair.handle(REQUEST, MALLORY)


async def test_users_without_requests_are_forgotten() -> None:
    handler = Handler()
    fair = FairHandler(handler.handle)
    for number in range(5000):
        await fair.handle(REQUEST, User(f"user-{number}"))
        await asyncio.sleep(0)
    assert len(fair._users) <= 1001
