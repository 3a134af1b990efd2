"""The core group: nodes, services, namespaces, configuration, events, quotas. Pods and volumes are re-exported here."""

# ruff: noqa: RUF012 (an empty dictionary as default is made anew for every instance)

import base64

from msgspec import field

from kohort.objects.meta import Condition, LocalObjectReference, ObjectMeta, ObjectReference, condition_is
from kohort.objects.placement import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodes,
    PreferredPods,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from kohort.objects.pods import (
    Container,
    ContainerPort,
    ContainerState,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    ResizePolicy,
    ResourceRequirements,
)
from kohort.objects.view import View
from kohort.objects.volumes import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate,
    PersistentVolumeSpec,
    ResourceList,
    Volume,
)

__all__ = [
    "Affinity",
    "ConfigMap",
    "Container",
    "ContainerImage",
    "ContainerPort",
    "ContainerState",
    "ContainerStatus",
    "Endpoints",
    "Event",
    "LimitRange",
    "Namespace",
    "Node",
    "NodeAddress",
    "NodeAffinity",
    "NodeSelector",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimTemplate",
    "PersistentVolumeSpec",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodSpec",
    "PodStatus",
    "PodTemplateSpec",
    "PreferredNodes",
    "PreferredPods",
    "ReplicationController",
    "ResizePolicy",
    "ResourceList",
    "ResourceQuota",
    "ResourceRequirements",
    "Secret",
    "Service",
    "ServiceAccount",
    "ServicePort",
    "Taint",
    "Toleration",
    "TopologySpreadConstraint",
    "Volume",
]


class NodeSpec(View, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = field(default="", name="providerID")
    pod_cidr: str = field(default="", name="podCIDR")


class NodeAddress(View, frozen=True):
    type: str = ""
    address: str = ""


class ContainerImage(View, frozen=True):
    names: tuple[str, ...] | None = None
    size_bytes: int = 0


class NodeInfo(View, frozen=True):
    kubelet_version: str = ""
    operating_system: str = ""
    architecture: str = ""


class NodeStatus(View, frozen=True):
    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()
    node_info: NodeInfo = NodeInfo()


class Node(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        return condition_is(self.status.conditions, "Ready")

    def address(self, type: str) -> str:
        return next((entry.address for entry in self.status.addresses if entry.type == type), "")


class NamespaceSpec(View, frozen=True):
    finalizers: tuple[str, ...] = ()


class NamespaceStatus(View, frozen=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Namespace(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ServicePort(View, frozen=True):
    port: int = 0
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str = 0
    node_port: int = 0
    app_protocol: str | None = None


class ServiceSpec(View, frozen=True):
    type: str = ""
    selector: dict[str, str] = {}
    ports: tuple[ServicePort, ...] = ()
    cluster_ip: str = field(default="", name="clusterIP")
    cluster_ips: tuple[str, ...] = field(default=(), name="clusterIPs")
    external_ips: tuple[str, ...] = field(default=(), name="externalIPs")
    external_name: str = ""
    publish_not_ready_addresses: bool = False
    session_affinity: str = ""
    ip_families: tuple[str, ...] = ()
    ip_family_policy: str | None = None


class Service(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()

    @property
    def headless(self) -> bool:
        return self.spec.cluster_ip == "None"


class EndpointAddress(View, frozen=True):
    ip: str = ""
    hostname: str = ""
    node_name: str | None = None
    target_ref: ObjectReference | None = None


class EndpointPort(View, frozen=True):
    port: int = 0
    name: str = ""
    protocol: str = "TCP"
    app_protocol: str | None = None


class EndpointSubset(View, frozen=True):
    addresses: tuple[EndpointAddress, ...] = ()
    not_ready_addresses: tuple[EndpointAddress, ...] = ()
    ports: tuple[EndpointPort, ...] = ()


class Endpoints(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    subsets: tuple[EndpointSubset, ...] | None = None


class ConfigMap(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}


class Secret(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}
    type: str = ""

    def value(self, key: str) -> bytes | None:
        encoded = self.data.get(key)
        return None if encoded is None else base64.b64decode(encoded)


class ServiceAccount(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    secrets: tuple[ObjectReference, ...] = ()
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    automount_service_account_token: bool | None = None


class EventSource(View, frozen=True):
    component: str = ""
    host: str = ""


class Event(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int = 0
    source: EventSource = EventSource()
    reporting_component: str = ""
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None


class ReplicationControllerSpec(View, frozen=True):
    replicas: int | None = None
    selector: dict[str, str] = {}


class ReplicationController(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class ScopeRequirement(View, frozen=True):
    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(View, frozen=True):
    match_expressions: tuple[ScopeRequirement, ...] = ()


class ResourceQuotaSpec(View, frozen=True):
    hard: ResourceList = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(View, frozen=True):
    hard: ResourceList = {}
    used: ResourceList = {}


class ResourceQuota(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class LimitRangeItem(View, frozen=True):
    type: str = ""
    max: ResourceList = {}
    min: ResourceList = {}
    default: ResourceList = {}
    default_request: ResourceList = {}
    max_limit_request_ratio: ResourceList = {}


class LimitRangeSpec(View, frozen=True):
    limits: tuple[LimitRangeItem, ...] | None = None


class LimitRange(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: LimitRangeSpec = LimitRangeSpec()
