"""What the fields of a LeaderWorkerSet mean: for `kubectl explain`, and for the reference that is made from it."""

from collections.abc import Mapping
from typing import Final

MEANINGS: Final[Mapping[str, str]] = {
    "spec": "What is wanted.",
    "spec.replicas": "How many groups.",
    "spec.startupPolicy": "When workers are made: with their leader, or once it is ready.",
    "spec.rolloutStrategy": "How groups are replaced when the template changes.",
    "spec.rolloutStrategy.type": "Always RollingUpdate.",
    "spec.rolloutStrategy.rollingUpdateConfiguration": "Its limits.",
    "spec.rolloutStrategy.rollingUpdateConfiguration.partition": "Groups below this index keep their revision.",
    "spec.rolloutStrategy.rollingUpdateConfiguration.maxUnavailable": "Groups that may be away; number or percentage.",
    "spec.rolloutStrategy.rollingUpdateConfiguration.maxSurge": "Groups that may exist on top meanwhile.",
    "spec.networkConfig": "Names of pods.",
    "spec.networkConfig.subdomainPolicy": "One headless Service for all groups, or one for each.",
    "spec.leaderWorkerTemplate": "What a group is made of.",
    "spec.leaderWorkerTemplate.leaderTemplate": "Template of leaders; that of workers if absent.",
    "spec.leaderWorkerTemplate.workerTemplate": "Template of workers.",
    "spec.leaderWorkerTemplate.size": "Pods of a group, its leader included.",
    "spec.leaderWorkerTemplate.restartPolicy": "What the restart of one pod means for its group. Default is None.",
    "spec.leaderWorkerTemplate.resizePolicy": "Whether a change of size recreates groups (Recreate) or is refused.",
    "spec.leaderWorkerTemplate.subGroupPolicy": "Divides a group.",
    "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize": "Pods of a subgroup.",
    "spec.leaderWorkerTemplate.subGroupPolicy.subGroupPolicyType": "Whether the leader belongs to the first subgroup.",
    "spec.leaderWorkerTemplate.schedulingPolicy": "Nodes that belong to one group alone.",
    "spec.leaderWorkerTemplate.schedulingPolicy.replicaUniqueNodeSelector": "Node label that holds the leader's name.",
    "spec.leaderWorkerTemplate.schedulingPolicy.replicaUniqueToleration": "Taint that holds the leader's name.",
    "spec.leaderWorkerTemplate.schedulingPolicy.replicaUniqueToleration.key": "Its key.",
    "spec.leaderWorkerTemplate.schedulingPolicy.replicaUniqueToleration.effect": "Its effect.",
    "spec.leaderWorkerTemplate.volumeClaimTemplates": "A claim of each for every pod.",
    "spec.leaderWorkerTemplate.persistentVolumeClaimRetentionPolicy": "What becomes of claims.",
    "spec.leaderWorkerTemplate.persistentVolumeClaimRetentionPolicy.whenDeleted": (
        "Retain or Delete. Delete also takes workers' claims whenever their group is recreated."
    ),
    "spec.leaderWorkerTemplate.persistentVolumeClaimRetentionPolicy.whenScaled": "Retain or Delete, of leaders.",
    "status": "What is.",
    "status.replicas": "Groups that exist.",
    "status.readyReplicas": "Groups of which all pods are ready.",
    "status.updatedReplicas": "Groups of the wanted revision.",
    "status.updatedReadyReplicas": "Those of them that are ready.",
    "status.stableRevision": "Key of the revision that the last finished roll brought.",
    "status.updateRevision": "Key of the wanted revision.",
    "status.hpaPodSelector": "Selects leaders, for autoscalers.",
    "status.observedGeneration": "The edit that this status is about.",
    "status.conditions": "Available, Progressing, UpdateInProgress, and Waiting: which group and pod is waited for.",
}
