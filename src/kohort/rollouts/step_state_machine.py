"""Decides the states of a step, for canary and blue-green.

| state | guard | act | next |
|---|---|---|---|
| BeforeStepUpgrade | the step routes nothing | – | StepUpgrade |
| BeforeStepUpgrade | partition style, the step leaves no old pod | unpin the stable Service | StepUpgrade when done |
| BeforeStepUpgrade | step 1, and a canary Service is generated | pin the stable Service | StepUpgrade when done |
| BeforeStepUpgrade | otherwise | – | StepUpgrade |
| StepUpgrade | no BatchRelease, or another plan | write it | StepUpgrade |
| StepUpgrade | its plan is not observed, or its batch not ready | – | StepUpgrade |
| StepUpgrade | its batch is ready | – | StepTrafficRouting |
| StepTrafficRouting | partition style, no old pod is left | – | StepMetricsAnalysis |
| StepTrafficRouting | otherwise | route | StepMetricsAnalysis when done |
| StepMetricsAnalysis | `step_analysis.analyse` passes | – | StepPaused |
| StepMetricsAnalysis, StepPaused | it fails | – | StepUpgrade, where the canary is withdrawn |
| StepPaused, StepReady | it does not pass any more, or was never asked | – | StepMetricsAnalysis |
| StepPaused | the user overrode the analysis | – | StepReady |
| StepPaused | another client changed the routes | – | StepTrafficRouting |
| StepPaused | canary, last step, replicas exactly "100%" | – | StepReady |
| StepPaused | no duration | – | StepPaused, until approved |
| StepPaused | duration over | – | StepReady |
| StepReady | not the last step | – | BeforeStepUpgrade of the next |
| StepReady | the last step | – | Completed |

Before any of it: a changed nextStepIndex is a jump, if `step_analysis.may_jump` permits it; and a step that routes
nothing first gives back what an earlier step has routed.
"""

from typing import Final

import msgspec

from kohort.rollouts import messages, step_analysis, step_arithmetic
from kohort.rollouts.action_result import ActionResult, Done, Problem, Waiting
from kohort.rollouts.messages import EventReason, ReleaseEvent, Withdrawal
from kohort.rollouts.release_actions import (
    Action,
    DeleteRelease,
    RestoreCanary,
    ShrinkToBatch,
    WithdrawCanary,
    WriteRelease,
)
from kohort.rollouts.release_state import (
    Observation,
    ReleaseDecision,
    ReleaseWait,
    State,
    with_condition,
    with_grace_times,
    with_message,
    with_references,
    with_wait,
    without_wait,
)
from kohort.rollouts.rollout_types import Batch, ReleasePlan
from kohort.rollouts.step_analysis import AnalysisHeld, AnalysisReason, AnalysisRunning, Failed, Passed, StepResult
from kohort.rollouts.traffic.actions import (
    PinStableService,
    RemoveCanaryService,
    RouteAllToStable,
    RouteStep,
    TrafficAction,
    UnpinStableService,
)
from kohort.rollouts.traffic.draining import drain_timeout
from kohort.rules import rollout_labels
from kohort.rules.group_identity import parse_index

OVERDUE_SECONDS: Final = 30.0
"""After so long an event, too, says what a step waits for. Until then its pods are just starting."""
_RESTORE_ROUTES: Final[tuple[TrafficAction, ...]] = (UnpinStableService(), RouteAllToStable(), RemoveCanaryService())


def decide(observation: Observation) -> ReleaseDecision:
    observation = observation.with_state(refreshed(observation))
    observation, events = with_analysis(observation)
    decision = _decide(observation)
    return msgspec.structs.replace(decision, events=(*events, *decision.events)) if events else decision


def _decide(observation: Observation) -> ReleaseDecision:
    canary_lost = _canary_lost(observation)
    if canary_lost is not None:
        return canary_lost
    jump = jumped(observation)
    if jump is not None:
        return jump
    renamed = _with_new_rollout_id(observation)
    if renamed is not None:
        return ReleaseDecision(observation.state, WriteRelease(renamed))
    if not observation.step.routes and observation.routed:
        return ReleaseDecision(observation.state, _RESTORE_ROUTES[0])
    return _decide_in_state(observation)


