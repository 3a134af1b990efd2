"""Causes why a set is not in its wanted state, the root cause first, with advice.

A group that does not start shows many symptoms: twelve pods wait for a leader that waits for a volume. The user needs
the one fact that the others follow from. So each symptom has a kind, kinds are ordered by what follows from what
(`cause.ORDER`), and within a kind the lowest group and worker come first.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from msgspec.structs import replace

from kohort.groups.caches import owned_by
from kohort.groups.observed_groups import cannot_be_completed
from kohort.groups.waiting_reason import WaitingReason
from kohort.inspection.absent_groups import looked_at
from kohort.inspection.advice import Advice, Verb
from kohort.inspection.allowed_commands import offered, resume_refusal
from kohort.inspection.cause import ORDER, Cause, CauseKind
from kohort.inspection.eviction_obstacles import eviction_obstacles
from kohort.inspection.failures import failure_causes
from kohort.inspection.messages import GO_ON, WAITING_PROBLEMS, cause_of, problem_advice, problem_text
from kohort.inspection.pod_causes import pod_causes, resize_causes
from kohort.inspection.problems import (
    BudgetNameTaken,
    HeldByPartition,
    LeaderMissing,
    NotObserved,
    NotUpdatedYet,
    PodsMissing,
    ReportedWaiting,
    RevisionMissing,
    ServiceTaken,
    SeveralBudgets,
    WriteRefused,
)
from kohort.inspection.release_causes import release_causes
from kohort.inspection.release_subject import command
from kohort.inspection.resize_causes import resize_causes_of_set
from kohort.inspection.resize_progress import groups_under_way
from kohort.inspection.roll_pause import paused
from kohort.inspection.snapshot import Snapshot, group_of, worker_of
from kohort.objects.core import Pod
from kohort.objects.counted_nouns import counted
from kohort.rules import group_labels
from kohort.rules.api_server_message import RequestRefusal, request_refusal
from kohort.rules.group_state import pod_is_ready

_REFUSALS: Final = ("FailedCreate", "FailedUpdate")


def causes(snapshot: Snapshot) -> list[Cause]:
    """All causes; empty if the set is in its wanted state."""
    found = [*_of_groups(snapshot), *resize_causes_of_set(snapshot)]
    if snapshot.canary is not None:
        found += _of_groups(snapshot.canary)
    found += [*release_causes(snapshot), *_held(snapshot), *_disruption_budgets(snapshot)]
    if all(one.note for one in found):
        found += _missing(snapshot)
    return ordered(found)


def ordered(found: Iterable[Cause]) -> list[Cause]:
    return _merged(sorted(found, key=lambda cause: (cause.note, ORDER.index(cause.kind))))


def _of_groups(snapshot: Snapshot) -> list[Cause]:
    pods, context = sorted(snapshot.pods, key=_position), snapshot.pod_context
    refused = [*_service_taken(snapshot), *_reported_by_operator(snapshot)]
    refused += [*_without_revision(snapshot), *_refused(snapshot)]
    found = [*([] if _writes_were_refused(snapshot) else _operator(snapshot)), *refused]
    found += failure_causes(snapshot)
    found += [cause for pod in pods if not is_fine(pod) for cause in pod_causes(pod, context)]
    under_way = groups_under_way(snapshot)  # The resize of a whole group has causes of its own.
    alone = [pod for pod in pods if group_of(pod) not in under_way]
    return found + [cause for pod in alone for cause in resize_causes(pod, context)]


def _merged(causes: Iterable[Cause]) -> list[Cause]:
    """Equal causes of several objects become one."""
    result: list[Cause] = []
    for (note, kind), group in groupby(causes, key=lambda cause: (cause.note, cause.kind)):
        texts: dict[tuple[str, Advice], list[str]] = {}
        for cause in group:
            texts.setdefault((cause.found, cause.action), []).extend(cause.objects)
        result += [Cause(kind, tuple(names), *text, note=note) for text, names in texts.items()]
    return result


def is_fine(pod: Pod) -> bool:
    return pod_is_ready(pod)


def _position(pod: Pod) -> tuple[int, int]:
    return group_of(pod) or 0, worker_of(pod)


def _operator(snapshot: Snapshot) -> Iterator[Cause]:
    metadata, status = snapshot.group_set.metadata, snapshot.group_set.status
    if status.observed_generation < metadata.generation:
        problem = NotObserved(status.observed_generation, metadata.generation)
        yield cause_of(CauseKind.OPERATOR, problem, metadata.name)


def _writes_were_refused(snapshot: Snapshot) -> bool:
    """An operator whose writes are refused runs, but does not get as far as setting observedGeneration."""
    uid = snapshot.group_set.metadata.uid
    return any(
        event.type == "Warning" and event.reason in _REFUSALS and event.involved_object.uid == uid
        for event in snapshot.events
    )


def _service_taken(snapshot: Snapshot) -> Iterator[Cause]:
    """Groups may run, but their members cannot resolve each other's names."""
    service, group_set = snapshot.service, snapshot.group_set
    if service is None or group_set.subdomain_policy != group_labels.SHARED or owned_by(service.metadata, group_set):
        return
    problem = ServiceTaken(snapshot.name, group_set.metadata.namespace)
    yield cause_of(CauseKind.REFUSED, problem, f"Service {snapshot.name}")


