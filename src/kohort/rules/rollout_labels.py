"""Names of the Rollout API on the wire: labels, annotations, finalizers, enumerations. Users' scripts depend on them.

Labels of groups, which releases of LeaderWorkerSets read too, are in `group_labels`.
"""

from enum import StrEnum
from typing import Final

from kohort.objects import well_known_names

GROUP: Final = "rollouts.kruise.io"
API_VERSION: Final = "rollouts.kruise.io/v1beta1"
ALPHA_VERSION: Final = "rollouts.kruise.io/v1alpha1"

# On Rollouts
ROLLOUT_FINALIZER: Final = "rollouts.kruise.io/rollout"
PLAN_HASH: Final = "rollouts.kruise.io/hash"
ROLLBACK_IN_BATCH: Final = "rollouts.kruise.io/rollback-in-batch"
TRAFFIC_ROUTING: Final = "rollouts.kruise.io/trafficrouting"
STEP_TIMEOUT: Final = "rollouts.kruise.io/step-ready-timeout-seconds"
STEP_TIMEOUT_ACTION: Final = "rollouts.kruise.io/step-ready-timeout-action"
SCALE_DOWN_ON_JUMP: Final = "rollouts.kruise.io/scale-down-on-jump"
ANALYSIS_NAME: Final = "rollouts.kruise.io/analysis"
"""Ours: the ReleaseAnalysis that judges the steps of this Rollout."""
ANALYSIS_OVERRIDE: Final = "rollouts.kruise.io/analysis-override"
"""Ours: JSON `{"release", "step", "by", "reason", "attempt"}`: this step goes on whatever its analysis says."""
REQUIRE_CAPACITY: Final = "rollouts.kruise.io/require-capacity"
"""Ours: `true` keeps a release at its beginning until the nodes have room for the replicas of its largest step."""
KEEP_HELD: Final = "kohort.dev/keep-workload-held"
"""Ours: `true` leaves the workload held when this Rollout is deleted or disabled midway, as the feature gate does for
all of them."""
PROGRESSING_FINALIZER: Final = "progressing.rollouts.kruise.io/"
ROLLING_STYLE: Final = "rollouts.kruise.io/rolling-style"

# On workloads
WORKLOAD_TYPE: Final = "rollouts.kruise.io/workload-type"
ROLLOUT_ID: Final = "rollouts.kruise.io/rollout-id"
BATCH_ID: Final = "rollouts.kruise.io/rollout-batch-id"
IN_PROGRESSING: Final = "rollouts.kruise.io/in-progressing"
CONTROL_INFO: Final = "batchrelease.rollouts.kruise.io/control-info"
STABLE_REVISION: Final = "rollouts.kruise.io/stable-revision"
STABLE_FINGERPRINT: Final = "rollouts.kruise.io/stable-fingerprint"
ORIGINAL_LWS_STRATEGY: Final = "rollouts.kruise.io/original-lws-strategy"
STABLE_RESOURCES: Final = "rollouts.kruise.io/stable-resources"
"""Ours: JSON, the outline (`rules.resource_outline`) of the template that the set had when it was held."""
STEP_PARTITION: Final = "rollouts.kruise.io/step-partition"
"""Ours: the partition that a step has given to a LeaderWorkerSet (release in place) or to a StatefulSet."""
STEP_REPLICAS: Final = "rollouts.kruise.io/step-replicas"
"""Ours: how many pods of a StatefulSet have the new version, as the largest step so far spells it: `3` or `40%`."""
ORIGINAL_STATEFUL_SET_STRATEGY: Final = "rollouts.kruise.io/original-statefulset-strategy"
"""Ours: JSON `{"partition"}`, as the user wrote it in a StatefulSet that is held now."""
ORIGINAL_DEPLOYMENT_STRATEGY: Final = "rollouts.kruise.io/original-deployment-strategy"
PARTITION_STRATEGY: Final = "rollouts.kruise.io/deployment-strategy"
PARTITION_STATUS: Final = "rollouts.kruise.io/deployment-extra-status"
PARTITION_CONTROLLED: Final = "rollouts.kruise.io/controlled-by-advanced-deployment-controller"
"""These three: a Deployment that is released in partition style."""
HOLD_RELEASE: Final = "rollouts.kruise.io/hold-release"
CANARY_SET: Final = "rollouts.kruise.io/canary-leaderworkerset"
CANARY_DEPLOYMENT: Final = "rollouts.kruise.io/canary-deployment"
CANARY_FINALIZER: Final = "finalizer.rollouts.kruise.io/batch-release"

