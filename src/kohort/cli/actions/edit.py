"""`undo`, `pause`, `resume`, `approve`, `retry`, `abort`, `restart`."""

import contextlib
from collections.abc import Sequence
from typing import Final

import msgspec

from kohort.cli.actions import snapshot_reader
from kohort.cli.actions.output_formats import show
from kohort.cli.actions.snapshot_reader import WORKLOADS
from kohort.cli.connection import Refusal
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.resize.status import CONFLICT
from kohort.inspection import allowed_commands, history, roll_pause
from kohort.inspection.advice import Verb
from kohort.inspection.messages import listed_groups
from kohort.inspection.release_subject import Subject, command, title
from kohort.inspection.resize_progress import current_condition, groups_with_conflicts, stopped_groups
from kohort.inspection.served_revisions import Version
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.workload import DEPLOYMENT, PlainWorkload
from kohort.kube import clock
from kohort.kube.client import Client, PatchType
from kohort.kube.errors import Conflict, Forbidden, Invalid, NotFound
from kohort.kube.merge_patch import locked
from kohort.kube.resources import LEADER_WORKER_SETS, PODS, ROLLOUTS, Resource
from kohort.objects.json_types import JsonObject
from kohort.rollouts.history_records import History, recorded_releases
from kohort.rollouts.messages import ReleaseOutcome
from kohort.rollouts.rollout_types import ReleaseProgress, Rollout
from kohort.rules import group_labels
from kohort.rules.group_labels import RESTARTS_COUNTED_SINCE
from kohort.rules.group_template import leader_field
from kohort.rules.recorded_restarts import counted_since
from kohort.rules.rollout_labels import PAUSED, READY

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
_ATTEMPTS: Final = 10


def resource_of(subject: Subject) -> Resource:
    return LEADER_WORKER_SETS if isinstance(subject, Snapshot) else WORKLOADS[subject.kind.lower()].resource


async def undo(client: Client, namespace: str, name: str, to: int | None, dry_run: bool) -> int:
    found = await snapshot_reader.subject(client, namespace, name)
    wanted = history.previous(found) if to is None else history.chosen(found, to)
    if wanted.key == found.update_key:
        show([f"{name} is at revision {wanted.number} already"])
        return 0
    await return_to(client, found, wanted, dry_run=dry_run)
    verb = "would return" if dry_run else "returns"
    aborts = found.releasing and wanted.key == found.stable_key and not dry_run
    after = _text_after_abort(found) if aborts else next_command_text(found, dry_run)
    show([f"{name} {verb} to {history.renewed(found, wanted)}{after}"])
    return 0


async def return_to(client: Client, found: Subject, to: Version, *, dry_run: bool = False) -> None:
    metadata, patch = found.metadata, history.return_patch(found, to)
    await client.patch(resource_of(found), metadata.name, metadata.namespace, patch, PatchType.JSON, dry_run=dry_run)


def next_command_text(found: Subject, dry_run: bool) -> str:
    """What comes next. There is nothing to follow where nothing happens.

    | Rollout | so |
    |---|---|
    | none | it rolls |
    | disabled | it rolls, without steps |
    | otherwise | it is released from the first step on |
    """
    if dry_run:
        return ""
    rollout = f"Rollout {found.rollout.metadata.name}" if found.rollout is not None else ""
    if roll_pause.paused(found):
        resume = command(found, Verb.RESUME).text
        return f"; {rollout or 'the workload'} is paused, and begins with it after: {resume}"
    follow = f"follow it with: {command(found, Verb.STATUS).text}"
    if found.rollout is None:
        return f"; {follow}"
    if found.rollout.spec.disabled:
        return f"; {rollout} is disabled, so it rolls out without steps; {follow}"
    return f"; {rollout} releases it, from its first step on; {follow}"


async def pause(client: Client, namespace: str, name: str) -> int:
    found = await snapshot_reader.subject(client, namespace, name)
    if found.rollout is not None:
        return await _pause_rollout(client, found.rollout, True)
    return await _hold(
        client, found, roll_pause.pause_workload(found) if isinstance(found, PlainWorkload) else roll_pause.pause(found)
    )


