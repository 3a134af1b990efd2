"""From cached objects to the state of groups."""

from collections.abc import Mapping

from kohort.groups import wire
from kohort.groups.identity import index_of
from kohort.groups.rolling import ABSENT, GroupState
from kohort.groups.views import GroupCache, GroupStatefulSet
from kohort.kube.resources import Key
from kohort.objects.core import Pod


def size_of(leader: Pod, default: int) -> int:
    """The size of a group at its own revision, as its leader's template said. During a change of size, old groups must
    be judged by their old size."""
    found = index_of(leader.metadata.annotations.get(wire.SIZE))
    return default if found is None else found


def state_of(leader: Pod, workers: GroupStatefulSet | None, revision: str, size: int) -> GroupState | None:
    """The state of one group; None while its workers do not exist.

    Workers count only if they belong to this very leader: those of its predecessor are leaving.
    """
    ready = leader.status.phase == "Running" and leader.ready and not leader.metadata.deleting
    updated = leader.metadata.labels.get(wire.REVISION) == revision
    if size == 1:
        return GroupState(ready, updated)
    if workers is None:
        return None
    owner = workers.metadata.controller
    ours = owner is not None and owner.uid == leader.metadata.uid
    return GroupState(
        ready=ready and ours and workers.settled,
        updated=updated and workers.metadata.labels.get(wire.REVISION) == revision,
    )


def group_states(cache: GroupCache, key: Key, revision: str, default_size: int) -> dict[int, GroupState]:
    """The groups of a set whose objects exist, by index."""
    found: dict[int, GroupState] = {}
    for index, leader in cache.leaders(key).items():
        workers = cache.stateful_sets.get(Key(key.namespace, leader.metadata.name))
        state = state_of(leader, workers, revision, size_of(leader, default_size))
        if state is not None:
            found[index] = state
    return found


def in_order(states: Mapping[int, GroupState], count: int) -> list[GroupState]:
    """By index from 0, with groups that do not exist as neither ready nor updated."""
    return [states.get(index, ABSENT) for index in range(count)]
