"""From objects to the state of groups. When a group is ready or updated is decided by `rules.group_state`."""

from collections.abc import Callable, Collection, Iterable, Mapping

from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.revisions import Revision, by_key
from kohort.objects.apps import GroupStatefulSet
from kohort.objects.core import Pod
from kohort.rules import group_labels
from kohort.rules.group_state import (
    GroupState,
    group_size,
    group_state,
    leader_is_updated,
    placement_of,
    pods_are_ready,
)
from kohort.rules.recorded_restarts import leader_identities, with_restart_states


def wanted_placement(group_set: LeaderWorkerSet) -> dict[str, str]:
    """What leaders must say; a template may bring such an annotation itself."""
    own = (group_set.template.leader.get("metadata") or {}).get("annotations") or {}
    return placement_of({**own, **group_set.placement_annotations})


def group_states(
    group_set: LeaderWorkerSet,
    revision: str,
    leaders: Mapping[int, Pod],
    stateful_set: Callable[[str], GroupStatefulSet | None],
) -> dict[int, GroupState]:
    """The groups of a set whose objects exist, by index. Those that are held or wait to be recreated are not ready.
    `stateful_set` finds the StatefulSet of workers by its name."""
    default_size, placement = group_set.template.size, wanted_placement(group_set)
    states: dict[int, GroupState] = {}
    for index, leader in leaders.items():
        workers = stateful_set(leader.metadata.name)
        state = group_state(leader, workers, revision, group_size(leader, default_size), placement)
        if state is not None:
            states[index] = state
    return with_restart_states(
        states,
        group_set.status.restarts,
        group_set.metadata.annotations,
        leader_identities(leaders),
        has_budget=group_set.template.restart_budget is not None,
    )


def group_is_ready_by_pods(leader: Pod, members: Collection[Pod], default_size: int) -> bool:
    """Asked where the status of a StatefulSet may be too old. `members` are all pods of the group."""
    return pods_are_ready(members, group_size(leader, default_size))


def leaders_blocking_update(
    leaders: Mapping[int, Pod], group_set: LeaderWorkerSet, revision: str, partition: int
) -> list[Pod]:
    """Leaders that must go for a roll and that their StatefulSet will not touch.

    A StatefulSet that knows maxUnavailable replaces nothing while that many of its pods are away, for whatever reason:
    leaders that were broken before the roll began would stay for ever. Deleting those that the roll has reached costs
    no availability.
    """
    if sum(not pod.ready for pod in leaders.values()) < group_set.limits.replaced_at_once:
        return []
    placement = wanted_placement(group_set)
    return [
        pod
        for index, pod in leaders.items()
        if index >= partition
        and not pod.ready
        and not pod.metadata.deleting
        and not leader_is_updated(pod, revision, placement)
    ]


def cannot_be_completed(leader: Pod, state: GroupState | None, newest: str, known: Iterable[Revision]) -> bool:
    """Whether a group lacks the StatefulSet of its workers, and the revision that describes them was deleted.

    `state` is that of the group, `newest` the revision that groups shall have: the operator creates that one anew.
    """
    revision = leader.metadata.labels.get(group_labels.REVISION, "")
    return state is None and not leader.metadata.deleting and revision != newest and by_key(known, revision) is None
