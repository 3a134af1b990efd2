"""Is a group ready, and does it have the wanted revision?

A group is judged by its leader pod and by the StatefulSet of its workers, which is what LeaderWorkerSet specifies:

| object | ready | updated |
|---|---|---|
| leader pod | Running, Ready, not being deleted | has the wanted revision and placement |
| StatefulSet | belongs to this leader; all its pods are available and of one revision | has the wanted revision |

A group that is held or waits to be recreated is not ready, whatever its pods show (`recorded_restarts`).

A group of one pod has no StatefulSet. Any other group without its StatefulSet does not count as existing.

The status of a StatefulSet may be a moment old. Releases therefore also count the pods themselves (`pods_are_ready`):
a group is ready by its pods when its leader and `size` pods in total are Running and Ready.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Final, overload

import msgspec

from kohort.objects.apps import GroupStatefulSet
from kohort.objects.core import Pod
from kohort.rules import group_labels
from kohort.rules.group_identity import is_leader, parse_index

PLACEMENT: Final = (group_labels.EXCLUSIVE, group_labels.SUBGROUP_EXCLUSIVE, group_labels.EXCLUSIVE_EVERYWHERE)


class RestartState(Enum):
    """Why a group that has failed is not recreated now."""

    HELD = "held"
    """Its budget of restarts is used up."""
    DUE = "due"
    """It waits for its back-off to end."""


class GroupState(msgspec.Struct, frozen=True):
    ready: bool
    updated: bool
    exists: bool = True
    restart: RestartState | None = None

    @property
    def done(self) -> bool:
        return self.ready and self.updated


ABSENT: Final = GroupState(ready=False, updated=False, exists=False)


def pod_is_ready(pod: Pod) -> bool:
    return pod.status.phase == "Running" and pod.ready and not pod.metadata.deleting


def pods_are_ready(members: Collection[Pod], size: int) -> bool:
    """Whether a group is ready, by its pods."""
    led = any(is_leader(pod.metadata.labels) for pod in members)
    return led and len(members) >= size and all(pod_is_ready(pod) for pod in members)


def group_size(leader: Pod, default: int) -> int:
    """The size of a group at its own revision, as its leader's template said. During a change of size, old groups are
    judged by their old size."""
    noted = parse_index(leader.metadata.annotations.get(group_labels.SIZE))
    return default if noted is None else noted


def placement_of(annotations: Mapping[str, str]) -> dict[str, str]:
    """What a pod or its template says about exclusive placement. It is not part of a revision, so that keys stay what
    other implementations compute, but a group that was placed by other rules is not up to date."""
    return {key: annotations[key] for key in PLACEMENT if annotations.get(key)}


def has_revision(subject: Pod | GroupStatefulSet, revision: str) -> bool:
    """Whether a pod or a StatefulSet of a group has this revision. That of the leader is the revision of the group: a
    group that was resized in place gets it last. Placement is not part of it."""
    return subject.metadata.labels.get(group_labels.REVISION) == revision


def leader_is_updated(leader: Pod, revision: str, placement: Mapping[str, str]) -> bool:
    """Whether a leader has the wanted revision, and the wanted placement (see `placement_of`)."""
    return has_revision(leader, revision) and placement_of(leader.metadata.annotations) == placement


def group_state(
    leader: Pod, workers: GroupStatefulSet | None, revision: str, size: int, placement: Mapping[str, str]
) -> GroupState | None:
    """The state of one group; None while the StatefulSet of its workers does not exist.

    Workers count only if they belong to this very leader: those of its predecessor are being deleted.
    """
    ready, updated = pod_is_ready(leader), leader_is_updated(leader, revision, placement)
    if size == 1:
        return GroupState(ready, updated)
    if workers is None:
        return None
    return GroupState(
        ready=ready and workers.metadata.is_controlled_by(leader.metadata.uid) and workers.settled,
        updated=updated and has_revision(workers, revision),
    )


class GroupsInOrder(Sequence[GroupState]):
    """The groups of a set by index from 0, with those that do not exist as neither ready nor updated.

    A set may ask for a million groups of which none exists yet: what is counted here is counted over `existing`.
    """

    def __init__(self, states: Mapping[int, GroupState], count: int) -> None:
        self.existing: Mapping[int, GroupState] = {i: state for i, state in sorted(states.items()) if 0 <= i < count}
        self._count = count

    @classmethod
    def of(cls, states: Sequence[GroupState]) -> "GroupsInOrder":
        return cls({index: state for index, state in enumerate(states) if state.exists}, len(states))

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> GroupState: ...

    @overload
    def __getitem__(self, index: slice) -> list[GroupState]: ...

    def __getitem__(self, index: int | slice) -> GroupState | list[GroupState]:
        found = range(self._count)[index]
        if isinstance(found, int):
            return self.existing.get(found, ABSENT)
        return [self.existing.get(each, ABSENT) for each in found]

    def below(self, count: int) -> "GroupsInOrder":
        return GroupsInOrder(self.existing, min(count, self._count))

    @property
    def ready(self) -> int:
        return sum(state.ready for state in self.existing.values())

    @property
    def done(self) -> int:
        return sum(state.done for state in self.existing.values())
