"""A set as a tree: groups, their pods, where they run, what revision they have."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from kohort.groups.leaderworkerset import LeaderWorkerSet, SubGroupPolicy
from kohort.groups.status import AVAILABLE, UPDATING
from kohort.groups.subgroups import subgroup_of
from kohort.inspection.absent_groups import looked_at
from kohort.inspection.pod_resources import (
    RESOURCE_COLUMNS,
    PodResources,
    drift_of_group,
    resource_cells,
    resources_of,
)
from kohort.inspection.release import Release, release_line, release_of
from kohort.inspection.roll_pause import paused
from kohort.inspection.served_revisions import images
from kohort.inspection.snapshot import Snapshot, group_of, worker_of
from kohort.objects.core import Pod
from kohort.objects.counted_nouns import agreeing, counted, counted_of
from kohort.rules import group_labels
from kohort.rules.group_identity import subgroup_index
from kohort.rules.group_state import RestartState, group_size, pod_is_ready
from kohort.rules.recorded_restarts import due_restarts, leader_identities
from kohort.rules.unready_reason import why_not_ready


class PodBranch(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    role: str
    """leader, worker, or pod in workloads without groups"""
    ready: bool
    containers: str
    """Ready ones of all, as in `1/1`."""
    state: str
    restarts: int
    node: str
    address: str
    age_seconds: int
    resources: PodResources = PodResources()
    """Cpu and memory: as the spec asks, as the node accepted, as containers have them."""


MOST_IN_SUBGROUPS = 10_000
"""Pods of a group up to which its subgroups are shown: the size is what its user writes."""


class Subgroup(msgspec.Struct, frozen=True, rename="camel"):
    index: int
    pods: Sequence[str]
    missing: int


class GroupBranch(msgspec.Struct, frozen=True, rename="camel"):
    index: int
    ready: bool
    updated: bool
    """Of the wanted revision, and so are its workers: a group whose workers do not exist yet is not."""
    old: bool
    """Of another revision than the wanted one, or placed by other rules."""
    revision: int
    """Its number; 0 when the revision is not kept any more."""
    revision_key: str
    surge: bool
    """Exists only while the set rolls."""
    size: int
    pods: Sequence[PodBranch]
    held: bool = False
    """Its budget of restarts is used up: it is not recreated any more."""
    restart_at: str = ""
    """It has failed, and is recreated then."""
    subgroups: Sequence[Subgroup] = ()
    """None without a subGroupPolicy. A leader that the policy excludes is in none of them."""

    @property
    def missing(self) -> int:
        return max(0, self.size - len(self.pods))


class SetTree(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    state: str
    wanted: int
    ready: int
    """As the set's own status counts them, surge groups included; so is the next."""
    updated: int
    surge: int
    """Groups beyond those wanted, which exist while the set rolls."""
    revision: int
    revision_key: str
    groups: Sequence[GroupBranch]
    paused: bool = False
    """By `kohort pause`."""
    images: tuple[str, ...] = ()
    """Of the wanted revision."""
    release: Release | None = None
    """How far a Rollout is with a new version."""
    canary: "SetTree | None" = None
    """The set that carries it."""
    left_out: int = 0
    """Wanted groups that do not exist and are not among `groups`, because they are too many."""


