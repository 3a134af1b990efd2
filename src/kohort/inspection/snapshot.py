"""A set and everything that belongs to it, read at one time.

What is found out about all pods at once (leaders, members, states) is kept: causes, trees and forecasts ask for it for
each group and each pod, and a set may have thousands of them.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

import msgspec

from kohort.groups.caches import GroupService
from kohort.groups.failure_evidence import GroupFailure
from kohort.groups.leaderworkerset import KIND, LeaderWorkerSet, LeaderWorkerTemplate
from kohort.groups.observed_groups import group_states
from kohort.groups.revisions import Revision, matching
from kohort.inspection.pod_context import PodContext
from kohort.inspection.release_subject import is_releasing
from kohort.inspection.served_revisions import CHANGE_CAUSE, SERVED_AT, Version, images
from kohort.objects.apps import GroupStatefulSet
from kohort.objects.core import Event, PersistentVolumeClaim, Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.objects.policy import PodDisruptionBudget
from kohort.rollouts.rollout_types import Rollout
from kohort.rules import group_labels
from kohort.rules.group_identity import group_index, leads_group, worker_index
from kohort.rules.group_state import GroupsInOrder, GroupState
from kohort.rules.group_template import earlier_fingerprint, revision_fingerprint

PAUSE_NOTE: Final = "kohort.dev/partition-before-pause"
"""On a set that `kohort pause` holds: the partition that it had."""


class Snapshot(msgspec.Struct, frozen=True, dict=True):
    group_set: LeaderWorkerSet
    pods: Sequence[Pod] = ()
    stateful_sets: Sequence[GroupStatefulSet] = ()
    """The leader StatefulSet and those of workers."""
    revisions: Sequence[Revision] = ()
    events: Sequence[Event] = ()
    claims: Sequence[PersistentVolumeClaim] = ()
    failures: Sequence[GroupFailure] = ()
    """Kept failures of groups, the newest first."""
    silent_nodes: Mapping[str, str] = {}
    """Nodes of pods that are not ready, which do not report either: by name, since when."""
    service: GroupService | None = None
    """The Service with the set's name, also if it does not belong to the set."""
    disruption_budgets: Sequence[PodDisruptionBudget] = ()
    """All PodDisruptionBudgets of the namespace, if the set has a budget of its own."""
    domains_of_others: Mapping[str, tuple[str, ...]] = {}
    """Topology domains that pods of other sets occupy, which an exclusive set may not use: by domain, those sets."""
    rollout: Rollout | None = None
    """The Rollout that releases this set, if there is one."""
    rollouts_readable: bool = True
    """Whether the user may list Rollouts; if not, `rollout` says nothing."""
    routes: Sequence[JsonObject] = ()
    """The HTTPRoutes that it moves requests by."""
    canary: "Snapshot | None" = None
    """The extra set that carries the new version while a Rollout is under way."""

    @property
    def name(self) -> str:
        return self.group_set.metadata.name

    @property
    def kind(self) -> str:
        return KIND

    def has_version(self, recorded: str) -> bool:
        spec = self.group_set.spec
        return recorded in (revision_fingerprint(spec), earlier_fingerprint(spec))

    @property
    def reference(self) -> str:
        return self.name

    @property
    def metadata(self) -> ObjectMeta:
        return self.group_set.metadata

    @property
    def replicas(self) -> int:
        return self.group_set.replicas

    @property
    def pod_context(self) -> PodContext:
        return PodContext(
            self.reference,
            self.metadata.namespace,
            self.pods,
            self.events,
            self.claims,
            self.group_set,
            self.silent_nodes,
            self.domains_of_others,
        )

    @property
    def releasing(self) -> bool:
        return is_releasing(self.metadata, self.rollout)

    @property
    def held(self) -> bool:
        return self.group_set.partition > 0 or PAUSE_NOTE in self.metadata.annotations

    @property
    def versions(self) -> Sequence[Version]:
        return [_version(one) for one in self.revisions]

    @property
    def using(self) -> Mapping[str, tuple[int, ...]]:
        """By key of a revision: the groups that have it now."""
        found: dict[str, list[int]] = {}
        for index, leader in sorted(self.leaders.items()):
            found.setdefault(leader.metadata.labels.get(group_labels.REVISION, ""), []).append(index)
        return {key: tuple(value) for key, value in found.items()}

    @property
    def leader_set(self) -> GroupStatefulSet | None:
        return self.stateful_set(self.name)

    def stateful_set(self, name: str) -> GroupStatefulSet | None:
        return self._stateful_sets_by_name.get(name)

    @cached_property
    def _stateful_sets_by_name(self) -> Mapping[str, GroupStatefulSet]:
        return {one.metadata.name: one for one in reversed(self.stateful_sets)}

    @cached_property
    def update_key(self) -> str:
        """The revision that groups shall have: as the operator wrote it down. While a release in place is withdrawn,
        groups have the stable one, but what the user wants is in the template."""
        if group_labels.RESOURCES_OF_REVISION in self.metadata.annotations:
            wanted = matching(self.group_set, self.revisions)
            if wanted is not None:
                return wanted.key
        leaders = self.leader_set
        noted = leaders.metadata.labels.get(group_labels.REVISION, "") if leaders is not None else ""
        return noted or self.group_set.status.update_revision

    @property
    def stable_key(self) -> str:
        """The revision that all groups had last, as the operator wrote it down."""
        return self.group_set.status.stable_revision

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Keys of revisions to the numbers that users see."""
        return {one.key: one.revision for one in sorted(self.revisions, key=lambda one: one.revision)}

    @cached_property
    def leaders(self) -> Mapping[int, Pod]:
        found: dict[int, Pod] = {}
        for pod in self.pods:
            index = leads_group(self.name, pod.metadata.name, pod.metadata.labels)
            if index is not None:
                found[index] = pod
        return found

    def members(self, index: int) -> list[Pod]:
        """The pods of a group, leader first."""
        return [*self._members.get(index, ())]

    @cached_property
    def _members(self) -> Mapping[int, Sequence[Pod]]:
        found: dict[int, list[Pod]] = {}
        for pod in sorted(self.pods, key=worker_of):
            if (index := group_of(pod)) is not None:
                found.setdefault(index, []).append(pod)
        return found

    @cached_property
    def states(self) -> Mapping[int, GroupState]:
        """The state of groups whose objects exist, by the rules of the operator."""
        return group_states(self.group_set, self.update_key, self.leaders, self.stateful_set)

    @property
    def ordered_states(self) -> GroupsInOrder:
        leaders = self.leader_set
        return GroupsInOrder(self.states, leaders.spec.replicas if leaders is not None else 0)


def _version(one: Revision) -> Version:
    template = LeaderWorkerTemplate(one.template)
    annotations = one.metadata.annotations
    return Version(
        number=one.revision,
        key=one.key,
        created=one.metadata.creation_timestamp or "",
        served_at=annotations.get(SERVED_AT, ""),
        change_cause=annotations.get(CHANGE_CAUSE, ""),
        content={"leaderWorkerTemplate": one.template, "networkConfig": one.network},
        images=images(template.leader, template.worker),
        size=template.size,
    )


def group_of(pod: Pod) -> int | None:
    return group_index(pod.metadata.labels)


def worker_of(pod: Pod) -> int:
    return worker_index(pod.metadata.labels) or 0