def _with_new_rollout_id(observation: Observation) -> ReleasePlan | None:
    """The user gave the release another id: its BatchRelease gets it too, and pods their labels anew."""
    release, name = observation.release, observation.progress.observed_rollout_id
    if (
        release is None
        or release.plan.rollout_id == name
        or observation.progress.current_step_state == rollout_labels.UPGRADE
    ):
        return None
    return msgspec.structs.replace(release.plan, rollout_id=name)


def _canary_lost(observation: Observation) -> ReleaseDecision | None:
    """A user deleted the BatchRelease or the canary. Traffic goes back before either may vanish; then the step is made
    again."""
    release, workload = observation.release, observation.workload
    cursor = observation.progress.finalising_step
    gone = workload is not None and workload.canary_lost
    if release is not None and (release.metadata.deleting or gone):
        if cursor != rollout_labels.RELEASE_CONTROL:
            return ReleaseDecision(observation.state, RouteAllToStable())
        action = None if release.metadata.deleting else DeleteRelease()
        return ReleaseDecision(observation.state, action, requeue=rollout_labels.RECHECK)
    if cursor == rollout_labels.RELEASE_CONTROL and release is None:
        state = observation.state.with_progress(finalising_step="", pod_template_hash="", canary_name="")
        return _enter(observation.with_state(state), rollout_labels.BEFORE_UPGRADE)
    return None


def _decide_in_state(observation: Observation) -> ReleaseDecision:
    state = observation.progress.current_step_state
    if state == rollout_labels.BEFORE_UPGRADE:
        return _before_upgrade(observation)
    if state == rollout_labels.UPGRADE:
        return _upgrade(observation)
    if state == rollout_labels.ROUTING:
        if observation.in_place or observation.all_replaced:
            return _enter(observation, rollout_labels.ANALYSIS)
        if _drains_before_shrinking(observation):
            return ReleaseDecision(observation.state, RouteAllToStable())
        return ReleaseDecision(observation.state, RouteStep())
    if state == rollout_labels.ANALYSIS:
        return _analyse(observation)
    if state == rollout_labels.PAUSED:
        return _paused(observation)
    if state == rollout_labels.READY:
        return _ready(observation)
    return ReleaseDecision(observation.state)


def decide_after(observation: Observation, action: Action, result: ActionResult) -> ReleaseDecision:
    state = with_grace_times(observation.state, result)
    observation = observation.with_state(state)
    match result:
        case Problem():
            if observation.rollout.strategy.traffic_routings:
                state, _ = with_references(state, result, observation.now)
            events = (*result.events, messages.route_failed(result.text))
            return ReleaseDecision(with_message(state, result.text), requeue=rollout_labels.RECHECK, events=events)
        case Waiting():
            return _wait_for_traffic(observation, action, result)
        case Done():
            return _after_done(observation, action, result)


def _wait_for_traffic(observation: Observation, action: Action, result: Waiting) -> ReleaseDecision:
    state = observation.state
    if isinstance(action, RouteStep) and result.changed:
        state = state.with_progress(last_update_time=observation.stamp)
    shrinking = isinstance(action, RouteAllToStable) and _drains_before_shrinking(observation)
    if (shrinking or isinstance(action, RouteStep | PinStableService)) and result.text:
        index, count = _place(observation)
        state = with_message(state, messages.routing(index, count, result.text))
    return ReleaseDecision(state, requeue=result.seconds, events=result.events)


