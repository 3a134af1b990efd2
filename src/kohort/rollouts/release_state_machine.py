"""Decides the states of a release: from the first look at a new version until routes and Services are as before.

| reason | guard | next |
|---|---|---|
| Initializing | objects of traffic exist, 3 s have passed, the TrafficRouting is joined | InRolling |
| Initializing, InRolling | the template is the stable one again | Cancelling |
| InRolling | strategy.paused | Paused |
| InRolling | yet another template | traffic back, canary away, Initializing |
| InRolling | another plan | the step that fits it |
| InRolling | all steps completed | Finalising |
| Paused | not paused any more | InRolling |
| Finalising | done | Completed, Succeeded=True |
| Cancelling | done | Completed, Succeeded=False |

A rollback is taken while paused too, and both a rollback and another version while finalising, as long as the stable
workload is still held: nothing has been promoted then.
"""

from typing import Final

import msgspec

from kohort.rollouts import finalizing, messages, step_analysis, step_arithmetic, step_state_machine
from kohort.rollouts.action_result import DONE, ActionResult, Done, Problem, Waiting
from kohort.rollouts.finalizing import EndReason, FinalizingDecision
from kohort.rollouts.forecast_types import ForecastUnknown, ReleaseForecast
from kohort.rollouts.messages import ReleaseEvent, ReleaseOutcome
from kohort.rollouts.release_actions import Action, JoinTrafficRouting
from kohort.rollouts.release_state import (
    Observation,
    ReleaseDecision,
    ReleaseWait,
    State,
    with_condition,
    with_message,
    with_reason,
    with_references,
    with_wait,
    without,
    without_wait,
)
from kohort.rollouts.rollout_types import ReleaseProgress
from kohort.rollouts.traffic.actions import CheckReferences
from kohort.rules import rollout_labels
from kohort.rules.rollout_labels import ProgressingReason

CAPACITY_SECONDS: Final = 15.0
"""How often nodes and pods are looked at while a release waits for room."""
WITHOUT_WORKLOAD: Final = State(phase=rollout_labels.INITIAL, message=messages.WORKLOAD_NOT_FOUND)
"""The state of a Rollout whose workload does not exist."""


def decide(observation: Observation) -> ReleaseDecision:
    reason = observation.state.reason
    if observation.workload is None:
        return _without_workload(observation)
    if reason == rollout_labels.INITIALIZING or observation.state.progress is None:
        return _initializing(observation)
    if reason == rollout_labels.IN_ROLLING:
        return _in_rolling(observation)
    if reason == rollout_labels.REASON_PAUSED:
        return _paused(observation)
    if reason == rollout_labels.FINALISING:
        observation = observation.with_state(step_state_machine.refreshed(observation))
        return _changed_version(observation) or _finalising(
            observation, finalizing.decide(observation, EndReason.SUCCESS)
        )
    if reason == rollout_labels.CANCELLING:
        return _cancelling(observation, finalizing.decide(observation, EndReason.ROLLBACK))
    return ReleaseDecision(observation.state)


def decide_after(observation: Observation, action: Action, result: ActionResult) -> ReleaseDecision:
    reason = observation.state.reason
    if observation.workload is None:
        return _workload_gone(observation, finalizing.decide_after(observation, EndReason.DELETED, action, result))
    if reason == rollout_labels.INITIALIZING:
        return _initializing_after(observation, action, result)
    if reason == rollout_labels.FINALISING:
        return _finalising(observation, finalizing.decide_after(observation, EndReason.SUCCESS, action, result))
    if reason == rollout_labels.CANCELLING:
        return _cancelling(observation, finalizing.decide_after(observation, EndReason.ROLLBACK, action, result))
    if is_superseded(observation):
        return _restarted(observation, finalizing.decide_after(observation, EndReason.SUPERSEDED, action, result))
    return step_state_machine.decide_after(observation, action, result)


# Initializing


def _initializing(observation: Observation) -> ReleaseDecision:
    if _rolled_back_before_start(observation) or _has_nothing_to_resize(observation):
        return _rolled_back(observation)
    state = msgspec.structs.replace(observation.state, progress=first_progress(observation))
    observation = observation.with_state(state)
    if not observation.routed:
        return _checked(observation, DONE)
    workload = observation.workload
    if workload is not None and workload.stable_revision and workload.expected_key == workload.stable_revision:
        problem = Problem(messages.same_revision_keys(workload.stable_revision))
        return _checked(observation, problem)
    return ReleaseDecision(state, CheckReferences())


def _initializing_after(observation: Observation, action: Action, result: ActionResult) -> ReleaseDecision:
    if not isinstance(action, JoinTrafficRouting):
        return _checked(observation, result)
    if isinstance(result, Done):
        return _begun(observation, result)
    return _not_initialized(observation.state, result)


