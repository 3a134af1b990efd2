"""Deployments and StatefulSets that a Rollout names, kept current by watches.

Most clusters have many of them, and most are released by no Rollout. So nothing is watched until a Rollout names one of
the kind:

| a Rollout names a | watched from then on |
|---|---|
| Deployment | Deployments, ReplicaSets, pods that belong to no group |
| StatefulSet | StatefulSets, revisions and pods that belong to no group |
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from kohort.dashboard.workload_kinds import KINDS
from kohort.inspection.workload import DEPLOYMENT, STATEFUL_SET, PlainWorkload, StoredRevision
from kohort.kube.informer import Informer
from kohort.kube.manager import Manager
from kohort.kube.resources import (
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Key,
    Resource,
)
from kohort.objects.apps import ReplicaSet
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.objects.view import View
from kohort.rules import group_labels
from kohort.rules.rollout_labels import CANARY_DEPLOYMENT

OF_NO_GROUP: Final = f"!{group_labels.NAME}"
_BY_OWNER: Final = "dashboard-owner"
_BY_STABLE: Final = "dashboard-stable-deployment"


class StoredWorkload(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: JsonObject = {}  # noqa: RUF012
    status: JsonObject = {}  # noqa: RUF012


class ReleasedWorkloads:
    def __init__(self, manager: Manager, changed: Callable[[Key], None]) -> None:
        """`changed` is called with the key of a workload whenever it, or something that belongs to it, has changed."""
        self._manager = manager
        self._changed = changed
        self._deployments: Informer[StoredWorkload] | None = None
        self._replica_sets: Informer[ReplicaSet] | None = None
        self._stateful_sets: Informer[StoredWorkload] | None = None
        self._revisions: Informer[StoredRevision] | None = None
        self._pods: Informer[Pod] | None = None

    def watches(self, kind: str) -> bool:
        return (self._deployments if kind == DEPLOYMENT else self._stateful_sets) is not None

    def watch(self, kind: str) -> None:
        """Begin to watch a kind of workload and what belongs to it."""
        manager = self._manager
        if self._pods is None:
            self._pods = manager.informer(PODS, Pod, label_selector=OF_NO_GROUP)
            self._pods.add_index(_BY_OWNER, _by_owner)
            self._pods.on_change(lambda old, new: self._pod_changed(new or old))
        if kind == DEPLOYMENT and self._deployments is None:
            self._replica_sets = manager.informer(REPLICA_SETS, ReplicaSet)
            self._replica_sets.add_index(_BY_OWNER, _by_owner)
            self._replica_sets.on_change(lambda old, new: self._part_changed(new or old))
            self._deployments = manager.informer(DEPLOYMENTS, StoredWorkload)
            self._deployments.add_index(_BY_STABLE, _by_stable)
            self._deployments.on_change(lambda old, new: self._deployment_changed(new or old))
        if kind == STATEFUL_SET and self._stateful_sets is None:
            self._revisions = manager.informer(CONTROLLER_REVISIONS, StoredRevision, label_selector=OF_NO_GROUP)
            self._revisions.add_index(_BY_OWNER, _by_owner)
            self._revisions.on_change(lambda old, new: self._part_changed(new or old))
            self._stateful_sets = manager.informer(STATEFUL_SETS, StoredWorkload, label_selector=OF_NO_GROUP)
            self._stateful_sets.on_change(lambda old, new: self._stateful_set_changed(new or old))

    # Reading

    def find(self, kind: str, namespace: str, name: str, readable: Collection[Resource]) -> PlainWorkload | None:
        """The workload with its pods and versions, as far as the caller may read them; without Rollout and events."""
        informer = self._deployments if kind == DEPLOYMENT else self._stateful_sets
        found = informer.get(Key(namespace, name)) if informer is not None else None
        return self._workload(kind, found, readable) if found is not None else None

    def canary(self, stable: PlainWorkload, readable: Collection[Resource]) -> PlainWorkload | None:
        """The extra Deployment that carries the new version of a release; the newest, if one is still going away."""
        if stable.kind != DEPLOYMENT or self._deployments is None:
            return None
        found = self._deployments.by_index(_BY_STABLE, f"{stable.metadata.namespace}/{stable.name}")
        living = [one for one in found if not one.metadata.deleting]
        newest = max(living, key=lambda one: one.metadata.creation_timestamp or "", default=None)
        return self._workload(DEPLOYMENT, newest, readable) if newest is not None else None

    def _workload(self, kind: str, found: StoredWorkload, readable: Collection[Resource]) -> PlainWorkload:
        uid = found.metadata.uid
        sets: list[ReplicaSet] = []
        revisions: list[StoredRevision] = []
        if kind == DEPLOYMENT and self._replica_sets is not None:
            sets = self._replica_sets.by_index(_BY_OWNER, uid)
        if kind == STATEFUL_SET and self._revisions is not None and CONTROLLER_REVISIONS in readable:
            revisions = self._revisions.by_index(_BY_OWNER, uid)
        owners = [uid, *(one.metadata.uid for one in sets)]
        pods: list[Pod] = []
        if self._pods is not None and PODS in readable:
            pods = [pod for one in owners for pod in self._pods.by_index(_BY_OWNER, one)]
        return PlainWorkload(
            kind=kind,
            metadata=found.metadata,
            spec=found.spec,
            status=found.status,
            pods=sorted(pods, key=lambda one: one.metadata.name),
            replica_sets=sets if REPLICA_SETS in readable else [],
            revisions=revisions,
        )

    # Changes

    def of_pod(self, pod: Pod) -> Key | None:
        """The workload that a pod belongs to, by its owners."""
        owner = pod.metadata.controller
        if owner is None:
            return None
        if owner.kind == "ReplicaSet" and self._replica_sets is not None:
            part = self._replica_sets.get(Key(pod.metadata.namespace, owner.name))
            return self._of_part(part.metadata) if part is not None else None
        return self._of_part(pod.metadata)

    def _of_part(self, metadata: ObjectMeta) -> Key | None:
        owner = metadata.controller
        if owner is None or owner.kind not in (DEPLOYMENT, STATEFUL_SET):
            return None
        name = owner.name
        if owner.kind == DEPLOYMENT and self._deployments is not None:
            stored = self._deployments.get(Key(metadata.namespace, name))
            name = (stored.metadata.labels.get(CANARY_DEPLOYMENT) if stored is not None else None) or name
        return KINDS[owner.kind].key(metadata.namespace, name)

    def _report(self, key: Key | None) -> None:
        if key is not None:
            self._changed(key)

    def _pod_changed(self, pod: Pod | None) -> None:
        self._report(self.of_pod(pod) if pod is not None else None)

    def _part_changed(self, part: ReplicaSet | StoredRevision | None) -> None:
        self._report(self._of_part(part.metadata) if part is not None else None)

    def _deployment_changed(self, found: StoredWorkload | None) -> None:
        if found is not None:
            name = found.metadata.labels.get(CANARY_DEPLOYMENT) or found.metadata.name
            self._report(KINDS[DEPLOYMENT].key(found.metadata.namespace, name))

    def _stateful_set_changed(self, found: StoredWorkload | None) -> None:
        if found is not None:
            self._report(KINDS[STATEFUL_SET].key(found.metadata.namespace, found.metadata.name))


def _by_owner(obj: ReplicaSet | StoredRevision | Pod) -> Iterable[str]:
    owner = obj.metadata.controller
    return (owner.uid,) if owner is not None and owner.uid else ()


def _by_stable(deployment: StoredWorkload) -> Iterable[str]:
    stable = deployment.metadata.labels.get(CANARY_DEPLOYMENT)
    return (f"{deployment.metadata.namespace}/{stable}",) if stable else ()
