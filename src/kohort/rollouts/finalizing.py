"""The end of a release, in order.

The order is what keeps traffic whole. Where the new version lives in a workload of its own, the stable one is at full
size until promotion, so:

| why it ends | order |
|---|---|
| Success | all to the new version, unpin, promote stable, all to stable, canary Service away, release control |
| Success, partition style | unpin, all to stable, canary Service away, lift the hold, release control |
| Rollback | all to stable, lift the hold, release control, unpin when no canary pod is left, canary Service away |
| Another version | all to stable, release control, canary Service away |
| Disabled, Deleting | all to stable, unpin, canary Service away, lift the hold, release control |
| the same, the hold to be kept | all to stable, release control, leave held, unpin, canary Service away |

After the last step of a success no request reaches the old version again, and the pin goes before stable pods change
their revision, or the stable Service would lose its endpoints while it rolls. Where both versions live in one
Deployment, the control is released last in every other order. Before another version the pin of the stable Service
stays, or its pods could be reached before its first step.

Steps that find nothing to do follow each other in one pass; a step that changed something is stored first. Before
another version every step is stored.
"""

from enum import Enum, auto
from typing import Final

import msgspec

from kohort.rollouts import messages
from kohort.rollouts.action_result import DONE, ActionResult, Done, Problem, Waiting
from kohort.rollouts.messages import ReleaseEvent
from kohort.rollouts.release_actions import (
    Action,
    DeleteRelease,
    GrowToFullCapacity,
    LeaveHeld,
    ReleaseHold,
    ResumeRelease,
    WriteRelease,
)
from kohort.rollouts.release_state import Observation, ReleaseDecision, with_grace_times, with_message
from kohort.rollouts.rollout_types import Rollout
from kohort.rollouts.traffic.actions import (
    RemoveCanaryService,
    RouteAllToNew,
    RouteAllToStable,
    TrafficAction,
    UnpinStableService,
)
from kohort.rollouts.traffic.draining import drain_timeout
from kohort.rules import rollout_labels
from kohort.rules.rollout_labels import BatchReleasePhase, FinalizingPolicy


class EndReason(Enum):
    """Why a release ends."""

    SUCCESS = auto()
    ROLLBACK = auto()
    DISABLED = auto()
    DELETED = auto()
    SUPERSEDED = auto()
    """By another version, which is released next."""


_SUCCESS: Final = (
    rollout_labels.TO_NEW,
    rollout_labels.RESTORE_STABLE,
    rollout_labels.RESUME,
    rollout_labels.TO_STABLE,
    rollout_labels.REMOVE_CANARY_SERVICE,
    rollout_labels.RELEASE_CONTROL,
)
_SUCCESS_PARTITIONED: Final = (
    rollout_labels.RESTORE_STABLE,
    rollout_labels.TO_STABLE,
    rollout_labels.REMOVE_CANARY_SERVICE,
    rollout_labels.RESUME,
    rollout_labels.RELEASE_CONTROL,
)
_ROLLBACK: Final = (
    rollout_labels.TO_STABLE,
    rollout_labels.RESUME,
    rollout_labels.RELEASE_CONTROL,
    rollout_labels.RESTORE_STABLE,
    rollout_labels.REMOVE_CANARY_SERVICE,
)
_ROLLBACK_IN_PLACE: Final = (
    rollout_labels.TO_STABLE,
    rollout_labels.RESUME,
    rollout_labels.RESTORE_STABLE,
    rollout_labels.REMOVE_CANARY_SERVICE,
    rollout_labels.RELEASE_CONTROL,
)
_SUPERSEDED: Final = (rollout_labels.TO_STABLE, rollout_labels.RELEASE_CONTROL, rollout_labels.REMOVE_CANARY_SERVICE)
_STOPPED: Final = (
    rollout_labels.TO_STABLE,
    rollout_labels.RESTORE_STABLE,
    rollout_labels.REMOVE_CANARY_SERVICE,
    rollout_labels.RESUME,
    rollout_labels.RELEASE_CONTROL,
)
_STOPPED_AND_HELD: Final = (
    rollout_labels.TO_STABLE,
    rollout_labels.RELEASE_CONTROL,
    rollout_labels.RESTORE_STABLE,
    rollout_labels.REMOVE_CANARY_SERVICE,
)
_TRAFFIC_ACTIONS: Final[dict[str, TrafficAction]] = {
    rollout_labels.TO_NEW: RouteAllToNew(),
    rollout_labels.TO_STABLE: RouteAllToStable(),
    rollout_labels.RESTORE_STABLE: UnpinStableService(),
    rollout_labels.REMOVE_CANARY_SERVICE: RemoveCanaryService(),
}
STALLED_SECONDS: Final = 600


