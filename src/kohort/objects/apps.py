"""StatefulSets, Deployments, ReplicaSets, DaemonSets and their revisions.

Pod templates stay plain documents: controllers copy and hash them whole, and a typed view would lose what it does
not know.
"""

# ruff: noqa: RUF012 (an empty dictionary as default is made anew for every instance)

from kohort.objects.jsontypes import JsonObject
from kohort.objects.meta import Condition, ObjectMeta, Selector
from kohort.objects.view import View


class RollingUpdateStatefulSet(View, frozen=True):
    partition: int | None = None
    max_unavailable: int | str | None = None


class StatefulSetUpdateStrategy(View, frozen=True):
    type: str = ""
    rolling_update: RollingUpdateStatefulSet | None = None


class ClaimRetentionPolicy(View, frozen=True):
    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class StatefulSetOrdinals(View, frozen=True):
    start: int = 0


class StatefulSetSpec(View, frozen=True):
    replicas: int | None = None
    selector: Selector | None = None
    template: JsonObject = {}
    volume_claim_templates: tuple[JsonObject, ...] = ()
    service_name: str = ""
    pod_management_policy: str = ""
    update_strategy: StatefulSetUpdateStrategy = StatefulSetUpdateStrategy()
    revision_history_limit: int | None = None
    min_ready_seconds: int = 0
    persistent_volume_claim_retention_policy: ClaimRetentionPolicy | None = None
    ordinals: StatefulSetOrdinals | None = None


class StatefulSetStatus(View, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None
    conditions: tuple[Condition, ...] = ()


class StatefulSet(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class ControllerRevision(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    revision: int = 0
    data: JsonObject | None = None


class RollingUpdateDeployment(View, frozen=True):
    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class DeploymentStrategy(View, frozen=True):
    type: str = ""
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(View, frozen=True):
    replicas: int | None = None
    selector: Selector | None = None
    template: JsonObject = {}
    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    paused: bool = False
    progress_deadline_seconds: int | None = None


class DeploymentStatus(View, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    collision_count: int | None = None
    conditions: tuple[Condition, ...] = ()


class Deployment(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(View, frozen=True):
    replicas: int | None = None
    selector: Selector | None = None
    template: JsonObject = {}
    min_ready_seconds: int = 0


class ReplicaSetStatus(View, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class RollingUpdateDaemonSet(View, frozen=True):
    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class DaemonSetUpdateStrategy(View, frozen=True):
    type: str = ""
    rolling_update: RollingUpdateDaemonSet | None = None


class DaemonSetSpec(View, frozen=True):
    selector: Selector | None = None
    template: JsonObject = {}
    update_strategy: DaemonSetUpdateStrategy = DaemonSetUpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None


class DaemonSetStatus(View, frozen=True):
    observed_generation: int = 0
    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    collision_count: int | None = None
    conditions: tuple[Condition, ...] = ()


class DaemonSet(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()
