"""How long a roll takes, and what it costs in accelerators that wait.

Groups start as fast as those that run now have started: from the creation of the first pod of a group to the readiness
of its last one. The median of the groups counts. Steps of a roll come one after the other.

| | |
|---|---|
| duration | steps that create or recreate groups, times the time that a group takes |
| accelerator-minutes | accelerators of groups that start, times the time that a group takes: they serve nothing then |

Without a group that has become ready, nothing is estimated.
"""

from collections.abc import Sequence
from statistics import median
from typing import Protocol

import msgspec

from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.peak_demand import group_requests
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.stored_templates import with_pod_defaults
from kohort.kube.clock import parse_time
from kohort.objects.core import Pod
from kohort.objects.meta import find_condition


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


def roll_cost(steps: Sequence[RollMove], before: Snapshot | None, after: LeaderWorkerSet) -> RollCost | None:
    """None if no group starts, or no running group shows how long that takes."""
    started = [len(step.created) + len(step.recreated) for step in steps]
    starts = group_starts(before) if before is not None else []
    if not starts or not any(started):
        return None
    seconds = median(starts)
    accelerators = accelerators_of(after)
    return RollCost(
        group_start_seconds=round(seconds),
        duration_seconds=round(seconds * sum(one > 0 for one in started)),
        accelerators_per_group=accelerators,
        accelerator_minutes=round(accelerators * sum(started) * seconds / 60, 1),
    )


def group_starts(snapshot: Snapshot) -> list[float]:
    """Seconds that each ready group took to start."""
    found = []
    for index, state in snapshot.states.items():
        times = [_times(pod) for pod in snapshot.members(index)]
        if state.ready and times and all(one is not None for one in times):
            known = [one for one in times if one is not None]
            found.append(max(0.0, max(end for _, end in known) - min(begin for begin, _ in known)))
    return found


def _times(pod: Pod) -> tuple[float, float] | None:
    """When a pod was created, and when it became ready."""
    ready = find_condition(pod.status.conditions, "Ready")
    created = pod.metadata.creation_timestamp
    if ready is None or ready.status != "True" or not ready.last_transition_time or not created:
        return None
    return parse_time(created).timestamp(), parse_time(ready.last_transition_time).timestamp()


def accelerators_of(group_set: LeaderWorkerSet) -> int:
    """Devices that one group asks for: resources of other vendors, whose names have a domain."""
    asked = group_requests(with_pod_defaults(group_set).template, 1)
    return sum(amount.value for name, amount in asked.items() if "/" in name)
