"""How far a set is with resources that change in place: from its status, and from the records on its leaders.

| condition ResizeInProgress | what follows |
|---|---|
| True | the operator goes on by itself |
| False, QuotaExceeded | the operator goes on when the quota has room |
| False, Infeasible, DeadlineExceeded, NotSupported or Conflict | nothing before someone acts: the resize has stopped |
| False, Completed | nothing: all groups have their resources |
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from kohort.groups.resize.record import ResizeRecord, read_record
from kohort.groups.resize.status import CONFLICT, IN_PROGRESS, STOPPED_REASONS
from kohort.inspection.pod_resources import drift_of_group
from kohort.inspection.snapshot import Snapshot
from kohort.objects.json_types import JsonObject
from kohort.objects.view import View
from kohort.rules.group_state import has_revision


class ResizeCounts(View, frozen=True):
    wanted: int = 0
    adopted: int = 0
    resizing: int = 0
    deferred: int = 0
    reverted: int = 0
    recreated: int = 0


class ResizeProgress(msgspec.Struct, frozen=True, rename="camel"):
    state: str
    """Preflight, Resizing, Adopting, Reverting or Stopped."""
    reason: str
    """Of the condition ResizeInProgress."""
    message: str
    groups: ResizeCounts
    started_at: str
    stopped: bool
    """No group goes on before someone acts."""


class GroupOutcome(StrEnum):
    IN_PLACE = "InPlace"
    RECREATED = "Recreated"
    UNCHANGED = "Unchanged"
    """It has its former resources."""
    UP_TO_DATE = "UpToDate"
    """It had the wanted resources at the earlier look."""


def resize_progress(snapshot: Snapshot) -> ResizeProgress | None:
    """None while no group is to be resized."""
    document = snapshot.group_set.status.resize
    if document is None:
        return None
    condition = current_condition(snapshot, IN_PROGRESS) or {}
    reason = str(condition.get("reason") or "")
    return ResizeProgress(
        state=document.get("state") or "",
        reason=reason,
        message=document.get("message") or "",
        groups=msgspec.convert(document.get("groups") or {}, ResizeCounts),
        started_at=document.get("startedAt") or "",
        stopped=condition.get("status") == "False" and _has_stopped(snapshot, reason),
    )


def _has_stopped(snapshot: Snapshot, reason: str) -> bool:
    """A stop is recorded on the leader of its group. Without a record the operator has not looked again yet."""
    return reason in STOPPED_REASONS and (reason == "Conflict" or bool(stopped_groups(snapshot)))


def current_condition(snapshot: Snapshot, type: str) -> JsonObject | None:
    """A condition that the operator wrote after the last edit of the set."""
    metadata = snapshot.metadata
    for one in snapshot.group_set.status.conditions:
        if one["type"] == type and (one.get("observedGeneration") or 0) >= metadata.generation:
            return one
    return None


def has_conflict(snapshot: Snapshot) -> bool:
    condition = current_condition(snapshot, CONFLICT)
    return condition is not None and condition["status"] == "True"


def groups_with_conflicts(snapshot: Snapshot) -> list[int]:
    """Groups that are still to be resized, and wait because the resources of their pods were changed on the pods."""
    if not has_conflict(snapshot):
        return []
    behind = [index for index, leader in snapshot.leaders.items() if not has_revision(leader, snapshot.update_key)]
    return [index for index in sorted(behind, reverse=True) if drift_of_group(snapshot, index)]


def records(snapshot: Snapshot) -> dict[int, ResizeRecord]:
    """By group: what the operator has recorded about its resize."""
    found = {index: read_record(leader.metadata.annotations) for index, leader in snapshot.leaders.items()}
    return {index: record for index, record in sorted(found.items()) if record is not None}


def stopped_groups(snapshot: Snapshot) -> dict[int, ResizeRecord]:
    """Groups that keep their former resources, and at which the set stops."""
    return {index: record for index, record in records(snapshot).items() if record.stops(snapshot.update_key)}


def groups_under_way(snapshot: Snapshot) -> dict[int, ResizeRecord]:
    return {index: record for index, record in records(snapshot).items() if record.under_way}


def outcomes(before: Snapshot, after: Snapshot) -> Mapping[int, GroupOutcome]:
    """What became of each group since an earlier look, by the identity of its pods and by its revision."""
    found: dict[int, GroupOutcome] = {}
    for index, leader in sorted(after.leaders.items()):
        old = {pod.metadata.name: pod.metadata.uid for pod in before.members(index)}
        if any(old.get(pod.metadata.name) != pod.metadata.uid for pod in after.members(index)):
            found[index] = GroupOutcome.RECREATED
        elif has_revision(leader, after.update_key):
            had_it = has_revision(before.leaders[index], after.update_key)
            found[index] = GroupOutcome.UP_TO_DATE if had_it else GroupOutcome.IN_PLACE
        else:
            found[index] = GroupOutcome.UNCHANGED
    return found