def _after_done(observation: Observation, action: Action, result: Done) -> ReleaseDecision:
    state, events = observation.state, result.events
    match action:
        case WithdrawCanary():
            more = messages.withdrawn(way_of_withdrawal(observation))
            said = state if _failed_analysis(observation) else with_message(state, f"{state.message}; {more}")
            return ReleaseDecision(said, requeue=rollout_labels.RECHECK, events=events)
        case DeleteRelease() | RestoreCanary():
            return ReleaseDecision(state, requeue=rollout_labels.RECHECK, events=events)
        case RouteAllToStable() if _canary_lost(observation) is not None:
            released = state.with_progress(finalising_step=rollout_labels.RELEASE_CONTROL)
            return ReleaseDecision(released, requeue=0.0, events=events)
        case RouteAllToStable() if _withdraws(observation):
            return ReleaseDecision(state, WithdrawCanary(), events=(*events, _withdrawal(observation)))
        case RouteAllToStable() if _drains_before_shrinking(observation):
            return ReleaseDecision(state, ShrinkToBatch(), events=events)
        case UnpinStableService() if observation.step.routes:
            return _enter(observation, rollout_labels.UPGRADE, events)
        case UnpinStableService() | RouteAllToStable() | RemoveCanaryService():
            return _routes_restored(observation, action, result)
        case PinStableService():
            return _enter(observation, rollout_labels.UPGRADE, events)
        case RouteStep():
            if observation.rollout.strategy.traffic_routings:
                state, _ = with_references(state, result, observation.now)
                observation = observation.with_state(state)
            events = (*events, *_traffic_shifted(observation))
            if _too_large(observation):
                return ReleaseDecision(state, ShrinkToBatch(), events=events)
            return _enter(observation, rollout_labels.ANALYSIS, events)
        case ShrinkToBatch() if _drains_before_shrinking(observation):
            # The step is routed when the canary has the size that the step wants.
            return ReleaseDecision(state, requeue=rollout_labels.RECHECK, events=events)
        case ShrinkToBatch():
            return _enter(observation, rollout_labels.ANALYSIS, events)
        case _:
            return ReleaseDecision(state, events=events)


def _too_large(observation: Observation) -> bool:
    """A jump back left more replicas than the step wants, and the user would rather have them back. Traffic has moved
    by now, and its grace period has passed."""
    if (
        observation.rollout.metadata.annotations.get(rollout_labels.SCALE_DOWN_ON_JUMP) != "true"
        or observation.release is None
        or observation.in_place
    ):
        return False
    return observation.progress.replicas > observation.planned(observation.step)


def _drains_before_shrinking(observation: Observation) -> bool:
    """Which pods go cannot be said to the Service, so requests in flight are waited for without any traffic."""
    return (
        observation.progress.current_step_state == rollout_labels.ROUTING
        and observation.routed
        and drain_timeout(observation.rollout.strategy.traffic_routings) > 0
        and _too_large(observation)
    )


def _routes_restored(observation: Observation, action: TrafficAction, result: Done) -> ReleaseDecision:
    rest = _RESTORE_ROUTES[_RESTORE_ROUTES.index(action) + 1 :]
    if result.changed:
        return ReleaseDecision(observation.state, requeue=0.0, events=result.events)
    return ReleaseDecision(observation.state, rest[0], events=result.events) if rest else _decide_in_state(observation)


def _traffic_shifted(observation: Observation) -> tuple[ReleaseEvent, ...]:
    step = observation.step
    if not step.routes or not observation.routed:
        return ()
    service = observation.rollout.strategy.traffic_routings[0].service
    share = f"{step.traffic}" if step.traffic and not step.matches else f"{len(step.matches)} match(es)"
    return (messages.traffic_shifted(observation.progress.current_step_index, share, service),)


# Before a step