def tree_of(snapshot: Snapshot, now: datetime, numbers: Mapping[str, int] | None = None) -> SetTree:
    """`numbers` are those of the set that a canary is made for: both count the same revisions, by the same keys."""
    group_set, states = snapshot.group_set, snapshot.states
    numbers = snapshot.numbers if numbers is None else numbers
    indexes = {index for pod in snapshot.pods if (index := group_of(pod)) is not None}
    restarts = due_restarts(
        group_set.status.restarts, group_set.metadata.annotations, leader_identities(snapshot.leaders)
    )
    groups = []
    shown, left_out = looked_at(indexes, group_set.replicas)
    for index in shown:
        members = snapshot.members(index)
        leader = snapshot.leaders.get(index)
        state = states.get(index)
        key = members[0].metadata.labels.get(group_labels.REVISION, "") if members else ""
        drift = drift_of_group(snapshot, index)
        size = group_size(leader, group_set.template.size) if leader is not None else group_set.template.size
        groups.append(
            GroupBranch(
                index=index,
                ready=state is not None and state.ready,
                updated=state is not None and state.updated,
                old=key not in ("", snapshot.update_key) or (state is not None and not state.updated),
                revision=numbers.get(key, 0),
                revision_key=key,
                surge=index >= group_set.replicas,
                size=size,
                pods=[
                    branch_of(pod, now, "worker" if worker_of(pod) else "leader", drift.get(pod.metadata.name, ()))
                    for pod in members
                ],
                held=state is not None and state.restart is RestartState.HELD,
                restart_at=restarts[index].at if index in restarts else "",
                subgroups=subgroups_of(members, size, group_set.template.subgroups),
            )
        )
    return SetTree(
        name=snapshot.name,
        namespace=group_set.metadata.namespace,
        state=state_of_set(group_set),
        wanted=group_set.replicas,
        ready=group_set.status.ready_replicas,
        updated=group_set.status.updated_replicas,
        surge=sum(group.surge for group in groups),
        revision=numbers.get(snapshot.update_key, 0),
        revision_key=snapshot.update_key,
        groups=groups,
        paused=paused(snapshot),
        images=images(group_set.template.leader, group_set.template.worker),
        release=release_of(snapshot, now),
        canary=tree_of(snapshot.canary, now, numbers) if snapshot.canary is not None else None,
        left_out=left_out,
    )


def subgroups_of(members: Sequence[Pod], size: int, policy: SubGroupPolicy | None) -> list[Subgroup]:
    """Existing pods say themselves where they are; missing ones will be where the policy puts them."""
    if policy is None or not policy.sub_group_size or size > MOST_IN_SUBGROUPS:
        return []
    width, kind = policy.sub_group_size, policy.sub_group_policy_type or group_labels.LEADER_WORKER
    there: dict[int, list[str]] = {}
    for pod in members:
        if (index := subgroup_index(pod.metadata.labels)) is not None:
            there.setdefault(index, []).append(pod.metadata.name)
    absent = set(range(size)) - {worker_of(pod) for pod in members}
    missing = Counter(subgroup_of(one, size=size, subgroup_size=width, policy=kind) for one in absent)
    indexes = sorted(there.keys() | {one for one in missing if one is not None})
    return [Subgroup(one, there.get(one, ()), missing[one]) for one in indexes]


def state_of_set(group_set: LeaderWorkerSet) -> str:
    """One word, the strongest that applies.

    | first that applies | word |
    |---|---|
    | it is being deleted | Terminating |
    | the operator has not seen the last edit | Pending |
    | condition UpdateInProgress is True | Updating |
    | condition Available is True | Available |
    | otherwise | Progressing |
    """
    metadata, status = group_set.metadata, group_set.status
    if metadata.deleting:
        return "Terminating"
    if status.observed_generation < metadata.generation:
        return "Pending"
    true = {one["type"] for one in status.conditions if one.get("status") == "True"}
    if UPDATING in true:
        return "Updating"
    return "Available" if AVAILABLE in true else "Progressing"


def branch_of(pod: Pod, now: datetime, role: str, drift: Sequence[str] = ()) -> PodBranch:
    statuses = pod.status.container_statuses
    healthy = pod_is_ready(pod)
    return PodBranch(
        name=pod.metadata.name,
        role=role,
        ready=healthy,
        containers=f"{sum(one.ready for one in statuses)}/{len(pod.spec.main_containers)}",
        state="Running" if healthy else why_not_ready(pod),
        restarts=sum(one.restart_count for one in (*statuses, *pod.status.init_container_statuses)),
        node=pod.spec.node_name,
        address=pod.status.pod_ip,
        age_seconds=age(pod.metadata.creation_timestamp, now),
        resources=resources_of(pod, drift),
    )


