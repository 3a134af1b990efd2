"""Decides the phases and batches of a BatchRelease.

Special situations come first, the first that holds wins:

| situation | what follows |
|---|---|
| Completed | nothing |
| deleted, Finalizing, or no batchPartition | Finalizing |
| the plan has changed | the batch that it allows, anew; from the first batch when it is another release |
| more batches done than there are | from the beginning |
| the workload is gone | Finalizing |
| the number of replicas has changed | the batch anew, with the new number |
| another template than the one it began with | nothing; the Rollout decides |
| the same template under a revision that another implementation gave it | that revision is recorded |
| the workload's controller is behind | nothing |

| phase, state | action | when done | otherwise |
|---|---|---|---|
| Preparing | initialize | Progressing | stays |
| Progressing, Upgrading | upgrade | Verifying | stays |
| Progressing, Verifying | – | Ready when the batch is ready | stays, with a message about what is missing |
| Progressing, Ready | – | next batch if allowed | Upgrading when it is not ready any more, or too large |
| Finalizing | finalize | Completed | stays |

A status that changed by a special situation is stored before anything is done in its name. Waiting is not failing: a
batch that is not ready stays where it is, and its message names the pod it waits for.
"""

from datetime import datetime

import msgspec

from kohort.kube.clock import format_time
from kohort.objects.meta import Condition, find_condition
from kohort.rollouts import messages, step_arithmetic
from kohort.rollouts.action_result import ActionResult, Done, Problem, Waiting
from kohort.rollouts.messages import ReleaseEvent
from kohort.rollouts.rollout_types import BatchRelease, ReleaseCanaryStatus, ReleaseStatus
from kohort.rollouts.workloads.model import ReplicaCounts
from kohort.rules import rollout_labels
from kohort.rules.rollout_labels import BatchReleasePhase, BatchState


class Initialize(msgspec.Struct, frozen=True):
    """Hold the stable workload and create the canary."""


class Upgrade(msgspec.Struct, frozen=True):
    """Bring up so many replicas of the new version."""

    desired: int


class Finalize(msgspec.Struct, frozen=True):
    """Give the workload back to its own controller."""


BatchAction = Initialize | Upgrade | Finalize


class BatchObservation(msgspec.Struct, frozen=True):
    release: BatchRelease
    status: ReleaseStatus
    now: datetime
    plan_hash: str
    replicas: int | None
    """Of the stable workload; None when it is gone."""
    observed: bool = True
    revision: str = ""
    released: str = ""
    """The version that the canary of this release runs."""
    counts: ReplicaCounts = ReplicaCounts()
    desired: int = 0
    """Replicas of the new version that the current batch wants."""
    shrinks: bool = False
    """Replicas beyond `desired` are to be removed."""


class BatchDecision(msgspec.Struct, frozen=True):
    status: ReleaseStatus
    action: BatchAction | None = None
    again: bool = False
    """Reconcile again as soon as the status is stored."""
    label: bool = False
    """The batch is ready: its pods may be labelled."""
    events: tuple[ReleaseEvent, ...] = ()


def decide(observation: BatchObservation) -> BatchDecision:
    special = _special_situation(observation)
    if special is not None:
        return special
    status = _counted(observation)
    observation = msgspec.structs.replace(observation, status=status)
    if status.phase == BatchReleasePhase.FINALIZING:
        return BatchDecision(status, Finalize())
    if status.phase != BatchReleasePhase.PROGRESSING:
        return BatchDecision(_preparing(observation), Initialize())
    state = status.canary_status.batch_state
    if state == BatchState.VERIFYING:
        return _verify(observation)
    if state == BatchState.READY:
        return _ready(observation)
    return BatchDecision(_with_batch(status, batch_state=BatchState.UPGRADING), Upgrade(observation.desired))


def decide_after(observation: BatchObservation, action: BatchAction, result: ActionResult) -> BatchDecision:
    match result:
        case Problem():
            return BatchDecision(_problem(observation, result.text), events=result.events)
        case Waiting():
            return BatchDecision(_with_message(observation.status, result.text), events=result.events)
        case Done():
            return _after_done(observation, action, result)


def _after_done(observation: BatchObservation, action: BatchAction, result: Done) -> BatchDecision:
    status = observation.status
    match action:
        case Initialize():
            started = msgspec.structs.replace(
                _with_batch(status, batch_state=BatchState.UPGRADING, current_batch=0, batch_ready_time=None),
                phase=BatchReleasePhase.PROGRESSING,
                observed_release_plan_hash=observation.plan_hash,
                observed_rollout_id=observation.release.plan.rollout_id,
                observed_workload_replicas=observation.replicas or 0,
                update_revision=observation.revision,
            )
            return BatchDecision(_with_message(started, ""), again=True, events=result.events)
        case Upgrade():
            clean = msgspec.structs.replace(_with_batch(status, batch_state=BatchState.VERIFYING), conditions=())
            return BatchDecision(_with_message(clean, ""), again=True, events=result.events)
        case Finalize():
            completed = msgspec.structs.replace(status, phase=BatchReleasePhase.COMPLETED)
            return BatchDecision(_with_message(completed, ""), events=result.events)


# Special situations