def refreshed(observation: Observation) -> State:
    """The state with what the BatchRelease and the workload say now."""
    progress, release, workload = observation.progress, observation.release, observation.workload
    changes: dict[str, object] = {}
    if release is not None:
        batch = release.status.canary_status
        changes["message"] = messages.batch_progress(
            batch.batch_state,
            progress.observed_rollout_id,
            batch.current_batch + 1,
            release.status.message,
            workload.remark if workload is not None else "",
        )
        changes["replicas"] = batch.updated_replicas
        changes["ready_replicas"] = batch.updated_ready_replicas
    if workload is not None:
        if not progress.pod_template_hash:
            changes["pod_template_hash"] = workload.pod_template_hash
        if workload.canary_name and workload.canary_name != progress.canary_name:
            # A canary that was made anew has another name, and perhaps another hash.
            changes["canary_name"] = workload.canary_name
            changes["pod_template_hash"] = workload.pod_template_hash
    return observation.state.with_progress(**changes)


def jumped(observation: Observation) -> ReleaseDecision | None:
    """The user set another next step. A value that names no step is put right, so that the status never lies."""
    progress, count = observation.progress, len(observation.steps)
    regular = step_arithmetic.next_index(progress.current_step_index, count)
    target = progress.next_step_index
    if target == regular:
        return None
    if not 1 <= target <= count:
        state = observation.state.with_progress(next_step_index=regular)
        return ReleaseDecision(state, requeue=0.0, events=(messages.jump_refused(target, count),))
    if not step_analysis.may_jump(progress, target):
        state = observation.state.with_progress(next_step_index=regular)
        event = messages.jump_before_verdict(target, *_place(observation))
        return ReleaseDecision(state, requeue=0.0, events=(event,))
    return jump_to(observation, target)


def jump_to(observation: Observation, target: int) -> ReleaseDecision:
    count = len(observation.steps)
    enough = observation.planned(observation.steps[target - 1]) == observation.progress.replicas
    state = observation.state.with_progress(
        current_step_index=target,
        next_step_index=step_arithmetic.next_index(target, count),
        current_step_state=rollout_labels.ROUTING if enough else rollout_labels.BEFORE_UPGRADE,
        last_update_time=observation.stamp,
        timed_out_step=0,
        analysis_attempt=observation.progress.analysis_attempt + 1,
        analysis_result=step_analysis.verdict_at_beginning(observation.judgement, target) or "",
    )
    return ReleaseDecision(without_wait(state), requeue=0.0, events=(messages.jumped(target, count),))


# The states


def _before_upgrade(observation: Observation) -> ReleaseDecision:
    if observation.step.routes and observation.routed and observation.all_replaced:
        return ReleaseDecision(observation.state, UnpinStableService())
    pinned = not observation.rollout.strategy.disable_generate_canary_service
    first = observation.progress.current_step_index == 1
    if observation.step.routes and first and pinned and observation.routed:
        return ReleaseDecision(observation.state, PinStableService())
    return _enter(observation, rollout_labels.UPGRADE)


def _upgrade(observation: Observation) -> ReleaseDecision:
    index, release = observation.progress.current_step_index, observation.release
    state, events, requeue = _waiting(observation)
    plan = wanted_plan(observation, index - 1)
    if release is None or release.plan != plan:
        return ReleaseDecision(state, WriteRelease(plan), requeue, events)
    if _withdraws(observation):
        if observation.in_place and not _withdrawn(observation):
            return ReleaseDecision(state, WithdrawCanary(), requeue, (*events, _withdrawal(observation)))
        return ReleaseDecision(state, None if _withdrawn(observation) else RouteAllToStable(), requeue, events)
    if _withdrawn(observation):
        return ReleaseDecision(state, RestoreCanary(), requeue, events)
    batch = release.status.canary_status
    if (
        not _plan_is_observed(observation)
        or batch.batch_state != rollout_labels.BATCH_READY
        or batch.current_batch + 1 < index
    ):
        return ReleaseDecision(state, requeue=requeue, events=events)
    if observation.workload is not None:
        state = state.with_progress(pod_template_hash=observation.workload.pod_template_hash)
    return _enter(observation.with_state(state), rollout_labels.ROUTING, (messages.step_upgraded(index),))


def _plan_is_observed(observation: Observation) -> bool:
    """What the BatchRelease says is about the plan that it has now."""
    release = observation.release
    return (
        release is not None
        and release.status.observed_release_plan_hash == observation.release_hash
        and release.status.observed_generation >= release.metadata.generation
    )