async def resume(client: Client, namespace: str, name: str) -> int:
    """Lifts the pause of the Rollout, and that of the workload: it may have been paused before it had a Rollout."""
    found = await snapshot_reader.subject(client, namespace, name)
    rollout, own = found.rollout, roll_pause.has_own_pause(found)
    if rollout is None or own:
        decision = roll_pause.resume_workload(found) if isinstance(found, PlainWorkload) else roll_pause.resume(found)
        await _hold(client, found, decision)
    if rollout is not None and (rollout.spec.strategy.paused or not own):
        await _pause_rollout(client, rollout, False)
    return 0


async def _hold(client: Client, found: Subject, decision: roll_pause.PauseDecision) -> int:
    if decision.patch is not None:
        await client.patch(resource_of(found), found.metadata.name, found.metadata.namespace, decision.patch)
    show([decision.words])
    return 0


async def _pause_rollout(client: Client, rollout: Rollout, paused: bool) -> int:
    metadata = rollout.metadata
    body: JsonObject = {"spec": {"strategy": {"paused": paused}}}
    await client.patch(ROLLOUTS, metadata.name, metadata.namespace, body)
    show([f"Rollout {metadata.name} {'is paused' if paused else 'goes on'}"])
    return 0


async def approve(client: Client, namespace: str, name: str, step: int | None = None, full: bool = False) -> int:
    """Lets a step that waits for a person go on; or goes on with another step, with `full` with the last one."""
    found = await snapshot_reader.subject(client, namespace, name, rollout_needed=True)
    if full and found.rollout is not None:
        last = len(found.rollout.strategy.steps)
        step = last if found.rollout.status.current_step_index != last else None
    refused = allowed_commands.approval_refusal(found) if step is None else allowed_commands.jump_refusal(found, step)
    if refused:
        raise Refusal(refused)
    rollout = found.rollout
    assert rollout is not None, "a workload without one is refused"
    index = rollout.status.current_step_index
    last = len(rollout.strategy.steps)
    if step is None or step == index + 1:
        await _patch_progress(client, rollout, {"currentStepState": READY})
        show([f"step {index} of Rollout {rollout.metadata.name} is approved{_after_pause(found)}"])
        return 0
    await _patch_progress(client, rollout, {"nextStepIndex": step})
    waits = full and not rollout.skips_pause(last) and rollout.strategy.steps[-1].pause_seconds is None
    after = f"; it waits there for: {command(found, Verb.APPROVE).text}" if waits else ""
    show([f"Rollout {rollout.metadata.name} goes from step {index} to step {step} of {last}{after}"])
    return 0


def _after_pause(found: Subject) -> str:
    paused = found.rollout is not None and found.rollout.spec.strategy.paused
    return f"; the Rollout is paused, and goes on after: {command(found, Verb.RESUME).text}" if paused else ""


async def _patch_progress(client: Client, rollout: Rollout, fields: JsonObject) -> None:
    """Only at the step that was looked at: it may have ended since, and another one have begun."""
    name, namespace, newest = rollout.metadata.name, rollout.metadata.namespace, rollout
    field = "canaryStatus" if rollout.status.canary_status is not None else "blueGreenStatus"
    for _ in range(_ATTEMPTS):
        body = locked({"status": {field: fields}}, newest.metadata.resource_version)
        try:
            await client.patch(ROLLOUTS, name, namespace, body, subresource="status")
            return
        except Conflict:
            newest = await client.get(ROLLOUTS, name, namespace, type=Rollout)
        approves = "currentStepState" in fields
        if _position(newest, approves) != _position(rollout, approves):
            raise Refusal(f"Rollout {name} has gone on meanwhile, to {_step_text(newest)}; look at it, and try again")
    raise Refusal(f"Rollout {name} changed again and again while it was written; try again")


def _position(rollout: Rollout, approves: bool) -> tuple[str, int, bool, str]:
    """What a user decides by: the version and the step; who approves it, also by whether it is paused."""
    progress = rollout.status.progress or ReleaseProgress()
    paused = approves and progress.current_step_state == PAUSED
    return progress.revision, progress.current_step_index, paused, progress.finalising_step


def _step_text(rollout: Rollout) -> str:
    status = rollout.status
    return f"step {status.current_step_index} ({status.current_step_state})" if status.progress else status.phase


