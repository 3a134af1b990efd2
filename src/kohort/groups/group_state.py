"""From cached objects to the state of groups."""

from collections.abc import Mapping
from typing import Final

from kohort.groups.caches import GroupCache, GroupStatefulSet
from kohort.groups.group_names import index_of
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.rolling_update import ABSENT, GroupState
from kohort.kube.resources import Key
from kohort.objects.core import Pod
from kohort.rules import group_labels


def size_of(leader: Pod, default: int) -> int:
    """The size of a group at its own revision, as its leader's template said. During a change of size, old groups must
    be judged by their old size."""
    found = index_of(leader.metadata.annotations.get(group_labels.SIZE))
    return default if found is None else found


PLACEMENT: Final = (group_labels.EXCLUSIVE, group_labels.SUBGROUP_EXCLUSIVE, group_labels.EXCLUSIVE_EVERYWHERE)


def placement_of(annotations: Mapping[str, str]) -> dict[str, str]:
    """What a pod or its template says about exclusive placement. It is no part of a revision, so that keys stay what
    other implementations compute, but a group that was placed by other rules is not up to date."""
    return {key: annotations[key] for key in PLACEMENT if annotations.get(key)}


def wanted_placement(group_set: LeaderWorkerSet) -> dict[str, str]:
    """What leaders must say; a template may bring such an annotation itself."""
    own = (group_set.template.leader.get("metadata") or {}).get("annotations") or {}
    return placement_of({**own, **group_set.placement_annotations})


def state_of(
    leader: Pod, workers: GroupStatefulSet | None, revision: str, size: int, placement: Mapping[str, str]
) -> GroupState | None:
    """The state of one group; None while its workers do not exist.

    Workers count only if they belong to this very leader: those of its predecessor are leaving.
    """
    ready = leader.status.phase == "Running" and leader.ready and not leader.metadata.deleting
    updated = (
        leader.metadata.labels.get(group_labels.REVISION) == revision
        and placement_of(leader.metadata.annotations) == placement
    )
    if size == 1:
        return GroupState(ready, updated)
    if workers is None:
        return None
    owner = workers.metadata.controller
    ours = owner is not None and owner.uid == leader.metadata.uid
    return GroupState(
        ready=ready and ours and workers.settled,
        updated=updated and workers.metadata.labels.get(group_labels.REVISION) == revision,
    )


def group_states(cache: GroupCache, group_set: LeaderWorkerSet, revision: str) -> dict[int, GroupState]:
    """The groups of a set whose objects exist, by index."""
    key = Key(group_set.metadata.namespace, group_set.metadata.name)
    default_size, placement = group_set.template.size, wanted_placement(group_set)
    found: dict[int, GroupState] = {}
    for index, leader in cache.leaders(key).items():
        workers = cache.stateful_sets.get(Key(key.namespace, leader.metadata.name))
        state = state_of(leader, workers, revision, size_of(leader, default_size), placement)
        if state is not None:
            found[index] = state
    return found


def blocking(leaders: Mapping[int, Pod], group_set: LeaderWorkerSet, revision: str, partition: int) -> list[Pod]:
    """Leaders that must go for a roll and that their StatefulSet will not touch.

    A StatefulSet that knows maxUnavailable replaces nothing while that many of its pods are away, for whatever reason:
    leaders that were broken before the roll began would stay for ever. Those that the roll has reached cost nothing.
    """
    if sum(not pod.ready for pod in leaders.values()) < max(1, group_set.unavailable + group_set.surge):
        return []
    placement = wanted_placement(group_set)
    return [
        pod
        for index, pod in leaders.items()
        if index >= partition
        and not pod.ready
        and not pod.metadata.deleting
        and (
            pod.metadata.labels.get(group_labels.REVISION) != revision
            or placement_of(pod.metadata.annotations) != placement
        )
    ]


def in_order(states: Mapping[int, GroupState], count: int) -> list[GroupState]:
    """By index from 0, with groups that do not exist as neither ready nor updated."""
    return [states.get(index, ABSENT) for index in range(count)]