def _allowed_seconds(observation: Observation) -> int:
    """How long a step may take by the user's word; 0 without one."""
    return parse_index(observation.rollout.metadata.annotations.get(rollout_labels.STEP_TIMEOUT)) or 0


def _timed_out(observation: Observation) -> bool:
    allowed = _allowed_seconds(observation)
    return allowed > 0 and observation.seconds_until(observation.progress.last_update_time, allowed) == 0


def _withdraws(observation: Observation) -> bool:
    """The user wants a version that is not ready in time to be taken back: traffic to stable, no replicas of it. The
    template stays theirs; with the old one, another one, or more time, the release goes on."""
    if observation.progress.current_step_state == rollout_labels.UPGRADE and _failed_analysis(observation):
        return True
    action = observation.rollout.metadata.annotations.get(rollout_labels.STEP_TIMEOUT_ACTION, "")
    return (
        action == "rollback"
        and observation.progress.current_step_state == rollout_labels.UPGRADE
        and _timed_out(observation)
    )


def _waiting(observation: Observation) -> tuple[State, tuple[ReleaseEvent, ...], float | None]:
    """What a step reports while its replicas are brought up, and when it has more to report at the latest.

    It reports what it waits for in its message; after a while by an event, too; and when it takes longer than the user
    allowed, that it does."""
    release = observation.release
    waiting_for = release.status.message if release is not None and _plan_is_observed(observation) else ""
    found = analysis_of(observation)
    if isinstance(found, Failed):
        text = messages.analysis_failed(*_place(observation), found.text, way_of_withdrawal(observation))
        return with_message(observation.state, text), (), None
    if _timed_out(observation):
        return _overdue(observation, waiting_for)
    index, count = _place(observation)
    state = with_message(observation.state, messages.upgrading(index, count, waiting_for, _forecast(observation)))
    state = state.with_progress(timed_out_step=0)
    since = observation.progress.last_update_time
    quiet = observation.seconds_until(since, OVERDUE_SECONDS)
    allowed = observation.seconds_until(since, _allowed_seconds(observation))
    events = (messages.step_waiting(index, count, waiting_for),) if waiting_for and not quiet else ()
    return state, events, min((left for left in (quiet, allowed) if left > 0), default=None)


def _forecast(observation: Observation) -> str:
    """What was found out before the first step. Later on, what the steps wait for matters more."""
    known = observation.state.condition(rollout_labels.CAPACITY_CONDITION)
    return known.message if known is not None and observation.progress.current_step_index == 1 else ""


def _overdue(observation: Observation, waiting_for: str) -> tuple[State, tuple[ReleaseEvent, ...], None]:
    """The timeout is reported once. A version that was withdrawn has no pods any more: the message keeps what was wrong
    with them."""
    state = observation.state
    if _withdrawn(observation):
        return state, (), None
    index, count = _place(observation)
    text = messages.not_ready_in_time(index, count, _allowed_seconds(observation), waiting_for)
    events = () if observation.progress.timed_out_step == index else (messages.step_timeout(text),)
    return with_message(state, text).with_progress(timed_out_step=index), events, None


def withdrawal_message(observation: Observation) -> str | None:
    """What a Rollout says again when a user resumes it, whose version was withdrawn for not being ready in time."""
    if _withdrawn(observation) and _timed_out(observation):
        return _not_ready_in_time(observation).message
    return None


def _withdrawn(observation: Observation) -> bool:
    release = observation.release
    return release is not None and rollout_labels.WITHDRAWN in release.metadata.annotations


def _not_ready_in_time(observation: Observation) -> ReleaseEvent:
    return messages.not_ready_in_time_event(way_of_withdrawal(observation))


def _place(observation: Observation) -> tuple[int, int]:
    """The current step, from 1, and how many there are."""
    return observation.progress.current_step_index, len(observation.steps)