def _rolled_back_before_start(observation: Observation) -> bool:
    """The old template is back before the release could begin: something that it needs may be missing for good."""
    if not _goes_back(observation):
        return False
    return observation.progress.current_step_state == rollout_labels.BEFORE_UPGRADE


def _goes_back(observation: Observation) -> bool:
    """The template is the stable one again."""
    return observation.has_other_version and observation.workload is not None and observation.workload.in_rollback


def _has_nothing_to_resize(observation: Observation) -> bool:
    """Other resources were given up before the release could begin: every group has those of the template."""
    workload = observation.workload
    undone = workload is not None and workload.in_place and workload.in_progress and workload.in_rollback
    return undone and observation.state.progress is not None


def first_progress(observation: Observation) -> ReleaseProgress:
    workload, before = observation.workload, observation.state.progress
    assert workload is not None
    fresh = ReleaseProgress(
        observed_workload_generation=workload.generation,
        observed_rollout_id=workload.release_id,
        rollout_hash=observation.plan_hash,
        stable_revision=workload.stable_revision,
        revision=workload.canary_revision,
        revision_key=workload.revision_key,
        workload_uid=workload.uid,
        current_step_index=1,
        next_step_index=step_arithmetic.next_index(1, len(observation.steps)),
        current_step_state=rollout_labels.BEFORE_UPGRADE,
        last_update_time=observation.stamp,
    )
    verdict = step_analysis.verdict_at_beginning(observation.judgement, 1) or ""
    if before is not None and _as_begun(before) == _as_begun(fresh):
        return msgspec.structs.replace(before, analysis_result=verdict)
    return msgspec.structs.replace(fresh, analysis_attempt=_next_attempt(observation), analysis_result=verdict)


def _next_attempt(observation: Observation) -> int:
    """One that no analysis and no override was made for yet. The status of a Rollout begins anew when its workload is
    gone, but the runs stay."""
    before, judgement = observation.state.progress, observation.judgement
    return 1 + max(
        before.analysis_attempt if before is not None else 0,
        judgement.latest_attempt if judgement is not None else 0,
    )


def _as_begun(progress: ReleaseProgress) -> ReleaseProgress:
    """Without what differs between two looks at a release that begins."""
    return msgspec.structs.replace(
        progress, last_update_time="", analysis_attempt=0, analysis_result="", announced_wait="", missing_replicas=0
    )


def _checked(observation: Observation, result: ActionResult) -> ReleaseDecision:
    """The references of the Rollout were checked."""
    state = observation.state
    if observation.routed:
        state, _ = with_references(state, result, observation.now)
    if not isinstance(result, Done):
        return _not_initialized(state, result)
    if (held := _held_by_analysis(observation.with_state(state))) is not None:
        return held
    if (held := _held_by_capacity(observation.with_state(state))) is not None:
        return held
    if (left := observation.settle_left) > 0:
        return ReleaseDecision(state, requeue=left, events=result.events)
    if observation.rollout.traffic_routing and not observation.in_place:
        return ReleaseDecision(state, JoinTrafficRouting(), events=result.events)
    return _begun(observation.with_state(state), result)


def _held_by_analysis(observation: Observation) -> ReleaseDecision | None:
    """A ReleaseAnalysis that is missing or invalid is found out before the first new pod exists."""
    judgement = observation.judgement
    if judgement is None or not judgement.problem:
        return None
    observation, events = step_state_machine.with_analysis(observation)
    text = messages.analysis_holds_beginning(judgement.problem)
    return ReleaseDecision(with_message(observation.state, text), requeue=rollout_labels.RECHECK, events=events)


def _held_by_capacity(observation: Observation) -> ReleaseDecision | None:
    """A release that requires room does not begin without it, nor while it is unknown whether there is any."""
    if not observation.requires_capacity:
        return None
    match observation.forecast:
        case ForecastUnknown(problem=problem):
            text, missing = messages.capacity_unknown(problem), 0
        case ReleaseForecast() as found if not found.has_room:
            text, missing = messages.too_little_capacity(found), found.extra_replicas - (found.fitting or 0)
        case _:
            return None
    state, events = with_wait(
        with_message(observation.state, text), ReleaseWait.CAPACITY, messages.capacity_missing(text), missing
    )
    return ReleaseDecision(state, requeue=CAPACITY_SECONDS, events=events)


def _with_forecast(observation: Observation, state: State) -> tuple[State, tuple[ReleaseEvent, ...]]:
    """The condition Capacity by the forecast of this release, and an event where nodes have too little room."""
    found, name = observation.forecast, rollout_labels.CAPACITY_CONDITION
    match found:
        case None:
            return msgspec.structs.replace(state, conditions=without(state.conditions, name)), ()
        case ForecastUnknown(problem=problem):
            text = messages.forecast_unknown(problem)
            return with_condition(state, name, "Unknown", rollout_labels.NOT_READABLE, text, observation.now), ()
    text = messages.release_forecast(found)
    if found.has_room:
        return with_condition(state, name, "True", rollout_labels.ROOM_FOR_ALL, text, observation.now), ()
    state = with_condition(state, name, "False", messages.EventReason.CAPACITY_MISSING, text, observation.now)
    return state, (messages.capacity_missing(text),)


