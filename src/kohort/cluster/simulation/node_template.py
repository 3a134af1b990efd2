"""The node objects of simulated nodes: capacity, labels, topology, addresses. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network

import msgspec

from kohort.cluster.simulation.annotations import REQUESTED
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject
from kohort.objects.view import View
from kohort.rules.node_feature_gates import INIT_RESIZE, POD_LEVEL_RESIZE
from kohort.rules.simulation_labels import SIMULATED

DEFAULT_CAPACITY = {
    "cpu": "32",
    "memory": "256Gi",
    "ephemeral-storage": "1Ti",
    "pods": "250",
    "nvidia.com/gpu": "8",
}
DEFAULT_TOPOLOGY = {well_known_names.ZONE: 3}
FEATURES = [POD_LEVEL_RESIZE, INIT_RESIZE]
KUBELET_VERSION = "v1.36.0+simulated"

POD_NETWORK = IPv4Network("10.64.0.0/10")
PODS_PER_NODE_BITS = 10
HOST_NETWORK = IPv4Network("172.16.0.0/12")
MAX_NODES = POD_NETWORK.num_addresses >> PODS_PER_NODE_BITS


@dataclass(frozen=True, slots=True)
class Fleet:
    """How many nodes, and of what kind.

    `topology` says, for a label, into how many equal blocks the nodes are divided: with `{"rack": 2}` and four nodes,
    the first two are in `rack-0` and the others in `rack-1`.
    """

    count: int
    prefix: str = "sim"
    capacity: Mapping[str, str] = field(default_factory=dict)
    """Added to the default, or instead of it for the same name; "0" leaves a resource out."""
    labels: Mapping[str, str] = field(default_factory=dict)
    topology: Mapping[str, int] = field(default_factory=lambda: DEFAULT_TOPOLOGY)
    start_latency: float = 0.0

    def __post_init__(self) -> None:
        if self.count > MAX_NODES:
            raise ValueError(f"at most {MAX_NODES} nodes can be simulated")

    def names(self) -> list[str]:
        return [f"{self.prefix}-{index}" for index in range(self.count)]


class NodeRequest(View, frozen=True):
    """Capacity and labels with which a node was created; kept in an annotation, so that changed settings can be told
    from edits by users."""

    capacity: dict[str, str] = msgspec.field(default_factory=dict)
    labels: dict[str, str] = msgspec.field(default_factory=dict)


def node_request(fleet: Fleet, index: int) -> NodeRequest:
    topology = {
        label: f"{label.rpartition('/')[2]}-{index * blocks // fleet.count}" for label, blocks in fleet.topology.items()
    }
    return NodeRequest(capacity_of(fleet.capacity), {**topology, **fleet.labels})


def node_document(fleet: Fleet, index: int) -> JsonObject:
    name = f"{fleet.prefix}-{index}"
    made = node_request(fleet, index)
    network = pod_network(index)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**_labels(name), **made.labels},
            "annotations": _request_annotation(made),
        },
        "spec": {"podCIDR": str(network), "podCIDRs": [str(network)], "providerID": f"simulated://{name}"},
        "status": {"capacity": made.capacity},
    }


def change_patches(annotations: Mapping[str, str], wanted: NodeRequest) -> tuple[JsonObject, JsonObject] | None:
    """Merge patches of the object and of its status that bring a node to the present settings. None if the settings did
    not change, or the annotation with the earlier ones is missing."""
    try:
        before = msgspec.json.decode(annotations.get(REQUESTED, ""), type=NodeRequest)
    except msgspec.DecodeError:
        return None
    if before == wanted:
        return None
    capacity = {**dict.fromkeys(before.capacity), **wanted.capacity}
    labels = {**dict.fromkeys(before.labels), **wanted.labels}
    status = {"capacity": capacity, "allocatable": capacity} if before.capacity != wanted.capacity else {}
    return {"metadata": {"labels": labels, "annotations": _request_annotation(wanted)}}, {"status": status}


def _request_annotation(made: NodeRequest) -> dict[str, str]:
    return {REQUESTED: msgspec.json.encode(made).decode()}


def node_status(name: str, capacity: Mapping[str, str], address: str) -> JsonObject:
    """What the agent of a node reports when it registers, besides conditions."""
    return {
        "capacity": dict(capacity),
        "allocatable": dict(capacity),
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
        "declaredFeatures": FEATURES,
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": name,
            "containerRuntimeVersion": "simulated://1",
            "kernelVersion": "simulated",
            "kubeProxyVersion": "",
            "kubeletVersion": KUBELET_VERSION,
            "machineID": name,
            "operatingSystem": "linux",
            "osImage": "simulated",
            "systemUUID": name,
        },
    }


def capacity_of(wanted: Mapping[str, str]) -> dict[str, str]:
    return {name: amount for name, amount in {**DEFAULT_CAPACITY, **wanted}.items() if amount != "0"}


def pod_network(index: int) -> IPv4Network:
    """The block of pod addresses of the node with this number."""
    base = int(POD_NETWORK.network_address) + ((index % MAX_NODES) << PODS_PER_NODE_BITS)
    return IPv4Network((base, 32 - PODS_PER_NODE_BITS))


def host_address(index: int) -> str:
    return str(IPv4Address(int(HOST_NETWORK.network_address) + 1 + index % (HOST_NETWORK.num_addresses - 2)))


def node_conditions(now: str, unready: str = "") -> list[JsonObject]:
    """What a healthy node reports of itself, or one that has a reason not to be."""
    pressures = [
        _condition(f"{what}Pressure", "False", f"KubeletHas{enough}", f"kubelet has {words}", now)
        for what, enough, words in (
            ("Memory", "SufficientMemory", "sufficient memory available"),
            ("Disk", "NoDiskPressure", "no disk pressure"),
            ("PID", "SufficientPID", "sufficient PID available"),
        )
    ]
    if unready:
        return [*pressures, _condition("Ready", "False", "KubeletNotReady", unready, now)]
    return [*pressures, _condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", now)]


def _labels(name: str) -> dict[str, str]:
    return {
        SIMULATED: "true",
        well_known_names.HOSTNAME: name,
        well_known_names.OS: "linux",
        well_known_names.ARCH: "amd64",
        well_known_names.INSTANCE_TYPE: "simulated",
    }


def _condition(type: str, status: str, reason: str, message: str, now: str) -> JsonObject:
    return {
        "type": type,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
