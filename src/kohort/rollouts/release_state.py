"""The state of a Rollout between two passes, and the vocabulary in which the machines speak.

A machine is two pure functions. One looks at the stored state and the world and says what to do (`Move.act`); the other
is told how that went and says what the state is now. Nothing is remembered besides the stored state, so a pass that was
cut short at any point is simply made again.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from kohort.kube.clock import format_time
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import Condition
from kohort.rollouts.rollout_types import BatchRelease, Progress, ReleasePlan, Rollout, Step
from kohort.rollouts.traffic.model import Answer, Note
from kohort.rollouts.workloads.model import Workload
from kohort.rules import rollout_labels


class State(msgspec.Struct, frozen=True):
    phase: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    progress: Progress | None = None

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
            status["conditions"] = [msgspec.to_builtins(one) for one in self.conditions]
        if progress is not None:
            name = "blueGreenStatus" if blue_green else "canaryStatus"
            status[name] = progress.to_status(blue_green=blue_green)
        return status


def stored(rollout: Rollout) -> State:
    status = rollout.status
    return State(status.phase, status.message, status.conditions, status.progress)


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


def with_reason(state: State, reason: str, message: str, now: datetime, *, status: str = "True") -> State:
    """The reason of Progressing changes; the message of the Rollout says the same."""
    changed = with_condition(state, rollout_labels.PROGRESSING, status, reason, message, now)
    return msgspec.structs.replace(changed, message=message)


def with_refs(state: State, answer: Answer, now: datetime) -> tuple[State, tuple[Note, ...]]:
    """The condition ResolvedRefs as the answer has it, and an event when references cannot be used any more."""
    if answer.state == "wait":
        return state, ()
    resolved = answer.state == "done"
    status, reason = ("True", rollout_labels.RESOLVED_REFS) if resolved else ("False", answer.reason)
    message = "Services and routes exist and lead to the workload" if resolved else answer.text
    old = state.condition(rollout_labels.RESOLVED_REFS)
    if old is not None and (old.status, old.reason, old.message) == (status, reason, message):
        return state, ()
    notes = () if resolved else (Note("UnresolvedRefs", answer.text, warning=True),)
    return with_condition(state, rollout_labels.RESOLVED_REFS, status, reason, message, now), notes


ActKind = Literal[
    "check",
    "join",
    "leave",
    "pin_stable",
    "route",
    "route_all_to_new",
    "route_all_to_stable",
    "restore_stable",
    "remove_canary_service",
    "write_release",
    "resume_release",
    "fill_release",
    "shrink_release",
    "withdraw_release",
    "renew_release",
    "delete_release",
    "unhold",
    "leave_held",
    "take_up",
]


class Act(msgspec.Struct, frozen=True):
    """Something to be done in the world. All of them may be repeated."""

    kind: ActKind
    plan: ReleasePlan | None = None
    policy: str = ""


class Move(msgspec.Struct, frozen=True):
    """What follows. With an act, the state is settled only when its answer is known."""

    state: State
    act: Act | None = None
    requeue: float | None = None
    notes: tuple[Note, ...] = ()
    outcome: str = ""
    """How a release ended, when it did: for counting."""


class World(msgspec.Struct, frozen=True):
    """Everything a decision may look at."""

    rollout: Rollout
    state: State
    now: datetime
    workload: Workload | None = None
    release: BatchRelease | None = None
    release_hash: str = ""
    """Of the plan that the release has now."""
    plan_hash: str = ""
    canary_gone: bool = True
    astray: str = ""
    """What the routes of a step at rest lack, because somebody else changed them."""
    refs: Answer | None = None
    """Whether what the Rollout names can be used, where that was looked at in this pass."""
    keeps_hold: bool = False
    """A release that is given up leaves its workload held."""

    @property
    def progress(self) -> Progress:
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
        return not (self.rollout.blue_green and self.rollout.spec.workload_ref.is_deployment)

    def at(self, state: State) -> "World":
        return msgspec.structs.replace(self, state=state)

    def after(self, stamp: str, seconds: float) -> float:
        """How many seconds are left until `seconds` after a stored time; 0 when it has passed."""
        if not stamp:
            return 0.0
        end = datetime.fromisoformat(stamp) + timedelta(seconds=seconds)
        return max(0.0, (end - self.now).total_seconds())


def settled(state: State, answer: Answer) -> State:
    """What an answer leaves behind: the marks of grace periods."""
    progress = state.progress
    if progress is None or progress.grace_times == dict(answer.marks):
        return state
    return state.with_progress(grace_times=dict(answer.marks))
