"""`status.resize` and the conditions about it.

| what is going on | ResizeInProgress | reason |
|---|---|---|
| a group is checked, resized, adopted or reverted | True | Preflight, Resizing, Adopting, Reverting |
| a pod of a group under way is deferred by its node | True | Deferred |
| the set stopped at a group | False | Infeasible, DeadlineExceeded, NotSupported, Conflict |
| the quota has no room for the next group | False | QuotaExceeded |
| an amount of a pod was set by someone else, and its group waits for that | False | Conflict |
| all groups have the wanted revision, after a resize | False | Completed |

`ResizeConflict` names pods whose amounts are not those of their template.
"""

from typing import Final

import msgspec

from kohort.groups.resize.plan import Conflict, ResizePlan
from kohort.groups.resize.pod_progress import Progress
from kohort.groups.resize.preflight import PreflightFailure, Refusal
from kohort.groups.resize.record import RevertReason
from kohort.objects.json_types import JsonObject

IN_PROGRESS: Final = "ResizeInProgress"
CONFLICT: Final = "ResizeConflict"
COMPLETED: Final = "Completed"
_FINAL_REASONS: Final = {
    RevertReason.INFEASIBLE: "Infeasible",
    RevertReason.DEADLINE_EXCEEDED: "DeadlineExceeded",
    RevertReason.NOT_SUPPORTED: "NotSupported",
    RevertReason.WOULD_RESTART: "NotSupported",
    RevertReason.REFUSED: "Infeasible",
    RevertReason.CONFLICT: "Conflict",
}


class ConditionValue(msgspec.Struct, frozen=True):
    type: str
    status: str
    reason: str
    message: str


class ResizeReport(msgspec.Struct, frozen=True):
    """What one pass found out about the resizes of a set."""

    plan: ResizePlan = ResizePlan()
    failure: PreflightFailure | None = None
    """Why the next group could not begin."""
    deadline_seconds: float = 0.0

    def status(self, revision: str, before: JsonObject | None, now: str) -> JsonObject | None:
        """`status.resize`; None while no group is to be resized."""
        if not self.plan.state:
            return None
        same = before is not None and before.get("revision") == revision
        return {
            "revision": revision,
            "state": self.plan.state,
            "groups": msgspec.to_builtins(self.plan.counts),
            "message": resize_message(self.plan, self.failure, self.deadline_seconds),
            "startedAt": before["startedAt"] if same and before is not None else now,
        }


def with_resize_conditions(
    conditions: list[JsonObject], report: ResizeReport, generation: int, now: str
) -> list[JsonObject]:
    """The conditions of a set with those about resizes. Their transition time moves only when their status does."""
    known = {one["type"]: one for one in conditions}
    values = (
        progress_condition(
            report.plan, report.failure, report.deadline_seconds, had_condition=_is_open(known.get(IN_PROGRESS))
        ),
        conflict_condition(report.plan, had_condition=CONFLICT in known),
    )
    for value in values:
        if value is None:
            continue
        old = known.get(value.type)
        same = old is not None and old["status"] == value.status
        known[value.type] = {
            **msgspec.to_builtins(value),
            "lastTransitionTime": old["lastTransitionTime"] if same and old is not None else now,
            "observedGeneration": generation,
        }
    return list(known.values())


def _is_open(condition: JsonObject | None) -> bool:
    """Whether a condition says that a resize has not come to its end."""
    return condition is not None and condition["reason"] != COMPLETED


def resize_message(plan: ResizePlan, failure: PreflightFailure | None, deadline_seconds: float) -> str:
    if plan.stopped is not None:
        return plan.stopped.message
    if plan.waiting is not None:
        waiting = plan.waiting
        verb = {Progress.DEFERRED: "is deferred", Progress.FAILING: "fails", Progress.INFEASIBLE: "is infeasible"}
        state = verb.get(waiting.progress, waiting.progress.value)
        node = f": {waiting.node_message}" if waiting.node_message else ""
        since = f"since {waiting.seconds:.0f} s, until {deadline_seconds:.0f} s"
        return f"group {waiting.group}: {waiting.pod} {state}{node}; {since}"
    if failure is not None:
        return f"{failure.pod}: {failure.detail}"
    counts = plan.counts
    return f"{counts.adopted} of {counts.wanted} groups have the new resources, {counts.resizing} under way"


def progress_condition(
    plan: ResizePlan, failure: PreflightFailure | None, deadline_seconds: float, *, had_condition: bool
) -> ConditionValue | None:
    """The condition ResizeInProgress; None if it has nothing to say."""
    message = resize_message(plan, failure, deadline_seconds)
    if plan.stopped is not None and plan.state == "Stopped":
        reason = _FINAL_REASONS.get(plan.stopped.reason, "Infeasible") if plan.stopped.reason else "Infeasible"
        return ConditionValue(IN_PROGRESS, "False", reason, message)
    if plan.state == "Preflight" and failure is not None and failure.refusal is Refusal.QUOTA_EXCEEDED:
        return ConditionValue(IN_PROGRESS, "False", "QuotaExceeded", message)
    if plan.state == "Preflight" and plan.conflicts:
        return ConditionValue(IN_PROGRESS, "False", "Conflict", conflict_message(plan.conflicts))
    if plan.state:
        deferred = plan.waiting is not None and plan.waiting.progress is Progress.DEFERRED and plan.state == "Resizing"
        return ConditionValue(IN_PROGRESS, "True", "Deferred" if deferred else plan.state, message)
    if had_condition:
        return ConditionValue(IN_PROGRESS, "False", COMPLETED, "all groups have the wanted resources")
    return None


def conflict_condition(plan: ResizePlan, *, had_condition: bool) -> ConditionValue | None:
    if plan.conflicts:
        return ConditionValue(CONFLICT, "True", "ChangedByOthers", conflict_message(plan.conflicts))
    if had_condition:
        return ConditionValue(CONFLICT, "False", "NoConflict", "")
    return None


def conflict_message(conflicts: tuple[Conflict, ...]) -> str:
    shown = [f"{one.pod}: {one.field} differs from the template" for one in conflicts[:3]]
    more = len(conflicts) - len(shown)
    return "; ".join(shown) + (f"; {more} more" if more else "")