def _not_initialized(state: State, result: Waiting | Problem) -> ReleaseDecision:
    match result:
        case Problem():
            events = (*result.events, messages.initialize_failed(result.text))
            return ReleaseDecision(with_message(state, result.text), requeue=rollout_labels.RECHECK, events=events)
        case Waiting():
            said = with_message(state, result.text or state.message)
            return ReleaseDecision(said, requeue=result.seconds or rollout_labels.RECHECK, events=result.events)


def _begun(observation: Observation, result: Done) -> ReleaseDecision:
    begun = with_reason(observation.state, rollout_labels.IN_ROLLING, messages.IN_PROGRESS, observation.now)
    begun, events = _with_forecast(observation, begun)
    started = messages.step_started(1, len(observation.steps))
    return ReleaseDecision(begun, requeue=0.0, events=(*result.events, *events, started))


# InRolling


def _in_rolling(observation: Observation) -> ReleaseDecision:
    changed = _changed_version(observation)
    if changed is not None:
        return changed
    if observation.rollout.spec.strategy.paused and not step_state_machine.fails_while_paused(observation):
        paused = with_reason(observation.state, rollout_labels.REASON_PAUSED, messages.PAUSED_BY_USER, observation.now)
        return ReleaseDecision(paused)
    progress = observation.progress
    if progress.rollout_hash and progress.rollout_hash != observation.plan_hash:
        return _plan_changed(observation)
    if progress.current_step_state == rollout_labels.COMPLETED:
        if (unproved := step_state_machine.guarded(observation)) is not None:
            return unproved
        state = with_reason(observation.state, rollout_labels.FINALISING, messages.FINALISING, observation.now)
        return ReleaseDecision(state.with_progress(finalising_step=""), requeue=0.0)
    return step_state_machine.decide(observation.with_state(_observed(observation)))


def _observed(observation: Observation) -> State:
    """Ids and generation follow the workload as long as it has the recorded version."""
    workload, progress = observation.workload, observation.progress
    if workload is None or workload.canary_revision != progress.revision or workload.in_rollback:
        return observation.state
    state = observation.state
    if progress.announced_wait == ReleaseWait.ROLLBACK:
        state = without_wait(state)
    return state.with_progress(
        observed_rollout_id=workload.release_id, observed_workload_generation=workload.generation
    )


def _changed_version(observation: Observation) -> ReleaseDecision | None:
    """The user has put another template on the workload: the stable one again, or a third one."""
    if _goes_back(observation):
        return _rolled_back(observation)
    return _superseded(observation) if is_superseded(observation) else None


def is_superseded(observation: Observation) -> bool:
    """The template is a third one."""
    other = observation.has_other_version and not _goes_back(observation)
    return other and bool(observation.progress.revision)


def _rolled_back(observation: Observation) -> ReleaseDecision:
    assert observation.workload is not None
    events = [messages.ROLLBACK_STARTED]
    if observation.rollout.metadata.annotations.get(rollout_labels.ROLLBACK_IN_BATCH) == "true":
        events.append(messages.ROLLBACK_IN_BATCH_IGNORED)
    state = with_reason(observation.state, rollout_labels.CANCELLING, messages.CANCELLING, observation.now)
    state = state.with_progress(revision=observation.workload.canary_revision, finalising_step="")
    return ReleaseDecision(state, requeue=0.0, events=tuple(events))


def _superseded(observation: Observation) -> ReleaseDecision:
    """The release of the version in between ends, and begins anew with the newest one."""
    if not (observation.extra_workload or observation.in_place or observation.rollout.partitioned):
        state = with_message(observation.state, messages.NEW_VERSION_DURING_BLUE_GREEN)
        state, events = with_wait(state, ReleaseWait.ROLLBACK, messages.NEWER_VERSION)
        return ReleaseDecision(state, events=events)
    steps = finalizing.order(EndReason.SUPERSEDED, observation)
    begun = observation.progress.finalising_step in steps and observation.state.reason == rollout_labels.IN_ROLLING
    if not begun:
        state = with_reason(observation.state, rollout_labels.IN_ROLLING, messages.IN_PROGRESS, observation.now)
        state = with_message(state, messages.REMOVING_SUPERSEDED_VERSION)
        state = state.with_progress(finalising_step=steps[0])
        return ReleaseDecision(state, requeue=0.0, events=(messages.NEWER_VERSION,))
    return _restarted(observation, finalizing.decide(observation, EndReason.SUPERSEDED))