def age(since: str | None, now: datetime) -> int:
    return max(0, int((now - datetime.fromisoformat(since)).total_seconds())) if since else 0


def age_text(seconds: int) -> str:
    """
    >>> age_text(59), age_text(600), age_text(7200), age_text(200000)
    ('59s', '10m', '2h', '2d')
    """
    for unit, length in (("d", 86400), ("h", 7200), ("m", 120)):
        if seconds >= length:
            return f"{seconds // {'d': 86400, 'h': 3600, 'm': 60}[unit]}{unit}"
    return f"{seconds}s"


def drawn(tree: SetTree, *, wide: bool = False) -> list[str]:
    """The tree in lines of text."""
    lines = [headline(tree), *(wide_lines(tree.images) if wide else ())]
    for position, group in enumerate(tree.groups):
        last = position == len(tree.groups) - 1
        lines.append(f"{'└─' if last else '├─'} {_group_line(group)}")
        indent = "   " if last else "│  "
        lines += [indent + line for line in _pod_lines(group, wide)]
    if tree.left_out:
        lines.append(
            f"and {counted(tree.left_out, 'more group')} that {agreeing(tree.left_out, 'does', 'do')} not exist yet"
        )
    if tree.release is not None:
        lines.append(release_line(tree.release))
    if tree.canary is not None:
        lines += drawn(tree.canary, wide=wide)
    return lines


def wide_lines(images: Sequence[str]) -> list[str]:
    """What the columns mean that only `-o wide` has."""
    return [*([f"images: {' '.join(images)}"] if images else ()), RESOURCE_COLUMNS]


def revision_words(number: int, key: str) -> str:
    """A canary set with claims has a key that the history of its stable set does not number."""
    return f"revision {number} ({key})" if number else f"revision {key}"


def headline(tree: SetTree) -> str:
    revision = revision_words(tree.revision, tree.revision_key) if tree.revision_key else "no revision yet"
    surge = f", {tree.surge} surge" if tree.surge else ""
    counts = f"{tree.ready}/{tree.wanted} groups ready, {tree.updated} up to date{surge}"
    words = f"{counts}, {revision}{', paused' if tree.paused else ''}"
    return f"{tree.namespace}/{tree.name}  {tree.state}  {words}"


def _group_line(group: GroupBranch) -> str:
    words = [f"group {group.index}", "ready" if group.ready else "not ready"]
    if group.revision_key:
        words.append(f"revision {group.revision or group.revision_key}" + (" (old)" if group.old else ""))
    if group.surge:
        words.append("surge")
    if group.held:
        words.append("held: its budget of restarts is used up")
    elif group.restart_at:
        words.append(f"failed, is restarted at {group.restart_at}")
    return "  ".join(words)


def _pod_lines(group: GroupBranch, wide: bool) -> list[str]:
    rows = [cells(pod, wide) for pod in group.pods]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    if group.missing:
        texts.append(
            f"{counted_of(group.missing, group.size, 'pod')} {agreeing(group.missing, 'does', 'do')} not exist yet"
        )
    return [f"{'└─' if number == len(texts) - 1 else '├─'} {text}" for number, text in enumerate(texts)]


def cells(pod: PodBranch, wide: bool) -> list[str]:
    cells = [pod.name, pod.role, pod.containers, pod.node or "no node", pod.state]
    if pod.restarts:
        cells[-1] += f", {counted(pod.restarts, 'restart')}"
    if not wide:
        return cells
    if pod.resources.drift:
        cells[-1] += f", drift: {', '.join(pod.resources.drift)}"
    amounts = resource_cells(pod.resources)
    return [*cells[:4], pod.address or "no address", age_text(pod.age_seconds), *amounts, cells[4]]