def _special_situation(observation: BatchObservation) -> BatchDecision | None:
    status, release = observation.status, observation.release
    if status.phase == BatchReleasePhase.COMPLETED:
        return BatchDecision(status)
    ending = release.metadata.deleting or release.plan.batch_partition is None or observation.replicas is None
    if status.phase != BatchReleasePhase.FINALIZING and ending and (status.phase or observation.replicas is not None):
        return BatchDecision(msgspec.structs.replace(status, phase=BatchReleasePhase.FINALIZING), again=True)
    if status.phase == BatchReleasePhase.FINALIZING:
        return None
    if observation.replicas is None:
        return BatchDecision(_with_message(status, messages.WORKLOAD_NOT_FOUND))
    if status.phase != BatchReleasePhase.PROGRESSING:
        return None if observation.observed else BatchDecision(status)
    if status.observed_release_plan_hash != observation.plan_hash:
        return BatchDecision(_replanned(observation), again=True)
    if status.canary_status.current_batch >= len(release.plan.batches):
        return BatchDecision(ReleaseStatus(phase=BatchReleasePhase.PREPARING), again=True)
    if status.observed_workload_replicas != observation.replicas:
        again = _with_batch(status, batch_state=BatchState.UPGRADING, batch_ready_time=None)
        return BatchDecision(
            msgspec.structs.replace(again, observed_workload_replicas=observation.replicas), again=True
        )
    if status.update_revision != observation.revision and observation.revision == observation.released:
        return BatchDecision(msgspec.structs.replace(status, update_revision=observation.revision), again=True)
    if status.update_revision != observation.revision:
        return BatchDecision(_with_message(status, messages.OTHER_TEMPLATE))
    return None if observation.observed else BatchDecision(status)


def _replanned(observation: BatchObservation) -> ReleaseStatus:
    plan = observation.release.plan
    last = len(plan.batches) - 1
    same = plan.rollout_id == observation.status.observed_rollout_id
    batch = min(plan.batch_partition or 0, last) if same else 0
    status = _with_batch(
        observation.status, batch_state=BatchState.UPGRADING, current_batch=max(0, batch), batch_ready_time=None
    )
    return msgspec.structs.replace(
        status, observed_release_plan_hash=observation.plan_hash, observed_rollout_id=plan.rollout_id
    )


def _preparing(observation: BatchObservation) -> ReleaseStatus:
    return msgspec.structs.replace(observation.status, phase=BatchReleasePhase.PREPARING)


# Batches


def _counted(observation: BatchObservation) -> ReleaseStatus:
    counts = observation.counts
    return _with_batch(observation.status, updated_replicas=counts.updated, updated_ready_replicas=counts.ready)


def is_ready(observation: BatchObservation) -> bool:
    """Enough are there, enough of them are ready, and at least one is."""
    counts, desired = observation.counts, observation.desired
    if desired == 0:
        return True
    tolerated = step_arithmetic.allowed_failures(observation.release.plan.failure_threshold, counts.updated)
    return counts.observed and counts.updated >= desired and counts.ready >= 1 and counts.ready + tolerated >= desired


def _has_surplus(observation: BatchObservation) -> bool:
    """Replicas that are to be removed are still there."""
    return observation.shrinks and observation.counts.updated > observation.desired


def _verify(observation: BatchObservation) -> BatchDecision:
    said = _with_message(observation.status, observation.counts.text)
    if not is_ready(observation):
        return BatchDecision(said)
    ready = _with_batch(said, batch_state=BatchState.READY, batch_ready_time=format_time(observation.now))
    return BatchDecision(ready, again=True, label=True)


def _ready(observation: BatchObservation) -> BatchDecision:
    said = _with_message(observation.status, observation.counts.text)
    if not is_ready(observation):
        events: tuple[ReleaseEvent, ...] = ()
        if observation.counts.ready == 0:
            events = (messages.canary_unavailable(f"no replica of the new version is ready: {said.message}"),)
        return BatchDecision(
            _with_batch(said, batch_state=BatchState.UPGRADING, batch_ready_time=None), again=True, events=events
        )
    if _has_surplus(observation):
        return BatchDecision(_with_batch(said, batch_state=BatchState.UPGRADING, batch_ready_time=None), again=True)
    current, allowed = observation.status.canary_status.current_batch, observation.release.plan.batch_partition
    if allowed is not None and allowed <= current:
        return BatchDecision(said, label=True)
    following = _with_batch(said, current_batch=current + 1, batch_state=BatchState.UPGRADING, batch_ready_time=None)
    return BatchDecision(following, again=True)


# Status


def _with_batch(status: ReleaseStatus, **changes: object) -> ReleaseStatus:
    canary: ReleaseCanaryStatus = msgspec.structs.replace(status.canary_status, **changes)
    return msgspec.structs.replace(status, canary_status=canary)


def _with_message(status: ReleaseStatus, text: str) -> ReleaseStatus:
    return msgspec.structs.replace(status, message=text)


def _problem(observation: BatchObservation, text: str) -> ReleaseStatus:
    stamp = format_time(observation.now)
    old = find_condition(observation.status.conditions, rollout_labels.PROGRESSING)
    since = old.last_transition_time if old is not None else stamp
    updated = old.last_update_time if old is not None and old.message == text else stamp
    condition = Condition(
        type=rollout_labels.PROGRESSING,
        status="True",
        reason=rollout_labels.IN_ROLLING,
        message=text,
        last_update_time=updated,
        last_transition_time=since,
    )
    return msgspec.structs.replace(observation.status, message=text, conditions=(condition,))
