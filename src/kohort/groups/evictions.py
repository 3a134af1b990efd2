"""Answers whether a pod of a group may be evicted, by the budget of its set (`disruption_budget`).

Every answer is made from what the API server has now, not from a cache: replicas of the operator that do not lead
answer too. What is allowed is noted in the status of the set before.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from kohort.groups import disruption_budget
from kohort.groups.disruption_budget import (
    AwayGroups,
    DisruptedBy,
    DisruptedGroup,
    EvictionAllowed,
    EvictionDecision,
    decide_eviction,
    groups_away,
    groups_with_old_notes,
    needs_note,
    rolled_from,
    valid_notes,
)
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.observed_groups import group_is_ready_by_pods, group_states
from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.errors import Conflict
from kohort.kube.resources import LEADER_WORKER_SETS, PODS, STATEFUL_SETS
from kohort.objects.apps import GroupStatefulSet
from kohort.objects.core import Pod
from kohort.objects.selectors import selecting
from kohort.rules import group_labels
from kohort.rules.group_identity import group_index, has_place_in_group, leader_labels, leads_group

_TRIES: Final = 8


class BudgetBusy(Exception):
    """The status of the set changed at every attempt."""

    def __init__(self, group_set: LeaderWorkerSet) -> None:
        super().__init__(group_set.metadata.name)
        self.group_set = group_set


class EvictionAnswer(msgspec.Struct, frozen=True):
    group_set: LeaderWorkerSet
    decision: EvictionDecision
    away: AwayGroups


async def answer_eviction(client: Client, namespace: str, name: str, *, dry_run: bool) -> EvictionAnswer | None:
    """None for a pod that no budget of a set concerns. Raises BudgetBusy."""
    pod: Pod | None = await client.find(PODS, name, namespace, type=Pod)
    if pod is None or pod.metadata.deleting or pod.finished:
        return None
    owner, group = pod.metadata.labels.get(group_labels.NAME, ""), group_index(pod.metadata.labels)
    if group is None or not has_place_in_group(name, pod.metadata.labels):
        return None
    for attempt in range(1, _TRIES + 1):
        group_set = await client.find(LEADER_WORKER_SETS, owner, namespace, type=LeaderWorkerSet)
        if group_set is None or group_set.metadata.deleting or group_set.disruption_budget is None:
            return None
        answer, note = await _decide(client, group_set, group_set.disruption_budget, group)
        if note is None or dry_run:
            return answer
        try:
            status = {"disruptedGroups": {str(group): note}}
            await client.patch_status(LEADER_WORKER_SETS, group_set, status, locked=True)
        except Conflict as problem:
            if attempt == _TRIES:
                raise BudgetBusy(group_set) from problem
            continue
        return answer
    return None


async def _decide(
    client: Client, group_set: LeaderWorkerSet, budget: disruption_budget.DisruptionBudget, group: int
) -> tuple[EvictionAnswer, dict[str, str] | None]:
    """The answer, and what is to be noted."""
    metadata, selector = group_set.metadata, f"{group_labels.NAME}={group_set.metadata.name}"
    sets = await client.list(STATEFUL_SETS, metadata.namespace, label_selector=selector, type=GroupStatefulSet)
    pods = await client.list(
        PODS,
        metadata.namespace,
        label_selector=selecting(leader_labels(metadata.name)),
        type=Pod,
    )
    by_name = {one.metadata.name: one for one in sets.items}
    leader_set = by_name.get(metadata.name)
    revision = leader_set.metadata.labels.get(group_labels.REVISION, "") if leader_set is not None else ""
    by_group = {
        index: pod
        for pod in pods.items
        if (index := leads_group(metadata.name, pod.metadata.name, pod.metadata.labels)) is not None
    }
    states, now = group_states(group_set, revision, by_group, by_name.get), clock.now()
    members = await _pods_of_groups(client, group_set, groups_with_old_notes(group_set.status.disrupted_groups, now))

    def are_ready(index: int) -> bool:
        return group_is_ready_by_pods(by_group[index], members[index], group_set.template.size)

    notes = valid_notes(group_set.status.disrupted_groups, by_group, are_ready, now)
    away = groups_away(group_set.replicas, states, notes, rolled_from(leader_set, group_set.replicas))
    decision = decide_eviction(group, states.get(group), away, budget.groups(group_set.replicas))
    answer = EvictionAnswer(group_set, decision, away)
    leader = by_group.get(group)
    if leader is not None and isinstance(decision, EvictionAllowed) and needs_note(leader, notes.get(group), now):
        note = DisruptedGroup(leader.metadata.uid, clock.micro_timestamp(), DisruptedBy.EVICTION)
        return answer, {"leader": note.leader, "at": note.at, "by": note.by.value}
    return answer, None


async def _pods_of_groups(
    client: Client, group_set: LeaderWorkerSet, groups: Collection[int]
) -> Mapping[int, Sequence[Pod]]:
    found: dict[int, list[Pod]] = {index: [] for index in groups}
    if not groups:
        return found
    metadata = group_set.metadata
    selector = f"{group_labels.NAME}={metadata.name},{group_labels.GROUP_INDEX} in ({','.join(map(str, groups))})"
    for pod in (await client.list(PODS, metadata.namespace, label_selector=selector, type=Pod)).items:
        index = group_index(pod.metadata.labels)
        if index in found and has_place_in_group(pod.metadata.name, pod.metadata.labels):
            found[index].append(pod)
    return found