class FinalizingDecision(msgspec.Struct, frozen=True):
    decision: ReleaseDecision
    done: bool = False
    """Nothing is left to do."""


def order(reason: EndReason, observation: Observation) -> tuple[str, ...]:
    if reason is EndReason.SUCCESS:
        return _SUCCESS_PARTITIONED if observation.rollout.partitioned else _SUCCESS
    if reason is EndReason.ROLLBACK:
        return _ROLLBACK if observation.extra_workload else _ROLLBACK_IN_PLACE
    if reason is EndReason.SUPERSEDED:
        return _SUPERSEDED
    return _STOPPED_AND_HELD if observation.keeps_hold else _STOPPED


def decide(observation: Observation, reason: EndReason) -> FinalizingDecision:
    if observation.state.progress is None or observation.progress.finalising_step == rollout_labels.END:
        return FinalizingDecision(ReleaseDecision(observation.state), done=True)
    steps = order(reason, observation)
    if observation.progress.finalising_step not in steps:
        state = observation.state.with_progress(finalising_step=steps[0], last_update_time=observation.stamp)
        observation = observation.with_state(state)
    return _at(observation, reason)


def decide_after(
    observation: Observation, reason: EndReason, action: Action, result: ActionResult
) -> FinalizingDecision:
    state = with_grace_times(observation.state, result)
    match result:
        case Problem():
            events = (*result.events, messages.finalising_failed(result.text))
            said = with_message(state, result.text)
            return FinalizingDecision(ReleaseDecision(said, requeue=rollout_labels.RECHECK, events=events))
        case Waiting(changed=True) if reason is EndReason.SUPERSEDED and isinstance(action, RemoveCanaryService):
            # No route names the canary Service any more, so that its deletion needs no grace period.
            return _next(observation.with_state(state), reason, Done(events=result.events))
        case Waiting():
            said = with_message(state, result.text) if result.text and reason is not EndReason.SUPERSEDED else state
            return FinalizingDecision(ReleaseDecision(said, requeue=result.seconds, events=result.events))
        case Done():
            if isinstance(action, WriteRelease | ResumeRelease | GrowToFullCapacity | DeleteRelease):
                # An event follows when the BatchRelease has changed; should it be lost, the state is looked at again.
                decision = ReleaseDecision(state, requeue=rollout_labels.RECHECK, events=result.events)
                return FinalizingDecision(decision)
            return _next(observation.with_state(state), reason, result)


def _at(observation: Observation, reason: EndReason) -> FinalizingDecision:
    """What the finalising step that the status names does now."""
    step = observation.progress.finalising_step
    if step == rollout_labels.TO_NEW:
        return _route_to_new(observation, reason)
    if step == rollout_labels.RESUME:
        return _resume_workload(observation, reason)
    if step == rollout_labels.RELEASE_CONTROL:
        return _release_control(observation, reason)
    if step == rollout_labels.RESTORE_STABLE and reason is EndReason.ROLLBACK and not observation.canary_gone:
        return _wait(observation, messages.WAITING_FOR_CANARY_PODS_TO_GO)
    return _act(observation, _TRAFFIC_ACTIONS[step])


