"""Names that other programs rely on: manifests, scripts, dashboards, and LeaderWorkerSet or Kruise Rollouts after a
takeover. Each is spelled out here, so that a name cannot change by an edit of its constant alone."""

import pytest

from kohort.objects.names import qualified_name
from kohort.rules import (
    gateway_metrics,
    group_labels,
    local_volumes,
    nginx_annotations,
    node_conditions,
    rollout_labels,
    simulation_labels,
    stream_protocols,
)

GROUP_NAMES = {
    "PREFIX": "leaderworkerset.sigs.k8s.io/",
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
    "POD_GROUP": "scheduling.k8s.io/group-name",
    "EXPECTED_RESTARTS": "kohort.dev/expected-restarts",
    "RESTARTS_COUNTED_SINCE": "kohort.dev/restarts-counted-since",
    "ENGINE_RECOVERY": "kohort.dev/engine-recovery-seconds",
    "RECOVERY_UNTIL": "kohort.dev/engine-recovery-until",
    "PREFER_PREVIOUS_NODES": "kohort.dev/prefer-previous-nodes",
    "HELD_GATE": "kohort.dev/restart-backoff",
    "HELD_UNTIL": "kohort.dev/held-until",
    "HELD_BECAUSE": "kohort.dev/held-because",
    "GROUP_RESIZE": "kohort.dev/group-resize",
    "RESOURCES_OF_REVISION": "kohort.dev/resources-of-revision",
    "REVISION_LIMIT": "leaderworkerset.sigs.k8s.io/revision-history-limit",
    "LAST_APPLIED": "kubectl.kubernetes.io/last-applied-configuration",
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

ROLLOUT_NAMES = {
    "GROUP": "rollouts.kruise.io",
    "API_VERSION": "rollouts.kruise.io/v1beta1",
    "ALPHA_VERSION": "rollouts.kruise.io/v1alpha1",
    "ROLLOUT_FINALIZER": "rollouts.kruise.io/rollout",
    "PLAN_HASH": "rollouts.kruise.io/hash",
    "ROLLBACK_IN_BATCH": "rollouts.kruise.io/rollback-in-batch",
    "TRAFFIC_ROUTING": "rollouts.kruise.io/trafficrouting",
    "STEP_TIMEOUT": "rollouts.kruise.io/step-ready-timeout-seconds",
    "STEP_TIMEOUT_ACTION": "rollouts.kruise.io/step-ready-timeout-action",
    "SCALE_DOWN_ON_JUMP": "rollouts.kruise.io/scale-down-on-jump",
    "ANALYSIS_NAME": "rollouts.kruise.io/analysis",
    "ANALYSIS_OVERRIDE": "rollouts.kruise.io/analysis-override",
    "REQUIRE_CAPACITY": "rollouts.kruise.io/require-capacity",
    "KEEP_HELD": "kohort.dev/keep-workload-held",
    "PROGRESSING_FINALIZER": "progressing.rollouts.kruise.io/",
    "ROLLING_STYLE": "rollouts.kruise.io/rolling-style",
    "WORKLOAD_TYPE": "rollouts.kruise.io/workload-type",
    "ROLLOUT_ID": "rollouts.kruise.io/rollout-id",
    "BATCH_ID": "rollouts.kruise.io/rollout-batch-id",
    "IN_PROGRESSING": "rollouts.kruise.io/in-progressing",
    "CONTROL_INFO": "batchrelease.rollouts.kruise.io/control-info",
    "STABLE_REVISION": "rollouts.kruise.io/stable-revision",
    "STABLE_FINGERPRINT": "rollouts.kruise.io/stable-fingerprint",
    "ORIGINAL_LWS_STRATEGY": "rollouts.kruise.io/original-lws-strategy",
    "STABLE_RESOURCES": "rollouts.kruise.io/stable-resources",
    "STEP_PARTITION": "rollouts.kruise.io/step-partition",
    "STEP_REPLICAS": "rollouts.kruise.io/step-replicas",
    "ORIGINAL_STATEFUL_SET_STRATEGY": "rollouts.kruise.io/original-statefulset-strategy",
    "ORIGINAL_DEPLOYMENT_STRATEGY": "rollouts.kruise.io/original-deployment-strategy",
    "PARTITION_STRATEGY": "rollouts.kruise.io/deployment-strategy",
    "PARTITION_STATUS": "rollouts.kruise.io/deployment-extra-status",
    "PARTITION_CONTROLLED": "rollouts.kruise.io/controlled-by-advanced-deployment-controller",
    "HOLD_RELEASE": "rollouts.kruise.io/hold-release",
    "CANARY_SET": "rollouts.kruise.io/canary-leaderworkerset",
    "CANARY_DEPLOYMENT": "rollouts.kruise.io/canary-deployment",
    "CANARY_FINALIZER": "finalizer.rollouts.kruise.io/batch-release",
    "RELEASE_FINALIZER": "rollouts.kruise.io/batch-release-finalizer",
    "FULL_CAPACITY": "rollouts.kruise.io/full-capacity",
    "SHRINK": "rollouts.kruise.io/shrink-to-batch",
    "WITHDRAWN": "rollouts.kruise.io/withdrawn",
    "ADDED_SELECTOR": "rollouts.kruise.io/added-selector",
    "ORIGINAL_SPEC": "rollouts.kruise.io/original-spec-configuration",
    "WRITTEN_SPEC": "rollouts.kruise.io/routed-spec-configuration",
    "ORIGINAL_RULES": "rollouts.kruise.io/original-rules",
    "GRACE_TIMES": "rollouts.kruise.io/traffic-marks",
    "ROLLOUT_NAME": "rollouts.kruise.io/rollout-name",
    "DISABLED_SUFFIX": "-DisableByRollout",
    "TEMPLATE_HASH": "pod-template-hash",
    "REVISION_HASH": "controller-revision-hash",
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
    "INITIALIZING": "Initializing",
    "IN_ROLLING": "InRolling",
    "FINALISING": "Finalising",
    "CANCELLING": "Cancelling",
    "REASON_PAUSED": "Paused",
    "IN_TERMINATING": "InTerminating",
    "SUCCEEDED": "Succeeded",
    "RESOLVED_REFS": "ResolvedRefs",
    "ANALYSIS_CONDITION": "Analysis",
    "TO_NEW": "FinalisingStepRouteTrafficToNew",
    "TO_STABLE": "FinalisingStepRouteTrafficToStable",
    "RESTORE_STABLE": "RestoreStableService",
    "REMOVE_CANARY_SERVICE": "RemoveCanaryService",
    "RESUME": "ResumeWorkload",
    "RELEASE_CONTROL": "ReleaseWorkloadControl",
    "END": "END",
    "PREPARING": "Preparing",
    "FINALIZING": "Finalizing",
    "UPGRADING": "Upgrading",
    "VERIFYING": "Verifying",
    "BATCH_READY": "Ready",
    "WAIT_RESUME": "WaitResume",
    "IMMEDIATE": "Immediate",
    "CANARY": "Canary",
    "PARTITION": "Partition",
    "BLUE_GREEN": "BlueGreen",
}

OTHER_NAMES = [
    (gateway_metrics.NAMESPACE, "kohort-system"),
    (gateway_metrics.CONFIG_MAP, "kohort-gateway"),
    (gateway_metrics.ADDRESS_KEY, "metricsAddress"),
    (gateway_metrics.REQUESTS, "kohort_gateway_requests_total"),
    (gateway_metrics.FIRST_BYTE, "kohort_gateway_first_byte_seconds"),
    (gateway_metrics.DURATION, "kohort_gateway_request_seconds"),
    (gateway_metrics.IN_FLIGHT, "kohort_gateway_requests_in_flight"),
    (local_volumes.STORAGE_CLASS, "local-path"),
    (local_volumes.PROVISIONER, "kohort.dev/local-path"),
    (local_volumes.PROVISIONED_BY, "pv.kubernetes.io/provisioned-by"),
    (nginx_annotations.PREFIX + nginx_annotations.CANARY, "nginx.ingress.kubernetes.io/canary"),
    (nginx_annotations.PREFIX + nginx_annotations.WEIGHT, "nginx.ingress.kubernetes.io/canary-weight"),
    (nginx_annotations.PREFIX + nginx_annotations.WEIGHT_TOTAL, "nginx.ingress.kubernetes.io/canary-weight-total"),
    (nginx_annotations.PREFIX + nginx_annotations.COOKIE, "nginx.ingress.kubernetes.io/canary-by-cookie"),
    (nginx_annotations.PREFIX + nginx_annotations.HEADER, "nginx.ingress.kubernetes.io/canary-by-header"),
    (nginx_annotations.PREFIX + nginx_annotations.HEADER_VALUE, "nginx.ingress.kubernetes.io/canary-by-header-value"),
    (
        nginx_annotations.PREFIX + nginx_annotations.HEADER_PATTERN,
        "nginx.ingress.kubernetes.io/canary-by-header-pattern",
    ),
    (node_conditions.RESOURCES_ENFORCED, "ResourcesEnforced"),
    (simulation_labels.SIMULATED, "simulation.kohort.dev/node"),
    (simulation_labels.USAGE, "simulation.kohort.dev/usage"),
    (simulation_labels.METRICS, "simulation.kohort.dev/metrics"),
    (" ".join(stream_protocols.PORT_FORWARD), "SPDY/3.1+portforward.k8s.io v4.channel.k8s.io"),
    (
        " ".join(stream_protocols.CHANNELS),
        "v5.channel.k8s.io v4.channel.k8s.io v3.channel.k8s.io v2.channel.k8s.io channel.k8s.io "
        "v4.base64.channel.k8s.io base64.channel.k8s.io",
    ),
]


@pytest.mark.parametrize(("constant", "name"), GROUP_NAMES.items(), ids=lambda one: one)
def test_a_name_of_groups_keeps_its_spelling(constant: str, name: str) -> None:
    assert getattr(group_labels, constant) == name


@pytest.mark.parametrize(("constant", "name"), ROLLOUT_NAMES.items(), ids=lambda one: one)
def test_a_name_of_releases_keeps_its_spelling(constant: str, name: str) -> None:
    assert getattr(rollout_labels, constant) == name


@pytest.mark.parametrize(("constant", "name"), OTHER_NAMES, ids=[name for _, name in OTHER_NAMES])
def test_a_name_between_parts_keeps_its_spelling(constant: str, name: str) -> None:
    assert constant == name


@pytest.mark.parametrize("name", [one for one in (*GROUP_NAMES.values(), *ROLLOUT_NAMES.values()) if "/" in one])
def test_a_key_is_one_that_kubernetes_accepts(name: str) -> None:
    """A constant that ends with a slash is the beginning of a key."""
    assert not qualified_name(f"{name}x" if name.endswith("/") else name)


def test_labels_of_the_two_projects_do_not_meet() -> None:
    keys = {one for one in GROUP_NAMES.values() if "/" in one}
    assert not keys & {one for one in ROLLOUT_NAMES.values() if "/" in one}
