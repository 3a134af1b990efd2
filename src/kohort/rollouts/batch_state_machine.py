"""The machine of a BatchRelease.

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
| the same template under a name that others gave it | its name is ours from now on |
| the workload's controller is behind | nothing |

| phase, state | act | when done | otherwise |
|---|---|---|---|
| Preparing | initialize | Progressing | stays |
| Progressing, Upgrading | upgrade | Verifying | stays |
| Progressing, Verifying | – | Ready when the batch is ready | stays, told what is missing |
| Progressing, Ready | – | next batch if allowed | Upgrading when it is not ready any more |
| Finalizing | finalize | Completed | stays |

A status that changed by a special situation is stored before anything is done in its name. Waiting is not failing: a
batch that is not ready stays where it is, and says which pod it waits for.
"""

from datetime import datetime
from typing import Literal

import msgspec

from kohort.kube.clock import format_time
from kohort.objects.meta import Condition
from kohort.rollouts import step_arithmetic
from kohort.rollouts.rollout_types import BatchRelease, ReleaseCanaryStatus, ReleaseStatus
from kohort.rollouts.traffic.model import Note
from kohort.rollouts.workloads.model import Counts, Outcome
from kohort.rules import rollout_labels

BatchAct = Literal["initialize", "upgrade", "finalize"]


class BatchView(msgspec.Struct, frozen=True):
    release: BatchRelease
    status: ReleaseStatus
    now: datetime
    plan_hash: str
    replicas: int | None
    """Of the stable workload; None when it is gone."""
    observed: bool = True
    revision: str = ""
    released: str = ""
    """The version that what it has made runs."""
    counts: Counts = Counts()
    desired: int = 0
    """Replicas of the new version that the current batch wants."""
    shrinks: bool = False
    """More than that is to go."""


class BatchMove(msgspec.Struct, frozen=True):
    status: ReleaseStatus
    act: BatchAct | None = None
    again: bool = False
    """Look at once again, when the status is stored."""
    label: bool = False
    """The batch is ready: its pods may be labelled."""
    notes: tuple[Note, ...] = ()


def decide(view: BatchView) -> BatchMove:
    special = _special(view)
    if special is not None:
        return special
    status = _counted(view)
    view = msgspec.structs.replace(view, status=status)
    if status.phase == rollout_labels.FINALIZING:
        return BatchMove(status, "finalize")
    if status.phase != rollout_labels.PROGRESSING:
        return BatchMove(_preparing(view), "initialize")
    state = status.canary_status.batch_state
    if state == rollout_labels.VERIFYING:
        return _verify(view)
    if state == rollout_labels.BATCH_READY:
        return _rest(view)
    return BatchMove(_batch(status, batch_state=rollout_labels.UPGRADING), "upgrade")


def answered(view: BatchView, act: BatchAct, outcome: Outcome) -> BatchMove:
    status = view.status
    if outcome.state == "problem":
        return BatchMove(_problem(view, outcome.text), notes=outcome.notes)
    if not outcome.done:
        return BatchMove(_said(status, outcome.text), notes=outcome.notes)
    if act == "initialize":
        started = msgspec.structs.replace(
            _batch(status, batch_state=rollout_labels.UPGRADING, current_batch=0, batch_ready_time=None),
            phase=rollout_labels.PROGRESSING,
            observed_release_plan_hash=view.plan_hash,
            observed_rollout_id=view.release.plan.rollout_id,
            observed_workload_replicas=view.replicas or 0,
            update_revision=view.revision,
        )
        return BatchMove(_said(started, ""), again=True, notes=outcome.notes)
    if act == "upgrade":
        clean = msgspec.structs.replace(_batch(status, batch_state=rollout_labels.VERIFYING), conditions=())
        return BatchMove(_said(clean, ""), again=True, notes=outcome.notes)
    return BatchMove(_said(msgspec.structs.replace(status, phase=rollout_labels.COMPLETED), ""), notes=outcome.notes)


# Special situations


