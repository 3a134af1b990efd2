"""When an AnalysisRun ends although it has no verdict. Pure.

A verdict (Passed, Failed) stays. A run without one is Ended as soon as its step cannot get one any more:

| the Rollout | reason of the run |
|---|---|
| is deleted, or gone | RolloutDeleted |
| is disabled | RolloutDisabled |
| its workload is gone | WorkloadDeleted |
| releases another version | Superseded |
| has begun the step again | Retried |
| goes back to the stable version, or is back | RolledBack |
| names no analysis any more | AnalysisRemoved |
| is at another step, or has finished its steps: a user let it go on | Overridden |
| the same, because a DryRun holds no step, or by a jump | StepEnded |

A step that is entered again by a jump is another attempt, with a run of its own. A run goes on where its step can get a
verdict again: the Rollout names the analysis again.
"""

from typing import Final

import msgspec

from kohort.rollouts.analysis.analysis_messages import run_ended
from kohort.rollouts.analysis.analysis_types import AnalysisRun
from kohort.rollouts.analysis.run_types import RunPhase, RunReason, RunStatus
from kohort.rollouts.analysis_control.judgements import analysis_name, is_of
from kohort.rollouts.rollout_types import Rollout
from kohort.rules import rollout_labels

_STOPPED: Final = (rollout_labels.DISABLING, rollout_labels.DISABLED)
_AT_REST: Final = (rollout_labels.FINALISING, rollout_labels.COMPLETED)


def run_ending(run: AnalysisRun, rollout: Rollout | None) -> RunReason | None:
    """Why the run ends now; None if it goes on, or has ended."""
    if run.status.decided or run.status.phase is RunPhase.ENDED:
        return None
    if rollout is None or rollout.metadata.deleting or not is_of(run, rollout):
        return RunReason.ROLLOUT_DELETED
    status, progress = rollout.status, rollout.status.progress
    if status.phase in _STOPPED:
        return RunReason.ROLLOUT_DISABLED
    if progress is None or status.phase == rollout_labels.INITIAL:
        return RunReason.WORKLOAD_DELETED
    let_on = RunReason.OVERRIDDEN if run.status.overridden_by else RunReason.STEP_ENDED
    if run.spec.release != progress.observed_rollout_id:
        return RunReason.SUPERSEDED
    if run.spec.attempt != progress.analysis_attempt:
        return RunReason.RETRIED if run.spec.step == progress.current_step_index else let_on
    if status.reason == rollout_labels.CANCELLING:
        return RunReason.ROLLED_BACK
    if status.phase != rollout_labels.PROGRESSING or status.reason in _AT_REST:
        return _at_end(rollout, let_on)
    if not analysis_name(rollout):
        return RunReason.ANALYSIS_REMOVED
    here = run.spec.step == progress.current_step_index and progress.current_step_state != rollout_labels.COMPLETED
    return None if here else let_on


def _at_end(rollout: Rollout, let_on: RunReason) -> RunReason:
    succeeded = rollout.status.condition(rollout_labels.SUCCEEDED)
    if succeeded is None or succeeded.status == "True":
        return let_on
    disabled = succeeded.reason == rollout_labels.DISABLED
    return RunReason.ROLLOUT_DISABLED if disabled else RunReason.ROLLED_BACK


def ended(status: RunStatus, reason: RunReason, now: str) -> RunStatus:
    text = run_ended(reason, status.message)
    return msgspec.structs.replace(status, phase=RunPhase.ENDED, reason=reason, message=text, finished_at=now)


def reopened(status: RunStatus) -> RunStatus:
    """Of a step that is entered again: what was counted stays, and the next reading says where it is."""
    if status.phase is not RunPhase.ENDED:
        return status
    return msgspec.structs.replace(status, phase=RunPhase.WARMING_UP, reason="", message="", finished_at="")
