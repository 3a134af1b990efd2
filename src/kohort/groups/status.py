"""The status of a set.

Counted are groups, not pods. `P` is the user's partition, `R` the wanted number of groups:

| counter | counts |
|---|---|
| readyReplicas, updatedReplicas, updatedReadyReplicas | all groups, surge included |
| current | P ≤ index < R |
| current and updated, current updated and ready | those of them |
| ready in range, done in range | index < R |

| first that applies | conditions that are True |
|---|---|
| some current group is not updated | UpdateInProgress and Progressing |
| all of R are ready and all current groups are updated and ready | Available |
| otherwise | Progressing |

Beside these there are two of our own. Waiting: which group and which pod keep the set from being available.
GroupsExhausted: which groups are held, because they have used up their budget of restarts.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, Literal

import msgspec

from kohort.groups.waiting_reason import Obstacle
from kohort.objects.json_types import JsonObject
from kohort.rules.group_state import GroupState

AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
UPDATING: Final = "UpdateInProgress"
WAITING: Final = "Waiting"
EXHAUSTED: Final = "GroupsExhausted"


class Unchanged(Enum):
    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED
Waiting = Obstacle | Unchanged | None
"""What a set waits for; None for nothing; unchanged while that is being found out."""
ConditionType = Literal["Available", "Progressing", "UpdateInProgress"]

REASONS: Final = {
    AVAILABLE: ("AllGroupsReady", "All replicas are ready"),
    PROGRESSING: ("GroupsProgressing", "Replicas are progressing"),
    UPDATING: ("GroupsUpdating", "Rolling Upgrade is in progress"),
}
_EXCLUDES: Final = {
    AVAILABLE: (PROGRESSING, UPDATING),
    PROGRESSING: (AVAILABLE,),
    UPDATING: (AVAILABLE,),
}


class Tally(msgspec.Struct, frozen=True):
    """Groups by what they are."""

    wanted: int
    ready: int
    updated: int
    updated_ready: int
    ready_in_range: int
    current: int
    current_updated: int
    current_done: int
    partition: int
    done_in_range: int

    @property
    def true_conditions(self) -> tuple[ConditionType, ...]:
        if self.current_updated < self.current:
            return ("UpdateInProgress", "Progressing")
        if self.ready_in_range == self.wanted and self.current_done == self.current:
            return ("Available",)
        return ("Progressing",)

    @property
    def finished(self) -> bool:
        """Every group has the wanted revision and is ready: old revisions are not needed to rebuild any."""
        return self.partition == 0 and self.serves_everywhere

    @property
    def serves_everywhere(self) -> bool:
        """Every group has the wanted revision and is ready, whatever the partition."""
        return self.done_in_range == self.wanted


def tally(wanted: int, partition: int, groups: Mapping[int, GroupState]) -> Tally:
    """`groups` holds the groups whose leader exists, and whose workers exist if they should."""
    current = [state for index, state in groups.items() if partition <= index < wanted]
    return Tally(
        wanted=wanted,
        ready=sum(state.ready for state in groups.values()),
        updated=sum(state.updated for state in groups.values()),
        updated_ready=sum(state.done for state in groups.values()),
        ready_in_range=sum(state.ready for index, state in groups.items() if index < wanted),
        current=len(current),
        current_updated=sum(state.updated for state in current),
        current_done=sum(state.done for state in current),
        partition=partition,
        done_in_range=sum(state.done for index, state in groups.items() if index < wanted),
    )


def is_available(conditions: Iterable[JsonObject]) -> bool:
    return any(each["type"] == AVAILABLE and each["status"] == "True" for each in conditions)


def next_conditions(
    before: Sequence[JsonObject],
    true: Sequence[ConditionType],
    generation: int,
    now: str,
    waiting: Waiting = None,
) -> list[JsonObject]:
    """The conditions with these ones True and those they exclude False; Waiting is True while there is an obstacle.

    A condition first appears when it becomes True. Its transition time moves only when its status does.
    """
    result = {condition["type"]: dict(condition) for condition in before}
    for type in true:
        reason, message = REASONS[type]
        old = result.get(type)
        since = old["lastTransitionTime"] if old is not None and old["status"] == "True" else now
        result[type] = {
            "type": type,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": since,
        }
        for other in _EXCLUDES[type]:
            if other in result and result[other]["status"] == "True":
                result[other] = {**result[other], "status": "False", "lastTransitionTime": now}
    if not isinstance(waiting, Unchanged):
        _set_waiting(result, waiting, now)
    return [{**condition, "observedGeneration": generation} for condition in result.values()]


def _set_waiting(conditions: dict[str, JsonObject], obstacle: Obstacle | None, now: str) -> None:
    old = conditions.get(WAITING)
    if obstacle is None:
        if old is not None and old["status"] == "True":
            nothing = {"status": "False", "reason": "NothingToWaitFor", "message": "", "lastTransitionTime": now}
            conditions[WAITING] = {**old, **nothing}
        return
    conditions[WAITING] = {
        "type": WAITING,
        "status": "True",
        "reason": obstacle.reason.value,
        "message": obstacle.message,
        "lastTransitionTime": old["lastTransitionTime"] if old is not None and old["status"] == "True" else now,
    }


def with_exhausted_groups(
    conditions: Sequence[JsonObject], message: str, generation: int, now: str
) -> list[JsonObject]:
    """The conditions with GroupsExhausted: True with a message about the groups, False without one. It first appears
    when it becomes True."""
    known = {condition["type"]: condition for condition in conditions}
    old = known.get(EXHAUSTED)
    if old is None and not message:
        return list(conditions)
    status = "True" if message else "False"
    known[EXHAUSTED] = {
        "type": EXHAUSTED,
        "status": status,
        "reason": "RestartBudgetExhausted" if message else "NoGroupExhausted",
        "message": message,
        "lastTransitionTime": old["lastTransitionTime"] if old is not None and old["status"] == status else now,
        "observedGeneration": generation,
    }
    return list(known.values())