def _special(view: BatchView) -> BatchMove | None:
    status, release = view.status, view.release
    if status.phase == rollout_labels.COMPLETED:
        return BatchMove(status)
    ending = release.metadata.deleting or release.plan.batch_partition is None or view.replicas is None
    if status.phase != rollout_labels.FINALIZING and ending and (status.phase or view.replicas is not None):
        return BatchMove(msgspec.structs.replace(status, phase=rollout_labels.FINALIZING), again=True)
    if status.phase == rollout_labels.FINALIZING:
        return None
    if view.replicas is None:
        return BatchMove(_said(status, "Workload Not Found"))
    if status.phase != rollout_labels.PROGRESSING:
        return None if view.observed else BatchMove(status)
    if status.observed_release_plan_hash != view.plan_hash:
        return BatchMove(_replanned(view), again=True)
    if status.canary_status.current_batch >= len(release.plan.batches):
        return BatchMove(ReleaseStatus(phase=rollout_labels.PREPARING), again=True)
    if status.observed_workload_replicas != view.replicas:
        again = _batch(status, batch_state=rollout_labels.UPGRADING, batch_ready_time=None)
        return BatchMove(msgspec.structs.replace(again, observed_workload_replicas=view.replicas), again=True)
    if status.update_revision != view.revision and view.revision == view.released:
        return BatchMove(msgspec.structs.replace(status, update_revision=view.revision), again=True)
    if status.update_revision != view.revision:
        return BatchMove(_said(status, "the workload has another template than the one that is released here"))
    return None if view.observed else BatchMove(status)


def _replanned(view: BatchView) -> ReleaseStatus:
    plan = view.release.plan
    last = len(plan.batches) - 1
    same = plan.rollout_id == view.status.observed_rollout_id
    batch = min(plan.batch_partition or 0, last) if same else 0
    status = _batch(
        view.status, batch_state=rollout_labels.UPGRADING, current_batch=max(0, batch), batch_ready_time=None
    )
    return msgspec.structs.replace(
        status, observed_release_plan_hash=view.plan_hash, observed_rollout_id=plan.rollout_id
    )


def _preparing(view: BatchView) -> ReleaseStatus:
    return msgspec.structs.replace(view.status, phase=rollout_labels.PREPARING)


# Batches


def _counted(view: BatchView) -> ReleaseStatus:
    counts = view.counts
    return _batch(view.status, updated_replicas=counts.updated, updated_ready_replicas=counts.ready)


def is_ready(view: BatchView) -> bool:
    """Enough are there, enough of them are ready, and at least one is."""
    counts, desired = view.counts, view.desired
    if desired == 0:
        return True
    tolerated = step_arithmetic.allowed_failures(view.release.plan.failure_threshold, counts.updated)
    return counts.observed and counts.updated >= desired and counts.ready >= 1 and counts.ready + tolerated >= desired


def _verify(view: BatchView) -> BatchMove:
    said = _said(view.status, view.counts.text)
    if not is_ready(view):
        return BatchMove(said)
    ready = _batch(said, batch_state=rollout_labels.BATCH_READY, batch_ready_time=format_time(view.now))
    return BatchMove(ready, again=True, label=True)


def _rest(view: BatchView) -> BatchMove:
    said = _said(view.status, view.counts.text)
    if not is_ready(view):
        notes: tuple[Note, ...] = ()
        if view.counts.ready == 0:
            notes = (
                Note("CanaryUnavailable", f"no replica of the new version is ready: {said.message}", warning=True),
            )
        return BatchMove(
            _batch(said, batch_state=rollout_labels.UPGRADING, batch_ready_time=None), again=True, notes=notes
        )
    if view.shrinks and view.counts.updated > view.desired:
        return BatchMove(_batch(said, batch_state=rollout_labels.UPGRADING, batch_ready_time=None), again=True)
    current, allowed = view.status.canary_status.current_batch, view.release.plan.batch_partition
    if allowed is not None and allowed <= current:
        return BatchMove(said, label=True)
    following = _batch(said, current_batch=current + 1, batch_state=rollout_labels.UPGRADING, batch_ready_time=None)
    return BatchMove(following, again=True)


# Status


def _batch(status: ReleaseStatus, **changes: object) -> ReleaseStatus:
    canary: ReleaseCanaryStatus = msgspec.structs.replace(status.canary_status, **changes)
    return msgspec.structs.replace(status, canary_status=canary)


def _said(status: ReleaseStatus, text: str) -> ReleaseStatus:
    return msgspec.structs.replace(status, message=text)


def _problem(view: BatchView, text: str) -> ReleaseStatus:
    stamp = format_time(view.now)
    old = next((one for one in view.status.conditions if one.type == rollout_labels.PROGRESSING), None)
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
    return msgspec.structs.replace(view.status, message=text, conditions=(condition,))
