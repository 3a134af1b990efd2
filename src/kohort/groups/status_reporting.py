"""What is told about a set: its status, its metrics, and events about its conditions."""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from kohort.groups.caches import GroupCache
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.metrics import GroupMetrics
from kohort.groups.missing_pod_cause import AGAIN, Inquiry
from kohort.groups.revisions import Revision
from kohort.groups.status import AVAILABLE, REASONS, WAITING, Tally, next_conditions
from kohort.groups.waiting_reason import REFUSALS, Obstacle, Watchman
from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.events import EventRecorder
from kohort.kube.resources import LEADER_WORKER_SETS, Key
from kohort.objects.apps import GroupStatefulSet
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.group_state import GroupState

COALESCE: Final = 1.0
"""Seconds between two status writes that differ only in their counters, as long as those are still moving."""
_SPARING: Final = 10
"""A server that answers slowly is asked less: a write may take a tenth of the time."""
_COALESCE_LONGEST: Final = 5.0
REFUSED: Final = "LeaderSetRefused"
_TICK: Final = 0.001
"""Less than this is no time to wait for: a timer may fire a hair early, and would then be set again and again."""


class Facts(msgspec.Struct, frozen=True):
    """What one reconcile has found."""

    group_set: LeaderWorkerSet
    leaders: GroupStatefulSet
    revision: Revision
    states: Mapping[int, GroupState]
    tally: Tally
    roll_began: bool = False

    @property
    def key(self) -> Key:
        return Key(self.group_set.metadata.namespace, self.group_set.metadata.name)


