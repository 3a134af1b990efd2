"""Holding a roll where it is, and letting it go on.

A set has no switch for that, but its partition does the same: no group below it is rolled. A pause raises the partition
to where the roll has come to and notes what it was in an annotation; resuming puts that back.

| the roll | pause sets the partition to |
|---|---|
| is at rest | the number of groups: the next edit moves nothing |
| is under way, the leader StatefulSet at p | p: groups that have begun are finished, no other begins |
| has begun with all groups | nothing: there is nothing left to hold |
"""

from typing import Final

import msgspec

from kohort.inspection.advice import Verb
from kohort.inspection.release_subject import Subject, command
from kohort.inspection.snapshot import PAUSE_NOTE, Snapshot
from kohort.inspection.workload import DEPLOYMENT, STATEFUL_SET, PlainWorkload
from kohort.objects.json_types import JsonObject
from kohort.rollouts.group_set import HELD_GROUPS_PARTITION
from kohort.rules.group_identity import parse_index
from kohort.rules.release_hold import is_held_by_release
from kohort.rules.rollout_labels import ORIGINAL_LWS_STRATEGY

NOTE: Final = PAUSE_NOTE


class PauseDecision(msgspec.Struct, frozen=True):
    patch: JsonObject | None
    """None when there is nothing to change."""
    words: str


def paused(subject: Subject) -> bool:
    """By `kohort pause`. A partition that is written into the workload is not a pause: that is what is wanted of it."""
    rollout = subject.rollout
    if rollout is not None and rollout.spec.strategy.paused:
        return True
    return has_own_pause(subject)


def has_own_pause(subject: Subject) -> bool:
    """The workload itself is paused, whatever its Rollout is. While a Rollout releases a Deployment, `paused` of the
    Deployment belongs to the release."""
    if isinstance(subject, PlainWorkload):
        return subject.kind == DEPLOYMENT and subject.held and not subject.releasing
    return NOTE in subject.metadata.annotations


def pause_workload(workload: PlainWorkload) -> PauseDecision:
    """A Deployment has a switch for it, a StatefulSet its partition."""
    name = f"{workload.kind} {workload.name}"
    if paused(workload) or (workload.kind == STATEFUL_SET and workload.held):
        return PauseDecision(None, f"{name} is paused already")
    if workload.kind == DEPLOYMENT:
        return PauseDecision({"spec": {"paused": True}}, f"{name} is paused: its pods stay as they are")
    body: JsonObject = {"spec": {"updateStrategy": {"rollingUpdate": {"partition": workload.replicas}}}}
    return PauseDecision(body, f"{name} is paused: its partition keeps all pods as they are")


def resume_workload(workload: PlainWorkload) -> PauseDecision:
    name = f"{workload.kind} {workload.name}"
    if not workload.held:
        return PauseDecision(None, f"{name} is not paused")
    if workload.kind == DEPLOYMENT:
        return PauseDecision({"spec": {"paused": False}}, f"{name} goes on")
    return PauseDecision({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}, f"{name} goes on")


def pause(snapshot: Snapshot) -> PauseDecision:
    group_set, name = snapshot.group_set, snapshot.name
    if NOTE in group_set.metadata.annotations:
        return PauseDecision(None, f"{name} is paused already, at partition {group_set.partition}")
    leaders = snapshot.leader_set
    rolling = any(not state.updated for state in snapshot.states.values())
    partition = leaders.partition if leaders is not None and rolling else group_set.replicas
    if rolling and partition == 0:
        return PauseDecision(
            None, f"every group of {name} has begun to roll; to go back: {command(snapshot, Verb.UNDO).text}"
        )
    held = f"groups below {partition}" if rolling else "all groups, when the template changes,"
    return PauseDecision(_patch(partition, str(group_set.partition)), f"{name} is paused: {held} stay as they are")


def resume(snapshot: Snapshot) -> PauseDecision:
    """While a release holds the set, the admission of sets keeps the hold, and the partition is that of the time after
    the release.

    | the note says | the set | partition |
    |---|---|---|
    | that of a hold: it was paused while a release held it | is held by a release, or no longer | stays |
    | that of a hold | was left held | 0 |
    | anything else | rolls to a released version, and gets its partition back after that | stays, and the note too |
    | anything else | otherwise | as noted |
    """
    group_set, name = snapshot.group_set, snapshot.name
    annotations = group_set.metadata.annotations
    noted, held = annotations.get(NOTE), is_held_by_release(annotations)
    if noted is None and group_set.partition == 0:
        return PauseDecision(None, f"{name} is not paused")
    partition, now = parse_index(noted) or 0, group_set.partition
    if partition >= HELD_GROUPS_PARTITION:
        if held or now < HELD_GROUPS_PARTITION:
            return PauseDecision({"metadata": {"annotations": {NOTE: None}}}, f"{name} is not paused any more")
        partition = 0
    if ORIGINAL_LWS_STRATEGY in annotations and not held and now < HELD_GROUPS_PARTITION:
        again = command(snapshot, Verb.RESUME).text
        return PauseDecision(None, f"{name} rolls to the version that was released; lift its pause after that: {again}")
    limit = f" down to partition {partition}" if partition else ""
    return PauseDecision(_patch(partition, None), f"{name} goes on{limit}")


def _patch(partition: int, note: str | None) -> JsonObject:
    return {
        "metadata": {"annotations": {NOTE: note}},
        "spec": {"rolloutStrategy": {"rollingUpdateConfiguration": {"partition": partition}}},
    }
