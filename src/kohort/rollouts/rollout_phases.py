"""Decides the phase of a Rollout.

| phase | guard | next |
|---|---|---|
| any | of a kind or style that is not released here | the same, with a message |
| any | deleted | Terminating |
| Progressing | disabled | Disabling |
| other | disabled | Disabled |
| "" | | Initial |
| any but Progressing and what ends it | no workload | Initial, "Workload Not Found" |
| any | the workload's controller is behind | the same, in 3 s |
| Initial | the workload exists and has the label of the webhook | Healthy |
| Healthy | the workload is in progress | Progressing |
| Progressing | Completed | Healthy |
| Disabling | everything is restored | Disabled |
| Disabled | not disabled any more | Healthy |
| Terminating | everything is restored | deleted |

What a pass does follows the phase that was stored before it: a phase is always visible before it acts.
"""

from typing import Final

import msgspec

from kohort.rollouts import finalizing, messages, release_state_machine, step_arithmetic, takeover
from kohort.rollouts.action_result import ActionResult, Done, Problem
from kohort.rollouts.finalizing import EndReason, FinalizingDecision
from kohort.rollouts.messages import ReleaseEvent, ReleaseOutcome
from kohort.rollouts.release_actions import Action, AdoptHeldWorkload
from kohort.rollouts.release_state import (
    Observation,
    ReleaseDecision,
    State,
    with_condition,
    with_message,
    with_reason,
    with_references,
    without,
)
from kohort.rollouts.rollout_types import ReleaseProgress
from kohort.rollouts.validation import not_released_here
from kohort.rules import rollout_labels
from kohort.rules.rollout_labels import ProgressingReason

_END_REASONS: Final = {
    rollout_labels.DISABLING: EndReason.DISABLED,
    rollout_labels.TERMINATING: EndReason.DELETED,
}


def decide(observation: Observation) -> ReleaseDecision:
    """One pass: the phase as it should be now, and what the phase that was stored before does."""
    before = observation.state.phase
    if (text := not_released_here(observation.rollout)) and not _is_stopped(observation):
        return _not_supported(observation, text)
    observation = observation.with_state(takeover.adopted(observation))
    if not observation.rollout.steps_known and before in ("", rollout_labels.INITIAL):
        return ReleaseDecision(_in_phase(observation.state, rollout_labels.INITIAL, messages.NO_STEPS))
    phase_decision = next_phase(observation)
    if phase_decision.state.phase != before or phase_decision.requeue is not None:
        return phase_decision
    observation = observation.with_state(phase_decision.state)
    if before == rollout_labels.PROGRESSING:
        return _after_phase(phase_decision, release_state_machine.decide(observation))
    if before in _END_REASONS:
        return _after_phase(phase_decision, _ended(observation, finalizing.decide(observation, _END_REASONS[before])))
    return phase_decision


def _is_stopped(observation: Observation) -> bool:
    """Deleted or disabled: then everything is put back, also for a kind or style that is not released here."""
    return observation.rollout.metadata.deleting or observation.rollout.spec.disabled


def _not_supported(observation: Observation, text: str) -> ReleaseDecision:
    before = observation.state
    state = _in_phase(before, before.phase or rollout_labels.INITIAL, text)
    return ReleaseDecision(state, events=(messages.not_supported(text),) if state != before else ())


def decide_after(observation: Observation, action: Action, result: ActionResult) -> ReleaseDecision:
    phase = observation.state.phase
    if isinstance(action, AdoptHeldWorkload):
        return ReleaseDecision(observation.state, events=result.events)
    if phase in _END_REASONS:
        return _ended(observation, finalizing.decide_after(observation, _END_REASONS[phase], action, result))
    return release_state_machine.decide_after(observation, action, result)


def _after_phase(phase_decision: ReleaseDecision, decision: ReleaseDecision) -> ReleaseDecision:
    """The second decision of a pass, with the events of the first."""
    if not phase_decision.events:
        return decision
    return msgspec.structs.replace(decision, events=(*phase_decision.events, *decision.events))