def _reported_by_operator(snapshot: Snapshot) -> Iterator[Cause]:
    for one in snapshot.group_set.status.conditions:
        if one["type"] == "Waiting" and one["status"] == "True" and one["reason"] in WAITING_PROBLEMS:
            kind = CauseKind.WAITING if one["reason"] == WaitingReason.ENGINE_RECOVERING else CauseKind.REFUSED
            yield cause_of(kind, ReportedWaiting(one["reason"], one["message"]), snapshot.name)


def _incomplete_groups(snapshot: Snapshot) -> dict[int, str]:
    """Groups that cannot be completed because their revision was deleted, and its key. None for users who may not read
    revisions or StatefulSets: a set always has one of each."""
    if not snapshot.revisions or not snapshot.stateful_sets:
        return {}
    newest, known = snapshot.update_key, snapshot.revisions
    return {
        index: leader.metadata.labels.get(group_labels.REVISION, "")
        for index, leader in sorted(snapshot.leaders.items())
        if index < snapshot.replicas and cannot_be_completed(leader, snapshot.states.get(index), newest, known)
    }


def _without_revision(snapshot: Snapshot) -> Iterator[Cause]:
    for index, revision in _incomplete_groups(snapshot).items():
        problem = RevisionMissing(revision, snapshot.group_set.partition)
        yield cause_of(CauseKind.REFUSED, problem, f"group {index}")


def _refused(snapshot: Snapshot) -> Iterator[Cause]:
    """Objects that the server refused, which only events show. An event outlives its cause, so it counts only while
    pods are missing for no other reason that is known, and while the object exists that it is about."""
    explained = {f"group {index}" for index in _incomplete_groups(snapshot)}
    if not any(not explained.issuperset(cause.objects) for cause in _missing(snapshot)):
        return
    owners = {snapshot.metadata.uid} | {one.metadata.uid for one in snapshot.stateful_sets}
    latest: dict[str, str] = {}
    for event in sorted(snapshot.events, key=lambda one: one.last_timestamp or one.event_time or ""):
        if event.type == "Warning" and event.reason in _REFUSALS:
            reference = event.involved_object
            if reference.uid in owners and reference.kind in ("LeaderWorkerSet", "StatefulSet"):
                latest[f"{reference.kind} {reference.name}"] = event.message
    for name, message in latest.items():
        over_quota = request_refusal(message) is RequestRefusal.QUOTA_EXCEEDED
        yield cause_of(CauseKind.REFUSED, WriteRefused(message, over_quota), name)


def _held(snapshot: Snapshot) -> Iterator[Cause]:
    """A pause is meant to end; a partition that was written into the set is what is wanted of it."""
    if snapshot.releasing:
        return
    partition = snapshot.group_set.partition
    states = sorted(snapshot.states.items())
    old = [f"group {index}" for index, state in states if index < partition and not state.updated]
    if old:
        problem = HeldByPartition(partition, paused(snapshot), not resume_refusal(snapshot))
        offers = [(GO_ON, command(snapshot, Verb.RESUME))]
        advice = offered(snapshot, problem_advice(problem).template, offers)
        yield Cause(CauseKind.ROLLOUT, tuple(old), problem_text(problem), advice, note=not problem.paused)


def _disruption_budgets(snapshot: Snapshot) -> Iterator[Cause]:
    """PodDisruptionBudgets of users that stand in the way of the one that the operator keeps for the set's leaders."""
    group_set = snapshot.group_set
    if group_set.disruption_budget is None:
        return
    for one in snapshot.disruption_budgets:
        if one.metadata.name == snapshot.name and not owned_by(one.metadata, group_set):
            taken = cause_of(CauseKind.REFUSED, BudgetNameTaken(snapshot.name), f"PodDisruptionBudget {snapshot.name}")
            yield replace(taken, note=True)
    leaders = [leader for _, leader in sorted(snapshot.leaders.items())]
    for obstacle in eviction_obstacles(leaders, snapshot.disruption_budgets, [snapshot]):
        if obstacle.several:
            names = (obstacle.budget_of_set, *obstacle.budgets)
            yield replace(cause_of(CauseKind.REFUSED, SeveralBudgets(names), obstacle.pod), note=True)


def _missing(snapshot: Snapshot) -> Iterator[Cause]:
    """Pods or revisions that are missing although nothing reports an error."""
    group_set = snapshot.group_set
    indexes, left_out = looked_at(snapshot.leaders.keys(), group_set.replicas)
    for index in indexes:
        leader = snapshot.leaders.get(index)
        if index >= group_set.replicas:
            continue
        if leader is None:
            yield cause_of(CauseKind.WAITING, LeaderMissing(), f"group {index}")
            continue
        count = len(snapshot.members(index))
        if count < group_set.template.size:
            waits = group_set.startup_policy == group_labels.LEADER_READY and not leader.ready
            yield cause_of(CauseKind.WAITING, PodsMissing(count, group_set.template.size, waits), f"group {index}")
    if left_out:
        yield cause_of(CauseKind.WAITING, LeaderMissing(), counted(left_out, "more group"))
    if all(state.ready for state in snapshot.states.values()):
        old = [f"group {index}" for index, state in sorted(snapshot.states.items()) if not state.updated]
        if old and group_set.partition == 0:
            yield cause_of(CauseKind.WAITING, NotUpdatedYet(group_set.status.resize is not None), *old)
