"""`status.resize` and the conditions about it.

| what is going on | ResizeInProgress | reason |
|---|---|---|
| a group is checked, resized, adopted or reverted | True | Preflight, Resizing, Adopting, Reverting |
| a pod of a group under way is deferred by its node | True | Deferred |
| the set stopped at a group | False | Infeasible, DeadlineExceeded, NotSupported, Conflict |
| the quota has no room for the next group | False | QuotaExceeded |
| an amount of a pod was set by someone else, and its group waits for that | False | Conflict |
| cpu or memory change, but running pods cannot follow the edit: an ordinary roll | False | NotSupported |
| a resize was replaced by an edit that rolls, or by the policy Recreate | False | NotSupported |
| all groups have the wanted revision, after a resize or such a roll | False | Completed |

`ResizeConflict` names pods whose amounts are not those of their template.
"""

from typing import Final

import msgspec

from kohort.groups.resize.plan import NAMED_GROUPS, AmountConflict, ResizePlan, State
from kohort.groups.resize.pod_progress import ResizeStage
from kohort.groups.resize.preflight import PreflightFailure, PreflightRefusal
from kohort.groups.resize.record import RevertReason
from kohort.objects.counted_nouns import agreeing, counted, counted_of
from kohort.objects.json_types import JsonObject
from kohort.rules.resource_edit import RecreateEdit, RecreateReason

IN_PROGRESS: Final = "ResizeInProgress"
CONFLICT: Final = "ResizeConflict"
COMPLETED: Final = "Completed"
_FINAL_REASONS: Final = {
    RevertReason.INFEASIBLE: "Infeasible",
    RevertReason.DEADLINE_EXCEEDED: "DeadlineExceeded",
    RevertReason.NODE_NOT_REPORTING: "DeadlineExceeded",
    RevertReason.NOT_SUPPORTED: "NotSupported",
    RevertReason.WOULD_RESTART: "NotSupported",
    RevertReason.REFUSED: "Infeasible",
    RevertReason.NOT_ADMITTED: "Infeasible",
    RevertReason.CONFLICT: "Conflict",
}
STOPPED_REASONS: Final = frozenset(_FINAL_REASONS.values())
"""Reasons of ResizeInProgress with which no group goes on before someone acts."""
QUOTA_EXCEEDED: Final = "QuotaExceeded"
"""The operator goes on by itself when the quota has room."""


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
            "state": reported_state(self.plan, self.failure),
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
    if reported_state(plan, failure) == "Stopped" and plan.stopped is None and failure is None:
        return conflict_message(plan.conflicts)
    if plan.stopped is not None:
        return f"group {plan.stopped.group}: {plan.stopped.record.message}"
    if plan.waiting is not None:
        waiting = plan.waiting
        verb = {
            ResizeStage.DEFERRED: "is deferred",
            ResizeStage.FAILING: "fails",
            ResizeStage.INFEASIBLE: "is infeasible",
        }
        state = verb.get(waiting.progress, waiting.progress.value)
        node = f" on node {waiting.node}" if waiting.node else ""
        said = f": {waiting.node_message}" if waiting.node_message else ""
        found = f"group {waiting.group}: {waiting.pod} {state}{node}{said}"
        if waiting.progress is ResizeStage.INFEASIBLE:  # its group is reverted at once
            return found
        return f"{found}; since {waiting.reported_seconds:.0f} s, until {deadline_seconds:.0f} s"
    if failure is not None:
        return f"{failure.pod}: {failure.detail}"
    if plan.to_recreate is not None:
        why = f": {plan.to_recreate.why}" if plan.to_recreate.why else ""
        return f"group {plan.to_recreate.group} is recreated with the new resources{why}"
    counts = plan.counts
    so_far = (
        f"{counted_of(counts.adopted, counts.wanted, 'group')} with the wanted resources, {counts.resizing} under way"
    )
    if plan.waits_for_groups:
        many = len(plan.waits_for_groups)
        named = ", ".join(map(str, plan.waits_for_groups[:NAMED_GROUPS])) + (
            " and others" if many > NAMED_GROUPS else ""
        )
        return f"{so_far}; {agreeing(many, 'group', 'groups')} {named} must be ready before the next one begins"
    return so_far


