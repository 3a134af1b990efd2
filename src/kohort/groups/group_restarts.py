"""Writes restarts of groups into the status of their set, before they are carried out.

The set is read anew and written with a precondition: two pods of a group, or two groups, may fail at the same moment,
and a cache may be a moment old.
"""

from typing import Final

import msgspec

from kohort.groups import restart_budget
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.restart_budget import BudgetDecision, Exhausted, FailedContainer, GroupRestarts, Restart
from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.errors import Conflict
from kohort.kube.resources import LEADER_WORKER_SETS
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.group_identity import group_index

_TRIES: Final = 5


def restarts_of(group_set: LeaderWorkerSet, leader: Pod) -> GroupRestarts:
    """The restarts that count for the group of this leader."""
    metadata = group_set.metadata
    return restart_budget.counted(
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


class GroupRestartRecords:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def spend(
        self, group_set: LeaderWorkerSet, leader: Pod, failed: FailedContainer, *, at_once: bool
    ) -> BudgetDecision | None:
        """Decide by what is stored now, and record the decision. None if the set has no budget, or is gone."""
        metadata = group_set.metadata
        for attempt in range(_TRIES):
            live = await self._client.find(LEADER_WORKER_SETS, metadata.name, metadata.namespace, type=LeaderWorkerSet)
            if live is None or live.metadata.uid != metadata.uid:
                return None
            decision = decide_budget(live, leader, at_once=at_once)
            entry = self._entry(live, leader, decision, failed)
            if entry is None:
                return decision
            try:
                status = {"restarts": {str(group_index(leader.metadata.labels) or 0): entry}}
                await self._client.patch_status(LEADER_WORKER_SETS, live, status, locked=True)
            except Conflict:
                if attempt == _TRIES - 1:
                    raise
                continue
            return decision
        return None

    def _entry(
        self, live: LeaderWorkerSet, leader: Pod, decision: BudgetDecision | None, failed: FailedContainer
    ) -> JsonObject | None:
        """What is to be stored; None for nothing new."""
        known, uid, revision = restarts_of(live, leader), leader.metadata.uid, revision_of(leader)
        match decision:
            case Restart(restarts) if restarts != known:
                return _stored(restarts)
            case Exhausted():
                return _stored(restart_budget.exhausted_by(known, decision, failed, uid, revision, clock.now()))
        return None


def _stored(restarts: GroupRestarts) -> JsonObject:
    """With every field, so that a merge replaces what was there."""
    document: JsonObject = msgspec.to_builtins(restarts)
    return {"exhausted": None, **document}
