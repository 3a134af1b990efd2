"""Reports what was observed of a set: in its status, in metrics, and in events about its conditions."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

import msgspec

from kohort.groups import messages
from kohort.groups.caches import GroupCache
from kohort.groups.disruption_budget import NOTE_SECONDS, DisruptedGroup, disruptions_allowed, groups_away
from kohort.groups.group_problems import GroupProblems
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.metrics import GroupMetrics
from kohort.groups.missing_pod_cause import RECHECK, MissingPodCauses
from kohort.groups.resize.status import ResizeReport, with_resize_conditions
from kohort.groups.revisions import Revision
from kohort.groups.status import (
    AVAILABLE,
    REASONS,
    UNCHANGED,
    WAITING,
    Tally,
    Waiting,
    next_conditions,
    with_exhausted_groups,
)
from kohort.groups.waiting_reason import REFUSALS, Obstacle, ObstacleTracker, WaitingReason
from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.errors import ApiError, Conflict
from kohort.kube.events import EventRecorder
from kohort.kube.resources import LEADER_WORKER_SETS, Key
from kohort.objects.apps import GroupStatefulSet
from kohort.objects.json_types import JsonObject
from kohort.objects.selectors import selecting
from kohort.rules.group_identity import leader_labels, parse_pod_name
from kohort.rules.group_state import GroupState
from kohort.rules.recorded_restarts import exhausted_groups, leader_identities, outdated_groups, outdated_records

COALESCE: Final = 1.0
"""Seconds between two status writes that differ only in their counters, as long as those are still moving."""
_SLOW_WRITE_FACTOR: Final = 10
"""A server that answers slowly gets fewer writes: they may take a tenth of the time."""
_COALESCE_LONGEST: Final = 5.0
_SHORTEST_WAIT: Final = 0.001
"""A shorter wait is none: a timer may fire slightly early, and would then be set again and again."""


class SetReport(msgspec.Struct, frozen=True):
    """What one reconcile has observed."""

    group_set: LeaderWorkerSet
    leaders: GroupStatefulSet
    revision: Revision
    states: Mapping[int, GroupState]
    tally: Tally
    roll_began: bool = False
    resize: ResizeReport = ResizeReport()
    notes: Mapping[int, DisruptedGroup] = {}

    @property
    def key(self) -> Key:
        return Key(self.group_set.metadata.namespace, self.group_set.metadata.name)


class SetStatusReporter:
    def __init__(
        self,
        client: Client,
        cache: GroupCache,
        problems: GroupProblems,
        metrics: GroupMetrics,
        recorder: EventRecorder,
    ) -> None:
        self._client = client
        self._cache = cache
        self._metrics = metrics
        self._recorder = recorder
        self._obstacles = ObstacleTracker(cache, problems)
        self._causes = MissingPodCauses(client, cache)
        self._next_write: dict[str, float] = {}
        """By uid of a set: when counters alone may be written again."""
        self._rolls: dict[str, float] = {}
        """By uid of a set: when the roll that is under way began."""
        self._waiting: dict[Key, tuple[str, float]] = {}
        """By leader: its uid, and when its group was first seen, until it is ready."""

    def forget(self, key: Key, uid: str) -> None:
        self._metrics.forget(key)
        self._obstacles.forget(key)
        self._causes.forget(key)
        self._next_write.pop(uid, None)
        self._rolls.pop(uid, None)
        for leader in [leader for leader in self._waiting if leader.namespace == key.namespace]:
            parsed = parse_pod_name(leader.name)
            if parsed is not None and parsed.parent == key.name:
                del self._waiting[leader]

    # Metrics

    def measure(self, report: SetReport) -> None:
        labels = (report.key.namespace, report.key.name)
        wanted, leaders = report.group_set.replicas, report.leaders
        self._metrics.wanted.labels(*labels).set(wanted)
        self._metrics.existing.labels(*labels).set(leaders.status.replicas)
        self._metrics.ready.labels(*labels).set(report.tally.ready)
        self._metrics.updated.labels(*labels).set(report.tally.updated)
        self._metrics.partition.labels(*labels).set(leaders.partition)
        self._metrics.held.labels(*labels).set(report.group_set.partition)
        self._metrics.surge.labels(*labels).set(max(0, leaders.spec.replicas - wanted))
        self._metrics.singly.saw(report.key, wanted, report.states)
        now = asyncio.get_running_loop().time()
        uid = report.group_set.metadata.uid
        if report.roll_began:
            self._metrics.rolls.labels(*labels).inc()
            self._rolls.setdefault(uid, now)
        elif report.tally.finished and uid in self._rolls:
            self._metrics.roll_seconds.labels(*labels).observe(now - self._rolls.pop(uid))
        self._measure_groups(report, now)

    def _measure_groups(self, report: SetReport, now: float) -> None:
        labels = (report.key.namespace, report.key.name)
        for index, leader in self._cache.leaders(report.key).items():
            name, uid = Key(leader.metadata.namespace, leader.metadata.name), leader.metadata.uid
            state = report.states.get(index)
            known, since = self._waiting.get(name, ("", now))
            if state is None or not state.ready:
                if known != uid:
                    self._waiting[name] = (uid, now)
            elif name in self._waiting:
                del self._waiting[name]
                if known == uid:
                    self._metrics.ready_seconds.labels(*labels).observe(now - since)
                    self._metrics.singly.became_ready(report.key, index, now - since)

    # Status

    async def write_status(self, report: SetReport) -> float:
        """Write what changed. Returns in how many seconds to look again: a write was delayed to be merged with others,
        or there is an obstacle that is reported only if it stays."""
        waiting, again = await self._waiting_for(report)
        group_set, before = report.group_set, report.group_set.status
        conditions = next_conditions(
            before.conditions,
            report.tally.true_conditions,
            group_set.metadata.generation,
            clock.timestamp(),
            waiting,
        )
        conditions = with_resize_conditions(conditions, report.resize, group_set.metadata.generation, clock.timestamp())
        conditions = with_exhausted_groups(
            conditions, self._exhausted(report), group_set.metadata.generation, clock.timestamp()
        )
        await self._forget_restarts(report)
        again = await self._forget_notes(report, again)
        wanted = wanted_status(report, conditions)
        current: JsonObject = msgspec.to_builtins(before) | {"conditions": list(before.conditions)}
        changes = {name: value for name, value in wanted.items() if current.get(name) != value}
        if not changes:
            return again
        now = asyncio.get_running_loop().time()
        left = self._next_write.get(group_set.metadata.uid, now) - now
        if left > _SHORTEST_WAIT and "conditions" not in changes and not _at_rest(report):
            return left
        try:
            written = await self._client.patch_status(LEADER_WORKER_SETS, group_set, changes)
        finally:
            self._next_write[group_set.metadata.uid] = now + pause_after(asyncio.get_running_loop().time() - now)
        if written is None:
            return 0.0
        if "conditions" in changes:
            self._emit_events(report, before.conditions, waiting)
        return again

    def _exhausted(self, report: SetReport) -> str:
        """Which groups are held, in words; empty for none."""
        group_set, budget = report.group_set, report.group_set.template.restart_budget
        if budget is None or not group_set.status.restarts:
            return ""
        held = exhausted_groups(
            group_set.status.restarts, group_set.metadata.annotations, self._leader_revisions(report.key)
        )
        return messages.groups_exhausted(group_set.metadata.name, held, budget.window_seconds)

    def _leader_revisions(self, key: Key) -> dict[int, tuple[str, str]]:
        return leader_identities(self._cache.leaders(key))

    async def _forget_restarts(self, report: SetReport) -> None:
        """Remove what does not count any more. The pod controller writes there too, so only what was read is removed;
        otherwise the next look at the set does it."""
        group_set = report.group_set
        if not group_set.status.restarts:
            return
        leaders = self._leader_revisions(report.key)
        outdated = outdated_groups(
            group_set.status.restarts,
            leaders,
            max(group_set.replicas, report.leaders.spec.replicas),
            has_budget=group_set.template.restart_budget is not None,
        )
        records = outdated_records(group_set.status.restarts, leaders)
        forgotten: JsonObject = {group: dict.fromkeys(names) for group, names in records.items()}
        forgotten |= dict.fromkeys(outdated)
        if forgotten:
            with contextlib.suppress(Conflict):
                status = {"restarts": forgotten}
                await self._client.patch_status(LEADER_WORKER_SETS, group_set, status, locked=True)

    async def _forget_notes(self, report: SetReport, again: float) -> float:
        """Remove notes about evictions and rolls that do not count any more. Returns in how many seconds to look again,
        `again` or sooner."""
        known = report.group_set.status.disrupted_groups
        if not known:
            return again
        over = [index for index in known if not index.isdecimal() or int(index) not in report.notes]
        if over:
            with contextlib.suppress(Conflict):
                status = {"disruptedGroups": dict.fromkeys(over)}
                await self._client.patch_status(LEADER_WORKER_SETS, report.group_set, status, locked=True)
        return min(again or NOTE_SECONDS, NOTE_SECONDS) if report.notes or over else again

    async def _waiting_for(self, report: SetReport) -> tuple[Waiting, float]:
        """What the condition Waiting says next, and in how many seconds to look again."""
        obstacle, again = self._obstacles.observe(report.group_set, report.revision.key, report.states)
        if report.tally.true_conditions == (AVAILABLE,):
            return None, 0.0
        if obstacle is not None and obstacle.missing:
            return await self._causes.add_cause(report.key, obstacle), RECHECK
        if obstacle is None and again and _reported_reason(report) not in ("", WaitingReason.LEADER_SET_REFUSED):
            # The set waits for something else now: the condition stays until that has stood for as long.
            return UNCHANGED, again
        return obstacle, again

    async def write_refusal(self, group_set: LeaderWorkerSet, problem: ApiError) -> None:
        """The leader StatefulSet is refused: nothing goes on until the user fixes what the message names."""
        if not isinstance(problem, REFUSALS):
            return
        before = group_set.status.conditions
        obstacle = Obstacle(WaitingReason.LEADER_SET_REFUSED, messages.leader_set_refused(problem.message))
        conditions = next_conditions(before, (), group_set.metadata.generation, clock.timestamp(), obstacle)
        if conditions == list(before):
            return
        await self._client.patch_status(LEADER_WORKER_SETS, group_set, {"conditions": conditions})

    def _emit_events(self, report: SetReport, before: tuple[JsonObject, ...], waiting: Waiting) -> None:
        group_set = report.group_set
        known = {condition["type"]: condition for condition in before}
        if isinstance(waiting, Obstacle) and known.get(WAITING, {}).get("message") != waiting.message:
            text = messages.waiting_for(waiting.message)
            self._recorder.normal(LEADER_WORKER_SETS, group_set, waiting.reason, text, action="Update")
        true = report.tally.true_conditions
        if all(known.get(type, {}).get("status") == "True" for type in true):
            generations = {known[type].get("observedGeneration") for type in true}
            if generations == {group_set.metadata.generation}:
                return
        reason, message = REASONS[true[0]]
        note = messages.groups_ready(message, report.tally.ready, group_set.replicas)
        self._recorder.normal(LEADER_WORKER_SETS, group_set, reason, note, action="Update")


def pause_after(seconds: float) -> float:
    """How long after the begin of a write of the status the next one may begin, if that one took so many seconds."""
    return min(max(COALESCE, seconds * _SLOW_WRITE_FACTOR), _COALESCE_LONGEST)


def _reported_reason(report: SetReport) -> str:
    """Of the condition Waiting, if that is True."""
    conditions = report.group_set.status.conditions
    return next((each["reason"] for each in conditions if each["type"] == WAITING and each["status"] == "True"), "")


def _at_rest(report: SetReport) -> bool:
    """Whether the counters have reached their final values, for which clients may be waiting."""
    leaders = report.leaders
    sizes = {report.group_set.replicas, leaders.spec.replicas, leaders.status.replicas}
    return len(sizes) == 1 and report.tally.true_conditions == (AVAILABLE,)


def _disruptions_allowed(report: SetReport) -> int | None:
    group_set, budget = report.group_set, report.group_set.disruption_budget
    if budget is None:
        return None
    away = groups_away(group_set.replicas, report.states, report.notes, report.leaders.partition)
    return disruptions_allowed(away, budget.groups(group_set.replicas), group_set.replicas)


def wanted_status(report: SetReport, conditions: list[JsonObject]) -> JsonObject:
    """The status to write; counters at zero are null, because the API leaves them out."""
    group_set, found, key = report.group_set, report.tally, report.revision.key
    before = group_set.status
    return {
        "replicas": report.leaders.status.replicas or None,
        "readyReplicas": found.ready or None,
        "updatedReplicas": found.updated or None,
        "updatedReadyReplicas": found.updated_ready or None,
        "stableRevision": key if found.finished or not before.stable_revision else before.stable_revision,
        "updateRevision": key,
        "hpaPodSelector": before.hpa_pod_selector or selecting(leader_labels(group_set.metadata.name)),
        "observedGeneration": group_set.metadata.generation,
        "conditions": conditions,
        "disruptionsAllowed": _disruptions_allowed(report),
        "resize": report.resize.status(key, before.resize, clock.timestamp()),
    }
