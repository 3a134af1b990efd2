"""Names of the Rollout API on the wire: labels, annotations, finalizers, enumerations. Users' scripts depend on them.

Labels of groups, which releases of LeaderWorkerSets read too, are in `group_labels`.
"""

from typing import Final

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
"""Ours: JSON `{"release", "step", "by", "reason"}`: this step goes on whatever its analysis says."""
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
"""Ours: the partition that a step of a release in place has given to the set."""
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
GRACE_TIMES: Final = "rollouts.kruise.io/traffic-marks"
"""On TrafficRoutings: JSON map of when which change was made. An annotation, since a strict definition would prune an
unknown field of the status, and then no grace period would ever begin."""

# On RolloutHistories
ROLLOUT_NAME: Final = "rollouts.kruise.io/rollout-name"

# On autoscalers
DISABLED_SUFFIX: Final = "-DisableByRollout"

# On pods of Deployments, given by their ReplicaSets
TEMPLATE_HASH: Final = "pod-template-hash"

# Phases of a Rollout
INITIAL: Final = "Initial"
HEALTHY: Final = "Healthy"
PROGRESSING: Final = "Progressing"
TERMINATING: Final = "Terminating"
DISABLED: Final = "Disabled"
DISABLING: Final = "Disabling"

# States of a step
BEFORE_UPGRADE: Final = "BeforeStepUpgrade"
UPGRADE: Final = "StepUpgrade"
ROUTING: Final = "StepTrafficRouting"
ANALYSIS: Final = "StepMetricsAnalysis"
PAUSED: Final = "StepPaused"
READY: Final = "StepReady"
COMPLETED: Final = "Completed"

# Reasons of the condition Progressing
INITIALIZING: Final = "Initializing"
IN_ROLLING: Final = "InRolling"
FINALISING: Final = "Finalising"
CANCELLING: Final = "Cancelling"
REASON_PAUSED: Final = "Paused"
IN_TERMINATING: Final = "InTerminating"
SUCCEEDED: Final = "Succeeded"

# Other conditions of a Rollout
RESOLVED_REFS: Final = "ResolvedRefs"
"""Ours: whether the Services and routes that it names exist and lead to its workload."""

ANALYSIS_CONDITION: Final = "Analysis"
"""Ours: what the metrics of the current step, or of the last one that was judged, say."""

# Steps of finalising
TO_NEW: Final = "FinalisingStepRouteTrafficToNew"
TO_STABLE: Final = "FinalisingStepRouteTrafficToStable"
RESTORE_STABLE: Final = "RestoreStableService"
REMOVE_CANARY_SERVICE: Final = "RemoveCanaryService"
RESUME: Final = "ResumeWorkload"
RELEASE_CONTROL: Final = "ReleaseWorkloadControl"
END: Final = "END"

# Phases and states of a BatchRelease
PREPARING: Final = "Preparing"
FINALIZING: Final = "Finalizing"
UPGRADING: Final = "Upgrading"
VERIFYING: Final = "Verifying"
BATCH_READY: Final = "Ready"
WAIT_RESUME: Final = "WaitResume"
IMMEDIATE: Final = "Immediate"

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
