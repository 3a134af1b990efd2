"""Faults do what their table says, and nothing else."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest
from tests.kube.model_server import ModelServer

from kohort.kube import errors
from kohort.kube.client import Client, Selection
from kohort.kube.http import Request
from kohort.kube.informer import Informer
from kohort.kube.resources import CONFIG_MAPS, NAMESPACES, PODS, SECRETS, STATEFUL_SETS, Key, Resource
from kohort.kube.tasks import cancel_all
from kohort.kube.transport import InProcessTransport
from kohort.objects.meta import PartialObject
from kohort.testing.faults import Faults
from kohort.testing.request_matching import Match, reads, watches, writes


class Setup:
    def __init__(self) -> None:
        self.server = ModelServer()
        self.faults = Faults()
        self.client = Client(self.faults.wrap(InProcessTransport(self.server.handle)))
        self.tasks: list[asyncio.Task[None]] = []

    async def create(self, name: str) -> None:
        await self.client.create(CONFIG_MAPS, {"metadata": {"name": name}}, "n")

    async def follow(self, resource: Resource = CONFIG_MAPS) -> Informer[PartialObject]:
        informer = Informer.alone(self.client, Selection(resource), PartialObject)
        self.tasks.append(asyncio.create_task(informer.run()))
        await informer.wait_synced()
        return informer

    @property
    def stored(self) -> set[str]:
        return {key.name for key in self.server.objects.get("configmaps", {})}

    @property
    def writes(self) -> int:
        return sum(1 for request in self.server.requests if request.method != "GET")


@pytest.fixture
async def setup() -> Setup:
    return Setup()


async def test_a_refusal_reaches_the_client_and_not_the_server(setup: Setup) -> None:
    setup.faults.refuse(errors.conflict("configmaps", "b", errors.STALE), on=writes(CONFIG_MAPS), times=2, skip=1)
    await setup.create("a")
    for _ in range(2):
        with pytest.raises(errors.Conflict, match="the object has been modified"):
            await setup.create("b")
    await setup.create("c")
    assert setup.stored == {"a", "c"}


@pytest.mark.parametrize("code", [409, 422, 429, 500, 503])
async def test_a_code_is_enough_for_a_refusal(setup: Setup, code: int) -> None:
    setup.faults.refuse(code, on=writes(CONFIG_MAPS), times=None)
    with pytest.raises(errors.ApiError) as refused:
        await setup.create("a")
    assert (refused.value.code, setup.stored) == (code, set())


async def test_a_busy_server_is_asked_again(setup: Setup) -> None:
    setup.faults.refuse(429, on=writes(CONFIG_MAPS))
    await setup.create("a")
    assert setup.stored == {"a"}


def test_what_cannot_be_ordered_is_refused_when_it_is_ordered() -> None:
    faults = Faults()
    orders: tuple[tuple[Callable[[], None], str], ...] = (
        (lambda: faults.refuse(200), "from 400 to 599, not 200"),
        (lambda: faults.drop_events(every=0), "every must be at least 1"),
        (lambda: faults.duplicate_events(every=-1), "every must be at least 1"),
        (lambda: faults.crash_at_write(0), "number must be at least 1"),
        (lambda: faults.chaos(7), "from 0 to 1, not 7"),
    )
    for order, problem in orders:
        with pytest.raises(ValueError, match=problem):
            order()


async def test_a_lost_answer_is_a_write_that_happened(setup: Setup) -> None:
    setup.faults.lose_answer(on=writes())
    with pytest.raises(errors.Unreachable):
        await setup.create("a")
    assert setup.stored == {"a"}


async def test_a_timeout_is_a_write_that_did_not_happen(setup: Setup) -> None:
    setup.faults.time_out(30, on=writes())
    with pytest.raises(errors.Unreachable, match="no answer in 30 s"):
        await setup.create("a")
    assert setup.stored == set()
    assert asyncio.get_running_loop().time() == 30


async def test_a_slow_request_is_answered_in_the_end(setup: Setup) -> None:
    setup.faults.slow_down(5, on=writes())
    await setup.create("a")
    assert setup.stored == {"a"}
    assert asyncio.get_running_loop().time() == 5


@pytest.mark.parametrize(("after_effect", "stored"), [(False, {"one"}), (True, {"one", "two"})])
async def test_a_crash_stops_everything_at_the_given_write(setup: Setup, after_effect: bool, stored: set[str]) -> None:
    informer = await setup.follow()
    setup.faults.crash_at_write(2, after_effect=after_effect)
    reached: list[str] = []

    async def program() -> None:
        for name in ("one", "two", "three"):
            try:
                await setup.create(name)
            except BaseException:
                reached.append("caught something")
                raise
            reached.append(name)
            await asyncio.sleep(1)

    task = asyncio.create_task(program())
    await asyncio.sleep(1000)
    assert setup.faults.crashed.is_set()
    assert (reached, setup.stored, len(informer)) == (["one"], stored, 1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1000):
            await setup.client.get(CONFIG_MAPS, "one", "n")
    await cancel_all(task, *setup.tasks)
    assert [request.method for request in setup.faults.writes] == ["POST", "POST"]


async def test_only_the_last_writes_are_kept(setup: Setup) -> None:
    """A test that runs for virtual weeks must not keep the body of every request."""
    faults = Faults(keep_writes=2)
    client = Client(faults.wrap(InProcessTransport(setup.server.handle)))
    await client.create(CONFIG_MAPS, {"metadata": {"name": "one", "namespace": "n"}})
    before = faults.write_count
    for name in ("two", "three"):
        await client.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": "n"}})
    assert faults.write_count == 3 and len(faults.writes) == 2
    assert [msgspec.json.decode(one.body)["metadata"]["name"] for one in faults.writes_since(before)] == [
        "two",
        "three",
    ]
    assert faults.writes_since(3) == []
    with pytest.raises(ValueError, match="3 writes were attempted, and only the last 2 are kept"):
        faults.writes_since(0)


async def test_a_held_resource_stands_still_while_others_move(setup: Setup) -> None:
    maps, secrets = await setup.follow(), await setup.follow(SECRETS)
    held = setup.faults.hold(CONFIG_MAPS)
    setup.server.put("configmaps", "n", "a")
    setup.server.put("secrets", "n", "s")
    await asyncio.sleep(100)
    assert (len(maps), len(secrets)) == (0, 1)
    setup.faults.release(held)
    await asyncio.sleep(1)
    assert len(maps) == 1
    await cancel_all(*setup.tasks)


async def test_delayed_events_come_late_and_in_order(setup: Setup) -> None:
    informer = await setup.follow()
    arrived: list[tuple[str, float]] = []
    now = asyncio.get_running_loop().time
    informer.on_change(lambda old, new: arrived.append((new.metadata.name if new else "", now())))
    setup.faults.delay_events(7, on=watches(CONFIG_MAPS))
    setup.server.put("configmaps", "n", "a")
    await asyncio.sleep(2)
    setup.server.put("configmaps", "n", "b")
    await asyncio.sleep(20)
    assert arrived == [("a", 7.0), ("b", 9.0)]
    await cancel_all(*setup.tasks)


async def test_a_dropped_event_breaks_the_connection_and_comes_with_the_next_one(setup: Setup) -> None:
    informer = await setup.follow()
    setup.faults.drop_events(every=2)
    for name in "abcde":
        setup.server.put("configmaps", "n", name)
    await asyncio.sleep(100)
    assert len(informer) == 5
    assert sum(1 for request in setup.server.requests if request.param("watch")) > 2
    await cancel_all(*setup.tasks)


async def test_the_rest_of_a_cut_connection_is_lost_with_it(setup: Setup) -> None:
    informer = await setup.follow()
    setup.faults.hold()
    setup.server.put("configmaps", "n", "a")
    await asyncio.sleep(1)
    setup.faults.release()
    setup.faults.disconnect()
    assert Key("n", "a") not in informer
    await asyncio.sleep(10)
    assert Key("n", "a") in informer
    await cancel_all(*setup.tasks)


async def test_expired_history_forces_a_full_state(setup: Setup) -> None:
    await setup.follow()
    setup.server.put("configmaps", "n", "a")
    await asyncio.sleep(1)
    setup.faults.expire_history()
    await asyncio.sleep(10)
    assert sum(1 for request in setup.server.requests if request.param("sendInitialEvents")) == 2
    await cancel_all(*setup.tasks)


async def test_chaos_is_survived_and_repeats_itself(setup: Setup) -> None:
    informer = await setup.follow()
    setup.faults.chaos(0.3, seed=4)
    failures = 0
    for number in range(100):
        try:
            await setup.create(f"m{number}")
        except errors.ApiError:
            failures += 1
    assert 10 < failures < 60
    setup.faults.clear()
    await asyncio.sleep(200)
    assert {obj.metadata.name for obj in informer.list()} == setup.stored
    await cancel_all(*setup.tasks)


@pytest.mark.parametrize(
    ("match", "line", "expected"),
    [
        (writes(), "POST /api/v1/namespaces/n/pods", True),
        (writes(), "GET /api/v1/namespaces/n/pods", False),
        (writes(PODS), "PATCH /api/v1/namespaces/n/pods/a/status", True),
        (writes(PODS, subresource=""), "PATCH /api/v1/namespaces/n/pods/a/status", False),
        (writes(PODS, subresource="status"), "PATCH /api/v1/namespaces/n/pods/a/status", True),
        (writes(PODS, name="a"), "DELETE /api/v1/namespaces/n/pods/a", True),
        (writes(PODS, name="a"), "DELETE /api/v1/namespaces/n/pods/b", False),
        (writes(PODS, method="DELETE"), "POST /api/v1/namespaces/n/pods", False),
        (writes(STATEFUL_SETS), "PUT /apis/apps/v1/namespaces/n/statefulsets/a", True),
        (writes(STATEFUL_SETS), "PUT /apis/apps.kruise.io/v1beta1/namespaces/n/statefulsets/a", False),
        (writes(NAMESPACES), "PUT /api/v1/namespaces/n/status", True),
        (writes(NAMESPACES), "PUT /api/v1/namespaces/n/pods/a", False),
        (reads(PODS), "GET /api/v1/pods", True),
        (reads(PODS), "GET /api/v1/pods?watch=true", False),
        (watches(PODS), "GET /api/v1/pods?watch=true", True),
        (watches(SECRETS), "GET /api/v1/pods?watch=true", False),
    ],
)
def test_which_requests_match(match: Match, line: str, expected: bool) -> None:
    method, _, target = line.partition(" ")
    path, _, query = target.partition("?")
    pairs = tuple((name, value) for name, _, value in [query.partition("=")] if name)
    assert match(Request(method, path, pairs)) is expected