async def retry(client: Client, namespace: str, name: str) -> int:
    """Does the step of a release again; or, when the last release was given up, begins that release again.

    | the workload | so |
    |---|---|
    | is being released, and the release is rolling | its current step is begun again |
    | is a set that stopped at groups whose resources could not change in place | these groups are tried again |
    | is a set that waits because the resources of pods were changed on the pods | refused: it goes on by itself |
    | is a Deployment, and its last release was rolled back | the template that the record of the release has |
    | is at rest; the newest other version is younger than the present one, and no release succeeded since | that one |

    A Deployment has versions by their ReplicaSets, and a release that is aborted early never made one.
    """
    found = await snapshot_reader.subject(client, namespace, name)
    if isinstance(found, Snapshot) and (stopped := stopped_groups(found)):
        await forget_stop(client, found)
        text = listed_groups(sorted(stopped, reverse=True))
        show([f"the resize of {text} of {name} is tried again{next_command_text(found, dry_run=False)}"])
        return 0
    if isinstance(found, Snapshot) and (conflicts := groups_with_conflicts(found)):
        raise Refusal(_conflict_text(found, conflicts))
    rollout = found.rollout
    if rollout is not None and found.releasing:
        index = rollout.status.current_step_index
        if refused := allowed_commands.jump_refusal(found, index):
            raise Refusal(refused)
        await _patch_progress(client, rollout, {"nextStepIndex": index})
        show([f"step {index} of Rollout {rollout.metadata.name} is begun again"])
        return 0
    record = await _last_record(client, found)
    if record is not None and found.kind == DEPLOYMENT and record.outcome == ReleaseOutcome.ROLLED_BACK:
        return await _release_again(client, name, found, record)
    others = [one for one in history.in_order(found.versions) if one.key != found.update_key]
    if not others or not _was_given_up(found, others[-1]) or _was_followed(others[-1], record):
        raise Refusal(
            f"{title(found)} has no release that was given up, and no resize that has stopped; to return to an "
            f"earlier revision: {command(found, Verb.UNDO).text}"
        )
    await return_to(client, found, others[-1])
    show([f"{name} gets {history.renewed(found, others[-1])}{next_command_text(found, dry_run=False)}"])
    return 0


def _conflict_text(found: Snapshot, groups: Sequence[int]) -> str:
    condition = current_condition(found, CONFLICT) or {"message": ""}
    restarts = ", ".join(command(found, Verb.RESTART, "--group", str(index)).text for index in groups)
    return (
        f"the resize of {listed_groups(groups)} of {found.name} goes on by itself when the pods have the resources "
        f"of a template again ({condition['message']}); to recreate from the template: {restarts}"
    )


async def _last_record(client: Client, found: Subject) -> History | None:
    """The record of the last release."""
    if found.rollout is None:
        return None
    try:
        records = await recorded_releases(client, found.rollout)
    except (Forbidden, NotFound):
        return None
    return records[-1] if records else None


async def _release_again(client: Client, name: str, found: Subject, record: History) -> int:
    template, release = record.template, record.release
    if not template:
        raise Refusal(f"the template of release {release} of {title(found)} is not kept; apply it again")
    patch: list[JsonObject] = [
        {"op": "test", "path": "/metadata/generation", "value": found.metadata.generation},
        {"op": "replace", "path": "/spec/template", "value": template},
    ]
    await client.patch(resource_of(found), found.metadata.name, found.metadata.namespace, patch, PatchType.JSON)
    show([f"{name} gets the template of release {release}{next_command_text(found, dry_run=False)}"])
    return 0


async def forget_stop(client: Client, found: Snapshot) -> None:
    """Let the operator look anew at groups at which a resize has stopped. What it has decided since stays."""
    path = "/metadata/annotations/" + group_labels.GROUP_RESIZE.replace("~", "~0").replace("/", "~1")
    for index in stopped_groups(found):
        metadata = found.leaders[index].metadata
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": metadata.uid},
            {"op": "test", "path": path, "value": metadata.annotations[group_labels.GROUP_RESIZE]},
            {"op": "remove", "path": path},
        ]
        with contextlib.suppress(NotFound, Invalid):
            await client.patch(PODS, metadata.name, metadata.namespace, patch, PatchType.JSON)


