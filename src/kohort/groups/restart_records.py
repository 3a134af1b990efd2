"""Writes restarts of groups into the status of their set, before they are carried out.

The set is read anew and written with a precondition: two pods of a group, or two groups, may fail at the same moment,
and a cache may be a moment old.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from kohort.groups import restart_budget
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.restart_budget import BudgetDecision, Exhausted, Restart
from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.errors import Conflict
from kohort.kube.resources import LEADER_WORKER_SETS
from kohort.objects.core import Pod
from kohort.objects.json_types import Json, JsonObject
from kohort.rules import group_labels, recorded_restarts
from kohort.rules.group_identity import group_index
from kohort.rules.recorded_restarts import DueRestart, FailedContainer, GroupRestarts

_TRIES: Final = 5


def restarts_of(group_set: LeaderWorkerSet, leader: Pod) -> GroupRestarts:
    """The restarts that count for the group of this leader."""
    metadata = group_set.metadata
    return recorded_restarts.counted(
        group_set.status.restarts, metadata.annotations, group_index(leader.metadata.labels) or 0, revision_of(leader)
    )


def decide_budget(group_set: LeaderWorkerSet, leader: Pod, *, at_once: bool = False) -> BudgetDecision | None:
    """What the budget of a group says about a failure now; None for a set without a budget."""
    budget = group_set.template.restart_budget
    if budget is None:
        return None
    decide = restart_budget.spend_at_once if at_once else restart_budget.decide
    return decide(budget, restarts_of(group_set, leader), leader.metadata.uid, revision_of(leader), clock.now())


def revision_of(leader: Pod) -> str:
    return leader.metadata.labels.get(group_labels.REVISION, "")


def records_due_restarts(group_set: LeaderWorkerSet) -> bool:
    """Whether groups of the set that wait for their back-off count as away: those of sets with a budget of restarts or
    of disruptions. Others behave as LeaderWorkerSet specifies, which knows no back-off."""
    return group_set.template.restart_budget is not None or group_set.disruption_budget is not None


def due_restart(group_set: LeaderWorkerSet, leader: Pod) -> DueRestart | None:
    """What is recorded about the group of this very leader."""
    due = restarts_of(group_set, leader).due
    return due if due is not None and due.leader == leader.metadata.uid else None


class GroupRestartRecords:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def spend(
        self, group_set: LeaderWorkerSet, leader: Pod, failed: FailedContainer, *, at_once: bool
    ) -> BudgetDecision | None:
        """Decide by what is stored now, and record the decision. None if the set has no budget, or is gone."""
        decision: BudgetDecision | None = None

        def entry(live: LeaderWorkerSet) -> GroupRestarts | None:
            nonlocal decision
            decision = decide_budget(live, leader, at_once=at_once)
            return _recorded(live, leader, decision, failed)

        return decision if await self._write(group_set, leader, entry) else None

    async def note_due(self, group_set: LeaderWorkerSet, leader: Pod, due: DueRestart) -> None:
        """Record that a group waits to be recreated, unless that is known."""

        def entry(live: LeaderWorkerSet) -> GroupRestarts | None:
            known = due_restart(live, leader)
            if not records_due_restarts(live) or (known is not None and known.at == due.at):
                return None
            return msgspec.structs.replace(restarts_of(live, leader), revision=revision_of(leader), due=due)

        await self._write(group_set, leader, entry)

    async def clear_due(self, group_set: LeaderWorkerSet, leader: Pod) -> None:
        """The group does not wait to be recreated any more: the pod that failed is healthy."""

        def entry(live: LeaderWorkerSet) -> GroupRestarts | None:
            if due_restart(live, leader) is None:
                return None
            return msgspec.structs.replace(restarts_of(live, leader), due=None)

        await self._write(group_set, leader, entry)

    async def _write(
        self, group_set: LeaderWorkerSet, leader: Pod, entry: Callable[[LeaderWorkerSet], GroupRestarts | None]
    ) -> bool:
        """Store what `entry` makes of the set as it is now, or nothing for None. False if the set is gone."""
        metadata = group_set.metadata
        for attempt in range(_TRIES):
            live = await self._client.find(LEADER_WORKER_SETS, metadata.name, metadata.namespace, type=LeaderWorkerSet)
            if live is None or live.metadata.uid != metadata.uid:
                return False
            restarts = entry(live)
            if restarts is None:
                return True
            try:
                status = {"restarts": {str(group_index(leader.metadata.labels) or 0): _stored(restarts)}}
                await self._client.patch_status(LEADER_WORKER_SETS, live, status, locked=True)
            except Conflict:
                if attempt == _TRIES - 1:
                    raise
                continue
            return True
        return False


def _recorded(
    live: LeaderWorkerSet, leader: Pod, decision: BudgetDecision | None, failed: FailedContainer
) -> GroupRestarts | None:
    """What is to be stored; None for nothing new."""
    known, uid, revision = restarts_of(live, leader), leader.metadata.uid, revision_of(leader)
    match decision:
        case Restart(restarts) if restarts != known:
            return restarts
        case Exhausted():
            return restart_budget.exhausted_by(known, decision, failed, uid, revision, clock.now())
    return None


def _stored(restarts: GroupRestarts) -> JsonObject:
    """With null for every field that has no value, so that a merge replaces what was there."""
    document: JsonObject = _with_nulls(restarts)
    return document


def _with_nulls(value: Json) -> Json:
    if not isinstance(value, msgspec.Struct):
        return list(value) if isinstance(value, tuple) else value
    found: JsonObject = {}
    for field in msgspec.structs.fields(value):
        content = getattr(value, field.name)
        found[field.encode_name] = None if content == field.default else _with_nulls(content)
    return found
