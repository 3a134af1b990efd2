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
| while fewer than `maxUnavailable` groups are away | allowed, and noted |
| otherwise | refused |

Evictions and the roll share one budget. What was allowed and does not show yet is noted in the status of the set
(`status.disruptedGroups`), with a precondition, by the webhook before it allows an eviction and by the set controller
before it rolls groups: of two that decide at the same moment, one must look again. A note counts for thirty seconds:
after that the pods themselves show what happened.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from kohort.objects import int_or_string
from kohort.objects.apps import GroupStatefulSet
from kohort.objects.json_types import JsonObject
from kohort.objects.view import View
from kohort.rules.group_identity import parse_index
from kohort.rules.group_state import GroupState, RestartState

NOTE_SECONDS: Final = 30.0
"""For which a note in the status counts."""


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
    noted: bool
    """It costs a group, and is to be noted first."""


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
        return EvictionAllowed(noted=False)
    return EvictionAllowed(noted=True) if len(away) < limit else EvictionRefused(limit)


def disruptions_allowed(away: Mapping[int, AwayReason], limit: int, replicas: int) -> int:
    """How many groups evictions may take now: no more than there are."""
    return max(0, min(limit, replicas) - len(away))


def valid_notes(
    status: Mapping[str, JsonObject], leaders: Mapping[int, str], now: datetime
) -> dict[int, DisruptedGroup]:
    """Notes that count, by group. `leaders` has the uids of leaders that exist."""
    found: dict[int, DisruptedGroup] = {}
    for key, raw in status.items():
        note, index = _read(raw), parse_index(key)
        if (
            note is not None
            and index is not None
            and leaders.get(index) == note.leader
            and _age(note, now) < NOTE_SECONDS
        ):
            found[index] = note
    return found


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


def _read(raw: JsonObject) -> DisruptedGroup | None:
    try:
        return msgspec.convert(raw, DisruptedGroup)
    except msgspec.ValidationError:
        return None


def _age(note: DisruptedGroup, now: datetime) -> float:
    try:
        return (now - datetime.fromisoformat(note.at)).total_seconds()
    except (ValueError, TypeError):
        return float("inf")
