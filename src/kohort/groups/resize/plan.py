"""What is done next with every group of a set whose new revision can be had in place.

Groups are resized from the highest index down to the partition, at most `concurrency` of them at a time. One group goes
through these states; what is recorded on its leader says in which it is:

| recorded | observed | action |
|---|---|---|
| nothing | the group is whole and ready, and it is its turn | `CheckGroup`: preflight, then Resizing |
| nothing | a pod has amounts of someone else | none: the conflict is reported |
| nothing | broken, policy InPlaceOrRecreate | `MarkGroup(RECREATE)`: recreating it costs no availability |
| nothing | no pod of it has a node | `MarkGroup(RECREATE)`: nothing runs that could be resized |
| Resizing | pods that shrink are not done | `ResizePods`: those, leader first |
| Resizing | pods that shrink are done | `ResizePods`: the others, leader last |
| Resizing | all pods are complete, and the group is ready | `AdoptGroup` |
| Resizing | a pod is infeasible, or blocked beyond the deadline | `MarkGroup(REVERTING)` |
| Resizing | someone else changed an amount of a pod | `MarkGroup(REVERTING, CONFLICT)` |
| Resizing | another revision is wanted by now | `MarkGroup(REVERTING, SUPERSEDED)` |
| Reverting | pods that do not have their old amounts | `RevertPods` |
| Reverting | all pods are back | `MarkGroup`: RECREATE, REVERTED, or no record at all if it was superseded |
| Recreate | | none: the roll may reach the group (`lowest_partition`) |
| Reverted | | none, and no further group begins |
| about an earlier revision, and not under way | | `MarkGroup(None)` |

The leader StatefulSet must not replace a group that is to be resized. It replaces groups from its partition up, so its
partition stays above the highest of them: `lowest_partition`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from kohort.groups.resize.pod_progress import PodProgress, Progress, pod_progress
from kohort.groups.resize.record import Phase, ResizeRecord, RevertReason
from kohort.objects.meta import find_condition
from kohort.objects.pods import Pod
from kohort.rules.resource_edit import AmountChange, InPlaceEdit, RecreateEdit
from kohort.rules.resource_update_policy import ResourceUpdatePolicy


class PodView(msgspec.Struct, frozen=True):
    name: str
    leader: bool
    shrinks: bool
    """No request grows from the old amounts to the new ones."""
    forward: PodProgress
    """Towards the amounts of the revision that is recorded, else of the wanted one."""
    backward: PodProgress
    """Back to the amounts of the revision that the group carries."""


class GroupView(msgspec.Struct, frozen=True):
    index: int
    revision: str
    """The revision that the group carries, by the label of its leader."""
    edit: InPlaceEdit | RecreateEdit | None
    """What leads from that revision to the wanted one; None if it is the same."""
    pods: Sequence[PodView]
    whole: bool
    """All its pods exist and none is being deleted."""
    ready: bool
    broken: bool = False
    """It is not ready and will not become ready by waiting."""
    unplaced: bool = False
    """No pod of it has a node, and the scheduler found none for its leader."""
    record: ResizeRecord | None = None


def view_of_pod(pod: Pod, change: AmountChange, *, is_leader: bool) -> PodView:
    return PodView(
        name=pod.metadata.name,
        leader=is_leader,
        shrinks=_shrinks(change),
        forward=pod_progress(pod, change),
        backward=pod_progress(pod, change.reversed),
    )


def _shrinks(change: AmountChange) -> bool:
    """Something gets less, and nothing gets more."""
    fields = change.changed_fields
    return bool(fields) and all(
        field in change.before and change.after[field] < change.before[field] for field in fields
    )


def is_broken(pod: Pod) -> bool:
    """The pod will not become ready by waiting: it crashes again and again, or no node has room for it."""
    placed = find_condition(pod.status.conditions, "PodScheduled")
    return _crash_loops(pod) or (placed is not None and placed.status == "False" and placed.reason == "Unschedulable")


def _crash_loops(pod: Pod) -> bool:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return any(one.state.waiting is not None and one.state.waiting.reason == "CrashLoopBackOff" for one in statuses)


class SetView(msgspec.Struct, frozen=True):
    revision: str
    """The wanted one."""
    policy: ResourceUpdatePolicy
    partition: int
    """Groups below it are not touched."""
    concurrency: int
    deadline_seconds: float
    now: float
    """Seconds since the epoch."""
    groups: Sequence[GroupView]


# What is done


class CheckGroup(msgspec.Struct, frozen=True):
    """Ask `preflight` whether the group may begin."""

    index: int


class ResizePods(msgspec.Struct, frozen=True):
    index: int
    pods: tuple[str, ...]


class RevertPods(msgspec.Struct, frozen=True):
    index: int
    pods: tuple[str, ...]


class AdoptGroup(msgspec.Struct, frozen=True):
    """Move the StatefulSets and pods of the group to the wanted revision."""

    index: int


class MarkGroup(msgspec.Struct, frozen=True):
    """Write a record to the leader of the group, or remove it."""

    index: int
    record: ResizeRecord | None


Action = CheckGroup | ResizePods | RevertPods | AdoptGroup | MarkGroup

# What is reported

State = Literal["", "Preflight", "Resizing", "Adopting", "Reverting", "Stopped"]


class GroupCounts(msgspec.Struct, frozen=True):
    wanted: int = 0
    adopted: int = 0
    resizing: int = 0
    deferred: int = 0
    reverted: int = 0
    recreated: int = 0


class Conflict(msgspec.Struct, frozen=True):
    """A pod whose amounts were changed by someone else."""

    pod: str
    field: str


class WaitingPod(msgspec.Struct, frozen=True):
    """The pod that a group under way waits for."""

    group: int
    pod: str
    progress: Progress
    node_message: str
    seconds: float
    """Since the resize of its group began."""


class ResizePlan(msgspec.Struct, frozen=True):
    actions: tuple[Action, ...] = ()
    lowest_partition: int = 0
    state: State = ""
    counts: GroupCounts = GroupCounts()
    waiting: WaitingPod | None = None
    stopped: ResizeRecord | None = None
    """Why no further group begins."""
    conflicts: tuple[Conflict, ...] = ()
    look_again_after: float = 0.0
    """Seconds until a deadline passes; 0 for never."""
    pods: dict[Progress, int] = {}
    """Pods of groups under way, by how far they are."""


def plan_group_resizes(view: SetView) -> ResizePlan:
    """What to do with the groups of a set, and what to report about it."""
    in_range = sorted((one for one in view.groups if one.index >= view.partition), key=lambda one: -one.index)
    pending = [one for one in in_range if _is_pending(view, one)]
    actions: list[Action] = []
    for group in in_range:
        actions += _next_actions(view, group)
    stopped = next((one.record for one in pending if _stops(view, one)), None)
    begun = [one for one in pending if _under_way(one)]
    if stopped is None:
        actions += _begin(view, pending, view.concurrency - len(begun))
    return ResizePlan(
        actions=tuple(actions),
        lowest_partition=max((one.index + 1 for one in pending), default=0),
        state=_state(view, pending, actions, stopped),
        counts=_counts(view, in_range),
        waiting=_waiting(view, begun),
        stopped=stopped,
        conflicts=_conflicts(in_range),
        look_again_after=_until_deadline(view, begun),
        pods=_pods_by_progress(begun),
    )


def _is_pending(view: SetView, group: GroupView) -> bool:
    """The group is to be resized in place, so that the roll must not reach it."""
    record = group.record
    if record is not None and record.phase is Phase.RECREATE and record.revision == view.revision:
        return False
    if _under_way(group):
        return True
    return view.policy is not ResourceUpdatePolicy.RECREATE and isinstance(group.edit, InPlaceEdit)


def _under_way(group: GroupView) -> bool:
    return group.record is not None and group.record.phase in (Phase.RESIZING, Phase.REVERTING)


def _stops(view: SetView, group: GroupView) -> bool:
    record = group.record
    return record is not None and record.phase is Phase.REVERTED and record.revision == view.revision


def _next_actions(view: SetView, group: GroupView) -> list[Action]:
    record = group.record
    if record is None:
        return []
    match record.phase:
        case Phase.RESIZING:
            return _continue_resize(view, group, record)
        case Phase.REVERTING:
            return _continue_revert(view, group, record)
        case Phase.REVERTED | Phase.RECREATE if record.revision != view.revision or group.edit is None:
            return [MarkGroup(group.index, None)]
    return []


def _continue_resize(view: SetView, group: GroupView, record: ResizeRecord) -> list[Action]:
    reverting = _reason_to_revert(view, group, record)
    if reverting is not None:
        return [MarkGroup(group.index, reverting)]
    if not group.whole:
        return []
    shrinking = _not_sent(pod for pod in group.pods if pod.shrinks)
    if shrinking:
        return [ResizePods(group.index, _leader_first(shrinking))]
    if any(pod.forward.progress is not Progress.COMPLETE for pod in group.pods if pod.shrinks):
        return []
    growing = _not_sent(pod for pod in group.pods if not pod.shrinks)
    if growing:
        return [ResizePods(group.index, tuple(reversed(_leader_first(growing))))]
    if group.ready and all(pod.forward.progress is Progress.COMPLETE for pod in group.pods):
        return [AdoptGroup(group.index)]
    return []


def _reason_to_revert(view: SetView, group: GroupView, record: ResizeRecord) -> ResizeRecord | None:
    def because(reason: RevertReason, message: str = "") -> ResizeRecord:
        return ResizeRecord(record.revision, Phase.REVERTING, record.since, reason, message)

    if record.revision != view.revision or view.policy is ResourceUpdatePolicy.RECREATE:
        return because(RevertReason.SUPERSEDED)
    for pod in group.pods:
        if pod.forward.progress is Progress.INFEASIBLE:
            return because(RevertReason.INFEASIBLE, f"{pod.name}: {pod.forward.message}")
        if pod.forward.conflict is not None:
            return because(
                RevertReason.CONFLICT, f"{pod.name}: {pod.forward.conflict.path} was changed by someone else"
            )
    if view.now - record.since < view.deadline_seconds:
        return None
    for pod in group.pods:
        if pod.forward.progress is not Progress.COMPLETE:
            message = pod.forward.message or pod.forward.progress.value
            return because(RevertReason.DEADLINE_EXCEEDED, f"{pod.name}: {message}")
    return None


def _continue_revert(view: SetView, group: GroupView, record: ResizeRecord) -> list[Action]:
    unreverted = tuple(pod.name for pod in group.pods if pod.backward.progress is Progress.NOT_SENT)
    if unreverted:
        return [RevertPods(group.index, unreverted)]
    if any(pod.backward.progress not in (Progress.COMPLETE, Progress.CONFLICT, Progress.GONE) for pod in group.pods):
        return []
    if record.reason is RevertReason.SUPERSEDED or record.revision != view.revision:
        return [MarkGroup(group.index, None)]
    phase = phase_after_failure(view.policy, record.reason)
    return [MarkGroup(group.index, ResizeRecord(record.revision, phase, record.since, record.reason, record.message))]


def phase_after_failure(policy: ResourceUpdatePolicy, reason: RevertReason | None) -> Phase:
    """What becomes of a group that cannot be resized. Amounts that someone else set are never overwritten by
    recreating their pod."""
    if policy is ResourceUpdatePolicy.IN_PLACE_OR_RECREATE and reason is not RevertReason.CONFLICT:
        return Phase.RECREATE
    return Phase.REVERTED


def _begin(view: SetView, pending: Sequence[GroupView], room: int) -> list[Action]:
    actions: list[Action] = []
    for group in pending:
        if group.record is not None or not isinstance(group.edit, InPlaceEdit):
            continue
        if _conflicts([group]):
            continue
        if group.unplaced or (group.broken and view.policy is ResourceUpdatePolicy.IN_PLACE_OR_RECREATE):
            actions.append(MarkGroup(group.index, ResizeRecord(view.revision, Phase.RECREATE, view.now)))
        elif room > 0 and group.whole and (group.ready or group.broken):
            actions.append(CheckGroup(group.index))
            room -= 1
    return actions


def _not_sent(pods: Iterable[PodView]) -> list[PodView]:
    return [pod for pod in pods if pod.forward.progress is Progress.NOT_SENT]


def _leader_first(pods: Sequence[PodView]) -> tuple[str, ...]:
    return tuple(pod.name for pod in sorted(pods, key=lambda pod: not pod.leader))


def _state(
    view: SetView, pending: Sequence[GroupView], actions: Sequence[Action], stopped: ResizeRecord | None
) -> State:
    records = [one.record for one in pending if one.record is not None]
    if any(one.phase is Phase.REVERTING for one in records):
        return "Reverting"
    if any(isinstance(one, AdoptGroup) for one in actions):
        return "Adopting"
    if any(one.phase is Phase.RESIZING for one in records):
        return "Resizing"
    if stopped is not None:
        return "Stopped"
    return "Preflight" if pending else ""


def _counts(view: SetView, groups: Sequence[GroupView]) -> GroupCounts:
    def recorded(phase: Phase) -> int:
        return sum(one.record is not None and one.record.phase is phase for one in groups)

    resizing = [one for one in groups if one.record is not None and one.record.phase is Phase.RESIZING]
    return GroupCounts(
        wanted=len(groups),
        adopted=sum(one.revision == view.revision and one.record is None for one in groups),
        resizing=len(resizing),
        deferred=sum(any(pod.forward.progress is Progress.DEFERRED for pod in one.pods) for one in resizing),
        reverted=recorded(Phase.REVERTED),
        recreated=recorded(Phase.RECREATE),
    )


def _waiting(view: SetView, groups: Sequence[GroupView]) -> WaitingPod | None:
    for group in groups:
        if group.record is None:
            continue
        for pod in group.pods:
            found = pod.forward if group.record.phase is Phase.RESIZING else pod.backward
            if found.progress.blocked or found.progress is Progress.INFEASIBLE:
                seconds = max(0.0, view.now - group.record.since)
                return WaitingPod(group.index, pod.name, found.progress, found.message, seconds)
    return None


def _pods_by_progress(groups: Sequence[GroupView]) -> dict[Progress, int]:
    reverting = {one.index for one in groups if one.record is not None and one.record.phase is Phase.REVERTING}
    found = (
        (pod.backward if group.index in reverting else pod.forward).progress for group in groups for pod in group.pods
    )
    return dict(Counter(found))


def _conflicts(groups: Sequence[GroupView]) -> tuple[Conflict, ...]:
    return tuple(
        Conflict(pod.name, pod.forward.conflict.path)
        for group in groups
        if not _under_way(group)
        for pod in group.pods
        if pod.forward.conflict is not None
    )


def _until_deadline(view: SetView, groups: Sequence[GroupView]) -> float:
    left = [
        max(one.record.since + view.deadline_seconds - view.now, 0.1)
        for one in groups
        if one.record is not None and one.record.phase is Phase.RESIZING
    ]
    return min(left, default=0.0)
