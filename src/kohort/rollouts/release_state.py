"""What the decisions about a Rollout see and say.

A decision is two pure functions of an `Observation`. `decide` looks at the stored state and the cluster and returns a
`Decision`: the new state, and at most one action. `decide_after` gets the result of that action and returns the next
decision. Nothing is remembered besides the stored state, so a pass that was cut short at any point is made again.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from kohort.kube.clock import format_time
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import Condition
from kohort.rollouts import messages
from kohort.rollouts.action_result import ActionResult, Done, Problem, Waiting
from kohort.rollouts.forecast_types import ForecastUnknown, ReleaseForecast
from kohort.rollouts.messages import ReleaseEvent, ReleaseOutcome
from kohort.rollouts.release_actions import Action
from kohort.rollouts.rollout_types import BatchRelease, ReleaseProgress, Rollout, Step
from kohort.rollouts.step_analysis import Judgement, condition_at_end
from kohort.rollouts.workloads.model import ReleasedWorkload
from kohort.rules import rollout_labels
from kohort.rules.rollout_labels import ProgressingReason

SETTLE_SECONDS: Final = 3.0
"""Between the change of a template and the first step."""
_NOT_UNDER_WAY: Final = (rollout_labels.INITIALIZING, rollout_labels.COMPLETED)


class ReleaseWait(StrEnum):
    """What a release can wait for until a user acts. It is announced by one event."""

    APPROVAL = "Approval"
    CAPACITY = "Capacity"
    ROLLBACK = "Rollback"
    """Of a version that came during a blue-green release."""


class State(msgspec.Struct, frozen=True):
    """The status of a Rollout."""

    phase: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    progress: ReleaseProgress | None = None

    @property
    def reason(self) -> str:
        """Of the condition Progressing."""
        return next((one.reason for one in self.conditions if one.type == rollout_labels.PROGRESSING), "")

    def condition(self, type: str) -> Condition | None:
        return next((one for one in self.conditions if one.type == type), None)

    def with_progress(self, **changes: object) -> "State":
        assert self.progress is not None
        return msgspec.structs.replace(self, progress=msgspec.structs.replace(self.progress, **changes))

    def document(self, generation: int, *, blue_green: bool) -> JsonObject:
        """As it is written."""
        progress = self.progress
        status: JsonObject = {
            "observedGeneration": generation,
            "phase": self.phase,
            "message": self.message,
            "currentStepIndex": progress.current_step_index if progress else 0,
            "currentStepState": progress.current_step_state if progress else "",
        }
        if self.conditions:
            status["conditions"] = [one.document() for one in self.conditions]
        if progress is not None:
            name = "blueGreenStatus" if blue_green else "canaryStatus"
            status[name] = progress.to_status(blue_green=blue_green)
        return status


def stored_state(rollout: Rollout) -> State:
    status = rollout.status
    return State(status.phase, status.message, status.conditions, status.progress)


def workload_of_release(state: State, found: ReleasedWorkload | None) -> ReleasedWorkload | None:
    """The workload that a release under way is about, or the one that there is. A workload that was deleted and made
    again under the same name (`kubectl replace --force`) is not held and has no stable version: the release of its
    predecessor ends as if there was none. It is looked at again afterwards."""
    begun = state.phase == rollout_labels.PROGRESSING and state.reason not in _NOT_UNDER_WAY
    if found is None or state.progress is None or not begun:
        return found
    return found if state.progress.workload_uid in ("", found.uid) else None


def with_condition(state: State, type: str, status: str, reason: str, message: str, now: datetime) -> State:
    """The condition replaced, at the end of the list; its transition time moves only when its status does."""
    old = state.condition(type)
    stamp = format_time(now)
    since = old.last_transition_time if old is not None and old.status == status else stamp
    new = Condition(
        type=type,
        status=status,
        reason=reason,
        message=message,
        last_update_time=stamp,
        last_transition_time=since,
    )
    return msgspec.structs.replace(state, conditions=(*without(state.conditions, type), new))


def without(conditions: Iterable[Condition], type: str) -> tuple[Condition, ...]:
    return tuple(one for one in conditions if one.type != type)


def _without_open_analysis(state: State, now: datetime) -> State:
    if state.progress is not None:
        state = state.with_progress(analysis_result="")
    found = state.condition(rollout_labels.ANALYSIS_CONDITION)
    at_end = condition_at_end(found) if found is not None else None
    if at_end is None or at_end == found:
        return state
    return with_condition(state, at_end.type, at_end.status, at_end.reason, at_end.message, now)


def with_reason(state: State, reason: ProgressingReason, message: str, now: datetime, *, status: str = "True") -> State:
    """The reason of Progressing changes; the message of the Rollout says the same, and what was waited for is over."""
    if reason in _NOT_UNDER_WAY:
        state = _without_open_analysis(state, now)
    changed = with_condition(state, rollout_labels.PROGRESSING, status, reason, message, now)
    return without_wait(msgspec.structs.replace(changed, message=message))


def with_references(state: State, result: ActionResult, now: datetime) -> tuple[State, tuple[ReleaseEvent, ...]]:
    """The condition ResolvedRefs by the result of a check, and an event when references cannot be used any more."""
    match result:
        case Waiting():
            return state, ()
        case Done():
            status, reason, message = "True", rollout_labels.RESOLVED_REFS, messages.REFERENCES_RESOLVED
            events: tuple[ReleaseEvent, ...] = ()
        case Problem():
            status, reason, message = "False", result.reason.value, result.text
            events = (messages.unresolved_references(result.text),)
    old = state.condition(rollout_labels.RESOLVED_REFS)
    if old is not None and (old.status, old.reason, old.message) == (status, reason, message):
        return state, ()
    return with_condition(state, rollout_labels.RESOLVED_REFS, status, reason, message, now), events


class ReleaseDecision(msgspec.Struct, frozen=True):
    """What follows from an observation. With an action, the state is final only when its result is known."""

    state: State
    action: Action | None = None
    requeue: float | None = None
    events: tuple[ReleaseEvent, ...] = ()
    outcome: ReleaseOutcome | None = None
    """How a release ended, when it did: for the metrics."""


class Observation(msgspec.Struct, frozen=True):
    """Everything that a decision may look at."""

    rollout: Rollout
    state: State
    now: datetime
    workload: ReleasedWorkload | None = None
    release: BatchRelease | None = None
    release_hash: str = ""
    """Of the plan that the release has now."""
    plan_hash: str = ""
    canary_gone: bool = True
    drift: str = ""
    """How the routes of a paused step differ from what they should be, because another client changed them."""
    references: ActionResult | None = None
    """The result of checking the Services and routes that the Rollout names, where this pass checked them."""
    keeps_hold: bool = False
    """A release that is given up leaves its workload held."""
    forecast: ReleaseForecast | ForecastUnknown | None = None
    """What the release needs and how long it takes, shortly before its first step."""
    judgement: Judgement | None = None
    """What the analysis of the current step says, where the Rollout names one."""

    @property
    def progress(self) -> ReleaseProgress:
        assert self.state.progress is not None
        return self.state.progress

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.rollout.strategy.steps

    @property
    def step(self) -> Step:
        """The current one; a stored index that no longer exists means the first."""
        index = self.progress.current_step_index
        return self.steps[index - 1] if 1 <= index <= len(self.steps) else self.steps[0]

    @property
    def stamp(self) -> str:
        return format_time(self.now)

    @property
    def extra_workload(self) -> bool:
        if self.workload is not None:
            return self.workload.extra_workload
        in_one = self.rollout.blue_green or self.rollout.partitioned
        return not in_one or self.rollout.spec.workload_ref.is_group_set

    @property
    def all_replaced(self) -> bool:
        """In partition style: the step leaves no pod of the old version, or none is left already. A stable Service that
        selects the old version only would have no endpoints."""
        if not self.rollout.partitioned or self.extra_workload or self.workload is None:
            return False
        return max(self.planned(self.step), self.progress.replicas) >= self.workload.replicas

    def planned(self, step: Step) -> int:
        """How many replicas have the new version at a step."""
        if self.workload is None:
            return 0
        return self.rollout.planned(step.replicas or 0, self.workload.replicas)

    @property
    def in_place(self) -> bool:
        return self.workload is not None and self.workload.in_place

    @property
    def requires_capacity(self) -> bool:
        """The user does not want a release to begin without room for all of its steps."""
        return self.rollout.metadata.annotations.get(rollout_labels.REQUIRE_CAPACITY) == "true"

    @property
    def routed(self) -> bool:
        """Steps route requests to the new version. A release in place has no pods of its own for them."""
        return bool(self.rollout.strategy.traffic_routings) and not self.in_place

    @property
    def settle_left(self) -> float:
        """Seconds until the first step may begin. An edit of the Rollout at the same time shall count from the
        beginning of its release on."""
        condition = self.state.condition(rollout_labels.PROGRESSING)
        began = condition.last_update_time if condition is not None else ""
        return self.seconds_until(began or "", SETTLE_SECONDS)

    @property
    def has_other_version(self) -> bool:
        """The held workload has another template than the one that this release is about: a third one, or the stable
        one again (`ReleasedWorkload.in_rollback`)."""
        workload, progress = self.workload, self.state.progress
        if workload is None or progress is None:
            return False
        return workload.in_progress and workload.canary_revision != progress.revision

    def with_state(self, state: State) -> "Observation":
        return msgspec.structs.replace(self, state=state)

    def seconds_until(self, stamp: str, seconds: float) -> float:
        """How many seconds are left until `seconds` after a stored time; 0 when it has passed."""
        if not stamp:
            return 0.0
        end = datetime.fromisoformat(stamp) + timedelta(seconds=seconds)
        return max(0.0, (end - self.now).total_seconds())


def with_grace_times(state: State, result: ActionResult) -> State:
    """The state with the times of changes of traffic that a result asks to store."""
    progress, times = state.progress, result.grace_times
    if progress is None or times is None or progress.grace_times == dict(times):
        return state
    return state.with_progress(grace_times=dict(times))


def with_wait(
    state: State, wait: ReleaseWait, event: ReleaseEvent, missing_replicas: int = 0
) -> tuple[State, tuple[ReleaseEvent, ...]]:
    """The release waits for this now; the event is emitted when it begins to, or when other replicas are missing."""
    progress = state.progress
    assert progress is not None
    if (progress.announced_wait, progress.missing_replicas) == (wait, missing_replicas):
        return state, ()
    return state.with_progress(announced_wait=wait.value, missing_replicas=missing_replicas), (event,)


def without_wait(state: State) -> State:
    return state if state.progress is None else state.with_progress(announced_wait="", missing_replicas=0)


def with_message(state: State, text: str) -> State:
    return state if state.message == text else msgspec.structs.replace(state, message=text)