def _restarted(observation: Observation, found: FinalizingDecision) -> ReleaseDecision:
    if not found.done:
        return found.decision
    text = messages.RESTARTED_WITH_NEWEST_VERSION
    state = with_reason(found.decision.state, rollout_labels.INITIALIZING, text, observation.now)
    fresh = msgspec.structs.replace(state, progress=first_progress(observation.with_state(state)))
    events = (*found.decision.events, messages.SUPERSEDED)
    return ReleaseDecision(fresh, requeue=0.0, events=events, outcome=ReleaseOutcome.SUPERSEDED)


def _plan_changed(observation: Observation) -> ReleaseDecision:
    """The step that fits what has been released already; the current one is tried first."""
    progress, count = observation.progress, len(observation.steps)
    target = fitting_step(observation)
    state = observation.state.with_progress(rollout_hash=observation.plan_hash)
    if target == progress.next_step_index:
        state = state.with_progress(current_step_state=rollout_labels.READY, last_update_time=observation.stamp)
        return ReleaseDecision(state, requeue=0.0)
    jump = step_state_machine.jump_to(observation.with_state(state), target)
    return msgspec.structs.replace(jump, events=(messages.plan_changed(target, count),))


def fitting_step(observation: Observation) -> int:
    release, count = observation.release, len(observation.steps)
    if release is None or release.plan.batch_partition is None or not release.plan.batches:
        return 1
    replicas = observation.workload.replicas if observation.workload is not None else 0
    place = min(release.plan.batch_partition, len(release.plan.batches) - 1)
    reached = observation.rollout.planned(release.plan.batches[place].canary_replicas, replicas)
    candidates: list[int] = [min(max(observation.progress.current_step_index, 1), count), *range(1, count + 1)]
    for index in candidates:
        if observation.planned(observation.steps[index - 1]) >= reached:
            return int(index)
    return count


# Paused, Finalising, Cancelling


def _paused(observation: Observation) -> ReleaseDecision:
    if _goes_back(observation):
        return _rolled_back(observation)
    if step_state_machine.fails_while_paused(observation):
        return ReleaseDecision(
            with_reason(observation.state, rollout_labels.IN_ROLLING, messages.IN_PROGRESS, observation.now),
            requeue=0.0,
        )
    if observation.rollout.spec.strategy.paused:
        return ReleaseDecision(observation.state)
    resumed = with_reason(observation.state, rollout_labels.IN_ROLLING, messages.IN_PROGRESS, observation.now)
    if (text := step_state_machine.withdrawal_message(observation)) is not None:
        resumed = with_message(resumed, text)
    return ReleaseDecision(resumed, requeue=0.0)


def _finalising(observation: Observation, found: FinalizingDecision) -> ReleaseDecision:
    if not found.done:
        return found.decision
    state = with_condition(
        found.decision.state,
        rollout_labels.SUCCEEDED,
        "True",
        rollout_labels.COMPLETED,
        messages.COMPLETED,
        observation.now,
    )
    state = with_reason(state, ProgressingReason.COMPLETED, messages.COMPLETED, observation.now, status="False")
    state = state.with_progress(current_step_state=rollout_labels.COMPLETED, next_step_index=step_arithmetic.NO_STEP)
    events = (*found.decision.events, messages.STABLE_PROMOTED)
    return ReleaseDecision(state, requeue=0.0, events=events, outcome=ReleaseOutcome.SUCCEEDED)


def _cancelling(observation: Observation, found: FinalizingDecision) -> ReleaseDecision:
    if not found.done:
        return found.decision
    state = with_condition(
        found.decision.state,
        rollout_labels.SUCCEEDED,
        "False",
        rollout_labels.COMPLETED,
        messages.CANCELED,
        observation.now,
    )
    state = with_reason(state, ProgressingReason.COMPLETED, messages.CANCELED, observation.now, status="False")
    state = state.with_progress(current_step_state=rollout_labels.COMPLETED, next_step_index=step_arithmetic.NO_STEP)
    events = (*found.decision.events, messages.ROLLED_BACK)
    return ReleaseDecision(state, requeue=0.0, events=events, outcome=ReleaseOutcome.ROLLED_BACK)


def _without_workload(observation: Observation) -> ReleaseDecision:
    """The workload was deleted: routes and Services are put back, and the canary is deleted, all the same."""
    return _workload_gone(observation, finalizing.decide(observation, EndReason.DELETED))


def _workload_gone(observation: Observation, found: FinalizingDecision) -> ReleaseDecision:
    if not found.done:
        return found.decision
    events = (*found.decision.events, messages.WORKLOAD_GONE)
    return ReleaseDecision(WITHOUT_WORKLOAD, events=events, outcome=ReleaseOutcome.DELETED)
