"""How long a roll takes, and what it costs in accelerators that wait.

Groups start as fast as those that run now have started (`rules.start_times`). Steps of a roll come one after the other.

| | |
|---|---|
| duration | steps that create or recreate groups, times the time that a group takes |
| accelerator-minutes | accelerators of groups that start, times the time that a group takes: they serve nothing then |

Without a group that has become ready, nothing is estimated.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.peak_demand import group_requests
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.stored_templates import with_pod_defaults
from kohort.objects.core import Pod
from kohort.rules.start_times import expected_start


class RollMove(Protocol):
    @property
    def created(self) -> Sequence[int]: ...
    @property
    def recreated(self) -> Sequence[int]: ...


class RollCost(msgspec.Struct, frozen=True, rename="camel"):
    group_start_seconds: int
    """How long a group takes to become ready: the median of those that run."""
    duration_seconds: int
    accelerators_per_group: int
    accelerator_minutes: float


def roll_cost(
    steps: Sequence[RollMove], before: Snapshot | None, after: LeaderWorkerSet, more: int = 0
) -> RollCost | None:
    """None if no group starts, or no running group shows how long that takes. `more` groups start that are in no
    step."""
    started = [len(step.created) + len(step.recreated) for step in steps]
    seconds = expected_start(ready_groups(before)) if before is not None else None
    if seconds is None or not any(started):
        return None
    accelerators = accelerators_of(after)
    return RollCost(
        group_start_seconds=round(seconds),
        duration_seconds=round(seconds * sum(one > 0 for one in started)),
        accelerators_per_group=accelerators,
        accelerator_minutes=round(accelerators * (sum(started) + more) * seconds / 60, 1),
    )


def ready_groups(snapshot: Snapshot) -> list[list[Pod]]:
    return [snapshot.members(index) for index, state in snapshot.states.items() if state.ready]


def accelerators_of(group_set: LeaderWorkerSet) -> int:
    """Devices that one group asks for: resources of other vendors, whose names have a domain."""
    asked = group_requests(with_pod_defaults(group_set).template, 1)
    return sum(amount.value for name, amount in asked.items() if "/" in name)
