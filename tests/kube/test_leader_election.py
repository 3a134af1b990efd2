"""Leader election: at most one leader at any moment, and always one soon."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kube.model_server import ModelServer

from kohort.kube import errors
from kohort.kube.client import Client
from kohort.kube.leader_election import LeaderElection, LeadershipLost
from kohort.kube.manager import Manager
from kohort.kube.resources import CONFIG_MAPS, Key
from kohort.kube.tasks import cancel_all
from kohort.kube.transport import InProcessTransport
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import PartialObject
from kohort.testing import virtual_time
from kohort.testing.faults import Faults
from kohort.testing.request_matching import anything, writes


class Candidate:
    def __init__(self, server: ModelServer, name: str, log: list[tuple[float, str, str]]) -> None:
        self.name = name
        self.faults = Faults()
        client = Client(self.faults.wrap(InProcessTransport(server.handle)))
        self.election = LeaderElection(client, "operator", "system", name)
        self._log = log
        self.task = asyncio.create_task(self._run(), name=name)

    async def _run(self) -> None:
        while True:
            try:
                await self.election.run(self._lead)
            except LeadershipLost:
                continue

    async def _lead(self) -> None:
        now = asyncio.get_running_loop().time
        self._log.append((now(), self.name, "leads"))
        try:
            await asyncio.Event().wait()
        finally:
            self._log.append((now(), self.name, "stops"))


def lease(server: ModelServer) -> JsonObject:
    spec: JsonObject = server.objects["leases"][Key("system", "operator")]["spec"]
    return spec


async def test_the_first_candidate_leads_and_renews_what_it_holds() -> None:
    server, log = ModelServer(), list[tuple[float, str, str]]()
    one = Candidate(server, "one", log)
    await asyncio.sleep(60)
    assert log == [(0.0, "one", "leads")]
    found = lease(server)
    assert (found["holderIdentity"], found["leaseDurationSeconds"], found["leaseTransitions"]) == ("one", 15, 0)
    assert found["acquireTime"] == "2026-01-01T00:00:00.000000Z"
    assert found["renewTime"] > "2026-01-01T00:00:55"
    await cancel_all(one.task)


async def test_the_second_candidate_takes_over_at_once_after_an_orderly_end() -> None:
    server, log = ModelServer(), list[tuple[float, str, str]]()
    one = Candidate(server, "one", log)
    await asyncio.sleep(1)
    two = Candidate(server, "two", log)
    await asyncio.sleep(60)
    await cancel_all(one.task)
    assert lease(server)["holderIdentity"] == ""
    await asyncio.sleep(5)
    assert [(name, what) for _, name, what in log] == [("one", "leads"), ("one", "stops"), ("two", "leads")]
    assert lease(server)["leaseTransitions"] == 1
    await cancel_all(two.task)


async def test_a_dead_leader_is_replaced_when_its_lease_has_run_out() -> None:
    server, log = ModelServer(), list[tuple[float, str, str]]()
    one = Candidate(server, "one", log)
    await asyncio.sleep(1)
    two = Candidate(server, "two", log)
    await asyncio.sleep(30)
    one.faults.crash()
    died = asyncio.get_running_loop().time()
    await asyncio.sleep(60)
    takeover = next(time for time, name, what in log if (name, what) == ("two", "leads"))
    assert 13 <= takeover - died <= 15, "a dead leader is missed as long as its lease says, and no longer"
    await cancel_all(one.task, two.task)


async def test_a_leader_that_cannot_renew_stops_before_another_may_begin() -> None:
    server, log = ModelServer(), list[tuple[float, str, str]]()
    one = Candidate(server, "one", log)
    await asyncio.sleep(1)
    two = Candidate(server, "two", log)
    await asyncio.sleep(30)
    one.faults.refuse(errors.Unreachable("network gone"), on=anything, times=None)
    await asyncio.sleep(60)
    (_, _, _), (stopped, _, _), (began, _, _) = log
    assert [(name, what) for _, name, what in log] == [("one", "leads"), ("one", "stops"), ("two", "leads")]
    assert stopped < began
    await cancel_all(one.task, two.task)


async def test_of_two_that_ask_at_the_same_moment_one_gets_a_409() -> None:
    server, log = ModelServer(), list[tuple[float, str, str]]()
    candidates = [Candidate(server, name, log) for name in ("one", "two", "three")]
    await asyncio.sleep(60)
    assert len(log) == 1
    await cancel_all(*(each.task for each in candidates))


async def test_an_expired_lease_of_a_stranger_is_judged_by_our_own_watch() -> None:
    """Its time stamps lie far in the future; only that it does not change counts."""
    server, log = ModelServer(), list[tuple[float, str, str]]()
    stamps = {"acquireTime": "2099-01-01T00:00:00.000000Z", "renewTime": "2099-01-01T00:00:00.000000Z"}
    spec = {"holderIdentity": "stranger", "leaseDurationSeconds": 15, "leaseTransitions": 4, **stamps}
    server.put("leases", "system", "operator", spec=spec)
    one = Candidate(server, "one", log)
    await asyncio.sleep(14.9)
    assert log == []
    await asyncio.sleep(10)
    assert [name for _, name, _ in log] == ["one"]
    assert lease(server)["leaseTransitions"] == 5
    await cancel_all(one.task)


async def test_a_stolen_lease_ends_the_leadership() -> None:
    server, log = ModelServer(), list[tuple[float, str, str]]()
    one = Candidate(server, "one", log)
    await asyncio.sleep(5)
    server.put("leases", "system", "operator", spec=lease(server) | {"holderIdentity": "thief"})
    await asyncio.sleep(5)
    assert [(name, what) for _, name, what in log] == [("one", "leads"), ("one", "stops")]
    assert lease(server)["holderIdentity"] == "thief", "a lease of others is not given back"
    await cancel_all(one.task)


@pytest.mark.parametrize("times", [(10, 10, 2), (15, 2, 10), (15, 10, 0)])
def test_impossible_periods_are_refused(times: tuple[float, float, float]) -> None:
    client = Client(InProcessTransport(ModelServer().handle))
    with pytest.raises(ValueError, match="lease_duration > renew_deadline > retry_period > 0"):
        LeaderElection(client, "a", "b", "c", lease_duration=times[0], renew_deadline=times[1], retry_period=times[2])


async def test_controllers_run_on_the_leader_only_and_loss_ends_the_manager() -> None:
    server = ModelServer()
    client = Client(InProcessTransport(server.handle))
    managers = [
        Manager(client, name=name, leader_election=LeaderElection(client, "operator", "system", name))
        for name in ("one", "two")
    ]
    ran: list[str] = []
    for manager in managers:

        async def work(name: str = manager.name) -> None:
            ran.append(name)
            await asyncio.Event().wait()

        manager.background("work", work)
    tasks = [asyncio.create_task(manager.run()) for manager in managers]
    await asyncio.sleep(30)
    assert ran == ["one"]
    managers[0].stop()
    await tasks[0]
    await asyncio.sleep(10)
    assert ran == ["one", "two"]
    server.put("leases", "system", "operator", spec=lease(server) | {"holderIdentity": "thief"})
    with pytest.raises(LeadershipLost):
        await tasks[1]


async def test_what_a_leader_tells_the_cluster_comes_before_its_first_reconcile() -> None:
    server = ModelServer()
    server.put("configmaps", "n", "a")
    client = Client(InProcessTransport(server.handle))
    election = LeaderElection(client, "operator", "system", "one")
    manager = Manager(client, leader_election=election)
    order: list[str] = []

    async def act() -> None:
        assert election.leading
        await asyncio.sleep(5)
        order.append("told")

    async def reconcile(key: Key) -> None:
        order.append(key.name)

    manager.prepare_as_leader(act)
    manager.controller("maps", reconcile).watches(manager.informer(CONFIG_MAPS, PartialObject))
    async with manager.running():
        await asyncio.sleep(1)
    assert order == ["told", "a"]


TROUBLE = st.lists(
    st.tuples(
        st.sampled_from(["cut", "heal", "lose", "refuse", "restart", "slow"]), st.integers(0, 1), st.integers(0, 40)
    ),
    max_size=12,
)


@settings(max_examples=50, deadline=None)
@given(TROUBLE, st.integers(0, 50))
def test_never_two_leaders_and_always_one_in_the_end(trouble: list[tuple[str, int, int]], seed: int) -> None:
    virtual_time.run(_compete(trouble), seed=seed)


async def _compete(trouble: list[tuple[str, int, int]]) -> None:
    server, log = ModelServer(), list[tuple[float, str, str]]()
    candidates = [Candidate(server, "one", log), Candidate(server, "two", log)]
    for what, index, pause in trouble:
        candidate = candidates[index]
        match what:
            case "cut":
                candidate.faults.refuse(errors.Unreachable("network gone"), on=anything, times=None)
            case "heal":
                candidate.faults.clear()
            case "lose":
                candidate.faults.lose_answer(on=writes(), times=2)
            case "refuse":
                candidate.faults.refuse(errors.internal("no"), on=writes(), times=3)
            case "slow":
                candidate.faults.slow_down(pause / 4, times=3)
            case "restart":
                await cancel_all(candidate.task)
                candidates[index] = Candidate(server, candidate.name, log)
        await asyncio.sleep(pause)
    for candidate in candidates:
        candidate.faults.clear()
    await asyncio.sleep(120)
    leaders: set[str] = set()
    for _, name, what in log:
        if what == "leads":
            assert not leaders, f"{name} leads although {leaders} does"
            leaders.add(name)
        else:
            leaders.remove(name)
    assert len(leaders) == 1
    await cancel_all(*(each.task for each in candidates))