def reported_state(plan: ResizePlan, failure: PreflightFailure | None) -> State:
    """A group that its quota has no room for is asked about again, but until then nothing goes on."""
    return "Stopped" if plan.state == "Preflight" and _lacks_quota(failure) else plan.state


def _lacks_quota(failure: PreflightFailure | None) -> bool:
    return failure is not None and failure.refusal is PreflightRefusal.QUOTA_EXCEEDED


def progress_condition(
    plan: ResizePlan, failure: PreflightFailure | None, deadline_seconds: float, *, had_condition: bool
) -> ConditionValue | None:
    """The condition ResizeInProgress; None if it has nothing to say."""
    message = resize_message(plan, failure, deadline_seconds)
    if plan.stopped is not None and plan.state == "Stopped":
        why = plan.stopped.record.reason
        reason = _FINAL_REASONS.get(why, "Infeasible") if why is not None else "Infeasible"
        return ConditionValue(IN_PROGRESS, "False", reason, message)
    if plan.state == "Preflight" and _lacks_quota(failure):
        return ConditionValue(IN_PROGRESS, "False", QUOTA_EXCEEDED, message)
    if plan.state == "Stopped":
        return ConditionValue(IN_PROGRESS, "False", "Conflict", message)
    if plan.state:
        deferred = (
            plan.waiting is not None and plan.waiting.progress is ResizeStage.DEFERRED and plan.state == "Resizing"
        )
        return ConditionValue(IN_PROGRESS, "True", "Deferred" if deferred else plan.state, message)
    if plan.recreating is not None:
        words = f"groups are recreated by an ordinary roll: {recreate_words(plan.recreating)}"
        return ConditionValue(IN_PROGRESS, "False", "NotSupported", words)
    if had_condition and plan.behind:
        return ConditionValue(IN_PROGRESS, "False", "NotSupported", "groups are recreated by an ordinary roll")
    if had_condition:
        held = counted(plan.held_by_partition, "group")
        exception = f", but {held} that the partition holds" if plan.held_by_partition else ""
        return ConditionValue(IN_PROGRESS, "False", COMPLETED, f"all groups have the wanted resources{exception}")
    return None


def recreate_words(edit: RecreateEdit) -> str:
    """Why running pods cannot follow an edit."""
    field = edit.field.path if edit.field is not None else ""
    match edit.reason:
        case RecreateReason.QOS_CHANGED:
            old, new = edit.qos_classes or ("", "")
            return f"the quality of service class of {edit.role}s would change from {old} to {new}"
        case RecreateReason.AMOUNT_REMOVED:
            return f"{field} of {edit.role}s would be removed"
        case RecreateReason.INIT_CONTAINER:
            field = edit.field.path_of_init_container if edit.field is not None else ""
            return f"{field} of {edit.role}s changes, and that init container has ended"
        case RecreateReason.OTHER_FIELDS:
            return "more than cpu and memory changes"


def conflict_condition(plan: ResizePlan, *, had_condition: bool) -> ConditionValue | None:
    if plan.conflicts:
        return ConditionValue(CONFLICT, "True", "ChangedByOthers", conflict_message(plan.conflicts))
    if had_condition:
        return ConditionValue(CONFLICT, "False", "NoConflict", "")
    return None


def conflict_message(conflicts: tuple[AmountConflict, ...]) -> str:
    shown = [f"{one.pod}: {one.field} differs from the template" for one in conflicts[:3]]
    more = len(conflicts) - len(shown)
    return "; ".join(shown) + (f"; {more} more" if more else "")
