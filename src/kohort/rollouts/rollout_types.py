"""Typed views of Rollouts and BatchReleases.

Canary and blue-green share one strategy type and one progress type: they differ in a few fields on the wire, and the
decisions about steps should not be written twice. `from_status` and `to_status` of `ReleaseProgress` know both
spellings.
"""

# ruff: noqa: RUF012 (an empty dictionary as default is made anew for every instance)

from typing import Final

import msgspec
from msgspec import field

from kohort.kube.resources import DEPLOYMENTS, LEADER_WORKER_SETS, STATEFUL_SETS, Resource
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import Condition, ObjectMeta, find_condition
from kohort.objects.view import View
from kohort.rollouts import step_arithmetic
from kohort.rollouts.traffic.model import HeaderModifier, Match, RouteRef, TrafficStep
from kohort.rules import rollout_labels

GROUP_SETS: Final = LEADER_WORKER_SETS.group
PROPOSED_GROUP_SETS: Final = "workload.kubernetes.io"
"""The group that the design of this feature named; read as the one that exists."""
_GROUP_SET_KIND: Final = "LeaderWorkerSet"


class WorkloadRef(View, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""

    @classmethod
    def to(cls, resource: Resource, name: str) -> "WorkloadRef":
        return cls(resource.api_version, resource.kind, name)

    @property
    def group(self) -> str:
        group = self.api_version.rpartition("/")[0]
        return GROUP_SETS if (group, self.kind) == (PROPOSED_GROUP_SETS, _GROUP_SET_KIND) else group

    @property
    def is_group_set(self) -> bool:
        return (self.group, self.kind) == (GROUP_SETS, _GROUP_SET_KIND)

    @property
    def is_deployment(self) -> bool:
        return (self.group, self.kind) == ("apps", "Deployment")

    @property
    def is_stateful_set(self) -> bool:
        return (self.group, self.kind) == ("apps", "StatefulSet")

    @property
    def group_kind(self) -> tuple[str, str]:
        return self.group, self.kind

    @property
    def resource(self) -> Resource:
        """Of workloads that are released here."""
        return _RESOURCES[self.group_kind]

    @property
    def identity(self) -> tuple[str, str, str]:
        """Two references with the same identity mean the same workload, whatever version they name."""
        return self.group, self.kind, self.name


_RESOURCES: Final = {one.group_kind: one for one in (LEADER_WORKER_SETS, DEPLOYMENTS, STATEFUL_SETS)}
RELEASED_KINDS: Final = frozenset(_RESOURCES)
"""Group and kind of the workloads that Rollouts release here."""


class Pause(View, frozen=True):
    duration: int | None = None


class Step(View, frozen=True):
    replicas: int | str | None = None
    traffic: str | None = None
    matches: tuple[Match, ...] = ()
    request_header_modifier: HeaderModifier | None = None
    pause: Pause | None = None
    """None when the user wrote none, which counts as an empty one."""

    @property
    def routes(self) -> bool:
        return self.traffic is not None or bool(self.matches)

    @property
    def pause_seconds(self) -> int | None:
        """None waits for approval."""
        return self.pause.duration if self.pause is not None else None

    @property
    def traffic_step(self) -> TrafficStep:
        weight = int(self.traffic.removesuffix("%")) if self.traffic else None
        return TrafficStep(weight, self.matches, self.request_header_modifier)


class PatchMetadata(View, frozen=True):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Strategy(View, frozen=True):
    steps: tuple[Step, ...] = ()
    traffic_routings: tuple[RouteRef, ...] = ()
    failure_threshold: int | str | None = None
    patch_pod_template_metadata: PatchMetadata | None = None
    enable_extra_workload_for_canary: bool = False
    traffic_routing_ref: str = ""
    disable_generate_canary_service: bool = False


class RolloutStrategy(View, frozen=True):
    paused: bool = False
    canary: Strategy | None = None
    blue_green: Strategy | None = None


class RolloutSpec(View, frozen=True):
    workload_ref: WorkloadRef = WorkloadRef()
    disabled: bool = False
    strategy: RolloutStrategy = RolloutStrategy()


class ReleaseProgress(msgspec.Struct, frozen=True):
    """canaryStatus or blueGreenStatus."""

    observed_workload_generation: int = 0
    observed_rollout_id: str = ""
    rollout_hash: str = ""
    stable_revision: str = ""
    pod_template_hash: str = ""
    revision: str = ""
    """canaryRevision or updatedRevision: tells templates apart, never selects pods."""
    replicas: int = 0
    ready_replicas: int = 0
    current_step_index: int = 0
    next_step_index: int = 0
    current_step_state: str = ""
    finalising_step: str = ""
    message: str = ""
    last_update_time: str = ""
    revision_key: str = ""
    """Ours: which pod label the pin uses, so that it can be removed when the workload is gone."""
    canary_name: str = ""
    """Ours: the extra workload that canary Services select."""
    grace_times: dict[str, str] = {}
    """Ours: when which route was last changed."""
    timed_out_step: int = 0
    """Ours: the step that was reported as not ready in time, so that it is reported once."""
    judged_step: int = 0
    """Ours: the step that the condition Analysis is about. The same verdict about the next step is news."""
    analysis_result: str = ""
    """Ours: a `StepVerdict`, what the analysis lets the current step do; empty where no analysis is asked for. Commands
    read it, so that they permit what the controller does."""
    announced_wait: str = ""
    """Ours: a `ReleaseWait` that was announced by an event, so that it is announced once."""
    missing_replicas: int = 0
    """Ours: for how many replicas the nodes lacked room, by the last event that said so."""
    analysis_attempt: int = 0
    """Ours: how often releases and steps were begun, each time with an analysis of its own. It goes on with the next
    release, which may be one of the same version."""
    workload_uid: str = ""
    """Ours: of the workload that is released. One that was made again under its name is another one."""

    @classmethod
    def from_status(cls, document: JsonObject) -> "ReleaseProgress":
        known = {name: document[key] for name, key in _COMMON.items() if document.get(key) is not None}
        for spelling in (_CANARY, _BLUE_GREEN):
            known |= {name: document[key] for name, key in spelling.items() if document.get(key) is not None}
        return cls(**known)

    def to_status(self, *, blue_green: bool) -> JsonObject:
        spelling = _COMMON | (_BLUE_GREEN if blue_green else _CANARY)
        document = {key: getattr(self, name) for name, key in spelling.items()}
        return {key: value for key, value in document.items() if value or key in _ALWAYS}


_COMMON: Final = {
    "observed_workload_generation": "observedWorkloadGeneration",
    "observed_rollout_id": "observedRolloutID",
    "rollout_hash": "rolloutHash",
    "stable_revision": "stableRevision",
    "pod_template_hash": "podTemplateHash",
    "current_step_index": "currentStepIndex",
    "next_step_index": "nextStepIndex",
    "current_step_state": "currentStepState",
    "finalising_step": "finalisingStep",
    "message": "message",
    "last_update_time": "lastUpdateTime",
    "revision_key": "revisionKey",
    "canary_name": "canaryName",
    "grace_times": "graceTimes",
    "timed_out_step": "timedOutStep",
    "judged_step": "judgedStep",
    "analysis_result": "analysisResult",
    "announced_wait": "announcedWait",
    "missing_replicas": "missingReplicas",
    "analysis_attempt": "analysisAttempt",
    "workload_uid": "workloadUID",
}
_CANARY: Final = {
    "revision": "canaryRevision",
    "replicas": "canaryReplicas",
    "ready_replicas": "canaryReadyReplicas",
}
_BLUE_GREEN: Final = {
    "revision": "updatedRevision",
    "replicas": "updatedReplicas",
    "ready_replicas": "updatedReadyReplicas",
}
_ALWAYS: Final = {
    "podTemplateHash",
    "currentStepIndex",
    "nextStepIndex",
    "currentStepState",
    "finalisingStep",
    "canaryReplicas",
    "canaryReadyReplicas",
    "updatedReplicas",
    "updatedReadyReplicas",
}


class RolloutStatus(View, frozen=True):
    observed_generation: int = 0
    phase: str = ""
    message: str = ""
    current_step_index: int = 0
    current_step_state: str = ""
    conditions: tuple[Condition, ...] = ()
    canary_status: JsonObject | None = None
    blue_green_status: JsonObject | None = None

    @property
    def progress(self) -> ReleaseProgress | None:
        document = self.canary_status if self.canary_status is not None else self.blue_green_status
        return None if document is None else ReleaseProgress.from_status(document)

    def condition(self, type: str) -> Condition | None:
        return find_condition(self.conditions, type)

    @property
    def reason(self) -> str:
        """Of the condition Progressing."""
        found = self.condition(rollout_labels.PROGRESSING)
        return found.reason if found is not None else ""


class Rollout(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: RolloutSpec = RolloutSpec()
    status: RolloutStatus = RolloutStatus()

    @property
    def blue_green(self) -> bool:
        return self.spec.strategy.blue_green is not None

    @property
    def strategy(self) -> Strategy:
        chosen = self.spec.strategy
        return chosen.blue_green or chosen.canary or Strategy()

    @property
    def style(self) -> str:
        if self.blue_green:
            return rollout_labels.BLUE_GREEN
        if self.spec.workload_ref.is_stateful_set:
            # There is no second workload beside a set of numbered pods, whatever the field says.
            return rollout_labels.PARTITION
        return rollout_labels.CANARY if self.strategy.enable_extra_workload_for_canary else rollout_labels.PARTITION

    @property
    def partitioned(self) -> bool:
        """Both versions live in one workload, of which each step gives so many pods the new version."""
        return self.style == rollout_labels.PARTITION and self.spec.strategy.canary is not None

    @property
    def shares_deployment(self) -> bool:
        """Both versions live in one Deployment."""
        chosen = self.blue_green or self.partitioned
        return chosen and step_arithmetic.share_deployment(self.spec.workload_ref.group_kind, self.style)

    def planned(self, wanted: int | str, replicas: int) -> int:
        """How many of the replicas have the new version at a step that wants so many."""
        return step_arithmetic.planned(wanted, replicas, self.spec.workload_ref.group_kind, self.style)

    def skips_pause(self, index: int) -> bool:
        """Whether a step, counted from 1, does not wait: a canary that has come to exactly "100%" at its last step is
        promoted as soon as it is ready. So do other implementations of this API."""
        steps = self.strategy.steps
        return not self.blue_green and 0 < index == len(steps) and steps[-1].replicas == "100%"

    @property
    def steps_known(self) -> bool:
        return bool(self.strategy.steps)

    @property
    def traffic_routing(self) -> str:
        """The TrafficRouting object that this release uses; the field counts before the older annotation."""
        return self.strategy.traffic_routing_ref or self.metadata.annotations.get(rollout_labels.TRAFFIC_ROUTING, "")

    def owner_reference(self) -> JsonObject:
        return {
            "apiVersion": rollout_labels.API_VERSION,
            "kind": "Rollout",
            "name": self.metadata.name,
            "uid": self.metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


class Batch(View, frozen=True):
    canary_replicas: int | str = 0


class ReleasePlan(View, frozen=True):
    batches: tuple[Batch, ...] = ()
    batch_partition: int | None = None
    rollout_id: str = field(default="", name="rolloutID")
    failure_threshold: int | str | None = None
    finalizing_policy: str = ""
    patch_pod_template_metadata: PatchMetadata | None = None
    rolling_style: str = ""
    enable_extra_workload_for_canary: bool = False

    def document(self) -> JsonObject:
        """As it is written; the deprecated duplicate of the style is always spelled out."""
        known: JsonObject = msgspec.to_builtins(self)
        return known | {"enableExtraWorkloadForCanary": self.enable_extra_workload_for_canary}


class ReleaseSpec(View, frozen=True):
    workload_ref: WorkloadRef = WorkloadRef()
    release_plan: ReleasePlan = ReleasePlan()


class ReleaseCanaryStatus(View, frozen=True):
    batch_state: str = ""
    current_batch: int = 0
    batch_ready_time: str | None = None
    updated_replicas: int = 0
    updated_ready_replicas: int = 0
    no_need_update_replicas: int | None = None


class ReleaseStatus(View, frozen=True):
    phase: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    stable_revision: str = ""
    update_revision: str = ""
    observed_generation: int = 0
    observed_rollout_id: str = field(default="", name="observedRolloutID")
    observed_workload_replicas: int = 0
    observed_release_plan_hash: str = ""
    canary_status: ReleaseCanaryStatus = ReleaseCanaryStatus()


class BatchRelease(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReleaseSpec = ReleaseSpec()
    status: ReleaseStatus = ReleaseStatus()

    @property
    def plan(self) -> ReleasePlan:
        return self.spec.release_plan

    def owner_reference(self) -> JsonObject:
        return {
            "apiVersion": rollout_labels.API_VERSION,
            "kind": "BatchRelease",
            "name": self.metadata.name,
            "uid": self.metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
