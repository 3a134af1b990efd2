"""Deployments and ReplicaSets.

Pod templates stay plain documents: controllers copy and hash them whole, and a typed view would lose what it does
not know.
"""

# ruff: noqa: RUF012 (an empty dictionary as default is made anew for every instance)

from kohort.objects.json_types import JsonObject
from kohort.objects.meta import Condition, ObjectMeta, Selector
from kohort.objects.view import View


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
    paused: bool = False
    progress_deadline_seconds: int | None = None


class DeploymentStatus(View, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
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
    ready_replicas: int = 0
    available_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()