def next_phase(observation: Observation) -> ReleaseDecision:
    state, rollout, workload = observation.state, observation.rollout, observation.workload
    phase = state.phase
    if rollout.metadata.deleting:
        if phase == rollout_labels.TERMINATING:
            return ReleaseDecision(state)
        text = messages.TERMINATING
        ended = with_condition(
            state, rollout_labels.TERMINATING, "True", rollout_labels.IN_TERMINATING, text, observation.now
        )
        ended = _restart_finalizing(observation.with_state(ended))
        return ReleaseDecision(_in_phase(ended, rollout_labels.TERMINATING, text), requeue=0.0)
    if rollout.spec.disabled:
        return _decide_disabled(observation)
    if phase == rollout_labels.DISABLING:
        return ReleaseDecision(state)
    if phase == rollout_labels.DISABLED:
        return ReleaseDecision(_in_phase(_at_rest(observation), rollout_labels.HEALTHY, messages.HEALTHY), requeue=0.0)
    if workload is None:
        if phase == rollout_labels.PROGRESSING:
            return ReleaseDecision(state)
        missing = release_state_machine.WITHOUT_WORKLOAD
        return ReleaseDecision(missing, events=(_workload_not_found(observation),) if state != missing else ())
    if not workload.consistent:
        return ReleaseDecision(
            state if phase else _in_phase(state, rollout_labels.INITIAL, state.message), requeue=rollout_labels.RECHECK
        )
    if phase in ("", rollout_labels.INITIAL):
        if not workload.has_webhook_label:
            return ReleaseDecision(
                _in_phase(state, rollout_labels.INITIAL, messages.WEBHOOK_LABEL_MISSING), requeue=rollout_labels.RECHECK
            )
        return ReleaseDecision(_in_phase(state, rollout_labels.HEALTHY, messages.HEALTHY), requeue=0.0)
    if phase == rollout_labels.HEALTHY:
        return _decide_healthy(observation)
    if phase == rollout_labels.PROGRESSING and state.reason == rollout_labels.COMPLETED:
        return ReleaseDecision(msgspec.structs.replace(state, phase=rollout_labels.HEALTHY), requeue=0.0)
    return ReleaseDecision(state)


def _workload_not_found(observation: Observation) -> ReleaseEvent:
    ref = observation.rollout.spec.workload_ref
    return messages.workload_not_found(ref.kind, observation.rollout.metadata.namespace, ref.name, ref.api_version)


def _decide_disabled(observation: Observation) -> ReleaseDecision:
    state = observation.state
    if state.phase in (rollout_labels.DISABLED, rollout_labels.DISABLING):
        return ReleaseDecision(state)
    if state.phase == rollout_labels.PROGRESSING or _held(observation):
        return ReleaseDecision(
            _in_phase(_restart_finalizing(observation), rollout_labels.DISABLING, messages.DISABLING), requeue=0.0
        )
    return ReleaseDecision(_in_phase(state, rollout_labels.DISABLED, messages.DISABLED), requeue=0.0)


def _held(observation: Observation) -> bool:
    return observation.workload is not None and observation.workload.in_progress


def _decide_healthy(observation: Observation) -> ReleaseDecision:
    state, workload = observation.state, observation.workload
    assert workload is not None
    if workload.in_progress:
        cleared = msgspec.structs.replace(state, conditions=without(state.conditions, rollout_labels.SUCCEEDED))
        begun = with_reason(cleared, rollout_labels.INITIALIZING, messages.IN_PROGRESS, observation.now)
        return ReleaseDecision(msgspec.structs.replace(begun, phase=rollout_labels.PROGRESSING), requeue=0.0)
    if workload.left_held:
        # The workload changes when it is adopted, and that change starts the next pass.
        return ReleaseDecision(state, AdoptHeldWorkload(), events=(messages.HELD_WORKLOAD_ADOPTED,))
    if state.progress is None:
        return ReleaseDecision(
            msgspec.structs.replace(
                state, progress=finished_progress(observation), message=messages.NOTHING_RELEASED_YET
            )
        )
    return _nothing_released(observation)


def finished_progress(observation: Observation) -> ReleaseProgress:
    """As if the version that runs had been released by us."""
    workload = observation.workload
    assert workload is not None
    return ReleaseProgress(
        observed_rollout_id=workload.release_id,
        observed_workload_generation=workload.generation,
        rollout_hash=observation.plan_hash,
        stable_revision=workload.stable_revision,
        pod_template_hash=workload.pod_template_hash or workload.stable_revision,
        revision=workload.canary_revision,
        revision_key=workload.revision_key,
        current_step_index=len(observation.steps),
        next_step_index=step_arithmetic.NO_STEP,
        current_step_state=rollout_labels.COMPLETED,
        analysis_attempt=observation.state.progress.analysis_attempt if observation.state.progress is not None else 0,
    )