def wanted_plan(observation: Observation, batch: int) -> ReleasePlan:
    """The plan that the BatchRelease should have while this batch is the last one allowed."""
    rollout, strategy = observation.rollout, observation.rollout.strategy
    return ReleasePlan(
        batches=tuple(Batch(step.replicas or 0) for step in strategy.steps),
        batch_partition=batch,
        rollout_id=observation.progress.observed_rollout_id,
        failure_threshold=strategy.failure_threshold,
        patch_pod_template_metadata=strategy.patch_pod_template_metadata,
        rolling_style=rollout.style,
        enable_extra_workload_for_canary=strategy.enable_extra_workload_for_canary,
    )


# Analysis


def analysis_of(observation: Observation) -> StepResult:
    return step_analysis.analyse(observation.judgement, observation.progress.current_step_index)


def _failed_analysis(observation: Observation) -> bool:
    return isinstance(analysis_of(observation), Failed)


def fails_while_paused(observation: Observation) -> bool:
    """The analysis has failed and the canary is not withdrawn yet: a pause by the user does not stop that."""
    return _failed_analysis(observation) and not _withdrawn(observation)


def way_of_withdrawal(observation: Observation) -> Withdrawal:
    """What becomes of the replicas of the new version.

    | the new version lives in           |                                          | so                     |
    |------------------------------------|------------------------------------------|------------------------|
    | groups that were resized in place  |                                          | `RESOURCES_RESTORED`   |
    | a workload of its own              |                                          | `CANARY_SCALED_DOWN`   |
    | one Deployment, blue-green         | steps route requests                     | `PODS_STAY`            |
    | one Deployment, blue-green         | otherwise                                | `PODS_STAY_IN_USE`     |
    | one StatefulSet                    | it failed its analysis with all replaced | `NO_OLD_POD_LEFT`      |
    | one Deployment or StatefulSet      | otherwise                                | `PODS_GO_BACK`         |

    The controller of Deployments does not shrink a new version because its surge becomes smaller, and that of a
    StatefulSet knows no other version once all pods of the new one were ready."""
    rollout = observation.rollout
    if observation.in_place:
        return Withdrawal.RESOURCES_RESTORED
    if observation.extra_workload:
        return Withdrawal.CANARY_SCALED_DOWN
    if rollout.blue_green:
        return Withdrawal.PODS_STAY if observation.routed else Withdrawal.PODS_STAY_IN_USE
    if rollout.spec.workload_ref.is_stateful_set and observation.all_replaced and _failed_analysis(observation):
        return Withdrawal.NO_OLD_POD_LEFT
    return Withdrawal.PODS_GO_BACK


def _withdrawal(observation: Observation) -> ReleaseEvent:
    found = analysis_of(observation)
    if isinstance(found, Failed):
        text = f"{found.text}; {messages.failed_and_withdrawn(way_of_withdrawal(observation))}"
        return messages.analysis_event(EventReason.WITHDRAWN, *_place(observation), text)
    return _not_ready_in_time(observation)


_ANALYSIS_EVENTS: Final = {
    AnalysisReason.PASSED: EventReason.ANALYSIS_PASSED,
    AnalysisReason.FAILED: EventReason.ANALYSIS_FAILED,
    AnalysisReason.HELD: EventReason.ANALYSIS_HELD,
    AnalysisReason.NOT_FOUND: EventReason.ANALYSIS_HELD,
    AnalysisReason.INVALID: EventReason.ANALYSIS_HELD,
    AnalysisReason.OVERRIDDEN: EventReason.ANALYSIS_OVERRIDDEN,
}


