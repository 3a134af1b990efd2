"""What do a pod's conditions and events say about its resize? Two conditions, present only while they are true, and
events when something changed.

| condition           | reason     | stays until                                                   |
|---------------------|------------|---------------------------------------------------------------|
| PodResizePending    | Deferred   | accepted, taken back, found infeasible, or the pod has ended  |
| PodResizePending    | Infeasible | the spec changes, the node changes, or the pod has ended      |
| PodResizeInProgress | (none)     | all that was accepted has been pushed                         |
| PodResizeInProgress | Error      | a push succeeds, or something else is accepted                |

Both can be there: a newer resize waits while an older one is carried out. `observedGeneration` of the first is the
generation that was decided, of the second the one that was accepted, and only another acceptance changes it.

Where a pod's resize stands is one word for both, `ResizeState.stage`; the newer resize comes first:

| conditions                       | stage       |
|----------------------------------|-------------|
| PodResizePending, Infeasible     | INFEASIBLE  |
| PodResizePending, otherwise      | DEFERRED    |
| PodResizeInProgress, Error       | FAILING     |
| PodResizeInProgress, otherwise   | IN_PROGRESS |
| none of these                    | SETTLED     |
"""

from enum import Enum, auto
from typing import Final, Literal

import msgspec

from kohort.objects.json_types import JsonObject
from kohort.objects.meta import Condition, find_condition
from kohort.objects.pods import Pod
from kohort.resources.effective import DEFERRED, INFEASIBLE, RESIZE_PENDING
from kohort.rules.allocated_resources import Requirements
from kohort.rules.resize_decision import Deferred, Infeasible

PENDING: Final = RESIZE_PENDING
IN_PROGRESS: Final = "PodResizeInProgress"
ERROR: Final = "Error"
"""The reason of `IN_PROGRESS` after a push has failed."""


class Note(msgspec.Struct, frozen=True):
    """An event on the pod."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class ReportedStage(Enum):
    """Where the resize of a pod stands, as its node reports it."""

    SETTLED = auto()
    DEFERRED = auto()
    INFEASIBLE = auto()
    IN_PROGRESS = auto()
    FAILING = auto()


class ResizeState(msgspec.Struct, frozen=True):
    """The two conditions of one pod."""

    pending: Condition | None = None
    progress: Condition | None = None

    @staticmethod
    def reported(pod: Pod) -> "ResizeState":
        """As the node of the pod has reported it, with reasons and times."""
        return ResizeState(_true_condition(pod, PENDING), _true_condition(pod, IN_PROGRESS))

    @property
    def stage(self) -> ReportedStage:
        if self.pending is not None:
            return ReportedStage.INFEASIBLE if self.pending.reason == INFEASIBLE else ReportedStage.DEFERRED
        if self.progress is not None:
            return ReportedStage.FAILING if self.fails else ReportedStage.IN_PROGRESS
        return ReportedStage.SETTLED

    @property
    def message(self) -> str:
        """What the node says of the stage."""
        shown = self.pending or self.progress
        return shown.message if shown is not None else ""

    @property
    def fails(self) -> bool:
        """Whether the last push of what was accepted has failed; a newer resize may be waiting."""
        return self.progress is not None and self.progress.reason == ERROR

    def conditions(self) -> list[JsonObject]:
        return [msgspec.to_builtins(each) for each in (self.pending, self.progress) if each is not None]

    def cleared(self) -> "ResizeState":
        return ResizeState()

    def without_pending(self) -> "ResizeState":
        return msgspec.structs.replace(self, pending=None)


def _true_condition(pod: Pod, type: str) -> Condition | None:
    found = find_condition(pod.status.conditions, type)
    return found if found is not None and found.status == "True" else None


def refused(state: ResizeState, decision: Deferred | Infeasible, pod: Pod, now: str) -> tuple[ResizeState, list[Note]]:
    """A resize was decided and must wait."""
    reason = INFEASIBLE if isinstance(decision, Infeasible) else DEFERRED
    generation, before = pod.metadata.generation, state.pending
    since = before.last_transition_time if before is not None and before.reason == reason else now
    pending = Condition(PENDING, "True", reason, decision.message, generation, since, now)
    news = before is None or before.reason != reason or before.observed_generation != generation
    text = f"{summary(pod, generation)}: {decision.code}: {decision.message}"
    return msgspec.structs.replace(state, pending=pending), [Note("Warning", f"Resize{reason}", text)] if news else []


def accepted(pod: Pod, now: str) -> tuple[ResizeState, list[Note]]:
    """A resize was accepted; what was in progress before does not matter any more."""
    generation = pod.metadata.generation
    progress = Condition(IN_PROGRESS, "True", "", "", generation, now, now)
    return ResizeState(None, progress), [Note("Normal", "ResizeStarted", summary(pod, generation))]


def progressing(state: ResizeState, generation: int, now: str) -> ResizeState:
    """Something accepted is not pushed yet. A known error stays visible, a known generation too."""
    if state.progress is not None:
        return state
    return msgspec.structs.replace(state, progress=Condition(IN_PROGRESS, "True", "", "", generation, now, now))


def failed(state: ResizeState, error: str, pod: Pod, now: str) -> tuple[ResizeState, list[Note]]:
    """A push failed."""
    before = state.progress
    generation = before.observed_generation if before is not None else pod.metadata.generation
    since = before.last_transition_time if before is not None and before.reason == ERROR else now
    progress = Condition(IN_PROGRESS, "True", ERROR, error, generation, since, now)
    news = before is None or before.reason != ERROR or before.message != error
    text = f"{summary(pod, generation)}: {error}"
    return msgspec.structs.replace(state, progress=progress), [Note("Warning", "ResizeError", text)] if news else []


def completed(state: ResizeState, pod: Pod) -> tuple[ResizeState, list[Note]]:
    """All that was accepted has been pushed."""
    if state.progress is None:
        return state, []
    note = Note("Normal", "ResizeCompleted", summary(pod, state.progress.observed_generation))
    return msgspec.structs.replace(state, progress=None), [note]


def summary(pod: Pod, generation: int) -> str:
    """What a resize is about, as JSON: the pod's own figures included."""
    found = Requirements.of(pod.spec)
    document: JsonObject = {}
    if pod.spec.resources is not None:
        document["resources"] = msgspec.to_builtins(pod.spec.resources)
    for key, containers in (("initContainers", pod.spec.init_containers), ("containers", pod.spec.main_containers)):
        if containers:
            document[key] = [
                {"name": each.name, "resources": msgspec.to_builtins(found.containers[each.name])}
                for each in containers
            ]
    return msgspec.json.encode({**document, "generation": generation}).decode()
