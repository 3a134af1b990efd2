"""This machine as a node: its size, its addresses, and the documents for the API (Node, status, conditions, Lease)."""

import os
import platform
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from kohort.node.pressure import LEAST_MEMORY, Pressure
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject
from kohort.objects.quantity import Quantity
from kohort.rules.node_conditions import RESOURCES_ENFORCED

KUBELET_VERSION: Final = "v1.36.4+kohort"
PODS: Final = 110
LONGEST_NAME: Final = 63
"""That of a label's value; a machine may have a name of 64 characters."""
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


class Machine(msgspec.Struct, frozen=True):
    """This machine as a node."""

    name: str
    address: str
    capacity: dict[str, str]
    allocatable: dict[str, Quantity]

    @staticmethod
    def measure(name: str, directory: Path, api_server: str, capacity: Mapping[str, str]) -> "Machine":
        """`directory` is on the disk that pods use; `capacity` overrides what is measured."""
        size = {**measured_capacity(directory), **capacity}
        address = outward_address(urlsplit(api_server).hostname or "")
        return Machine(name, address, size, {key: Quantity.parse(value) for key, value in allocatable(size).items()})

    @property
    def memory(self) -> int:
        """Bytes."""
        return int(Quantity.parse(self.capacity["memory"]).value)

    def field_values(self, pod_address: str) -> dict[str, str]:
        """Values of the downward API that only the node knows."""
        return {
            "status.podIP": pod_address,
            "status.podIPs": pod_address,
            "status.hostIP": self.address,
            "status.hostIPs": self.address,
            "spec.nodeName": self.name,
        }


def own_name() -> str:
    """The name of this machine as a node's name."""
    return node_name(socket.gethostname())


def node_name(host: str) -> str:
    """A valid name of a node, and a valid value of the label `kubernetes.io/hostname`, for any name of a machine.

    | machine      | node        |
    |--------------|-------------|
    | Big.Example. | big.example |
    | my_machine   | my-machine  |
    | (none)       | none        |
    |              | localhost   |
    """
    parts = (re.sub("[^a-z0-9-]+", "-", part).strip("-") for part in host.lower().split("."))
    return ".".join(filter(None, parts))[:LONGEST_NAME].strip("-.") or "localhost"


def memory_info() -> dict[str, int]:
    """/proc/meminfo in bytes."""
    found = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        found[name] = int(rest.split()[0]) * 1024
    return found


def measured_capacity(directory: Path) -> dict[str, str]:
    disk = os.statvfs(directory)
    return {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{memory_info()['MemTotal'] >> 10}Ki",
        "ephemeral-storage": f"{disk.f_blocks * disk.f_frsize >> 10}Ki",
        "pods": str(PODS),
    }


def allocatable(of: Mapping[str, str]) -> dict[str, str]:
    """What pods may use: the capacity without the memory that the node keeps free."""
    left = max(Quantity.parse(of["memory"]).value - LEAST_MEMORY, 0)
    return {**of, "memory": f"{left >> 10}Ki"}


def outward_address(peer: str) -> str:
    """Our address as `peer` sees it; no packet is sent."""
    if peer in ("", "localhost") or peer.startswith("127.") or peer == "::1":
        return "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((peer, 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def node_document(name: str, labels: Mapping[str, str]) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                well_known_names.HOSTNAME: name,
                well_known_names.OS: "linux",
                well_known_names.ARCH: _ARCHITECTURES.get(platform.machine(), platform.machine()),
                well_known_names.INSTANCE_TYPE: "kohort",
                **labels,
            },
        },
        "spec": {},
    }


def node_status(
    name: str, size: Mapping[str, str], address: str, port: int, runtime: str, features: list[str]
) -> JsonObject:
    """`features` are those that the node declares; the API server uses no others."""
    return {
        "capacity": dict(size),
        "allocatable": allocatable(size),
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "declaredFeatures": features,
        "nodeInfo": {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "bootID": _file("/proc/sys/kernel/random/boot_id"),
            "containerRuntimeVersion": runtime,
            "kernelVersion": platform.release(),
            "kubeProxyVersion": "",
            "kubeletVersion": KUBELET_VERSION,
            "machineID": _file("/etc/machine-id"),
            "operatingSystem": "linux",
            "osImage": _os_name(),
            "systemUUID": _file("/etc/machine-id"),
        },
    }


def node_conditions(now: str, *, pressure: Pressure, unlimited: str = "", problem: str = "") -> list[JsonObject]:
    """`unlimited` says why limits of pods are not enforced, if they are not; `problem` why no pod can run, if so."""

    def condition(type: str, status: bool, reason: str, message: str) -> JsonObject:
        return {
            "type": type,
            "status": "True" if status else "False",
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }

    memory = (
        ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available")
        if pressure.memory
        else ("KubeletHasSufficientMemory", "kubelet has sufficient memory available")
    )
    enforced = (
        ("NoWritableCgroupV2", unlimited) if unlimited else ("CgroupV2", "requests and limits are enforced by cgroups")
    )
    disk = (
        ("KubeletHasDiskPressure", "kubelet has disk pressure")
        if pressure.disk
        else ("KubeletHasNoDiskPressure", "kubelet has no disk pressure")
    )
    pids = (
        ("KubeletHasInsufficientPID", "kubelet has insufficient PID available")
        if pressure.pids
        else ("KubeletHasSufficientPID", "kubelet has sufficient PID available")
    )
    return [
        condition("MemoryPressure", pressure.memory, *memory),
        condition("DiskPressure", pressure.disk, *disk),
        condition("PIDPressure", pressure.pids, *pids),
        condition(RESOURCES_ENFORCED, not unlimited, *enforced),
        condition("Ready", False, "KubeletNotReady", problem)
        if problem
        else condition("Ready", True, "KubeletReady", "kubelet is posting ready status"),
    ]


def _file(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _os_name() -> str:
    for line in _file("/etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return "Linux"
