"""Labels, annotations and variables that other software reads: a change of one breaks users."""

import pytest

from kohort.rules import group_labels, rollout_labels

GROUPS = {
    "NAME": "leaderworkerset.sigs.k8s.io/name",
    "REVISION": "leaderworkerset.sigs.k8s.io/template-revision-hash",
    "WORKER_INDEX": "leaderworkerset.sigs.k8s.io/worker-index",
    "GROUP_INDEX": "leaderworkerset.sigs.k8s.io/group-index",
    "GROUP_KEY": "leaderworkerset.sigs.k8s.io/group-key",
    "SUBGROUP_INDEX": "leaderworkerset.sigs.k8s.io/subgroup-index",
    "SUBGROUP_KEY": "leaderworkerset.sigs.k8s.io/subgroup-key",
    "SIZE": "leaderworkerset.sigs.k8s.io/size",
    "REPLICAS": "leaderworkerset.sigs.k8s.io/replicas",
    "LEADER_NAME": "leaderworkerset.sigs.k8s.io/leader-name",
    "EXCLUSIVE": "leaderworkerset.sigs.k8s.io/exclusive-topology",
    "SUBGROUP_EXCLUSIVE": "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology",
    "SUBGROUP_SIZE": "leaderworkerset.sigs.k8s.io/subgroup-size",
    "SUBGROUP_POLICY": "leaderworkerset.sigs.k8s.io/subgroup-policy-type",
    "SUBDOMAIN_POLICY": "leaderworkerset.sigs.k8s.io/subdomainPolicy",
    "LEADER_REQUESTS_TPUS": "leaderworkerset.sigs.k8s.io/leader-requests-tpus",
    "RECREATE_AFTER_START": "leaderworkerset.sigs.k8s.io/experimental-recreate-group-after-start",
    "UNIQUE_NODE_SELECTOR": "leaderworkerset.sigs.k8s.io/replicaUniqueNodeSelector",
    "UNIQUE_TOLERATION_KEY": "leaderworkerset.sigs.k8s.io/replicaUniqueTolerationKey",
    "UNIQUE_TOLERATION_EFFECT": "leaderworkerset.sigs.k8s.io/replicaUniqueTolerationEffect",
    "EXCLUSIVE_EVERYWHERE": "leaderworkerset.sigs.k8s.io/exclusive-topology-across-namespaces",
    "REVISION_LIMIT": "leaderworkerset.sigs.k8s.io/revision-history-limit",
    "POD_GROUP": "scheduling.k8s.io/group-name",
    "LEADER_ADDRESS": "LWS_LEADER_ADDRESS",
    "GROUP_SIZE": "LWS_GROUP_SIZE",
    "WORKER_INDEX_VARIABLE": "LWS_WORKER_INDEX",
    "FIELD_MANAGER": "lws",
    "LEADER": "0",
    "SHARED": "Shared",
    "UNIQUE": "UniquePerReplica",
    "LEADER_CREATED": "LeaderCreated",
    "LEADER_READY": "LeaderReady",
    "RECREATE_ON_RESTART": "RecreateGroupOnPodRestart",
    "RECREATE_WHEN_STARTED": "RecreateGroupAfterStart",
    "LEADER_EXCLUDED": "LeaderExcluded",
    "LEADER_WORKER": "LeaderWorker",
    "SERVED_AT": "kohort.dev/served-at",
    "CHANGE_CAUSE": "kubernetes.io/change-cause",
}
RELEASES = {
    "API_VERSION": "rollouts.kruise.io/v1beta1",
    "ALPHA_VERSION": "rollouts.kruise.io/v1alpha1",
    "ROLLOUT_FINALIZER": "rollouts.kruise.io/rollout",
    "PLAN_HASH": "rollouts.kruise.io/hash",
    "ROLLBACK_IN_BATCH": "rollouts.kruise.io/rollback-in-batch",
    "TRAFFIC_ROUTING": "rollouts.kruise.io/trafficrouting",
    "ROLLING_STYLE": "rollouts.kruise.io/rolling-style",
    "WORKLOAD_TYPE": "rollouts.kruise.io/workload-type",
    "ROLLOUT_ID": "rollouts.kruise.io/rollout-id",
    "BATCH_ID": "rollouts.kruise.io/rollout-batch-id",
    "IN_PROGRESSING": "rollouts.kruise.io/in-progressing",
    "CONTROL_INFO": "batchrelease.rollouts.kruise.io/control-info",
    "STABLE_REVISION": "rollouts.kruise.io/stable-revision",
    "ORIGINAL_DEPLOYMENT_STRATEGY": "rollouts.kruise.io/original-deployment-strategy",
    "PARTITION_STRATEGY": "rollouts.kruise.io/deployment-strategy",
    "PARTITION_STATUS": "rollouts.kruise.io/deployment-extra-status",
    "PARTITION_CONTROLLED": "rollouts.kruise.io/controlled-by-advanced-deployment-controller",
    "CANARY_DEPLOYMENT": "rollouts.kruise.io/canary-deployment",
    "CANARY_FINALIZER": "finalizer.rollouts.kruise.io/batch-release",
    "RELEASE_FINALIZER": "rollouts.kruise.io/batch-release-finalizer",
    "ADDED_SELECTOR": "rollouts.kruise.io/added-selector",
    "ORIGINAL_SPEC": "rollouts.kruise.io/original-spec-configuration",
    "ROLLOUT_NAME": "rollouts.kruise.io/rollout-name",
    "DISABLED_SUFFIX": "-DisableByRollout",
    "TEMPLATE_HASH": "pod-template-hash",
    "INITIAL": "Initial",
    "HEALTHY": "Healthy",
    "PROGRESSING": "Progressing",
    "TERMINATING": "Terminating",
    "DISABLED": "Disabled",
    "DISABLING": "Disabling",
    "BEFORE_UPGRADE": "BeforeStepUpgrade",
    "UPGRADE": "StepUpgrade",
    "ROUTING": "StepTrafficRouting",
    "ANALYSIS": "StepMetricsAnalysis",
    "PAUSED": "StepPaused",
    "READY": "StepReady",
    "COMPLETED": "Completed",
    "CANARY": "Canary",
    "PARTITION": "Partition",
    "BLUE_GREEN": "BlueGreen",
}


@pytest.mark.parametrize(("constant", "text"), GROUPS.items(), ids=GROUPS)
def test_names_of_leaderworkersets(constant: str, text: str) -> None:
    assert getattr(group_labels, constant) == text


@pytest.mark.parametrize(("constant", "text"), RELEASES.items(), ids=RELEASES)
def test_names_of_rollouts(constant: str, text: str) -> None:
    assert getattr(rollout_labels, constant) == text


def test_no_two_labels_or_annotations_have_the_same_name() -> None:
    for module in (group_labels, rollout_labels):
        names = [value for value in vars(module).values() if isinstance(value, str) and ".io/" in value]
        names = [name for name in names if not name.startswith("/") and "\n" not in name]
        assert len(names) == len(set(names))
