"""Causes why groups do not have the resources that their set wants, with what to do about it.

| found | advice |
|---|---|
| a pod of a group under way is deferred or fails, or its node does not answer | wait until the deadline, or undo |
| the set stopped at a group | try again, with more time if that was lacking; let it be recreated; or undo |
| a quota has no room | make room, or undo |
| someone else changed a pod | recreate its group from the template |
"""

from collections.abc import Iterator
from datetime import UTC, datetime

from kohort.groups.resize.pod_progress import ResizeStage, pod_progress
from kohort.groups.resize.record import RevertReason
from kohort.groups.resize.status import IN_PROGRESS, QUOTA_EXCEEDED
from kohort.inspection.advice import Command, Verb
from kohort.inspection.allowed_commands import offered
from kohort.inspection.cause import Cause, CauseKind
from kohort.inspection.messages import (
    after_deadline_words,
    conflict_words,
    pod_resize_words,
    quota_words,
    stopped_advice_words,
    stopped_words,
    unanswered_resize_words,
)
from kohort.inspection.pod_resources import drift_of_group
from kohort.inspection.release_subject import command
from kohort.inspection.resize_progress import (
    current_condition,
    groups_under_way,
    has_conflict,
    stopped_groups,
)
from kohort.inspection.snapshot import Snapshot
from kohort.kube.clock import format_time
from kohort.rules.resize_conditions import ResizeState
from kohort.rules.resource_edit import AmountChange
from kohort.rules.resource_update_policy import (
    LONGEST_DEADLINE,
    ResourceUpdatePolicy,
    deadline_seconds,
    resource_update_policy,
)


def resize_causes_of_set(snapshot: Snapshot) -> Iterator[Cause]:
    yield from _under_way(snapshot)
    yield from _stopped(snapshot)
    yield from _quota(snapshot)
    if has_conflict(snapshot):
        yield from _conflicts(snapshot)


def _under_way(snapshot: Snapshot) -> Iterator[Cause]:
    policy, deadline = resource_update_policy(snapshot.group_set.spec), deadline_seconds(snapshot.group_set.spec)
    for index, record in groups_under_way(snapshot).items():
        for pod in snapshot.members(index):
            reported = ResizeState.reported(pod)
            if reported.pending is not None:
                words = pod_resize_words(reported.pending.reason, reported.message)
            elif reported.fails:
                words = pod_resize_words("", reported.message)
            elif pod_progress(pod, AmountChange({}, {})).progress is ResizeStage.UNOBSERVED:
                began = format_time(datetime.fromtimestamp(record.since, UTC))
                words = unanswered_resize_words(pod.spec.node_name, began)
            else:
                continue
            advice = offered(snapshot, after_deadline_words(policy, deadline), [_back(snapshot)])
            yield Cause(CauseKind.RESIZE, (pod.metadata.name,), words, advice)


def _stopped(snapshot: Snapshot) -> Iterator[Cause]:
    deadline = deadline_seconds(snapshot.group_set.spec)
    for index, record in stopped_groups(snapshot).items():
        recreate = command(snapshot, Verb.RESIZE, "--policy", ResourceUpdatePolicy.IN_PLACE_OR_RECREATE.value)
        restart = command(snapshot, Verb.RESTART, "--group", str(index))
        again = ("try again", command(snapshot, Verb.RETRY))
        longer = str(min(2 * int(deadline), LONGEST_DEADLINE))
        more_time = ("allow more time", command(snapshot, Verb.RESIZE, "--deadline", longer))
        if record.reason is RevertReason.CONFLICT:
            offers = [("recreate it from the new template", restart), again, _back(snapshot)]
        elif record.reason is RevertReason.NOT_SUPPORTED:
            offers = [("recreate groups instead", recreate), _back(snapshot)]
        elif record.reason is RevertReason.NOT_ADMITTED:
            offers = [again, _back(snapshot)]
        elif record.reason in (RevertReason.DEADLINE_EXCEEDED, RevertReason.NODE_NOT_REPORTING) and (
            deadline < LONGEST_DEADLINE
        ):
            offers = [more_time, again, ("recreate groups that cannot follow", recreate), _back(snapshot)]
        else:
            offers = [again, ("recreate groups that cannot follow", recreate), _back(snapshot)]
        advice = offered(snapshot, stopped_advice_words(record.reason), offers)
        yield Cause(CauseKind.RESIZE, (f"group {index}",), stopped_words(record, deadline), advice)


def _quota(snapshot: Snapshot) -> Iterator[Cause]:
    condition = current_condition(snapshot, IN_PROGRESS)
    if condition is not None and condition["status"] == "False" and condition["reason"] == QUOTA_EXCEEDED:
        advice = offered(snapshot, quota_words(), [_back(snapshot)])
        yield Cause(CauseKind.REFUSED, (snapshot.name,), condition["message"], advice)


def _conflicts(snapshot: Snapshot) -> Iterator[Cause]:
    for index in sorted(snapshot.leaders):
        if index in groups_under_way(snapshot) or index in stopped_groups(snapshot):
            continue
        for name, fields in drift_of_group(snapshot, index).items():
            restart = command(snapshot, Verb.RESTART, "--group", str(index))
            advice = offered(snapshot, "", [("recreate its group from the template", restart)])
            yield Cause(CauseKind.RESIZE, (name,), conflict_words(fields), advice)


def _back(snapshot: Snapshot) -> tuple[str, Command]:
    return "go back", command(snapshot, Verb.UNDO)
