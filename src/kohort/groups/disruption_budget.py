"""How many groups of a set may be away at the same time: `spec.disruptionBudget`.

Kubernetes counts pods. A group that loses one pod is broken as a whole, so a drain that counts pods breaks several
groups where one would do. Here a group is away when one of these holds:

| reason | a group of the wanted ones |
|---|---|
| HELD | is not recreated any more: its budget of restarts is used up |
| RESTART_DUE | has failed, and waits to be recreated |
| NOT_READY | does not exist, or is not ready |
| ROLLING | is ready, and the roll has reached it: its StatefulSet replaces it any moment |
| EVICTED | is ready, and the eviction of one of its pods was allowed a moment ago |

| eviction of a pod | decision |
|---|---|
| whose group is away already | allowed: it costs nothing |
| of a group beyond the wanted ones (a surge group) that is not ready | allowed: it costs nothing |
| while fewer than `maxUnavailable` groups are away | allowed |
| otherwise | refused |

Evictions and the roll share one budget. What was allowed and does not show yet is noted in the status of the set
(`status.disruptedGroups`), with a precondition, by the webhook before it allows an eviction and by the set controller
before it rolls groups: of two that decide at the same moment, one must look again.

An eviction that costs nothing is noted, too: its group may become ready before the pod is deleted, or may be ready
already, because the status of its StatefulSet is a moment old. Only two evictions need no note (`needs_note`): those
from a group whose leader is gone or going, because that group never becomes ready, and those from a group with a note
that counts for long enough.

| a note | counts |
|---|---|
| about a leader that a newer one has replaced | no: that group is gone |
| of the last thirty seconds | yes: the eviction may not have been carried out yet |
| older, while pods of the group are missing or not ready, or are deleted | yes: StatefulSets count the latter |
| older, when all its pods are ready | no |
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from kohort.objects import int_or_string
from kohort.objects.apps import GroupStatefulSet
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.view import View
from kohort.rules.group_identity import parse_index
from kohort.rules.group_state import GroupState, RestartState

NOTE_SECONDS: Final = 30.0
"""For which a note in the status counts, whatever the pods show."""
_RENEWED_AFTER: Final = NOTE_SECONDS / 2
"""Seconds after which a note is too old to cover another eviction from its group."""


class DisruptionBudget(View, frozen=True):
    max_unavailable: int | str = 1

    def groups(self, replicas: int) -> int:
        """How many groups may be away. A percentage is rounded up, as in PodDisruptionBudgets."""
        return int_or_string.resolve(self.max_unavailable, replicas, round_up=True)


class DisruptedBy(StrEnum):
    EVICTION = "Eviction"
    ROLL = "Roll"


class DisruptedGroup(View, frozen=True):
    """A group that is about to go away."""

    leader: str = ""
    """Uid of its leader."""
    at: str = ""
    by: DisruptedBy = DisruptedBy.EVICTION


class AwayReason(StrEnum):
    HELD = "held, after it used up its budget of restarts"
    RESTART_DUE = "failed, and waiting to be restarted"
    NOT_READY = "not ready"
    ROLLING = "being rolled"
    EVICTED = "being evicted"


class AwayGroups(Mapping[int, AwayReason]):
    """Why groups are away, by index, in order. Wanted groups that do not exist are not stored: there may be a million
    of them."""

    def __init__(self, replicas: int, existing: Mapping[int, AwayReason | None]) -> None:
        """`existing` has None for groups that are not away."""
        self._wanted = range(replicas)
        self._existing = {index: why for index, why in sorted(existing.items()) if index in self._wanted}
        self.existing = {index: why for index, why in self._existing.items() if why is not None}

    def __len__(self) -> int:
        return len(self._wanted) - len(self._existing) + len(self.existing)

    def __getitem__(self, index: int) -> AwayReason:
        if index not in self._wanted:
            raise KeyError(index)
        why = self._existing.get(index, AwayReason.NOT_READY)
        if why is None:
            raise KeyError(index)
        return why

    def __iter__(self) -> Iterator[int]:
        return (index for index in self._wanted if self._existing.get(index, AwayReason.NOT_READY) is not None)


class EvictionAllowed(msgspec.Struct, frozen=True):
    costs_group: bool
    """A group that is not away yet."""


class EvictionRefused(msgspec.Struct, frozen=True):
    limit: int


EvictionDecision = EvictionAllowed | EvictionRefused


def groups_away(
    replicas: int,
    states: Mapping[int, GroupState],
    notes: Mapping[int, DisruptedGroup],
    roll_partition: int,
) -> AwayGroups:
    """The wanted groups that are away. `roll_partition` is that of the leader StatefulSet (`rolled_from`)."""

    def why(index: int, state: GroupState) -> AwayReason | None:
        if not state.ready:
            return _why_not_ready(state)
        if not state.updated and index >= roll_partition:
            return AwayReason.ROLLING
        if index in notes:
            return AwayReason.EVICTED if notes[index].by is DisruptedBy.EVICTION else AwayReason.ROLLING
        return None

    return AwayGroups(replicas, {index: why(index, state) for index, state in states.items()})


def _why_not_ready(state: GroupState) -> AwayReason:
    match state.restart:
        case RestartState.HELD:
            return AwayReason.HELD
        case RestartState.DUE:
            return AwayReason.RESTART_DUE
    return AwayReason.NOT_READY


def rolled_from(leader_set: GroupStatefulSet | None, replicas: int) -> int:
    """The lowest group that the roll has reached: none without a leader StatefulSet."""
    return leader_set.partition if leader_set is not None else replicas


def decide_eviction(
    group: int, state: GroupState | None, away: Mapping[int, AwayReason], limit: int
) -> EvictionDecision:
    """`state` is that of the group; None if some of its objects do not exist."""
    if group in away or state is None or not state.ready:
        return EvictionAllowed(costs_group=False)
    return EvictionAllowed(costs_group=True) if len(away) < limit else EvictionRefused(limit)


def disruptions_allowed(away: Mapping[int, AwayReason], limit: int, replicas: int) -> int:
    """How many groups evictions may take now: no more than there are."""
    return max(0, min(limit, replicas) - len(away))


def needs_note(leader: Pod | None, note: DisruptedGroup | None, now: datetime) -> bool:
    """Whether an eviction from a group is to be noted before it is allowed. `leader` is that of the group, `note` the
    one about it that counts."""
    if leader is None or leader.metadata.deleting:
        return False
    return note is None or note.leader != leader.metadata.uid or _age(note, now) >= _RENEWED_AFTER


def valid_notes(
    status: Mapping[str, JsonObject],
    leaders: Mapping[int, Pod],
    pods_are_ready: Callable[[int], bool],
    now: datetime,
) -> dict[int, DisruptedGroup]:
    """Notes that count, by group. `leaders` has the leaders that exist; `pods_are_ready` is asked about groups with an
    old note."""
    found: dict[int, DisruptedGroup] = {}
    for index, note in _readable(status).items():
        leader = leaders.get(index)
        if _is_old(note, now):
            counts = leader is not None and leader.metadata.uid == note.leader and not pods_are_ready(index)
        else:
            counts = leader is None or not _is_newer(leader, note)
        if counts:
            found[index] = note
    return found


def groups_with_old_notes(status: Mapping[str, JsonObject], now: datetime) -> list[int]:
    """Groups whose pods decide whether their notes count."""
    return [index for index, note in _readable(status).items() if _is_old(note, now)]


def without_evicted(states: Mapping[int, GroupState], notes: Mapping[int, DisruptedGroup]) -> dict[int, GroupState]:
    """The states as a roll must see them: a group whose eviction was allowed is not ready any more."""
    evicted = {index for index, note in notes.items() if note.by is DisruptedBy.EVICTION}
    return {
        index: msgspec.structs.replace(state, ready=False) if index in evicted else state
        for index, state in states.items()
    }


def rolled_groups(states: Mapping[int, GroupState], before: int, after: int) -> list[int]:
    """Ready groups that a roll takes when its partition falls from `before` to `after`."""
    return [index for index, state in states.items() if after <= index < before and state.ready and not state.updated]


def _readable(status: Mapping[str, JsonObject]) -> dict[int, DisruptedGroup]:
    found: dict[int, DisruptedGroup] = {}
    for key, raw in status.items():
        note, index = _read(raw), parse_index(key)
        if note is not None and index is not None:
            found[index] = note
    return found


def _read(raw: JsonObject) -> DisruptedGroup | None:
    try:
        return msgspec.convert(raw, DisruptedGroup)
    except msgspec.ValidationError:
        return None


def _is_old(note: DisruptedGroup, now: datetime) -> bool:
    return _age(note, now) >= NOTE_SECONDS


def _is_newer(leader: Pod, note: DisruptedGroup) -> bool:
    """Whether a leader was created after the one that a note names. A cache of pods may be behind that of sets, and
    still show the leader before that one."""
    created = leader.metadata.creation_timestamp or ""
    return leader.metadata.uid != note.leader and created >= _without_fraction(note.at)


def _without_fraction(time: str) -> str:
    """As in the creation times of objects, which are in whole seconds."""
    return f"{time.split('.')[0].removesuffix('Z')}Z"


def _age(note: DisruptedGroup, now: datetime) -> float:
    try:
        return (now - datetime.fromisoformat(note.at)).total_seconds()
    except (ValueError, TypeError):
        return float("inf")
