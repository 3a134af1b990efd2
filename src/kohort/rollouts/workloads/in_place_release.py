"""A release that changes cpu and memory alone, of a set whose policy gives them to running groups.

No canary set is made. A step lowers the partition of the stable set, and the controller of the set resizes that many of
its groups in place, from the highest index down. No pod is added, so no further accelerator is needed at any time.

| moment | partition | surge |
|---|---|---|
| held, before the first step | HELD_GROUPS_PARTITION | 0 |
| a step that wants n of R groups | R - n | 0 |
| the new version is withdrawn: groups get the resources of the stable revision back | 0 | 0 |
| promotion | 0, until every group has the new resources | 0 |
| rollback: the stable template is back | 0, until every group has the old resources | 0 |
| the end | as the user wrote it | as the user wrote it |

The partition of the step is recorded on the set beside the partition itself, so that an update which was made past the
webhook is noticed. A step back to fewer groups leaves groups as they are: they have the new resources already.

Groups are resized or not by the label of their leader, which moves when all pods of the group have the new resources.
That is also how a judgement of the step tells the two kinds apart: `leaders_by_version`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from kohort.objects.core import Pod
from kohort.objects.counted_nouns import counted
from kohort.objects.json_types import JsonObject
from kohort.rollouts.group_set import GroupSet
from kohort.rollouts.workloads.group_hold import held_values, saved_strategy
from kohort.rollouts.workloads.group_readiness import groups_of
from kohort.rules import group_labels, rollout_labels
from kohort.rules.group_identity import is_leader
from kohort.rules.group_state import RestartState, has_revision, pods_are_ready
from kohort.rules.recorded_restarts import failed_groups, leader_identities

REMARK: Final = (
    "groups are resized in place: no canary set is made, traffic weights and matches of the steps do nothing"
)
_FAILED: Final = {
    RestartState.HELD: "is held, after it used up its budget of restarts",
    RestartState.DUE: "has failed, and waits to be restarted",
}


def is_withdrawn(group_set: GroupSet) -> bool:
    return group_labels.RESOURCES_OF_REVISION in group_set.metadata.annotations


class ResizedGroups(msgspec.Struct, frozen=True):
    updated: int
    ready: int
    """Those of them that are ready."""
    failed: Mapping[int, RestartState] = {}
    """Those that are held or wait to be recreated, by index: they are not ready, whatever their pods show."""


def resized_groups(pods: Iterable[Pod], group_set: GroupSet, revision: str) -> ResizedGroups:
    """The groups that have the resources of a revision."""
    updated = {index: members for index, members in groups_of(pods).items() if _revision_of(members) == revision}
    found = ((index, _leader_of(members)) for index, members in updated.items())
    failed = failed_groups(
        group_set.status.restarts,
        group_set.metadata.annotations,
        leader_identities({index: leader for index, leader in found if leader is not None}),
        has_budget=group_set.has_restart_budget,
    )
    ready = [index for index, members in updated.items() if pods_are_ready(members, group_set.size)]
    return ResizedGroups(len(updated), sum(index not in failed for index in ready), failed)


def groups_of_other_revisions(pods: Iterable[Pod], revision: str) -> int:
    """How many groups do not have the resources of a revision."""
    return sum(_revision_of(members) not in ("", revision) for members in groups_of(pods).values())


def _leader_of(members: Iterable[Pod]) -> Pod | None:
    return next((pod for pod in members if is_leader(pod.metadata.labels)), None)


def _revision_of(members: Iterable[Pod]) -> str:
    leader = _leader_of(members)
    return leader.metadata.labels.get(group_labels.REVISION, "") if leader is not None else ""


class LeadersByVersion(msgspec.Struct, frozen=True):
    new: tuple[Pod, ...]
    stable: tuple[Pod, ...]


def leaders_by_version(pods: Iterable[Pod], stable_revision: str) -> LeadersByVersion:
    """The leaders of resized groups, and those of the others."""
    new, stable = list[Pod](), list[Pod]()
    for pod in pods:
        if is_leader(pod.metadata.labels) and not pod.metadata.deleting:
            (stable if has_revision(pod, stable_revision) else new).append(pod)
    return LeadersByVersion(tuple(new), tuple(stable))


def progress_text(found: ResizedGroups, desired: int, group_set: GroupSet) -> str:
    """How far a step is, and what it waits for: a group that failed after its resize, or what the set's controller
    says."""
    text = f"{found.ready}/{desired} groups resized in place"
    if found.ready >= desired:
        return text
    for index, state in sorted(found.failed.items()):
        return f"{text}: group {index} {_FAILED[state]}"
    return f"{text}{_detail(group_set)}"


def text_of_return(left: int, group_set: GroupSet) -> str:
    text = f"{group_set.metadata.name}: {counted(left, 'group')} without the former resources yet"
    return f"{text}{_detail(group_set)}"


def _detail(group_set: GroupSet) -> str:
    resize = group_set.status.resize
    return f": {resize.message}" if resize is not None and resize.message else ""


# Patches


def move_partition(group_set: GroupSet, partition: int, token: str) -> JsonObject:
    """The groups from `partition` up get the resources of the template."""
    annotations: dict[str, str | None] = {
        rollout_labels.HOLD_RELEASE: token,
        rollout_labels.STEP_PARTITION: str(partition),
    }
    if is_withdrawn(group_set):
        annotations[group_labels.RESOURCES_OF_REVISION] = None
    return {"metadata": {"annotations": annotations}, "spec": _rolling(group_set, partition)}


def withdraw(group_set: GroupSet, stable_revision: str, token: str) -> JsonObject:
    """All groups get the resources of the stable revision back; the template stays the user's."""
    annotations = {
        rollout_labels.HOLD_RELEASE: token,
        rollout_labels.STEP_PARTITION: "0",
        group_labels.RESOURCES_OF_REVISION: stable_revision,
    }
    return {"metadata": {"annotations": annotations}, "spec": _rolling(group_set, 0)}


def _rolling(group_set: GroupSet, partition: int) -> Mapping[str, object]:
    values = held_values(group_set.spec, saved_strategy(group_set.metadata), partition)
    return {"rolloutStrategy": {"rollingUpdateConfiguration": values}}
