"""What is cached of a cluster for releases, and how it is found."""

from collections.abc import Iterable
from typing import Final, Protocol

from kohort.kube.event_mapping import index_by_controller_uid
from kohort.kube.manager import Manager
from kohort.kube.resources import (
    ANALYSIS_RUNS,
    BATCH_RELEASES,
    DEPLOYMENTS,
    LEADER_WORKER_SETS,
    PODS,
    RELEASE_ANALYSES,
    REPLICA_SETS,
    ROLLOUTS,
    STATEFUL_SETS,
    Key,
)
from kohort.objects import well_known_names
from kohort.objects.apps import Deployment, ReplicaSet, StatefulSet
from kohort.objects.core import Pod
from kohort.objects.meta import ObjectMeta, PartialObject
from kohort.rollouts.analysis.analysis_types import AnalysisRun, ReleaseAnalysis
from kohort.rollouts.group_set import GroupSet
from kohort.rollouts.rollout_types import BatchRelease, Rollout, WorkloadRef
from kohort.rules import group_labels, rollout_labels

POD_NAME: Final = well_known_names.STATEFUL_SET_POD_NAME
OF_SET: Final = "rollouts/set"
OF_STABLE: Final = "rollouts/stable"
OF_CONTROLLER: Final = "rollouts/controller"
NOT_OF_GROUPS: Final = f"!{group_labels.NAME}"
PODS_OF_STATEFUL_SETS: Final = f"{rollout_labels.REVISION_HASH},{POD_NAME},{NOT_OF_GROUPS}"
"""Pods of StatefulSets that are no part of a LeaderWorkerSet; DaemonSets have no label with the pod's name."""


class _Member(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


def _of_set(obj: _Member) -> Iterable[str]:
    name = obj.metadata.labels.get(group_labels.NAME)
    return (f"{obj.metadata.namespace}/{name}",) if name else ()


def _of_stable(obj: _Member) -> Iterable[str]:
    labels = obj.metadata.labels
    name = labels.get(rollout_labels.CANARY_SET) or labels.get(rollout_labels.CANARY_DEPLOYMENT)
    return (f"{obj.metadata.namespace}/{name}",) if name else ()


class RolloutCache:
    def __init__(self, manager: Manager) -> None:
        self.rollouts = manager.informer(ROLLOUTS, Rollout)
        self.releases = manager.informer(BATCH_RELEASES, BatchRelease)
        self.sets = manager.informer(LEADER_WORKER_SETS, GroupSet, indexes={OF_STABLE: _of_stable})
        self.leader_sets = manager.informer(STATEFUL_SETS, PartialObject, label_selector=group_labels.NAME)
        self.pods = manager.informer(PODS, Pod, label_selector=group_labels.NAME, indexes={OF_SET: _of_set})
        self.deployments = manager.informer(DEPLOYMENTS, Deployment, indexes={OF_STABLE: _of_stable})
        self.stateful_sets = manager.informer(STATEFUL_SETS, StatefulSet, label_selector=NOT_OF_GROUPS)
        self.stateful_pods = manager.informer(
            PODS, Pod, label_selector=PODS_OF_STATEFUL_SETS, indexes={OF_CONTROLLER: index_by_controller_uid}
        )
        self.analyses = manager.informer(RELEASE_ANALYSES, ReleaseAnalysis)
        self.runs = manager.informer(ANALYSIS_RUNS, AnalysisRun)
        self.replica_sets = manager.informer(REPLICA_SETS, ReplicaSet, indexes={OF_CONTROLLER: index_by_controller_uid})

    @property
    def synced(self) -> bool:
        needed = (
            self.rollouts,
            self.sets,
            self.leader_sets,
            self.deployments,
            self.replica_sets,
            self.stateful_sets,
        )
        return all(informer.synced for informer in needed)

    def rollout_for(self, namespace: str, ref: WorkloadRef) -> Rollout | None:
        """The Rollout that releases a workload: neither deleted nor disabled."""
        for rollout in sorted(self.rollouts.list(namespace), key=lambda one: one.metadata.name):
            if rollout.metadata.deleting or rollout.status.phase == rollout_labels.DISABLED or not rollout.steps_known:
                continue
            if rollout.spec.workload_ref.identity == ref.identity:
                return rollout
        return None

    def rollouts_of(self, namespace: str, ref: WorkloadRef) -> list[Key]:
        """Every Rollout that names a workload."""
        return [
            Key(namespace, rollout.metadata.name)
            for rollout in self.rollouts.list(namespace)
            if rollout.spec.workload_ref.identity == ref.identity
        ]

    def replicas_of(self, namespace: str, ref: WorkloadRef) -> int | None:
        """How many replicas a workload should have; None where it does not exist."""
        key = Key(namespace, ref.name)
        if ref.is_group_set:
            group_set = self.sets.get(key)
            return group_set.replicas if group_set is not None else None
        if ref.is_stateful_set:
            stateful_set = self.stateful_sets.get(key)
            return stateful_set.replicas if stateful_set is not None else None
        deployment = self.deployments.get(key)
        if deployment is None:
            return None
        return 1 if deployment.spec.replicas is None else deployment.spec.replicas

    def live_hash(self, key: Key) -> str:
        """The revision that a set's controller last gave it."""
        leaders = self.leader_sets.get(key)
        return leaders.metadata.labels.get(group_labels.REVISION, "") if leaders is not None else ""

    def canaries(self, key: Key) -> list[GroupSet]:
        """The extra sets made for a set, newest first."""
        found = self.sets.by_index(OF_STABLE, str(key))
        return sorted(found, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name), reverse=True)

    def pods_of(self, key: Key) -> list[Pod]:
        return self.pods.by_index(OF_SET, str(key))

    def canary_deployments(self, key: Key) -> list[Deployment]:
        found = self.deployments.by_index(OF_STABLE, str(key))
        return sorted(found, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name), reverse=True)

    def replica_sets_of(self, uid: str) -> list[ReplicaSet]:
        """Oldest first."""
        found = self.replica_sets.by_index(OF_CONTROLLER, uid)
        return sorted(found, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name))

    def pods_of_stateful_set(self, uid: str) -> list[Pod]:
        return self.stateful_pods.by_index(OF_CONTROLLER, uid)