def with_analysis(observation: Observation) -> tuple[Observation, tuple[ReleaseEvent, ...]]:
    """The condition Analysis and the recorded verdict as they should be now, and an event when the verdict has
    changed."""
    judgement = observation.judgement
    index, count = _place(observation)
    state = observation.state.with_progress(analysis_result=step_analysis.verdict(judgement, index) or "")
    observation = observation.with_state(state)
    if judgement is None:
        return observation, ()
    status, reason, text = step_analysis.condition(judgement, index)
    old = state.condition(rollout_labels.ANALYSIS_CONDITION)
    if old is not None and (old.status, old.reason, old.message) == (status, reason, text):
        return observation, ()
    same_verdict = old is not None and old.reason == reason and observation.progress.judged_step == index
    is_news = not same_verdict or bool(judgement.problem)
    state = with_condition(state, rollout_labels.ANALYSIS_CONDITION, status, reason, text, observation.now)
    event = _ANALYSIS_EVENTS.get(reason)
    events = (messages.analysis_event(event, index, count, text),) if event and is_news else ()
    return observation.with_state(state.with_progress(judged_step=index)), events


def _analyse(observation: Observation) -> ReleaseDecision:
    index, count = _place(observation)
    match analysis_of(observation):
        case Passed():
            return _enter(observation, rollout_labels.PAUSED, keep_time=True)
        case AnalysisRunning(text=text):
            return ReleaseDecision(with_message(observation.state, messages.analysing(index, count, text)))
        case AnalysisHeld(text=text):
            return ReleaseDecision(with_message(observation.state, messages.analysis_held(index, count, text)))
        case Failed():
            return _enter(observation, rollout_labels.UPGRADE)


def guarded(observation: Observation) -> ReleaseDecision | None:
    """A step that is about to go on, although its analysis does not say so (any more)."""
    match analysis_of(observation):
        case Passed():
            return None
        case Failed():
            return _enter(observation, rollout_labels.UPGRADE)
        case _:
            ignored = observation.progress.current_step_state != rollout_labels.PAUSED
            events = (messages.approval_ignored(*_place(observation)),) if ignored else ()
            return _enter(observation, rollout_labels.ANALYSIS, events, keep_time=True)


def _paused(observation: Observation) -> ReleaseDecision:
    index, count = _place(observation)
    if (unproved := guarded(observation)) is not None:
        return unproved
    if analysis_of(observation) == Passed(overridden=True):
        return _enter(observation, rollout_labels.READY)
    if observation.drift:
        return _enter(observation, rollout_labels.ROUTING, (messages.routes_changed(index, count, observation.drift),))
    if observation.rollout.skips_pause(index):
        return _enter(observation, rollout_labels.READY)
    duration = observation.step.pause_seconds
    if duration is None:
        text = messages.needs_approval(index, count)
        state = with_message(observation.state, text)
        state, events = with_wait(state, ReleaseWait.APPROVAL, messages.step_needs_approval(text))
        return ReleaseDecision(state, events=events)
    left = observation.seconds_until(observation.progress.last_update_time, duration)
    if left > 0:
        state = with_message(without_wait(observation.state), messages.pausing(index, count, duration))
        return ReleaseDecision(state, requeue=left)
    return _enter(observation, rollout_labels.READY)


def _ready(observation: Observation) -> ReleaseDecision:
    index, count = _place(observation)
    if (unproved := guarded(observation)) is not None:
        return unproved
    if index >= count:
        return _enter(observation, rollout_labels.COMPLETED)
    state = observation.state.with_progress(
        current_step_index=index + 1,
        next_step_index=step_arithmetic.next_index(index + 1, count),
        analysis_result=step_analysis.verdict_at_beginning(observation.judgement, index + 1) or "",
    )
    events = (messages.step_started(index + 1, count),)
    return _enter(observation.with_state(state), rollout_labels.BEFORE_UPGRADE, events)


def _enter(
    observation: Observation, step_state: str, events: tuple[ReleaseEvent, ...] = (), *, keep_time: bool = False
) -> ReleaseDecision:
    """Change to another state of the step. The next pass follows at once."""
    changes = {} if keep_time else {"last_update_time": observation.stamp}
    state = observation.state.with_progress(current_step_state=step_state, timed_out_step=0, **changes)
    return ReleaseDecision(without_wait(state), requeue=0.0, events=events)
