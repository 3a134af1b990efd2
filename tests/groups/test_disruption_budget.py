"""Evictions count in groups: the decision, and drains on a whole cluster in this process."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.builders import LeaderWorkerSet, lws
from tests.groups.drains import drain
from tests.groups.test_feature_pairs import Monitor
from tests.groups.test_features import new_image
from tests.groups.test_lifecycle import NAMESPACE, create, images, patch, pods, settled, status
from tests.installed import installed

from kohort.groups.disruption_budget import (
    AwayGroups,
    AwayReason,
    DisruptedBy,
    DisruptedGroup,
    DisruptionBudget,
    EvictionAllowed,
    EvictionDecision,
    EvictionRefused,
    decide_eviction,
    disruptions_allowed,
    groups_away,
    needs_note,
    rolled_from,
    rolled_groups,
    valid_notes,
    without_evicted,
)
from kohort.groups.evictions import answer_eviction
from kohort.kube.errors import Invalid, TooManyRequests
from kohort.kube.resources import NODES, POD_DISRUPTION_BUDGETS, PODS, STATEFUL_SETS
from kohort.kube.tasks import cancel_all
from kohort.objects.apps import GroupStatefulSet
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.rules.group_state import GroupState
from kohort.testing import Cluster

READY, BROKEN, OLD = GroupState(True, True), GroupState(False, True), GroupState(True, False)
NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
NOTE = DisruptedGroup("uid-1", "2026-01-01T00:00:50.000000Z", DisruptedBy.EVICTION)


def test_how_many_groups_may_be_away() -> None:
    for value, replicas, groups in ((1, 4, 1), (0, 4, 0), ("25%", 4, 1), ("30%", 4, 2), ("100%", 3, 3), ("1%", 0, 0)):
        assert DisruptionBudget(value).groups(replicas) == groups


def test_no_more_groups_may_go_than_there_are() -> None:
    assert disruptions_allowed({}, 50, 3) == 3
    assert disruptions_allowed({0: AwayReason.NOT_READY}, 50, 3) == 2
    assert disruptions_allowed({0: AwayReason.HELD}, 1, 3) == 0


def test_which_groups_are_away() -> None:
    states = {0: READY, 1: BROKEN, 2: OLD, 3: OLD, 4: READY}
    assert groups_away(6, states, {4: NOTE}, 3) == {
        1: AwayReason.NOT_READY,
        3: AwayReason.ROLLING,
        4: AwayReason.EVICTED,
        5: AwayReason.NOT_READY,
    }
    assert groups_away(1, states, {}, 0) == {}


def test_an_eviction_is_allowed_where_it_costs_nothing_or_the_budget_has_room() -> None:
    away, none = AwayGroups(2, {0: None, 1: AwayReason.NOT_READY}), AwayGroups(1, {0: None})
    assert decide_eviction(1, BROKEN, away, 0) == EvictionAllowed(costs_group=False)
    assert decide_eviction(0, READY, away, 2) == EvictionAllowed(costs_group=True)
    assert decide_eviction(0, READY, away, 1) == EvictionRefused(1)
    assert decide_eviction(0, READY, none, 0) == EvictionRefused(0)


@pytest.mark.parametrize(
    ("state", "limit", "expected"),
    [
        (BROKEN, 0, EvictionAllowed(costs_group=False)),
        (None, 0, EvictionAllowed(costs_group=False)),
        (READY, 1, EvictionRefused(1)),
        (READY, 2, EvictionAllowed(costs_group=True)),
    ],
)
def test_a_surge_group_costs_nothing_while_it_is_not_ready(
    state: GroupState | None, limit: int, expected: EvictionDecision
) -> None:
    away = groups_away(2, {0: READY, 1: BROKEN, **({2: state} if state is not None else {})}, {}, 0)
    assert decide_eviction(2, state, away, limit) == expected


def test_a_roll_has_reached_no_group_without_a_leader_stateful_set() -> None:
    assert rolled_from(None, 4) == 4
    spec = {"replicas": 4, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}
    assert rolled_from(msgspec.convert({"spec": spec}, GroupStatefulSet), 4) == 2


def leader_pod(uid: str, created: str = "2026-01-01T00:00:00Z", deleting: bool = False) -> Pod:
    metadata = {"uid": uid, "creationTimestamp": created, **({"deletionTimestamp": created} if deleting else {})}
    return msgspec.convert({"metadata": metadata}, Pod)


MINE, NEWER = leader_pod("uid-1"), leader_pod("uid-2", "2026-01-01T00:00:50Z")
LATER = datetime(2026, 1, 1, 0, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("leader", "now", "pods_ready", "counts"),
    [
        (MINE, NOW, True, True),
        (MINE, LATER, True, False),
        (MINE, LATER, False, True),
        (NEWER, NOW, True, False),
        (NEWER, LATER, False, False),
        (leader_pod("uid-0"), NOW, True, True),
        (None, NOW, True, True),
        (None, LATER, False, False),
    ],
    ids=["new", "old", "old-not-ready", "replaced", "old-replaced", "cache-behind", "no-leader", "old-no-leader"],
)
def test_when_a_note_counts(leader: Pod | None, now: datetime, pods_ready: bool, counts: bool) -> None:
    stored = {"1": msgspec.to_builtins(NOTE), "2": {"leader": 1}, "x": {}}
    leaders = {1: leader} if leader is not None else {}
    assert valid_notes(stored, leaders, lambda _: pods_ready, now) == ({1: NOTE} if counts else {})


def test_which_evictions_are_noted() -> None:
    assert needs_note(MINE, None, NOW)
    assert not needs_note(MINE, NOTE, NOW)
    assert needs_note(MINE, NOTE, datetime(2026, 1, 1, 0, 1, 6, tzinfo=UTC))
    assert needs_note(NEWER, NOTE, NOW)
    assert not needs_note(None, None, NOW)
    assert not needs_note(leader_pod("uid-1", deleting=True), None, NOW)


def test_a_roll_sees_groups_that_are_being_evicted_as_away() -> None:
    rolled = msgspec.structs.replace(NOTE, by=DisruptedBy.ROLL)
    assert without_evicted({0: OLD, 1: OLD}, {0: NOTE, 1: rolled}) == {0: GroupState(False, False), 1: OLD}
    assert rolled_groups({0: OLD, 1: OLD, 2: READY, 3: BROKEN}, 4, 1) == [1]


@given(
    st.lists(st.sampled_from([READY, BROKEN, OLD]), max_size=8),
    st.integers(0, 8),
    st.integers(0, 8),
    st.integers(0, 3),
)
def test_no_eviction_takes_more_groups_than_the_budget(
    states: list[GroupState], partition: int, group: int, limit: int
) -> None:
    known = dict(enumerate(states))
    away = groups_away(len(states), known, {}, partition)
    decision = decide_eviction(group, known.get(group), away, limit)
    if isinstance(decision, EvictionAllowed) and decision.costs_group:
        assert len(away) + 1 <= limit


class ModelGroup:
    """A group of a leader and a worker that is not recreated as a whole, and the status of its StatefulSet."""

    def __init__(self, index: int) -> None:
        self.leader = leader_pod(f"leader-{index}")
        self.ready = {"leader": True, "worker": True}
        self.reported = True
        """What the StatefulSet last said of the worker."""

    @property
    def ready_by_pods(self) -> bool:
        return all(self.ready.values())

    @property
    def state(self) -> GroupState:
        return GroupState(self.ready["leader"] and self.reported, updated=True)


class Evictions(RuleBasedStateMachine):
    """Pods become ready, statuses follow late, allowed evictions are carried out late."""

    limit, groups = 1, 2
    which = st.integers(0, 1)
    pod = st.sampled_from(["leader", "worker"])

    def __init__(self) -> None:
        super().__init__()
        self.model = [ModelGroup(index) for index in range(self.groups)]
        self.notes: dict[str, JsonObject] = {}
        self.allowed: list[tuple[int, str]] = []
        self.now, self.created = NOW, 0

    @rule(group=which)
    def becomes_ready(self, group: int) -> None:
        self.model[group].ready = {"leader": True, "worker": True}

    @rule(group=which)
    def status_follows(self, group: int) -> None:
        self.model[group].reported = self.model[group].ready["worker"]

    @rule(group=which, pod=pod)
    def evict(self, group: int, pod: str) -> None:
        leaders = {index: one.leader for index, one in enumerate(self.model)}
        states = {index: one.state for index, one in enumerate(self.model)}
        notes = valid_notes(self.notes, leaders, lambda index: self.model[index].ready_by_pods, self.now)
        away = groups_away(self.groups, states, notes, self.groups)
        if isinstance(decide_eviction(group, states[group], away, self.limit), EvictionRefused):
            return
        if needs_note(leaders[group], notes.get(group), self.now):
            at = self.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            self.notes[str(group)] = {"leader": leaders[group].metadata.uid, "at": at, "by": "Eviction"}
        self.allowed.append((group, pod))

    @precondition(lambda self: self.allowed)
    @rule()
    def carry_out(self) -> None:
        index, pod = self.allowed.pop(0)
        group = self.model[index]
        group.ready[pod] = False
        if pod == "leader":
            self.created += 1
            group.leader = leader_pod(f"new-{self.created}", self.now.strftime("%Y-%m-%dT%H:%M:%SZ"))
            group.ready["worker"], group.reported = False, False  # it gets a new StatefulSet
            self.allowed = [(other, pod) for other, pod in self.allowed if other != index]

    @precondition(lambda self: not self.allowed)
    @rule(seconds=st.integers(1, 40))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @invariant()
    def no_more_are_away_than_the_budget_allows(self) -> None:
        assert sum(not one.ready_by_pods for one in self.model) <= self.limit


TestEvictions = Evictions.TestCase
TestEvictions.settings = settings(max_examples=300, stateful_step_count=40)


def test_a_group_that_is_ready_before_its_status_says_so_is_not_taken_for_free() -> None:
    model = Evictions()
    model.evict(0, "leader")
    model.carry_out()
    model.becomes_ready(0)
    model.evict(0, "worker")
    model.status_follows(0)
    model.evict(1, "worker")
    while model.allowed:
        model.carry_out()
        model.no_more_are_away_than_the_budget_allows()


# On a cluster


async def test_an_eviction_from_a_group_that_seems_broken_keeps_others() -> None:
    """All pods are ready, and the status of a StatefulSet follows only after the first eviction was allowed."""
    async with slow_cluster() as cluster:
        await create(cluster, guarded())
        await cluster.until(lambda: settled(cluster, 3))
        await cluster.settle()
        await cluster.parts["workloads"].crash()
        await cluster.parts["operator"].crash()

        async def report(available: int) -> None:
            body = {"status": {"availableReplicas": available}}
            await cluster.client.patch(STATEFUL_SETS, "llm-1", NAMESPACE, body, subresource="status")

        await report(0)
        broken = await answer_eviction(cluster.client, NAMESPACE, "llm-1-1", dry_run=False)
        await report(1)
        other = await answer_eviction(cluster.client, NAMESPACE, "llm-2-1", dry_run=False)
        await cluster.parts["workloads"].restart()
        await cluster.parts["operator"].restart()
        assert broken is not None
        assert other is not None
        assert isinstance(broken.decision, EvictionAllowed)
        assert isinstance(other.decision, EvictionRefused)


def slow_cluster() -> Cluster:
    """Pods take some seconds to start, so that groups are away for a while."""
    return Cluster(
        parts=("workloads", "scheduler", "operator"),
        nodes=6,
        node_settings={"start_latency": 7.0},
        contents=installed("workloads"),
    )


def guarded(value: int | str = 1, replicas: int = 3) -> LeaderWorkerSet:
    return lws("llm").replicas(replicas).size(2).but("spec.disruptionBudget", {"maxUnavailable": value})


async def evict(cluster: Cluster, name: str) -> None:
    await cluster.client.create(PODS, {"metadata": {"name": name}}, NAMESPACE, subresource="eviction", name=name)


async def test_evictions_count_by_group() -> None:
    async with slow_cluster() as cluster:
        await create(cluster, guarded())
        await cluster.until(lambda: settled(cluster, 3) and status(cluster).get("disruptionsAllowed") == 1)
        await evict(cluster, "llm-1-1")
        with pytest.raises(TooManyRequests) as refused:
            await evict(cluster, "llm-2-1")
        assert (
            "Cannot evict pod llm-2-1: LeaderWorkerSet default/llm allows 1 of its 3 groups to be away "
            "(spec.disruptionBudget.maxUnavailable), and away are: group 1 (" in refused.value.message
        )
        assert refused.value.retry_after == 0
        await cluster.until(lambda: status(cluster).get("disruptionsAllowed") == 0)
        await cluster.until(lambda: settled(cluster, 3) and status(cluster).get("disruptionsAllowed") == 1)
        await evict(cluster, "llm-2-1")
        await cluster.settle()
        assert not status(cluster).get("disruptedGroups")


async def test_of_many_evictions_at_the_same_moment_one_group_goes() -> None:
    async with slow_cluster() as cluster:
        await create(cluster, guarded(2, replicas=6))
        await cluster.until(lambda: settled(cluster, 6) and status(cluster).get("disruptionsAllowed") == 2)
        names = [name for index in range(6) for name in (f"llm-{index}", f"llm-{index}-1")]
        answers = await asyncio.gather(*(evict(cluster, name) for name in names), return_exceptions=True)
        gone = {name.split("-")[1] for name, one in zip(names, answers, strict=True) if not isinstance(one, Exception)}
        assert len(gone) == 2
        assert all(one is None or isinstance(one, TooManyRequests) for one in answers)
        await cluster.until(lambda: settled(cluster, 6))


async def test_a_dry_run_takes_nothing() -> None:
    async with slow_cluster() as cluster:
        await create(cluster, guarded())
        await cluster.until(lambda: settled(cluster, 3))
        body = {"metadata": {"name": "llm-1"}}
        await cluster.client.create(PODS, body, NAMESPACE, subresource="eviction", name="llm-1", dry_run=True)
        assert not status(cluster).get("disruptedGroups")
        await evict(cluster, "llm-2-1")


async def test_without_the_webhook_the_budget_of_leaders_holds() -> None:
    async with slow_cluster() as cluster:
        await create(cluster, guarded())
        await cluster.until(lambda: settled(cluster, 3))
        await cluster.settle()
        await cluster.parts["operator"].crash()
        await evict(cluster, "llm-1")
        with pytest.raises(TooManyRequests) as refused:
            await evict(cluster, "llm-2")
        assert "disruption budget" in refused.value.message
        await cluster.parts["operator"].restart()
        await cluster.until(lambda: settled(cluster, 3))


def leader_budget(cluster: Cluster) -> JsonObject | None:
    return cluster.find(POD_DISRUPTION_BUDGETS, "llm", NAMESPACE)


async def test_the_budget_of_leaders_follows_the_set() -> None:
    async with slow_cluster() as cluster:
        await create(cluster, guarded("50%", replicas=4))
        await cluster.until(lambda: settled(cluster, 4) and leader_budget(cluster) is not None)

        def available() -> int:
            found = leader_budget(cluster)
            return found["spec"]["minAvailable"] if found is not None else -1

        assert available() == 2
        await patch(cluster, "llm", {"spec": {"replicas": 2}})
        await cluster.until(lambda: available() == 1)
        await cluster.client.delete(POD_DISRUPTION_BUDGETS, "llm", NAMESPACE)
        await cluster.until(lambda: available() == 1)
        await cluster.client.patch(POD_DISRUPTION_BUDGETS, "llm", NAMESPACE, {"spec": {"minAvailable": 0}})
        await cluster.until(lambda: available() == 1)
        await patch(cluster, "llm", {"spec": {"disruptionBudget": None}})
        await cluster.until(lambda: leader_budget(cluster) is None)
        assert "disruptionsAllowed" not in status(cluster)


async def test_a_budget_of_the_same_name_that_a_user_made_stays() -> None:
    async with slow_cluster() as cluster:
        mine = {"metadata": {"name": "llm"}, "spec": {"minAvailable": 7, "selector": {"matchLabels": {"app": "mine"}}}}
        await cluster.client.create(POD_DISRUPTION_BUDGETS, mine, NAMESPACE)
        await create(cluster, guarded())
        await cluster.until(lambda: settled(cluster, 3))
        await cluster.settle()
        found = leader_budget(cluster)
        assert found is not None
        assert found["spec"]["minAvailable"] == 7
        await cluster.client.delete(POD_DISRUPTION_BUDGETS, "llm", NAMESPACE)
        await cluster.until(lambda: (leader_budget(cluster) or {}).get("spec", {}).get("minAvailable") == 2, 40)


@pytest.mark.parametrize("value", [-1, "-5%", "101%", "many"])
async def test_amounts_that_make_no_sense_are_refused(value: int | str) -> None:
    async with slow_cluster() as cluster:
        with pytest.raises(Exception, match=r"spec\.disruptionBudget\.maxUnavailable"):
            await create(cluster, guarded(value))
        await create(cluster, guarded())
        with pytest.raises((Invalid, Exception), match="maxUnavailable"):
            await patch(cluster, "llm", {"spec": {"disruptionBudget": {"maxUnavailable": value}}})


async def crowded(cluster: Cluster, subject: LeaderWorkerSet, groups: int) -> str:
    """All groups on one node, and other nodes free afterwards."""
    nodes: list[str] = [one["metadata"]["name"] for one in cluster.objects(NODES)]
    for name in nodes[1:]:
        await cluster.client.patch(NODES, name, "", {"spec": {"unschedulable": True}})
    await create(cluster, subject)
    await cluster.until(lambda: settled(cluster, groups))
    for name in nodes[1:]:
        await cluster.client.patch(NODES, name, "", {"spec": {"unschedulable": None}})
    await cluster.settle()
    return nodes[0]


@pytest.mark.parametrize("policy", ["RecreateGroupOnPodRestart", "None"])
@pytest.mark.parametrize("rolls", [False, True])
async def test_a_drain_goes_group_by_group_and_ends(policy: str, rolls: bool) -> None:
    async with slow_cluster() as cluster:
        subject = guarded(1, replicas=4).restart(policy)
        node = await crowded(cluster, subject, 4)
        monitor = Monitor(subject)
        watching = asyncio.create_task(monitor.watch(cluster))
        await cluster.settle()
        monitor.expect(4)
        if rolls:
            await patch(cluster, "llm", new_image("new:2"))
        refusals = await drain(cluster.client, node)
        await cluster.until(lambda: settled(cluster, 4) and (not rolls or images(cluster) == {"new:2"}))
        assert refusals
        assert all(pod["spec"]["nodeName"] != node for pod in pods(cluster).values())
        await cancel_all(watching)
        assert monitor.broken == []


async def test_two_nodes_are_drained_at_the_same_time() -> None:
    async with slow_cluster() as cluster:
        subject = guarded(1, replicas=6)
        await create(cluster, subject)
        await cluster.until(lambda: settled(cluster, 6))
        monitor = Monitor(subject)
        watching = asyncio.create_task(monitor.watch(cluster))
        await cluster.settle()
        monitor.expect(6)
        nodes = [one["metadata"]["name"] for one in cluster.objects(NODES)][:3]
        await asyncio.gather(*(drain(cluster.client, node) for node in nodes))
        await cluster.until(lambda: settled(cluster, 6))
        await cancel_all(watching)
        assert monitor.broken == []
