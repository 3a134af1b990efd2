"""What is done next with every group of a set whose new revision can be had in place.

Groups are resized from the highest index down to the partition, at most `concurrency` of them at a time. What counts
beside the groups under way:

| another group | counts |
|---|---|
| has the wanted revision, or has no leader, and is not ready | yes: whether the new resources serve is not known yet |
| is to be recreated, and the roll can reach it | yes |
| is not ready at an earlier revision | if the group that is to begin is ready and its containers restart |
| no pod of it has a node | no: it may wait for the room that a resize makes |

One group goes through these states; what is recorded on its leader says in which it is:

| recorded | observed | action |
|---|---|---|
| nothing | the group is whole and ready, and it is its turn | `CheckGroup`: preflight, then Resizing |
| nothing | a pod has amounts of someone else | none: the conflict is reported |
| nothing | it has failed: held, or waits to be recreated | `MarkGroup(RECREATE)`: a new template begins afresh |
| nothing | broken otherwise, policy InPlaceOrRecreate | `MarkGroup(RECREATE)`: that costs no availability |
| nothing | no pod of it has a node | `MarkGroup(RECREATE)`: nothing runs that could be resized |
| Resizing | pods that shrink are not done | `ResizePods`: those, leader first |
| Resizing | pods that shrink are done | `ResizePods`: the others, leader last |
| Resizing | all pods are complete, and the group is ready | `AdoptGroup` |
| Resizing | the group is held by now | `MarkGroup(RECREATE)`: it would never become ready |
| Resizing | the group waits to be recreated | none: it returns at its former size, and begins again |
| Resizing | a pod is infeasible, or blocked beyond the deadline | `MarkGroup(REVERTING)` |
| Resizing | someone else changed an amount of a pod | `MarkGroup(REVERTING, CONFLICT)` |
| Resizing | another revision is wanted by now | `MarkGroup(REVERTING, SUPERSEDED)` |
| Reverting | pods that do not have their old amounts | `RevertPods` |
| Reverting | all pods are back, or twice the deadline is over | `MarkGroup`: RECREATE, REVERTED or none |
| Recreate | | none: the roll may reach the group (`lowest_partition`) |
| Reverted | | none, and no further group begins |
| about an earlier revision, and not under way | | `MarkGroup(None)` |

A group at which the set stopped, or which waits to be recreated, is reconsidered when the strategy of the set changes,
or when nothing stands in its way any more:

| recorded | the set now | action |
|---|---|---|
| Reverted, DEADLINE_EXCEEDED or NODE_NOT_REPORTING | gives more time | `MarkGroup(None)`: it is tried again |
| Reverted, by any reason but CONFLICT and NOT_ADMITTED | InPlaceOrRecreate | `MarkGroup(RECREATE)` |
| Recreate | InPlaceOnly, and the group has nodes and has not failed | `MarkGroup(None)`: it must not be recreated |
| Reverted | Recreate | none: the roll may reach the group |
| Reverted, CONFLICT | its pods have amounts of a template again | `MarkGroup(None)`: it is tried again |

InPlaceOnly keeps pods that serve. A group that has failed does not: it would be recreated anyway, or never serve again.

While a record is removed, no other group begins: the group of the highest index comes first.

The leader StatefulSet must not replace a group that is to be resized. It replaces groups from its partition up, so its
partition stays above the highest of them: `lowest_partition`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, Literal, NamedTuple

import msgspec

from kohort.groups.resize.group_view import GroupView, PodView
from kohort.groups.resize.pod_progress import ResizeStage
from kohort.groups.resize.record import Phase, ResizeRecord, RevertReason
from kohort.rules.group_state import RestartState
from kohort.rules.resource_edit import InPlaceEdit, RecreateEdit
from kohort.rules.resource_update_policy import ResourceUpdatePolicy


class SetView(msgspec.Struct, frozen=True):
    revision: str
    """The wanted one."""
    policy: ResourceUpdatePolicy
    replicas: int
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

_REPORT_STEPS: Final = ((300.0, 15.0), (3600.0, 60.0), (float("inf"), 600.0))
"""For waits up to the first figure, the status says how long a pod has been waited for in steps of the second one: each
is a write, and a deadline may be a day away."""
NAMED_GROUPS: Final = 5
"""How many groups a message names."""
State = Literal["", "Preflight", "Resizing", "Adopting", "Reverting", "Stopped"]


class GroupCounts(msgspec.Struct, frozen=True):
    wanted: int = 0
    adopted: int = 0
    resizing: int = 0
    deferred: int = 0
    reverted: int = 0
    recreated: int = 0


class AmountConflict(msgspec.Struct, frozen=True):
    """A pod whose amounts were changed by someone else."""

    pod: str
    field: str


class WaitingPod(msgspec.Struct, frozen=True):
    """The pod that a group under way waits for."""

    group: int
    pod: str
    progress: ResizeStage
    node: str
    node_message: str
    seconds: float
    """Since the resize of its group began."""

    @property
    def reported_seconds(self) -> float:
        return self.seconds - self.seconds % self._step

    @property
    def next_report(self) -> float:
        """Seconds until another figure is reported."""
        return max(self._step - self.seconds % self._step, 0.1)

    @property
    def _step(self) -> float:
        return next(step for longest, step in _REPORT_STEPS if self.seconds < longest)


class StoppedGroup(msgspec.Struct, frozen=True):
    """A group that could not be resized, and at which the set stops."""

    group: int
    record: ResizeRecord


class WaitingRecreation(msgspec.Struct, frozen=True):
    """A group that could not be resized and still has its former resources, until the roll recreates it."""

    group: int
    why: str


class ResizePlan(msgspec.Struct, frozen=True):
    actions: tuple[Action, ...] = ()
    lowest_partition: int = 0
    state: State = ""
    counts: GroupCounts = GroupCounts()
    waiting: WaitingPod | None = None
    stopped: StoppedGroup | None = None
    """Why no further group begins."""
    conflicts: tuple[AmountConflict, ...] = ()
    look_again_after: float = 0.0
    """Seconds until a deadline passes, or until the time in the message is out of date; 0 for never."""
    waits_for_groups: tuple[int, ...] = ()
    """Groups that must be ready before the next one begins; one more than `NAMED_GROUPS` at most."""
    behind: int = 0
    """Groups that the roll still has to bring to the wanted revision, in place or not."""
    held_by_partition: int = 0
    """Groups below the partition that have another revision."""
    to_recreate: WaitingRecreation | None = None
    """The next group that could not be resized, and that the roll recreates."""
    recreating: RecreateEdit | None = None
    """Cpu or memory change, together with something that running pods cannot follow."""
    pods: dict[ResizeStage, int] = {}
    """Pods of groups under way, by how far they are."""


def plan_group_resizes(view: SetView) -> ResizePlan:
    """What to do with the groups of a set, and what to report about it."""
    in_range = sorted((one for one in view.groups if one.index >= view.partition), key=lambda one: -one.index)
    pending = [one for one in in_range if _is_pending(view, one)]
    actions: list[Action] = []
    for group in in_range:
        actions += _next_actions(view, group)
    reconsidered = {one.index for one in actions}
    stops = [one for one in pending if _stops(view, one)]
    kept = [StoppedGroup(one.index, one.record) for one in stops if one.record and one.index not in reconsidered]
    stopped = kept[0] if kept else None
    to_recreate = _to_recreate(view, in_range, reconsidered)
    begun = [one for one in pending if _under_way(one)]
    waiting = _waiting(view, begun)
    begins = [] if stops or any(map(_begins_anew, actions)) else _begin(view, pending)
    actions += begins
    return ResizePlan(
        actions=tuple(actions),
        lowest_partition=max((one.index + 1 for one in pending), default=0),
        state=_state(pending, actions, stopped, to_recreate),
        waits_for_groups=() if begun or begins or stopped else _waits_for(view, pending),
        counts=_counts(view, in_range),
        waiting=waiting,
        stopped=stopped,
        behind=sum(one.revision != view.revision for one in in_range),
        held_by_partition=sum(one.index < view.partition and one.revision != view.revision for one in view.groups),
        to_recreate=to_recreate,
        conflicts=_conflicts(in_range),
        look_again_after=_look_again_after(view, begun, waiting),
        recreating=_recreating(view, in_range),
        pods=_pods_by_progress(begun),
    )


def _begins_anew(action: Action) -> bool:
    """The record of a group is removed: it may be the next one to begin, before groups of a lower index."""
    return isinstance(action, MarkGroup) and action.record is None


def _is_pending(view: SetView, group: GroupView) -> bool:
    """The group is to be resized in place, so that the roll must not reach it."""
    record = group.record
    if record is not None and record.phase is Phase.RECREATE and record.revision == view.revision:
        return bool(_reconsider(view, group, record)) and isinstance(group.edit, InPlaceEdit)
    if _under_way(group):
        return True
    return view.policy is not ResourceUpdatePolicy.RECREATE and isinstance(group.edit, InPlaceEdit)


def _under_way(group: GroupView) -> bool:
    return group.record is not None and group.record.under_way


def _stops(view: SetView, group: GroupView) -> bool:
    return group.record is not None and group.record.stops(view.revision)


def _next_actions(view: SetView, group: GroupView) -> list[Action]:
    record = group.record
    if record is None:
        return []
    match record.phase:
        case Phase.RESIZING:
            return _continue_resize(view, group, record)
        case Phase.REVERTING:
            return _continue_revert(view, group, record)
        case Phase.REVERTED | Phase.RECREATE:
            return _reconsider(view, group, record)


def _reconsider(view: SetView, group: GroupView, record: ResizeRecord) -> list[Action]:
    if record.revision != view.revision or group.edit is None:
        return [MarkGroup(group.index, None)]
    only = view.policy is ResourceUpdatePolicy.IN_PLACE_ONLY
    if record.phase is Phase.RECREATE:
        kept = only and not group.unplaced and group.restart is None
        return [MarkGroup(group.index, None)] if kept else []
    if not view.policy.in_place:
        return []
    if record.reason is RevertReason.CONFLICT and not _conflicts([group]):
        return [MarkGroup(group.index, None)]
    if record.reason in _LATE and 0 < record.deadline < view.deadline_seconds:
        return [MarkGroup(group.index, None)]
    if phase_after_failure(view.policy, record.reason) is Phase.RECREATE:
        return [MarkGroup(group.index, msgspec.structs.replace(record, phase=Phase.RECREATE))]
    return []


def _continue_resize(view: SetView, group: GroupView, record: ResizeRecord) -> list[Action]:
    reverting = _reason_to_revert(view, group, record)
    if reverting is not None:
        return [MarkGroup(group.index, reverting)]
    if group.restart is RestartState.HELD:
        return [MarkGroup(group.index, ResizeRecord(view.revision, Phase.RECREATE, record.since))]
    if not group.whole:
        return []
    shrinking = _not_sent(pod for pod in group.pods if pod.shrinks)
    if shrinking:
        return [ResizePods(group.index, _leader_first(shrinking))]
    if any(pod.forward.progress is not ResizeStage.COMPLETE for pod in group.pods if pod.shrinks):
        return []
    growing = _not_sent(pod for pod in group.pods if not pod.shrinks)
    if growing:
        return [ResizePods(group.index, tuple(reversed(_leader_first(growing))))]
    if group.ready and all(pod.forward.progress is ResizeStage.COMPLETE for pod in group.pods):
        return [AdoptGroup(group.index)]
    return []


def _reason_to_revert(view: SetView, group: GroupView, record: ResizeRecord) -> ResizeRecord | None:
    def because(reason: RevertReason, message: str = "") -> ResizeRecord:
        return ResizeRecord(record.revision, Phase.REVERTING, record.since, reason, message)

    if record.revision != view.revision or view.policy is ResourceUpdatePolicy.RECREATE:
        return because(RevertReason.SUPERSEDED)
    for pod in group.pods:
        if pod.forward.progress is ResizeStage.INFEASIBLE:
            return because(RevertReason.INFEASIBLE, f"{_on_its_node(pod)}: {pod.forward.message}")
        if pod.forward.conflict is not None:
            return because(
                RevertReason.CONFLICT, f"{pod.name}: {pod.forward.conflict.path} was changed by someone else"
            )
    if view.now - record.since < view.deadline_seconds:
        return None
    for pod in group.pods:
        if pod.forward.progress is not ResizeStage.COMPLETE:
            silent = pod.forward.progress is ResizeStage.UNOBSERVED
            reason = RevertReason.NODE_NOT_REPORTING if silent else RevertReason.DEADLINE_EXCEEDED
            message = pod.forward.message or _LATE_WORDS.get(pod.forward.progress, "")
            late = because(reason, f"{_on_its_node(pod)}: {message}")
            return msgspec.structs.replace(late, deadline=view.deadline_seconds)
    return None


_LATE_WORDS: Final = {
    ResizeStage.GONE: "the pod has ended or is being deleted",
    ResizeStage.NOT_SENT: "the pod does not have the new resources yet",
    ResizeStage.UNOBSERVED: "the node does not report, and has not looked at the resize",
    ResizeStage.ACTUATING: "the node has not finished the resize",
    ResizeStage.UNCONFIRMED: "the node has not confirmed the resize",
}
"""For pods about which their node says nothing."""


def _on_its_node(pod: PodView) -> str:
    return f"{pod.name} on node {pod.node}" if pod.node else pod.name


def _continue_revert(view: SetView, group: GroupView, record: ResizeRecord) -> list[Action]:
    if view.now < _end_of_revert(view, record):
        unreverted = tuple(pod.name for pod in group.pods if pod.backward.progress is ResizeStage.NOT_SENT)
        if unreverted:
            return [RevertPods(group.index, unreverted)]
        if any(pod.backward.progress not in _BACK for pod in group.pods):
            return []
    if record.reason in _MAY_BEGIN_AGAIN or record.revision != view.revision:
        return [MarkGroup(group.index, None)]
    phase = phase_after_failure(view.policy, record.reason)
    return [MarkGroup(group.index, msgspec.structs.replace(record, phase=phase))]


def _end_of_revert(view: SetView, record: ResizeRecord) -> float:
    """A node that does not even give former amounts back must not hold the other groups."""
    return record.since + 2 * view.deadline_seconds


_LATE: Final = (RevertReason.DEADLINE_EXCEEDED, RevertReason.NODE_NOT_REPORTING)
_BACK: Final = (ResizeStage.COMPLETE, ResizeStage.CONFLICT, ResizeStage.GONE)
_MAY_BEGIN_AGAIN: Final = (RevertReason.SUPERSEDED, RevertReason.QUOTA_EXCEEDED)
"""Its preflight says when."""
_NEVER_RECREATED: Final = (RevertReason.CONFLICT, RevertReason.NOT_ADMITTED)


def phase_after_failure(policy: ResourceUpdatePolicy, reason: RevertReason | None) -> Phase:
    """What becomes of a group that cannot be resized. Amounts that someone else set are never overwritten by
    recreating their pod, and no pod is deleted whose successor would not be admitted."""
    if policy is ResourceUpdatePolicy.IN_PLACE_OR_RECREATE and reason not in _NEVER_RECREATED:
        return Phase.RECREATE
    return Phase.REVERTED


def _begin(view: SetView, pending: Sequence[GroupView]) -> list[Action]:
    actions: list[Action] = []
    occupied, checked = _occupied(view, pending), 0
    for group in pending:
        if group.record is not None or not isinstance(group.edit, InPlaceEdit):
            continue
        if _conflicts([group]):
            continue
        if group.unplaced or group.restart is not None or (group.broken and _may_recreate(view)):
            actions.append(MarkGroup(group.index, ResizeRecord(view.revision, Phase.RECREATE, view.now)))
        elif group.whole and (group.ready or group.broken) and occupied.beside(group) + checked < view.concurrency:
            actions.append(CheckGroup(group.index))
            checked += 1
    return actions


def _may_recreate(view: SetView) -> bool:
    return view.policy is ResourceUpdatePolicy.IN_PLACE_OR_RECREATE


class _Occupied(NamedTuple):
    """The groups that count against `concurrency`."""

    missing: int
    """That do not exist; there may be a million of them."""
    always: frozenset[int]
    if_containers_restart: frozenset[int]

    def of(self, beginning: GroupView) -> frozenset[int]:
        restarts = beginning.ready and any(pod.restarts for pod in beginning.pods)
        return self.if_containers_restart if restarts else self.always

    def beside(self, beginning: GroupView) -> int:
        found = self.of(beginning)
        return self.missing + len(found) - (beginning.index in found)


def _occupied(view: SetView, pending: Sequence[GroupView]) -> _Occupied:
    reachable = max((one.index for one in pending), default=-1)
    found = {one.index for one in view.groups if _under_way(one) or _not_known_to_serve(view, one)}
    found |= {one.index for one in view.groups if one.index > reachable and _is_to_be_recreated(view, one)}
    unready = {one.index for one in view.groups if not one.ready}
    return _Occupied(_missing(view.groups, 0, view.replicas), frozenset(found), frozenset(found | unready))


def _missing(groups: Iterable[GroupView], first: int, end: int) -> int:
    """How many groups of a range do not exist."""
    return max(0, end - first) - len({one.index for one in groups if first <= one.index < end})


def _not_known_to_serve(view: SetView, group: GroupView) -> bool:
    return group.revision == view.revision and not group.ready and not group.unplaced


def _waits_for(view: SetView, pending: Sequence[GroupView]) -> tuple[int, ...]:
    waiting = next((one for one in pending if one.record is None and one.whole and not _conflicts([one])), None)
    if waiting is None:
        return ()
    there = {one.index for one in view.groups}
    missing = islice((index for index in range(view.replicas) if index not in there), NAMED_GROUPS + 1)
    return tuple(sorted({*missing, *_occupied(view, pending).of(waiting)} - {waiting.index})[: NAMED_GROUPS + 1])


def _not_sent(pods: Iterable[PodView]) -> list[PodView]:
    return [pod for pod in pods if pod.forward.progress is ResizeStage.NOT_SENT]


def _leader_first(pods: Sequence[PodView]) -> tuple[str, ...]:
    return tuple(pod.name for pod in sorted(pods, key=lambda pod: not pod.leader))


def _to_recreate(view: SetView, groups: Sequence[GroupView], reconsidered: set[int]) -> WaitingRecreation | None:
    for one in groups:
        if one.record is not None and one.index not in reconsidered and _is_to_be_recreated(view, one):
            return WaitingRecreation(one.index, one.record.message)
    return None


def _is_to_be_recreated(view: SetView, group: GroupView) -> bool:
    record = group.record
    if record is None or record.phase is not Phase.RECREATE:
        return False
    return record.revision == view.revision and group.edit is not None


def _state(
    pending: Sequence[GroupView],
    actions: Sequence[Action],
    stopped: StoppedGroup | None,
    to_recreate: WaitingRecreation | None,
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
    if to_recreate is not None:
        return "Resizing"
    if not pending:
        return ""
    return "Stopped" if all(_conflicts([one]) for one in pending) else "Preflight"


def _counts(view: SetView, groups: Sequence[GroupView]) -> GroupCounts:
    def recorded(phase: Phase) -> int:
        return sum(one.record is not None and one.record.phase is phase for one in groups)

    resizing = [one for one in groups if one.record is not None and one.record.phase is Phase.RESIZING]
    adopted = [one for one in groups if one.revision == view.revision and one.record is None and one.ready]
    return GroupCounts(
        wanted=max(0, view.replicas - view.partition),
        adopted=sum(one.index < view.replicas for one in adopted),
        resizing=len(resizing),
        deferred=sum(any(pod.forward.progress is ResizeStage.DEFERRED for pod in one.pods) for one in resizing),
        reverted=recorded(Phase.REVERTED),
        recreated=recorded(Phase.RECREATE),
    )


def _waiting(view: SetView, groups: Sequence[GroupView]) -> WaitingPod | None:
    for group in groups:
        if group.record is None:
            continue
        for pod in group.pods:
            found = pod.forward if group.record.phase is Phase.RESIZING else pod.backward
            if found.progress.blocked or found.progress is ResizeStage.INFEASIBLE:
                seconds = max(0.0, view.now - group.record.since)
                return WaitingPod(group.index, pod.name, found.progress, pod.node, found.message, seconds)
    return None


def _pods_by_progress(groups: Sequence[GroupView]) -> dict[ResizeStage, int]:
    reverting = {one.index for one in groups if one.record is not None and one.record.phase is Phase.REVERTING}
    found = (
        (pod.backward if group.index in reverting else pod.forward).progress for group in groups for pod in group.pods
    )
    return dict(Counter(found))


def _conflicts(groups: Sequence[GroupView]) -> tuple[AmountConflict, ...]:
    return tuple(
        AmountConflict(pod.name, pod.forward.conflict.path)
        for group in groups
        if not _under_way(group)
        for pod in group.pods
        if pod.forward.conflict is not None
    )


def _recreating(view: SetView, groups: Sequence[GroupView]) -> RecreateEdit | None:
    edits = (one.edit for one in groups) if view.policy.in_place else ()
    return next((edit for edit in edits if isinstance(edit, RecreateEdit) and edit.changes_amounts), None)


def _look_again_after(view: SetView, groups: Sequence[GroupView], waiting: WaitingPod | None) -> float:
    records = [one.record for one in groups if one.record is not None and one.record.under_way]
    ends = [
        one.since + view.deadline_seconds if one.phase is Phase.RESIZING else _end_of_revert(view, one)
        for one in records
    ]
    left = [max(one - view.now, 0.1) for one in ends]
    if waiting is not None:
        left.append(waiting.next_report)
    return min(left, default=0.0)
