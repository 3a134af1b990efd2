"""The core group: nodes, services, namespaces, configuration, events. Pods and volumes are re-exported here."""

# ruff: noqa: RUF012 (an empty dictionary as default is made anew for every instance)

import base64

from msgspec import field

from kohort.objects.meta import Condition, ObjectMeta, ObjectReference, condition_is
from kohort.objects.placement import Taint, Toleration
from kohort.objects.pods import ContainerStatus, Pod, PodSpec
from kohort.objects.view import View
from kohort.objects.volumes import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    ResourceList,
)

__all__ = [
    "ConfigMap",
    "ContainerStatus",
    "Event",
    "Namespace",
    "Node",
    "NodeSpec",
    "NodeStatus",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeSpec",
    "Pod",
    "PodSpec",
    "Secret",
    "Service",
    "ServicePort",
    "Taint",
    "Toleration",
]


class NodeSpec(View, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    pod_cidr: str = field(default="", name="podCIDR")


class NodeAddress(View, frozen=True):
    type: str = ""
    address: str = ""


class ContainerImage(View, frozen=True):
    names: tuple[str, ...] | None = None
    size_bytes: int = 0


class NodeStatus(View, frozen=True):
    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    images: tuple[ContainerImage, ...] = ()


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


class ClientIPConfig(View, frozen=True):
    timeout_seconds: int | None = None


class SessionAffinityConfig(View, frozen=True):
    client_ip: ClientIPConfig | None = field(default=None, name="clientIP")


class ServiceSpec(View, frozen=True):
    type: str = ""
    selector: dict[str, str] = {}
    ports: tuple[ServicePort, ...] = ()
    cluster_ip: str = field(default="", name="clusterIP")
    external_name: str = ""
    publish_not_ready_addresses: bool = False
    session_affinity: str = ""
    session_affinity_config: SessionAffinityConfig | None = None


class Service(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()

    @property
    def headless(self) -> bool:
        return self.spec.cluster_ip == "None" and not self.external

    @property
    def external(self) -> bool:
        """Only another name for something else. Fields of the types that it had before may still be there."""
        return self.spec.type == "ExternalName"

    @property
    def cluster_address(self) -> str:
        """The address behind which its endpoints are, empty if it has none."""
        return "" if self.external or self.headless else self.spec.cluster_ip


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
    last_timestamp: str | None = None
    event_time: str | None = None
