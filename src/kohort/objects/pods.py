"""Pods as controllers and the scheduler see them. What only a node needs (commands, probes) is in `node_pods`."""

# ruff: noqa: RUF012 (an empty dictionary as default is made anew for every instance)

from collections.abc import Mapping
from typing import Final, Self

import msgspec
from msgspec import field

from kohort.objects.json_types import JsonObject
from kohort.objects.meta import Condition, ObjectMeta, condition_is
from kohort.objects.placement import Affinity, Toleration, TopologySpreadConstraint
from kohort.objects.view import View
from kohort.objects.volumes import ResourceList, Volume

FINISHED_PHASES: Final = ("Succeeded", "Failed")
"""Of pods that will never run again."""
NO_RESTART: Final = "NotRequired"
RESTART_CONTAINER: Final = "RestartContainer"
"""What a container's `resizePolicy` can ask for."""
DEFAULT_GRACE_SECONDS: Final = 30
"""`terminationGracePeriodSeconds` of pods that do not say."""
_RESTARTS_ALWAYS: Final = "Always"


def is_sidecar(init_container: JsonObject) -> bool:
    """As `Container.sidecar`, of an entry of `spec.initContainers`."""
    return bool(init_container.get("restartPolicy") == _RESTARTS_ALWAYS)


class ResourceClaimName(View, frozen=True):
    name: str = ""
    request: str = ""


class ResourceRequirements(View, frozen=True):
    requests: ResourceList = {}
    limits: ResourceList = {}
    claims: tuple[ResourceClaimName, ...] = ()


class ContainerPort(View, frozen=True):
    container_port: int = 0
    name: str = ""
    protocol: str = "TCP"
    host_port: int = 0
    host_ip: str = field(default="", name="hostIP")


class ResizePolicy(View, frozen=True):
    resource_name: str = ""
    restart_policy: str = ""


class Container(View, frozen=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    resize_policy: tuple[ResizePolicy, ...] = ()

    @property
    def sidecar(self) -> bool:
        """An init container that keeps running beside the others."""
        return self.restart_policy == _RESTARTS_ALWAYS


class PodSchedulingGate(View, frozen=True):
    name: str = ""


class PodReadinessGate(View, frozen=True):
    condition_type: str = ""


class PodOS(View, frozen=True):
    name: str = ""


class PodSpec(View, frozen=True):
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[Container, ...] = ()
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    restart_policy: str = ""
    resources: ResourceRequirements | None = None
    resource_claims: tuple[ResourceClaimName, ...] = ()
    overhead: ResourceList = {}
    volumes: tuple[Volume, ...] = ()
    host_network: bool = False
    hostname: str = ""
    subdomain: str = ""
    service_account_name: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    os: PodOS | None = None

    @property
    def main_containers(self) -> tuple[Container, ...]:
        return self.containers or ()

    @property
    def lasting_containers(self) -> tuple[Container, ...]:
        """Those that run as long as the pod: the main ones first, then sidecars."""
        return (*self.main_containers, *(one for one in self.init_containers if one.sidecar))

    @property
    def all_containers(self) -> tuple[Container, ...]:
        return self.init_containers + (self.containers or ())


class ContainerStateWaiting(View, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerStateRunning(View, frozen=True):
    started_at: str | None = None


class ContainerStateTerminated(View, frozen=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    container_id: str = field(default="", name="containerID")


class ContainerState(View, frozen=True):
    """Exactly one is present; none means waiting."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(View, frozen=True):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    started: bool | None = None
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    image: str = ""
    container_id: str = field(default="", name="containerID")
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None


class PodIP(View, frozen=True):
    ip: str = ""


class PodStatus(View, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    nominated_node_name: str = ""
    qos_class: str = ""
    host_ip: str = field(default="", name="hostIP")
    pod_ip: str = field(default="", name="podIP")
    pod_ips: tuple[PodIP, ...] = field(default=(), name="podIPs")
    start_time: str | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None


class Pod(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def finished(self) -> bool:
        return self.status.phase in FINISHED_PHASES

    @property
    def ready(self) -> bool:
        return condition_is(self.status.conditions, "Ready")

    @property
    def active(self) -> bool:
        return not self.finished and self.metadata.deletion_timestamp is None

    def with_resources(
        self, containers: Mapping[str, ResourceRequirements], whole: ResourceRequirements | None
    ) -> Self:
        """The pod as it would be if it had asked for this; containers that are not named keep what they ask for."""

        def changed(container: Container) -> Container:
            return msgspec.structs.replace(container, resources=containers.get(container.name, container.resources))

        spec = msgspec.structs.replace(
            self.spec,
            containers=tuple(map(changed, self.spec.main_containers)),
            init_containers=tuple(map(changed, self.spec.init_containers)),
            resources=whole,
        )
        return msgspec.structs.replace(self, spec=spec)