def _was_given_up(found: Subject, version: Version) -> bool:
    """It was made after the present one and does not run: an abort took it back."""
    present = next((one for one in found.versions if one.key == found.update_key), None)
    if present is None or version.key in found.using or version.created < present.created:
        return False
    # Times are in seconds: of two from the same one, the version that never served was given up.
    never_served = not history.served(found)[version.key].may_be_returned_to
    return version.created > present.created or never_served


def _was_followed(version: Version, last: History | None) -> bool:
    """A release has succeeded since, such as one of an earlier version: that is no abort."""
    if last is None or last.outcome != ReleaseOutcome.SUCCEEDED:
        return False
    return (last.metadata.creation_timestamp or "") > version.created


async def abort(client: Client, namespace: str, name: str) -> int:
    """Ends a roll or a release by returning to the revision that was served before it."""
    found = await snapshot_reader.subject(client, namespace, name)
    if refused := allowed_commands.abort_refusal(found):
        raise Refusal(refused)
    stable = next(one for one in found.versions if one.key == found.stable_key)
    await return_to(client, found, stable)
    show([f"{name} returns to {history.renewed(found, stable)}{_text_after_abort(found)}"])
    return 0


def _text_after_abort(found: Subject) -> str:
    """After an abort, or an undo that is one. A Rollout lets go of the new version at once; a pause outlives what was
    held."""
    held = f"; it stays paused until {command(found, Verb.RESUME).text}" if roll_pause.paused(found) else ""
    return f"{held}; follow it with: {command(found, Verb.STATUS).text}"


async def restart(client: Client, namespace: str, name: str, group: int | None) -> int:
    """All replicas as a roll, which keeps to the strategy of the workload; or one group, at once."""
    found = await snapshot_reader.subject(client, namespace, name)
    if group is None:
        metadata = found.metadata
        await client.patch(resource_of(found), metadata.name, metadata.namespace, _restarting(found))
        what = "groups" if isinstance(found, Snapshot) else "pods"
        show([f"{name} recreates its {what} step by step{next_command_text(found, dry_run=False)}"])
        return 0
    if not isinstance(found, Snapshot):
        raise Refusal(f"{title(found)} has no groups; leave --group out to recreate its pods step by step")
    leader = found.leaders.get(group)
    if leader is None:
        there = ", ".join(map(str, sorted(found.leaders))) or "none"
        raise Refusal(f"LeaderWorkerSet {name} has no group {group}; there are: {there}")
    metadata = leader.metadata
    if found.group_set.template.restart_budget is not None:
        await _reset_restart_count(client, found.group_set, group)
    await client.delete(PODS, metadata.name, namespace, propagation="Foreground", uid=metadata.uid)
    show([f"group {group} of {name} is recreated"])
    return 0


async def _reset_restart_count(client: Client, group_set: LeaderWorkerSet, group: int) -> None:
    """Restarts of the group before now do not count against its budget any more."""
    metadata, now = group_set.metadata, clock.micro_timestamp()
    for _ in range(_ATTEMPTS):
        known = counted_since(metadata.annotations)
        groups = {index: time for index, time in known.items() if index.isdecimal() and int(index) < group_set.replicas}
        text = msgspec.json.encode({**groups, str(group): now}).decode()
        body = locked({"metadata": {"annotations": {RESTARTS_COUNTED_SINCE: text}}}, metadata.resource_version)
        try:
            await client.patch(LEADER_WORKER_SETS, metadata.name, metadata.namespace, body)
            return
        except Conflict:
            newest = await client.get(LEADER_WORKER_SETS, metadata.name, metadata.namespace, type=LeaderWorkerSet)
            metadata = newest.metadata
    raise Refusal(f"LeaderWorkerSet {metadata.name} changed again and again while it was written; try again")


def _restarting(found: Subject) -> JsonObject:
    mark = {"metadata": {"annotations": {RESTARTED_AT: clock.timestamp()}}}
    if not isinstance(found, Snapshot):
        return {"spec": {"template": mark}}
    fields = ("workerTemplate", leader_field(found.group_set.template.raw))
    return {"spec": {"leaderWorkerTemplate": dict.fromkeys(fields, mark)}}
