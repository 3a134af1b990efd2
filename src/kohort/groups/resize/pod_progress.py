"""How far has one pod come on its way from one set of amounts to another?

The table is read from the top; the first line that applies is the answer.

| observed | progress |
|---|---|
| the pod is finished or being deleted | GONE |
| an amount in its spec is neither the old nor the new one | CONFLICT: someone else resized it |
| its spec has the old amounts | NOT_SENT |
| the node has not looked at this generation of the pod | UNOBSERVED |
| `PodResizePending`, Infeasible | INFEASIBLE |
| `PodResizePending`, otherwise | DEFERRED |
| `PodResizeInProgress`, Error | FAILING |
| `PodResizeInProgress`, otherwise | ACTUATING |
| no condition, but other amounts are allocated | UNCONFIRMED |
| no condition, the amounts are allocated | COMPLETE |

Every rule is about objects in the API, so that an operator that was restarted sees the same.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from kohort.objects.pods import ContainerStatus, Pod
from kohort.objects.quantity import Quantity
from kohort.rules.resize_conditions import ReportedStage, ResizeState
from kohort.rules.resource_edit import POD, RESIZABLE, AmountChange, AmountField, StatedAmounts, desired_amounts


class ResizeStage(StrEnum):
    GONE = "Gone"
    CONFLICT = "Conflict"
    NOT_SENT = "NotSent"
    UNOBSERVED = "Unobserved"
    INFEASIBLE = "Infeasible"
    DEFERRED = "Deferred"
    FAILING = "Failing"
    ACTUATING = "Actuating"
    UNCONFIRMED = "Unconfirmed"
    COMPLETE = "Complete"

    @property
    def blocked(self) -> bool:
        """The node does not carry the resize out at the moment, but may later."""
        return self in (ResizeStage.DEFERRED, ResizeStage.FAILING)


_BY_CONDITIONS: Final = {
    ReportedStage.INFEASIBLE: ResizeStage.INFEASIBLE,
    ReportedStage.DEFERRED: ResizeStage.DEFERRED,
    ReportedStage.FAILING: ResizeStage.FAILING,
    ReportedStage.IN_PROGRESS: ResizeStage.ACTUATING,
}


class PodProgress(msgspec.Struct, frozen=True):
    progress: ResizeStage
    message: str = ""
    """What the node says about it."""
    conflict: AmountField | None = None


def pod_progress(pod: Pod, change: AmountChange) -> PodProgress:
    """How far `pod` has come from `change.before` to `change.after`."""
    if not pod.active:
        return PodProgress(ResizeStage.GONE)
    desired = desired_amounts(pod.spec)
    foreign = foreign_fields(desired, change)
    if foreign:
        return PodProgress(ResizeStage.CONFLICT, conflict=foreign[0])
    if any(desired.get(field) != amount for field, amount in change.after.items()):
        return PodProgress(ResizeStage.NOT_SENT)
    return _on_the_node(pod, change)


def _on_the_node(pod: Pod, change: AmountChange) -> PodProgress:
    status, generation = pod.status, pod.metadata.generation
    if status.observed_generation and status.observed_generation < generation:
        return PodProgress(ResizeStage.UNOBSERVED)
    reported = ResizeState.reported(pod)
    if (stage := _BY_CONDITIONS.get(reported.stage)) is not None:
        return PodProgress(stage, reported.message)
    allocated = _allocated_requests(pod)
    for field, amount in change.after.items():
        if field.side == "requests" and field in allocated and allocated[field] != amount:
            return PodProgress(ResizeStage.UNCONFIRMED)
    return PodProgress(ResizeStage.COMPLETE)


def foreign_fields(desired: StatedAmounts, change: AmountChange) -> list[AmountField]:
    """Amounts that are neither the old nor the new ones. An amount of a container that the old template did not state
    may have any value, because the cluster can have filled it in; one of the pod as a whole only if the template
    states others of it."""
    stated = {*change.before, *change.after}
    if stated and not any(field.container == POD for field in stated):
        added = [field for field in desired if field.container == POD]
        if added:
            return added
    return [
        field
        for field, amount in change.after.items()
        if field in change.before and desired.get(field) not in (amount, change.before[field])
    ]


def _allocated_requests(pod: Pod) -> dict[AmountField, Quantity]:
    statuses: Iterable[ContainerStatus] = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    blocks = [(status.name, status.allocated_resources) for status in statuses]
    blocks.append((POD, pod.status.allocated_resources))
    return {
        AmountField(container, "requests", resource): Quantity.parse(amounts[resource])
        for container, amounts in blocks
        if amounts is not None
        for resource in RESIZABLE
        if resource in amounts
    }
