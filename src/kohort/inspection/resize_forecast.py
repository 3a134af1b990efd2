"""How each group of a set would get other cpu and memory: in place, by being recreated, or not at all.

The resizes are played through with the very function that the operator plans by, `plan_group_resizes`, and with what
the preflight of each group said. What is left is the order, and for each group its way and the reason:

| way | reason |
|---|---|
| in place | none; or a node that lacks the room at the moment, so that the group waits for it |
| recreate | the edit is about more than cpu and memory, or running pods cannot follow it: `RecreateReason` |
| recreate | the preflight failed, and the policy is InPlaceOrRecreate: `PreflightRefusal` |
| recreate | the group does not become ready anyway: `BROKEN` |
| refused | the preflight failed, and the policy is InPlaceOnly: `PreflightRefusal` |
| refused | a quota has no room; it is tried again when it has: `PreflightRefusal.QUOTA_EXCEEDED` |
| refused | amounts of a pod were changed by someone else: `CONFLICT` |
| refused | the set has stopped there, and this edit changes nothing about that: `STOPPED` |
| refused | the set stops at another group before: `NOT_REACHED` |

A group that is not ready now is looked at as the operator does it: one that has failed or is broken is recreated or
begun, any other is passed over until it is ready (`becomes_ready`).
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from kohort.groups import revisions
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.resize.group_view import GroupView, PodView, members_of_group, view_of_group, view_of_pod
from kohort.groups.resize.plan import (
    AdoptGroup,
    CheckGroup,
    MarkGroup,
    ResizePods,
    SetView,
    plan_group_resizes,
)
from kohort.groups.resize.pod_progress import PodProgress, ResizeStage
from kohort.groups.resize.preflight import PreflightFailure, PreflightRefusal, record_after_preflight
from kohort.groups.resize.preflight_requests import Member
from kohort.groups.resize.record import Phase, read_record
from kohort.groups.resize.status import recreate_words
from kohort.inspection.advice import Command, Verb
from kohort.inspection.snapshot import Snapshot, worker_of
from kohort.inspection.template_resize import AmountRequest, request_problem, resized_template
from kohort.objects.core import Node, Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.quantity import ZERO, Quantity
from kohort.resources import ACCOUNTING, amounts_of, requests
from kohort.rules import group_labels
from kohort.rules.group_template import canonical_template
from kohort.rules.resize_restart import containers_restarted_by
from kohort.rules.resource_edit import (
    POD,
    RESIZABLE,
    AmountChange,
    AmountField,
    InPlaceEdit,
    RecreateEdit,
    RecreateReason,
    Role,
    TemplateEdit,
    change_of_pod,
    classify_revision_edit,
    with_amounts,
)
from kohort.rules.resource_update_policy import ResourceUpdatePolicy, deadline_seconds, resource_update_policy

_LONGEST: Final = 10_000
_COMPLETE: Final = PodProgress(ResizeStage.COMPLETE)
_NOT_SENT: Final = PodProgress(ResizeStage.NOT_SENT)


class ResizeMethod(StrEnum):
    IN_PLACE = "InPlace"
    RECREATE = "Recreate"
    REFUSED = "Refused"


class GroupReason(StrEnum):
    BROKEN = "Broken"
    CONFLICT = "Conflict"
    STOPPED = "Stopped"
    NOT_REACHED = "NotReached"


class RoomShortage(msgspec.Struct, frozen=True, rename="camel"):
    """A node lacks the room for a pod at the moment, so that its resize is deferred."""

    pod: str
    node: str
    resource: str
    more: str
    """What the pod asks for beyond what it has."""
    free: str


class GroupResizeForecast(msgspec.Struct, frozen=True, rename="camel"):
    group: int
    way: ResizeMethod
    reason: RecreateReason | PreflightRefusal | GroupReason | None = None
    pod: str = ""
    detail: str = ""
    """Amounts, names or the words of the API server."""
    waits_for: tuple[RoomShortage, ...] = ()
    """In place, but not before these nodes have room."""


class ResizeForecast(msgspec.Struct, frozen=True, rename="camel"):
    policy: ResourceUpdatePolicy
    groups: tuple[GroupResizeForecast, ...] = ()
    """From the highest index down: the order in which they come. Empty with the policy Recreate."""
    at_a_time: int = 1
    """At most so many groups are resized at the same time."""
    restarts: tuple[str, ...] = ()
    """Containers whose own policy restarts them."""
    not_asked: str = ""
    """What could not be asked for lack of rights."""
    obstacle: RecreateEdit | None = None
    """Why running pods cannot follow, although nothing but cpu and memory changes."""
    command: str = ""
    """With the policy Recreate: the command that does it in place."""

    @property
    def all_in_place(self) -> bool:
        """The edit can be carried out on running pods, and the set wants it that way: a Rollout makes no canary set."""
        return self.policy.in_place and self.obstacle is None

    def by_way(self, way: ResizeMethod) -> list[GroupResizeForecast]:
        return [one for one in self.groups if one.way is way]


class Preflight(msgspec.Struct, frozen=True):
    """What the cluster said about each group."""

    failures: Mapping[int, PreflightFailure] = {}
    shortages: Mapping[int, tuple[RoomShortage, ...]] = {}
    not_asked: str = ""


def edits_of_groups(before: Snapshot, after: LeaderWorkerSet) -> dict[int, TemplateEdit | None]:
    """By group: what leads from the revision that it has to the wanted one; None if it has that already."""
    wanted = revisions.content(after)["spec"]
    found: dict[int, TemplateEdit | None] = {}
    known: dict[str, TemplateEdit | None] = {}
    for index, leader in before.leaders.items():
        key = leader.metadata.labels.get(group_labels.REVISION, "")
        if key not in known:
            known[key] = _edit(before, key, wanted)
        found[index] = known[key]
    return found


def _edit(before: Snapshot, key: str, wanted: JsonObject) -> TemplateEdit | None:
    stored = revisions.by_key(before.revisions, key)
    if stored is not None:
        content = revisions.content(stored.applied_to(before.group_set))["spec"]
    elif key == before.update_key:
        content = revisions.content(before.group_set)["spec"]
    else:
        return RecreateEdit(RecreateReason.OTHER_FIELDS)
    return None if content == wanted else classify_revision_edit(content, wanted)


def _stays_as_it_is(before: LeaderWorkerSet, after: LeaderWorkerSet) -> bool:
    """The template, and the strategy by which groups that stopped are reconsidered."""
    same = revisions.content(before)["spec"] == revisions.content(after)["spec"]
    return same and all(read(before.spec) == read(after.spec) for read in (resource_update_policy, deadline_seconds))


def members_to_resize(before: Snapshot, after: LeaderWorkerSet) -> dict[int, list[Member]]:
    """The groups that the operator would ask about, from the highest index down, with what their pods go through."""
    if not resource_update_policy(after.spec).in_place:
        return {}
    found: dict[int, list[Member]] = {}
    for index, edit in sorted(edits_of_groups(before, after).items(), reverse=True):
        if isinstance(edit, InPlaceEdit) and _partition(before, after) <= index < after.replicas:
            found[index] = [(pod, change_of_pod(pod.spec, edit.of(_role(pod)))) for pod in _members(before, index)]
    return found


def _partition(before: Snapshot, after: LeaderWorkerSet) -> int:
    """A Rollout holds the set by its partition, and lowers it step by step."""
    return 0 if before.rollout is not None else after.partition


def room_shortages(
    groups: Mapping[int, Sequence[Member]], nodes: Iterable[Node], pods: Iterable[Pod]
) -> dict[int, tuple[RoomShortage, ...]]:
    """By group: pods whose nodes lack the room now. Groups come one after the other, and what a group takes or gives
    back is gone or there for the next one. `pods` are all of the cluster."""
    free = {node.metadata.name: dict(amounts_of(node.status.allocatable)) for node in nodes}
    for pod in pods:
        if pod.spec.node_name in free and not pod.finished:
            _take(free[pod.spec.node_name], requests(pod, ACCOUNTING))
    found: dict[int, tuple[RoomShortage, ...]] = {}
    for index, members in groups.items():
        growths = [(pod, _growth(pod, change)) for pod, change in members if pod.spec.node_name in free]
        for pod, growth in growths:
            _take(free[pod.spec.node_name], growth)
        short = [
            RoomShortage(pod.metadata.name, node, name, str(more), str(max(free[node][name] + more, ZERO)))
            for pod, growth in growths
            for name, more in growth.items()
            if more > ZERO and name in free[node := pod.spec.node_name] and free[node][name] < ZERO
        ]
        if short:
            found[index] = tuple(short)
    return found


def _growth(pod: Pod, change: AmountChange) -> dict[str, Quantity]:
    before, after = requests(pod, ACCOUNTING), requests(with_amounts(pod, change.after))  # once the node has followed
    return {name: after.get(name, ZERO) - before.get(name, ZERO) for name in RESIZABLE}


def _take(free: dict[str, Quantity], taken: Mapping[str, Quantity]) -> None:
    for name, amount in taken.items():
        if name in free:
            free[name] = free[name] - amount


class ResizeSimulation:
    """The resizes of a set, played through."""

    def __init__(self, before: Snapshot, after: LeaderWorkerSet, preflight: Preflight) -> None:
        self._after = after
        self._policy = resource_update_policy(after.spec)
        self._partition = _partition(before, after)
        self._preflight = preflight
        self._edits = edits_of_groups(before, after)
        self._changes_nothing = _stays_as_it_is(before.group_set, after)
        self._views = {index: self._first_view(before, index) for index in self._edits if index < after.replicas}
        self._existing = min(len(before.ordered_states), after.replicas)
        self._edit_of_absent = _edit(before, before.update_key, revisions.content(after)["spec"])
        self.resized: list[int] = []

    def _first_view(self, before: Snapshot, index: int) -> GroupView:
        edit, leader, members = self._edits[index], before.leaders[index], _members(before, index)
        carried = leader.metadata.labels.get(group_labels.REVISION, "")
        pods = [_view_of_pod(pod, edit) for pod in members]
        record = read_record(leader.metadata.annotations)
        if record is not None:  # it finishes or reverts first
            pods = [replace(pod, forward=_NOT_SENT) for pod in pods]
        stopped = record is not None and record.stops(before.update_key)
        return view_of_group(
            index,
            members,
            pods,
            before.states.get(index),
            edit,
            revision=carried if edit is not None else _NEW,
            default_size=before.group_set.template.size,
            record=replace(record, revision=_NEW) if record and stopped and self._changes_nothing else None,
        )

    @property
    def lowest_partition(self) -> int:
        return plan_group_resizes(self._view()).lowest_partition

    def advance(self) -> tuple[int, ...]:
        """Go on until groups have their new resources; which ones."""
        for _ in range(_LONGEST):
            adopted: list[int] = []
            moved = False
            for action in plan_group_resizes(self._view()).actions:
                view = self._views[action.index]
                match action:
                    case CheckGroup():
                        failure = self._preflight.failures.get(action.index)
                        record = record_after_preflight(self._policy, failure, _NEW, 0.0)
                        self._views[action.index] = replace(view, record=record)
                        moved = moved or record is not None
                    case MarkGroup(record=record):
                        self._views[action.index] = replace(view, record=record)
                        moved = True
                    case ResizePods(pods=names):
                        pods = [replace(pod, forward=_COMPLETE) if pod.name in names else pod for pod in view.pods]
                        self._views[action.index] = replace(view, pods=pods)
                        moved = True
                    case AdoptGroup():
                        self._views[action.index] = replace(view, revision=_NEW, edit=None, record=None)
                        adopted.append(action.index)
            self.resized += adopted
            if adopted or not moved:
                return tuple(adopted)
        return ()

    def restarting(self, indexes: Iterable[int]) -> frozenset[int]:
        """Those of these groups of which a container restarts."""
        return frozenset(one for one in indexes if any(pod.restarts for pod in self._views[one].pods))

    def recreate(self, indexes: Iterable[int]) -> None:
        """These groups were recreated by the roll."""
        for index in indexes:
            if index in self._views:
                recreated = replace(self._views[index], revision=_NEW, edit=None, record=None)
                self._views[index] = replace(recreated, ready=True, broken=False, unplaced=False, restart=None)
            elif index < self._existing:
                self._views[index] = GroupView(index, _NEW, None, [], True, True)

    def becomes_ready(self, indexes: Iterable[int]) -> None:
        """These groups were not ready, and are now. One that did not exist was made with the former template."""
        for index in indexes:
            if index in self._views:
                view = self._views[index]
                gone = [one.forward.progress is ResizeStage.GONE for one in view.pods]
                pods = [
                    replace(one, forward=_NOT_SENT) if is_gone else one
                    for one, is_gone in zip(view.pods, gone, strict=True)
                ]
                self._views[index] = replace(
                    view, pods=pods, whole=True, ready=True, broken=False, unplaced=False, restart=None
                )
            elif index < self._existing:
                edit = self._edit_of_absent
                self._edits[index] = edit
                self._views[index] = GroupView(index, _NEW if edit is None else "", edit, [], True, True)

    def ways(self) -> tuple[GroupResizeForecast, ...]:
        """What became of every group that has to change."""
        concerned = [index for index, edit in self._edits.items() if edit is not None and index >= self._partition]
        return tuple(self._way(index) for index in sorted(concerned, reverse=True) if index in self._views)

    def _way(self, index: int) -> GroupResizeForecast:
        edit, view = self._edits[index], self._views[index]
        failure = self._preflight.failures.get(index)
        waits = self._preflight.shortages.get(index, ())
        if index in self.resized:
            return GroupResizeForecast(index, ResizeMethod.IN_PLACE, waits_for=waits)
        if isinstance(edit, RecreateEdit):
            return GroupResizeForecast(index, ResizeMethod.RECREATE, edit.reason, detail=recreate_words(edit))
        if view.record is not None and view.record.phase is Phase.REVERTED and failure is not None:
            return GroupResizeForecast(index, ResizeMethod.REFUSED, failure.refusal, failure.pod, failure.detail)
        if failure is not None and failure.refusal is PreflightRefusal.QUOTA_EXCEEDED:
            return GroupResizeForecast(index, ResizeMethod.REFUSED, failure.refusal, failure.pod, failure.detail)
        if view.edit is None:
            if failure is not None:
                return GroupResizeForecast(index, ResizeMethod.RECREATE, failure.refusal, failure.pod, failure.detail)
            return GroupResizeForecast(index, ResizeMethod.RECREATE, GroupReason.BROKEN)
        if view.record is not None and view.record.phase is Phase.REVERTED:
            return GroupResizeForecast(index, ResizeMethod.REFUSED, GroupReason.STOPPED, detail=view.record.message)
        for pod in view.pods:
            if pod.forward.conflict is not None:
                return GroupResizeForecast(
                    index, ResizeMethod.REFUSED, GroupReason.CONFLICT, pod.name, pod.forward.conflict.path
                )
        return GroupResizeForecast(index, ResizeMethod.REFUSED, GroupReason.NOT_REACHED)

    def _view(self) -> SetView:
        return SetView(
            revision=_NEW,
            policy=self._policy,
            replicas=self._existing,
            partition=self._partition,
            concurrency=self._after.limits.resized_at_once,
            deadline_seconds=1.0,
            now=0.0,
            groups=list(self._views.values()),
        )


_NEW: Final = "wanted"
"""Stands for the key of the wanted revision, which may not exist yet."""


def _view_of_pod(pod: Pod, edit: TemplateEdit | None) -> PodView:
    change = edit.of(_role(pod)) if isinstance(edit, InPlaceEdit) else AmountChange({}, {})
    return view_of_pod(pod, change, is_leader=_role(pod) == "leader")


def _members(before: Snapshot, index: int) -> list[Pod]:
    leader = before.leaders[index]
    return members_of_group(leader, before.stateful_set(leader.metadata.name), before.members(index))


def _role(pod: Pod) -> Role:
    return "worker" if worker_of(pod) else "leader"


def resize_forecast(
    before: Snapshot, after: LeaderWorkerSet, played: ResizeSimulation | None, not_asked: str = ""
) -> ResizeForecast | None:
    """None if the edit is about anything else than cpu and memory. `played` to its end, unless the policy is
    Recreate."""
    edits = [one for one in edits_of_groups(before, after).values() if one is not None]
    policy = resource_update_policy(after.spec)
    if not edits or all(isinstance(one, RecreateEdit) and one.reason is RecreateReason.OTHER_FIELDS for one in edits):
        return None
    obstacle = next((one for one in edits if isinstance(one, RecreateEdit)), None)
    found = ResizeForecast(policy, at_a_time=after.limits.resized_at_once, not_asked=not_asked, obstacle=obstacle)
    restarts = _restarted(before, after)
    if played is None:
        return replace(found, restarts=restarts, command="" if obstacle else _command(before, after))
    return replace(found, groups=played.ways(), restarts=restarts)


def _restarted(before: Snapshot, after: LeaderWorkerSet) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for index, edit in edits_of_groups(before, after).items():
        if isinstance(edit, InPlaceEdit):
            for pod in _members(before, index):
                names |= dict.fromkeys(containers_restarted_by(pod, edit.of(_role(pod)).after))
    return tuple(names)


def _command(before: Snapshot, after: LeaderWorkerSet) -> str:
    """The `kohort resize` that writes exactly this edit, if there is one."""
    old, new = before.group_set.template.raw, after.template.raw
    for request in _possible_requests(before, after):
        if request_problem(old, request) is None and _same(resized_template(old, request), new):
            options = (*request.options, "--policy", ResourceUpdatePolicy.IN_PLACE_OR_RECREATE.value)
            return Command(Verb.RESIZE, before.name, before.metadata.namespace, options).text
    return ""


def _same(one: JsonObject, other: JsonObject) -> bool:
    return canonical_template(one) == canonical_template(other)


def _possible_requests(before: Snapshot, after: LeaderWorkerSet) -> list[AmountRequest]:
    edit = next((one for one in edits_of_groups(before, after).values() if isinstance(one, InPlaceEdit)), None)
    if edit is None:
        return []
    changed: dict[AmountField, str] = {}
    for change in (edit.leader, edit.worker):
        changed |= {field: str(change.after[field]) for field in change.changed_fields if field.side == "requests"}
    holders = {field.container for field in changed}
    if len(holders) != 1:
        return []
    (holder,) = holders
    amounts = {field.resource: changed[field] for field in sorted(changed, key=lambda one: one.resource)}
    if holder == POD:
        return [AmountRequest(amounts, whole_pod=True)]
    return [AmountRequest(amounts), AmountRequest(amounts, container=holder)]