def _nothing_released(observation: Observation) -> ReleaseDecision:
    """Nothing is released. A version that was rolled out without a release is reported once, and then taken as the one
    that runs."""
    state, workload, progress = observation.state, observation.workload, observation.progress
    assert workload is not None
    changes: dict[str, object] = {
        "observed_rollout_id": workload.release_id,
        "observed_workload_generation": workload.generation,
    }
    events: tuple[ReleaseEvent, ...] = ()
    if progress.revision and workload.canary_revision != progress.revision:
        events = (messages.RELEASE_NOT_CONTROLLED,)
        changes |= {"revision": workload.canary_revision, "stable_revision": workload.stable_revision}
    return _with_references(observation, ReleaseDecision(state.with_progress(**changes), events=events))


def _with_references(observation: Observation, decision: ReleaseDecision) -> ReleaseDecision:
    """References that the next release could not use are reported before it begins, and no longer once they are
    repaired."""
    if observation.references is None:
        return decision
    state, events = with_references(decision.state, observation.references, observation.now)
    before = decision.state.condition(rollout_labels.RESOLVED_REFS)
    match observation.references:
        case Problem(text=text):
            state = with_message(state, text)
        case Done() if before is not None and before.status == "False":
            state = with_message(state, messages.HEALTHY)
    return msgspec.structs.replace(decision, state=state, events=(*decision.events, *events))


def _ended(observation: Observation, found: FinalizingDecision) -> ReleaseDecision:
    if not found.done:
        return found.decision
    state = found.decision.state
    if observation.state.phase == rollout_labels.DISABLING:
        ended = _record_stop(observation.with_state(state))
        return ReleaseDecision(
            _in_phase(ended, rollout_labels.DISABLED, messages.DISABLED),
            requeue=0.0,
            events=found.decision.events,
            outcome=ReleaseOutcome.DISABLED,
        )
    text = messages.TERMINATED
    old = state.condition(rollout_labels.TERMINATING)
    if old is not None and old.reason == rollout_labels.COMPLETED:
        return ReleaseDecision(state)
    state = with_condition(state, rollout_labels.TERMINATING, "False", rollout_labels.COMPLETED, text, observation.now)
    at_rest = observation.state.progress is None or observation.progress.finalising_step == rollout_labels.END
    return ReleaseDecision(
        state, requeue=0.0, events=found.decision.events, outcome=None if at_rest else ReleaseOutcome.DELETED
    )


def _record_stop(observation: Observation) -> State:
    """Nothing is released any more: neither a step nor the condition says otherwise, now or when the Rollout is enabled
    again."""
    state = with_condition(
        observation.state,
        rollout_labels.SUCCEEDED,
        "False",
        rollout_labels.DISABLED,
        messages.DISABLED_BEFORE_COMPLETION,
        observation.now,
    )
    state = with_reason(
        state, ProgressingReason.COMPLETED, messages.DISABLED_BEFORE_COMPLETION, observation.now, status="False"
    )
    return _at_rest(observation.with_state(state))


def _at_rest(observation: Observation) -> State:
    """The progress of a release that was stopped, once it is over: as if what runs now had been released."""
    progress, workload = observation.state.progress, observation.workload
    if progress is None or progress.current_step_state == rollout_labels.COMPLETED:
        return observation.state
    at_rest = {"current_step_state": rollout_labels.COMPLETED, "next_step_index": step_arithmetic.NO_STEP}
    if workload is None or workload.in_progress or workload.left_held:
        return observation.state.with_progress(**at_rest)
    finished = msgspec.structs.replace(
        finished_progress(observation),
        observed_rollout_id=progress.observed_rollout_id,
        finalising_step=rollout_labels.END,
    )
    return msgspec.structs.replace(observation.state, progress=finished)


def _restart_finalizing(observation: Observation) -> State:
    """A release that is stopped ends in another order than the one it may be in the middle of. A workload that was
    held a moment ago gets its hold released even where no release has begun."""
    state = observation.state
    running = state.phase == rollout_labels.PROGRESSING and state.reason != rollout_labels.COMPLETED
    if state.progress is None and _held(observation):
        state = msgspec.structs.replace(state, progress=finished_progress(observation))
    if state.progress is None:
        return state
    return state.with_progress(finalising_step="" if running or _held(observation) else rollout_labels.END)


def _in_phase(state: State, phase: str, message: str) -> State:
    return msgspec.structs.replace(state, phase=phase, message=message)
