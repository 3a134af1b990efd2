"""What the fields of a LeaderWorkerSet mean: for `kubectl explain`, and for the reference that is made from it."""

from collections.abc import Mapping
from typing import Final

MEANINGS: Final[Mapping[str, str]] = {
    "spec": "The desired state of the set.",
    "spec.replicas": "Number of groups.",
    "spec.startupPolicy": "When workers are created: together with their leader, or once it is ready.",
    "spec.rolloutStrategy": "How groups are replaced when the template changes.",
    "spec.rolloutStrategy.type": "Always RollingUpdate.",
    "spec.rolloutStrategy.rollingUpdateConfiguration": "Limits of a roll.",
    "spec.rolloutStrategy.rollingUpdateConfiguration.partition": "Groups below this index keep their revision.",
    "spec.rolloutStrategy.rollingUpdateConfiguration.maxUnavailable": (
        "Groups that may be unavailable during a roll; number or percentage."
    ),
    "spec.rolloutStrategy.rollingUpdateConfiguration.maxSurge": (
        "Extra groups that may exist during a roll; number or percentage."
    ),
    "spec.rolloutStrategy.resourceUpdatePolicy": (
        "How a change of cpu and memory alone reaches the groups: by recreating them (Recreate, the default), on the "
        "running pods (InPlaceOnly), or on the running pods where that is possible (InPlaceOrRecreate)."
    ),
    "spec.rolloutStrategy.resourceUpdateDeadlineSeconds": (
        "How long the pods of one group may take to get other resources in place; 420 by default."
    ),
    "spec.disruptionBudget": (
        "How many groups evictions (drains, deschedulers, autoscalers) may take at the same time. Without it there is "
        "no limit."
    ),
    "spec.disruptionBudget.maxUnavailable": (
        "Groups that may be away, for whatever reason, when a pod is evicted; number, or percentage of replicas, "
        "rounded up."
    ),
    "spec.networkConfig": "How pods are found by name.",
    "spec.networkConfig.subdomainPolicy": "One headless Service for all groups, or one for each.",
    "spec.leaderWorkerTemplate": "What a group consists of.",
    "spec.leaderWorkerTemplate.leaderTemplate": "Template of leaders; by default, that of workers.",
    "spec.leaderWorkerTemplate.workerTemplate": "Template of workers.",
    "spec.leaderWorkerTemplate.size": "Pods per group, including its leader.",
    "spec.leaderWorkerTemplate.restartPolicy": "What the restart of one pod does to its group. Default means None.",
    "spec.leaderWorkerTemplate.resizePolicy": (
        "Whether a change of size recreates the groups (Recreate) or is refused (None)."
    ),
    "spec.leaderWorkerTemplate.restartBudget": (
        "How often, and how soon after each other, a group is recreated when it fails. Without it there is no limit."
    ),
    "spec.leaderWorkerTemplate.restartBudget.maxRestarts": (
        "Restarts of one group within windowSeconds. A group that fails more often is held: its pods stay as they are."
    ),
    "spec.leaderWorkerTemplate.restartBudget.windowSeconds": "How long a restart counts.",
    "spec.leaderWorkerTemplate.restartBudget.backoffSeconds": (
        "Delay between the first two restarts of a group; it doubles with every other one. 0 for none."
    ),
    "spec.leaderWorkerTemplate.restartBudget.maxBackoffSeconds": (
        "Longest delay. Twice this time without a restart, and the delay begins at backoffSeconds again."
    ),
    "spec.leaderWorkerTemplate.restartBudget.nodeLossSeconds": (
        "How long a node must not have been ready until its pods may be deleted by force."
    ),
    "spec.leaderWorkerTemplate.restartBudget.forceDeleteOnNodeLoss": (
        "Recreate groups elsewhere when their node is lost, and delete their pods there by force. A node that is only "
        "out of reach may still run them."
    ),
    "spec.leaderWorkerTemplate.subGroupPolicy": "Divides a group into subgroups.",
    "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize": "Pods per subgroup.",
    "spec.leaderWorkerTemplate.subGroupPolicy.subGroupPolicyType": "Whether the leader belongs to the first subgroup.",
    "spec.leaderWorkerTemplate.schedulingPolicy": "Ties each group to nodes of its own.",
    "spec.leaderWorkerTemplate.schedulingPolicy.replicaUniqueNodeSelector": (
        "Key of the node label that holds the name of the leader."
    ),
    "spec.leaderWorkerTemplate.schedulingPolicy.replicaUniqueToleration": (
        "Tolerates a taint that holds the name of the leader."
    ),
    "spec.leaderWorkerTemplate.schedulingPolicy.replicaUniqueToleration.key": "Key of the taint.",
    "spec.leaderWorkerTemplate.schedulingPolicy.replicaUniqueToleration.effect": "Effect of the taint.",
    "spec.leaderWorkerTemplate.volumeClaimTemplates": "Templates of claims; every pod gets its own claim from each.",
    "spec.leaderWorkerTemplate.persistentVolumeClaimRetentionPolicy": "What happens to the claims.",
    "spec.leaderWorkerTemplate.persistentVolumeClaimRetentionPolicy.whenDeleted": (
        "When the set is deleted. Delete also removes workers' claims whenever their group is recreated."
    ),
    "spec.leaderWorkerTemplate.persistentVolumeClaimRetentionPolicy.whenScaled": (
        "When the set gets fewer groups, or its groups fewer pods."
    ),
    "status": "The observed state of the set.",
    "status.replicas": "Groups that exist.",
    "status.readyReplicas": "Groups whose pods are all ready.",
    "status.updatedReplicas": "Groups at the wanted revision.",
    "status.updatedReadyReplicas": "Groups at the wanted revision that are ready.",
    "status.stableRevision": "Key of the revision of the last completed roll.",
    "status.updateRevision": "Key of the wanted revision.",
    "status.hpaPodSelector": "Selects leaders, for autoscalers.",
    "status.observedGeneration": "The generation that this status describes.",
    "status.resize": "The change of resources in place that is under way.",
    "status.resize.revision": "Key of the revision that groups are resized to.",
    "status.resize.state": "What is done at the moment.",
    "status.resize.groups": "Groups by how far they have come.",
    "status.resize.groups.wanted": "Groups that are to have the new resources.",
    "status.resize.groups.adopted": "Groups that have them.",
    "status.resize.groups.resizing": "Groups whose pods are being resized.",
    "status.resize.groups.deferred": "Of these, groups with a pod that waits for room on its node.",
    "status.resize.groups.reverted": "Groups that got their former resources back.",
    "status.resize.groups.recreated": "Groups that are recreated instead.",
    "status.resize.message": "Which pod is waited for, and what its node says.",
    "status.resize.startedAt": "When the first group began.",
    "status.disruptionsAllowed": "Groups that evictions may take now; only with a disruptionBudget.",
    "status.disruptedGroups": "Groups whose eviction or roll was begun a moment ago, by the index of the group.",
    "status.restarts": "Restarts of groups that count against their budget, by the index of the group.",
    "status.conditions": (
        "Available, Progressing, UpdateInProgress, Waiting (which group and pod the set is waiting for), and "
        "GroupsExhausted (which groups are held, because they used up their budget of restarts)."
    ),
}
