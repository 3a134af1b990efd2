"""What is cached of a cluster for groups, and how it is found.

Only objects that carry a set's name are cached, so an operator in a large cluster holds what belongs to groups and
nothing else. Everything is filed under `namespace/set`, except workers, of which there are many: they are found under
`namespace/set/group`, with their leader.
"""

from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

from kohort.groups.failed_pod_backoff import FailedPods
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.revisions import Revision, of_set
from kohort.kube.informer import Informer
from kohort.kube.manager import Manager
from kohort.kube.resources import (
    CONTROLLER_REVISIONS,
    LEADER_WORKER_SETS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    Key,
)
from kohort.objects.apps import GroupStatefulSet
from kohort.objects.core import Pod
from kohort.objects.meta import ObjectMeta
from kohort.objects.view import View
from kohort.rules import group_labels
from kohort.rules.group_identity import group_index, has_place_in_group, is_leader, leads_group

BY_SET: Final = "set"
BY_GROUP: Final = "group"
LEADERS: Final = "leaders"


class _ServiceSpec(View, frozen=True):
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    publish_not_ready_addresses: bool = False
    selector: dict[str, str] = {}  # noqa: RUF012


class GroupService(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _ServiceSpec = _ServiceSpec()


class _LeaderSelector(View, frozen=True):
    match_labels: dict[str, str] = {}  # noqa: RUF012


class _LeaderBudgetSpec(View, frozen=True):
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: _LeaderSelector = _LeaderSelector()
    unhealthy_pod_eviction_policy: str = ""


class LeaderBudget(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _LeaderBudgetSpec = _LeaderBudgetSpec()


class GroupObject(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


def by_set(obj: GroupObject) -> Iterable[str]:
    name = obj.metadata.labels.get(group_labels.NAME)
    return (f"{obj.metadata.namespace}/{name}",) if name else ()


def by_set_of_readable(revision: Revision) -> Iterable[str]:
    """The set of a revision. One without a template belongs to none, so that it stops nothing."""
    return by_set(revision) if revision.is_readable else ()


def by_group(obj: GroupObject) -> Iterable[str]:
    """The group of a pod. A pod whose name does not fit its labels has none, whatever they say."""
    metadata = obj.metadata
    if not has_place_in_group(metadata.name, metadata.labels):
        return ()
    return (f"{metadata.namespace}/{metadata.labels[group_labels.NAME]}/{group_index(metadata.labels)}",)


def by_set_of_leader(pod: Pod) -> Iterable[str]:
    return by_set(pod) if is_leader(pod.metadata.labels) else ()


def sets_of(obj: GroupObject) -> Iterable[Key]:
    """The set that an object belongs to, by its label."""
    name = obj.metadata.labels.get(group_labels.NAME)
    return (Key(obj.metadata.namespace, name),) if name else ()


class GroupCache:
    """The caches that both reconcilers read."""

    def __init__(self, manager: Manager) -> None:
        self.sets: Informer[LeaderWorkerSet] = manager.informer(LEADER_WORKER_SETS, LeaderWorkerSet)
        self.stateful_sets = manager.informer(
            STATEFUL_SETS, GroupStatefulSet, label_selector=group_labels.NAME, indexes={BY_SET: by_set}
        )
        self.pods = manager.informer(
            PODS,
            Pod,
            label_selector=group_labels.NAME,
            indexes={BY_GROUP: by_group, LEADERS: by_set_of_leader},
        )
        self.failed_pods = FailedPods()
        self.pods.on_change(self.failed_pods.saw)
        self.services = manager.informer(SERVICES, GroupService, label_selector=group_labels.NAME)
        self.leader_budgets = manager.informer(POD_DISRUPTION_BUDGETS, LeaderBudget, label_selector=group_labels.NAME)
        self.revisions = manager.informer(
            CONTROLLER_REVISIONS, Revision, label_selector=group_labels.NAME, indexes={BY_SET: by_set_of_readable}
        )

    def leaders(self, key: Key) -> dict[int, Pod]:
        """The leader pods of a set by group index. A pod whose index does not fit its name is not a leader of ours."""
        found: dict[int, Pod] = {}
        for pod in self.pods.by_index(LEADERS, str(key)):
            index = leads_group(key.name, pod.metadata.name, pod.metadata.labels)
            if index is not None:
                found[index] = pod
        return found

    def revisions_of(self, group_set: LeaderWorkerSet) -> list[Revision]:
        key = Key(group_set.metadata.namespace, group_set.metadata.name)
        found = self.revisions.by_index(BY_SET, str(key))
        return of_set(group_set, found)


def owned_by(metadata: ObjectMeta, group_set: LeaderWorkerSet) -> bool:
    return metadata.is_controlled_by(group_set.metadata.uid)