# On BatchReleases
RELEASE_FINALIZER: Final = "rollouts.kruise.io/batch-release-finalizer"
FULL_CAPACITY: Final = "rollouts.kruise.io/full-capacity"
SHRINK: Final = "rollouts.kruise.io/shrink-to-batch"
"""Ours: the batch whose size the canary may come down to, because traffic has left the rest."""
WITHDRAWN: Final = "rollouts.kruise.io/withdrawn"
"""Ours: the version took too long; no canary until the Rollout says otherwise."""

# On Services, Ingresses and routes that a release changes
ADDED_SELECTOR: Final = "rollouts.kruise.io/added-selector"
"""On the stable Service: JSON `{"key", "value"}` of the pin, and `before` if the key had a value of the user."""
ORIGINAL_SPEC: Final = "rollouts.kruise.io/original-spec-configuration"
"""On custom network objects: JSON `{"spec", "labels", "annotations"}` from before the release."""
WRITTEN_SPEC: Final = "rollouts.kruise.io/routed-spec-configuration"
"""On custom network objects: the same as the operator wrote it, so that edits of others can be recognised."""
ORIGINAL_RULES: Final = "rollouts.kruise.io/original-rules"
"""On HTTPRoutes: JSON list, `spec.rules` from before the release."""
ROUTED_BY: Final = "rollouts.kruise.io/routed-by"
"""Label of Services and Ingresses made for a canary: the uid of the object that routes to them. Owner references do not
last: deleting that object with `--cascade=orphan` removes them first."""
GRACE_TIMES: Final = "rollouts.kruise.io/traffic-marks"
"""On TrafficRoutings: JSON map of when which change was made. An annotation, since a strict definition would prune an
unknown field of the status, and then no grace period would ever begin."""

# On RolloutHistories
ROLLOUT_NAME: Final = "rollouts.kruise.io/rollout-name"

# On autoscalers
DISABLED_SUFFIX: Final = "-DisableByRollout"

# On pods of Deployments, given by their ReplicaSets
TEMPLATE_HASH: Final = well_known_names.POD_TEMPLATE_HASH

# On pods of StatefulSets, given by their controller
REVISION_HASH: Final = well_known_names.CONTROLLER_REVISION_HASH

# Phases of a Rollout


class RolloutPhase(StrEnum):
    """In the order of a Rollout's life."""

    INITIAL = "Initial"
    HEALTHY = "Healthy"
    PROGRESSING = "Progressing"
    TERMINATING = "Terminating"
    DISABLED = "Disabled"
    DISABLING = "Disabling"


INITIAL: Final = RolloutPhase.INITIAL.value
HEALTHY: Final = RolloutPhase.HEALTHY.value
PROGRESSING: Final = RolloutPhase.PROGRESSING.value
TERMINATING: Final = RolloutPhase.TERMINATING.value
DISABLED: Final = RolloutPhase.DISABLED.value
DISABLING: Final = RolloutPhase.DISABLING.value

# States of a step


class StepState(StrEnum):
    """In the order in which a step goes through them."""

    BEFORE_UPGRADE = "BeforeStepUpgrade"
    UPGRADE = "StepUpgrade"
    ROUTING = "StepTrafficRouting"
    ANALYSIS = "StepMetricsAnalysis"
    PAUSED = "StepPaused"
    READY = "StepReady"
    COMPLETED = "Completed"


BEFORE_UPGRADE: Final = StepState.BEFORE_UPGRADE.value
UPGRADE: Final = StepState.UPGRADE.value
ROUTING: Final = StepState.ROUTING.value
ANALYSIS: Final = StepState.ANALYSIS.value
PAUSED: Final = StepState.PAUSED.value
READY: Final = StepState.READY.value
COMPLETED: Final = StepState.COMPLETED.value

# Reasons of the condition Progressing


class ProgressingReason(StrEnum):
    """What a release does, or that it is over. A status may also hold reasons that other programs wrote."""

    INITIALIZING = "Initializing"
    IN_ROLLING = "InRolling"
    PAUSED = "Paused"
    FINALISING = "Finalising"
    CANCELLING = "Cancelling"
    COMPLETED = "Completed"