class Reporter:
    def __init__(self, client: Client, cache: GroupCache, metrics: GroupMetrics, recorder: EventRecorder) -> None:
        self._client = client
        self._cache = cache
        self._metrics = metrics
        self._recorder = recorder
        self._watchman = Watchman(cache)
        self._inquiry = Inquiry(client, cache)
        self._next_write: dict[str, float] = {}
        """By uid of a set: when counters alone may be written again."""
        self._rolls: dict[str, float] = {}
        """By uid of a set: when the roll that is under way began."""
        self._waiting: dict[Key, tuple[str, float]] = {}
        """By leader: its uid, and when its group was first seen, until it is ready."""

    def forget(self, key: Key, uid: str) -> None:
        self._metrics.forget(key)
        self._watchman.forget(key)
        self._inquiry.forget(key)
        self._next_write.pop(uid, None)
        self._rolls.pop(uid, None)
        for leader in [one for one in self._waiting if one.namespace == key.namespace]:
            if leader.name.rpartition("-")[0] == key.name:
                del self._waiting[leader]

    # Metrics

    def measure(self, facts: Facts) -> None:
        labels = (facts.key.namespace, facts.key.name)
        wanted, leaders = facts.group_set.replicas, facts.leaders
        self._metrics.wanted.labels(*labels).set(wanted)
        self._metrics.existing.labels(*labels).set(leaders.status.replicas)
        self._metrics.ready.labels(*labels).set(facts.tally.ready)
        self._metrics.updated.labels(*labels).set(facts.tally.updated)
        self._metrics.partition.labels(*labels).set(leaders.partition)
        self._metrics.held.labels(*labels).set(facts.group_set.partition)
        self._metrics.surge.labels(*labels).set(max(0, leaders.spec.replicas - wanted))
        self._metrics.singly.saw(facts.key, wanted, facts.states)
        now = asyncio.get_running_loop().time()
        uid = facts.group_set.metadata.uid
        if facts.roll_began:
            self._metrics.rolls.labels(*labels).inc()
            self._rolls.setdefault(uid, now)
        elif facts.tally.finished and uid in self._rolls:
            self._metrics.roll_seconds.labels(*labels).observe(now - self._rolls.pop(uid))
        self._measure_groups(facts, now)

    def _measure_groups(self, facts: Facts, now: float) -> None:
        labels = (facts.key.namespace, facts.key.name)
        for index, leader in self._cache.leaders(facts.key).items():
            name, uid = Key(leader.metadata.namespace, leader.metadata.name), leader.metadata.uid
            state = facts.states.get(index)
            known, since = self._waiting.get(name, ("", now))
            if state is None or not state.ready:
                if known != uid:
                    self._waiting[name] = (uid, now)
            elif name in self._waiting:
                del self._waiting[name]
                if known == uid:
                    self._metrics.ready_seconds.labels(*labels).observe(now - since)
                    self._metrics.singly.became_ready(facts.key, index, now - since)

    # Status

    async def write_status(self, facts: Facts) -> float:
        """Write what changed. Returns in how many seconds to look again: a write was put off to be merged with others,
        or something stands in the way that is told only if it stays there."""
        obstacle, again = self._watchman.report(facts.key, facts.group_set.replicas, facts.states)
        if facts.tally.true_conditions == (AVAILABLE,):
            obstacle, again = None, 0.0
        if obstacle is not None and obstacle.missing:
            obstacle, again = await self._inquiry.explained(facts.key, obstacle), AGAIN
        group_set, before = facts.group_set, facts.group_set.status
        told = [one for one in before.conditions if one["type"] == WAITING and one["status"] == "True"]
        if again and obstacle is None and told and told[0]["reason"] != REFUSED:
            # It waits for something else now: what was told stays until that has stood as long.
            obstacle = Obstacle(told[0]["reason"], told[0]["message"])
        conditions = next_conditions(
            before.conditions,
            facts.tally.true_conditions,
            group_set.metadata.generation,
            clock.timestamp(),
            obstacle,
        )
        wanted = wanted_status(facts, conditions)
        current: JsonObject = msgspec.to_builtins(before) | {"conditions": list(before.conditions)}
        changes = {name: value for name, value in wanted.items() if current.get(name) != value}
        if not changes:
            return again
        now = asyncio.get_running_loop().time()
        left = self._next_write.get(group_set.metadata.uid, now) - now
        if left > _TICK and "conditions" not in changes and not _at_rest(facts):
            return left
        try:
            written = await self._client.patch_status(LEADER_WORKER_SETS, group_set, changes)
        finally:
            self._next_write[group_set.metadata.uid] = now + pause_after(asyncio.get_running_loop().time() - now)
        if written is None:
            return 0.0
        if "conditions" in changes:
            self._tell(facts, before.conditions, obstacle)
        return again

    async def write_refusal(self, group_set: LeaderWorkerSet, problem: ApiError) -> None:
        """The leader StatefulSet is refused, and nothing goes on until somebody mends what the message names."""
        if not isinstance(problem, REFUSALS):
            return
        before = group_set.status.conditions
        obstacle = Obstacle(REFUSED, f"the leader StatefulSet is refused: {problem.message}")
        conditions = next_conditions(before, (), group_set.metadata.generation, clock.timestamp(), obstacle)
        if conditions == list(before):
            return
        await self._client.patch_status(LEADER_WORKER_SETS, group_set, {"conditions": conditions})

    def _tell(self, facts: Facts, before: tuple[JsonObject, ...], obstacle: Obstacle | None) -> None:
        group_set = facts.group_set
        known = {one["type"]: one for one in before}
        if obstacle is not None and known.get(WAITING, {}).get("message") != obstacle.message:
            text = f"Waiting for {obstacle.message}"
            self._recorder.normal(LEADER_WORKER_SETS, group_set, obstacle.reason, text, action="Update")
        true = facts.tally.true_conditions
        if all(known.get(type, {}).get("status") == "True" for type in true):
            generations = {known[type].get("observedGeneration") for type in true}
            if generations == {group_set.metadata.generation}:
                return
        reason, message = REASONS[true[0]]
        note = f"{message}, with {facts.tally.ready} groups ready of total {group_set.replicas} groups"
        self._recorder.normal(LEADER_WORKER_SETS, group_set, reason, note, action="Update")


def pause_after(seconds: float) -> float:
    """How long after the begin of a write of the status the next one may begin, if that one took so many seconds."""
    return min(max(COALESCE, seconds * _SPARING), _COALESCE_LONGEST)


def _at_rest(facts: Facts) -> bool:
    """Whether the counters have come to where they will stay: somebody may be waiting for them."""
    leaders = facts.leaders
    sizes = {facts.group_set.replicas, leaders.spec.replicas, leaders.status.replicas}
    return len(sizes) == 1 and facts.tally.true_conditions == (AVAILABLE,)


def wanted_status(facts: Facts, conditions: list[JsonObject]) -> JsonObject:
    """The status to write; counters at zero are null, because the API leaves them out."""
    group_set, found, key = facts.group_set, facts.tally, facts.revision.key
    before = group_set.status
    return {
        "replicas": facts.leaders.status.replicas or None,
        "readyReplicas": found.ready or None,
        "updatedReplicas": found.updated or None,
        "updatedReadyReplicas": found.updated_ready or None,
        "stableRevision": key if found.finished or not before.stable_revision else before.stable_revision,
        "updateRevision": key,
        "hpaPodSelector": before.hpa_pod_selector
        or f"{group_labels.NAME}={group_set.metadata.name},{group_labels.WORKER_INDEX}=0",
        "observedGeneration": group_set.metadata.generation,
        "conditions": conditions,
    }
