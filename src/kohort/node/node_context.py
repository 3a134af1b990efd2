"""What all pods of a node share."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kohort.kube.client import Client
from kohort.kube.events import EventRecorder
from kohort.kube.resources import Key
from kohort.node.cgroups import Cgroups
from kohort.node.host_ports import HostPorts
from kohort.node.pod_addresses import AddressBook
from kohort.node.pod_network_namespaces import Namespaces
from kohort.node.resize.actuation import Actuator
from kohort.node.resize.allocation import Allocations
from kohort.node.runtimes.interface import Runtime
from kohort.node.volumes import Sources, Volumes
from kohort.objects.core import Service
from kohort.objects.node_pods import NodePod
from kohort.objects.quantity import Quantity
from kohort.resources import Settings
from kohort.resources.cgroups import DEFAULT_SETTINGS
from kohort.rules.resize_decision import NodeFacts


@dataclass(slots=True)
class Surroundings:
    name: str
    client: Client
    runtime: Runtime
    recorder: EventRecorder
    allocations: Allocations
    directory: Path
    """Volumes, logs and records of pods."""
    addresses: AddressBook
    sources: Sources
    volumes: Volumes
    allocatable: dict[str, Quantity]
    memory: int
    """Bytes of the machine."""
    host: str
    wake: Callable[[Key, float], None]
    """Look at a pod again in so many seconds."""
    facts: Callable[[], NodeFacts]
    others: Callable[[str], Iterable[NodePod]]
    """Active pods of this node but the one with this UID."""
    services: Callable[[NodePod], Iterable[Service]]
    """Of a pod's namespace, with addresses at which it reaches them."""
    hosts: Callable[[NodePod, str], str]
    """The /etc/hosts of a pod with this address."""
    resolv_conf: Callable[[NodePod], str]
    """The /etc/resolv.conf of a pod, empty for the machine's."""
    judge: Callable[[], None]
    """Go through the resizes that wait."""
    freed: Callable[[str], None]
    """Room has been freed, for this reason: somebody may have been waiting."""
    actuated: Callable[[float, bool], None]
    """An attempt to carry a resize out took so many seconds, and succeeded or not."""
    admitted: Callable[[NodePod], None]
    """A pod has been taken in."""
    cgroups: Cgroups | None = None
    actuator: Actuator | None = None
    settings: Settings = DEFAULT_SETTINGS
    api_server: tuple[str, str] = ("", "")
    namespaces: Namespaces | None = None
    """Networks of pods, if each has its own."""
    host_ports: HostPorts | None = None
    """Ports of the machine that lead to pods with networks of their own."""
    images: Path = field(default_factory=Path)