INITIALIZING: Final = ProgressingReason.INITIALIZING
IN_ROLLING: Final = ProgressingReason.IN_ROLLING
FINALISING: Final = ProgressingReason.FINALISING
CANCELLING: Final = ProgressingReason.CANCELLING
REASON_PAUSED: Final = ProgressingReason.PAUSED

IN_TERMINATING: Final = "InTerminating"
"""Reason of the condition Terminating."""

# Other conditions of a Rollout
SUCCEEDED: Final = "Succeeded"
RESOLVED_REFS: Final = "ResolvedRefs"
"""Ours: whether the Services and routes that it names exist and lead to its workload."""

ANALYSIS_CONDITION: Final = "Analysis"
"""Ours: what the metrics of the current step, or of the last one that was judged, say."""
CAPACITY_CONDITION: Final = "Capacity"
"""Ours: whether the nodes have room for the release; its reasons are the two below, or those of the forecast."""
ROOM_FOR_ALL: Final = "RoomForAll"
NOT_READABLE: Final = "NotReadable"

# On pods and Services that lose pods
SERVES: Final = "kohort.dev/serves"
"""On pods, while others of their Service are about to be deleted (`rollouts.traffic.withdrawal`)."""
WITHDRAWN_PODS: Final = "kohort.dev/withdrawn-pods"
"""On a Service: which pods it does not select because they are about to be deleted, and since when."""
DRAINING_PODS: Final = "kohort.dev/draining-pods"
"""On a Deployment: which of its pods leave which Services, and end their requests, before a ReplicaSet shrinks."""
FORMER_DELETION_COST: Final = "kohort.dev/former-deletion-cost"
"""On such pods: the deletion cost that they had before, empty if they had none."""

# Steps of finalising


class FinalisingStep(StrEnum):
    """What a release does at its end, before it is over."""

    TO_NEW = "FinalisingStepRouteTrafficToNew"
    TO_STABLE = "FinalisingStepRouteTrafficToStable"
    RESTORE_STABLE = "RestoreStableService"
    REMOVE_CANARY_SERVICE = "RemoveCanaryService"
    RESUME = "ResumeWorkload"
    RELEASE_CONTROL = "ReleaseWorkloadControl"
    END = "END"


TO_NEW: Final = FinalisingStep.TO_NEW.value
TO_STABLE: Final = FinalisingStep.TO_STABLE.value
RESTORE_STABLE: Final = FinalisingStep.RESTORE_STABLE.value
REMOVE_CANARY_SERVICE: Final = FinalisingStep.REMOVE_CANARY_SERVICE.value
RESUME: Final = FinalisingStep.RESUME.value
RELEASE_CONTROL: Final = FinalisingStep.RELEASE_CONTROL.value
END: Final = FinalisingStep.END.value

# Phases and states of a BatchRelease


class BatchReleasePhase(StrEnum):
    """In the order of its life."""

    PREPARING = "Preparing"
    PROGRESSING = "Progressing"
    FINALIZING = "Finalizing"
    COMPLETED = "Completed"


class BatchState(StrEnum):
    """In the order in which a batch goes through them."""

    UPGRADING = "Upgrading"
    VERIFYING = "Verifying"
    READY = "Ready"


class FinalizingPolicy(StrEnum):
    """Whether a BatchRelease that ends waits for the workload to be whole."""

    WAIT_RESUME = "WaitResume"
    IMMEDIATE = "Immediate"


PREPARING: Final = BatchReleasePhase.PREPARING
FINALIZING: Final = BatchReleasePhase.FINALIZING
UPGRADING: Final = BatchState.UPGRADING
VERIFYING: Final = BatchState.VERIFYING
BATCH_READY: Final = BatchState.READY
WAIT_RESUME: Final = FinalizingPolicy.WAIT_RESUME
IMMEDIATE: Final = FinalizingPolicy.IMMEDIATE

# Styles
CANARY: Final = "Canary"
PARTITION: Final = "Partition"
BLUE_GREEN: Final = "BlueGreen"

RECHECK: Final = 3.0
CHECK_SECONDS: Final = 30.0
"""How often the references of a Rollout are looked at while nothing is released."""
LOOK_SECONDS: Final = 10.0
"""How often routes are looked at while a step waits. They may be of any kind, and most clusters lack some of the kinds,
so they are not watched."""