def _route_to_new(observation: Observation, reason: EndReason) -> FinalizingDecision:
    """Only a version that can carry all traffic gets it all. Blue-green makes it so, and so does a canary that drains:
    the stable replicas must be without requests before they are replaced. Any other canary keeps its last split. A
    release in place has moved no traffic."""
    if observation.in_place:
        return _next(observation, reason, DONE)
    replicas = observation.workload.replicas if observation.workload is not None else 0
    if not observation.extra_workload or observation.progress.ready_replicas >= replicas:
        return _act(observation, RouteAllToNew())
    if not observation.rollout.blue_green and not drains(observation.rollout):
        return _next(observation, reason, DONE)
    release = observation.release
    if release is not None and rollout_labels.FULL_CAPACITY not in release.metadata.annotations:
        return _act(observation, GrowToFullCapacity())
    waiting_for = release.status.message if release is not None else messages.BATCH_RELEASE_GONE
    return _wait(observation, messages.growing_to_full_size(waiting_for))


def drains(rollout: Rollout) -> bool:
    return drain_timeout(rollout.strategy.traffic_routings) > 0


def _resume_workload(observation: Observation, reason: EndReason) -> FinalizingDecision:
    """The workload gets its strategy back.

    | BatchRelease                                  | completed | then                                              |
    |-----------------------------------------------|-----------|---------------------------------------------------|
    | does not exist                                | -         | release the hold                                  |
    | was asked to resume the workload              | no        | wait                                              |
    | was asked to resume the workload              | yes       | go on                                             |
    | was deleted before it was asked (by a user,   | no        | wait                                              |
    | or with the Rollout by `--cascade=foreground`)| yes       | release the hold: it has left the workload held   |
    | exists, and was not asked                     | no        | ask                                               |
    """
    release = observation.release
    if release is None:
        return _act(observation, ReleaseHold())
    resumes = release.plan.batch_partition is None
    if release.status.phase == BatchReleasePhase.COMPLETED:
        return _next(observation, reason, DONE) if resumes else _act(observation, ReleaseHold())
    policy = FinalizingPolicy.WAIT_RESUME if reason is EndReason.SUCCESS else FinalizingPolicy.IMMEDIATE
    requested = resumes and release.plan.finalizing_policy == policy
    if not requested and not release.metadata.deleting:
        return _act(observation, ResumeRelease(policy))
    waiting_for = release.status.message or messages.WAITING_FOR_WORKLOAD_TO_RESUME
    stalled = observation.seconds_until(observation.progress.last_update_time, STALLED_SECONDS) == 0
    events = (messages.promotion_stalled(waiting_for),) if reason is EndReason.SUCCESS and stalled else ()
    return _wait(observation, waiting_for, events)


def _release_control(observation: Observation, reason: EndReason) -> FinalizingDecision:
    if observation.release is None:
        if order(reason, observation) is _STOPPED_AND_HELD:
            return _act(observation, LeaveHeld())
        return _next(observation, reason, DONE)
    if not observation.release.metadata.deleting:
        return _act(observation, DeleteRelease())
    return FinalizingDecision(ReleaseDecision(observation.state, requeue=rollout_labels.RECHECK))


def _next(observation: Observation, reason: EndReason, result: Done) -> FinalizingDecision:
    steps = order(reason, observation)
    place = steps.index(observation.progress.finalising_step) + 1
    if place == len(steps):
        state = observation.state.with_progress(finalising_step=rollout_labels.END, last_update_time=observation.stamp)
        return FinalizingDecision(ReleaseDecision(state, events=result.events), done=True)
    if reason is EndReason.SUPERSEDED:
        state = observation.state.with_progress(finalising_step=steps[place])
        return FinalizingDecision(ReleaseDecision(state, requeue=0.0, events=result.events))
    state = observation.state.with_progress(finalising_step=steps[place], last_update_time=observation.stamp)
    if result.changed:
        return FinalizingDecision(ReleaseDecision(state, requeue=0.0, events=result.events))
    following = _at(observation.with_state(state), reason)
    events = (*result.events, *following.decision.events)
    return FinalizingDecision(msgspec.structs.replace(following.decision, events=events), done=following.done)


def _act(observation: Observation, action: Action) -> FinalizingDecision:
    return FinalizingDecision(ReleaseDecision(observation.state, action))


def _wait(observation: Observation, text: str, events: tuple[ReleaseEvent, ...] = ()) -> FinalizingDecision:
    state = with_message(observation.state, text)
    return FinalizingDecision(ReleaseDecision(state, requeue=rollout_labels.RECHECK, events=events))
