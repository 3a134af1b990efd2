"""The endpoints of a Service, as a function of the Service and the pods that it selects.

| pod | in the slices | ready | serving | in Endpoints |
|---|---|---|---|---|
| no address, or finished | no | | | no |
| Ready | yes | yes | yes | ready |
| not Ready | yes | only when not-ready addresses are published | no | not ready (ready when published) |
| terminating | yes, until it is gone | only when published | its readiness | only when published |
| its node does not exist | only when published | yes | | by its readiness |

Pods whose containers resolve a named port differently cannot share a slice, so slices are grouped by resolved ports.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from kohort.cluster.workloads.endpoints.subsets import repacked
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject

MAX_PER_SLICE: Final = 100
MAX_ADDRESSES: Final = 1000

SERVICE_NAME: Final = well_known_names.SERVICE_NAME
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
MANAGER: Final = "endpointslice-controller.k8s.io"
ENDPOINTS_MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
ENDPOINTS_MANAGER: Final = "endpoint-controller"
HEADLESS: Final = "service.kubernetes.io/headless"
OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"

Port = tuple[str, str, int | None, str | None]
"""Name, protocol, number, application protocol."""


class BackendPod(msgspec.Struct, frozen=True):
    """A pod that a Service selects, as far as endpoints need it."""

    name: str
    namespace: str
    uid: str
    addresses: tuple[str, ...]
    node: str = ""
    zone: str = ""
    hostname: str = ""
    subdomain: str = ""
    ready: bool = False
    terminating: bool = False
    finished: bool = False
    placed: bool = True
    """Its node exists."""
    named_ports: Mapping[tuple[str, str], int] = {}
    """(port name, protocol) to the container's port number."""


class ServiceFacts(msgspec.Struct, frozen=True):
    name: str
    namespace: str
    headless: bool
    publish_not_ready: bool
    ports: Sequence[JsonObject]
    labels: Mapping[str, str] = {}
    traffic: str = ""
    """`trafficDistribution`: whether clients shall prefer endpoints in their zone, or on their node."""


def resolved_ports(service: ServiceFacts, pod: BackendPod) -> tuple[Port, ...]:
    """The ports of the Service on this pod; a named port that the pod does not have is left out."""
    found: list[Port] = []
    for port in service.ports:
        protocol = port.get("protocol", "TCP")
        target = port.get("targetPort", port["port"])
        number = pod.named_ports.get((target, protocol)) if isinstance(target, str) else target
        if number is not None:
            found.append((port.get("name", ""), protocol, number, port.get("appProtocol")))
    return tuple(sorted(found, key=lambda one: (one[0], one[1], one[2] or 0)))


class Backend(msgspec.Struct, frozen=True):
    """A pod in the endpoints of a Service, with its entries."""

    pod: BackendPod
    ports: tuple[Port, ...]
    entry: JsonObject
    """In a slice."""
    address: JsonObject
    """In Endpoints."""


def backend(service: ServiceFacts, pod: BackendPod) -> Backend | None:
    """None for a pod that has no address, or has finished."""
    if not pod.addresses or pod.finished:
        return None
    return Backend(pod, resolved_ports(service, pod), endpoint(service, pod), _address(service, pod))


def endpoint(service: ServiceFacts, pod: BackendPod) -> JsonObject:
    """One entry of a slice."""
    entry: JsonObject = {
        "addresses": [pod.addresses[0]],
        "conditions": {
            "ready": service.publish_not_ready or (pod.ready and not pod.terminating),
            "serving": pod.ready,
            "terminating": pod.terminating,
        },
        "targetRef": {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
    }
    if pod.node:
        entry["nodeName"] = pod.node
    if pod.zone:
        entry["zone"] = pod.zone
    if pod.hostname and pod.subdomain == service.name:
        entry["hostname"] = pod.hostname
    hints = _hints(service, pod) if entry["conditions"]["ready"] else {}
    if hints:
        entry["hints"] = hints
    return entry


def _hints(service: ServiceFacts, pod: BackendPod) -> JsonObject:
    if not service.traffic:
        return {}
    hints: JsonObject = {"forZones": [{"name": pod.zone}]} if pod.zone else {}
    if pod.node and service.traffic == "PreferSameNode":
        hints["forNodes"] = [{"name": pod.node}]
    return hints


def slice_labels(service: ServiceFacts) -> dict[str, str]:
    return _copied_labels(service) | {SERVICE_NAME: service.name, MANAGED_BY: MANAGER}


def _copied_labels(service: ServiceFacts) -> dict[str, str]:
    labels = {key: value for key, value in service.labels.items() if key != HEADLESS}
    return labels | {HEADLESS: ""} if service.headless else labels


class Content(msgspec.Struct, frozen=True):
    """What one slice must contain."""

    ports: tuple[Port, ...]
    endpoints: list[JsonObject]


class SlicePlan(msgspec.Struct, frozen=True):
    create: list[Content]
    update: dict[str, Content]
    """By the name of an existing slice."""
    delete: list[str]


def plan_slices(service: ServiceFacts, backends: Iterable[Backend], existing: Mapping[str, Content]) -> SlicePlan:
    """Fit the wanted endpoints, which come ordered by name, into the existing slices with as few writes as possible.

    An endpoint that is already in a slice of its port group stays there. New endpoints fill slices with room, then new
    slices. A slice that would be deleted takes the content of one that would be created. A Service without endpoints
    keeps one empty slice, so that consumers can tell "none" from "not known".
    """
    wanted = _by_ports(service, backends)
    plan = SlicePlan([], {}, [])
    for ports, endpoints in wanted.items():
        names = sorted(name for name, content in existing.items() if content.ports == ports)
        _fit(ports, endpoints, {name: existing[name] for name in names}, plan)
    for name, content in existing.items():
        if content.ports not in wanted:
            plan.delete.append(name)
    if not wanted:
        _keep_one_empty(existing, plan)
    while plan.create and plan.delete:
        plan.update[plan.delete.pop(0)] = plan.create.pop()
    return plan


def _keep_one_empty(existing: Mapping[str, Content], plan: SlicePlan) -> None:
    empty = Content((), [])
    if not existing:
        plan.create.append(empty)
        return
    kept = next((name for name, content in existing.items() if content == empty), min(existing))
    plan.delete.remove(kept)
    if existing[kept] != empty:
        plan.update[kept] = empty


def _by_ports(service: ServiceFacts, backends: Iterable[Backend]) -> dict[tuple[Port, ...], dict[str, JsonObject]]:
    groups: dict[tuple[Port, ...], dict[str, JsonObject]] = {}
    for backend in backends:
        if backend.pod.placed or service.publish_not_ready:
            groups.setdefault(backend.ports, {})[backend.pod.uid] = backend.entry
    return groups


def _fit(
    ports: tuple[Port, ...], wanted: dict[str, JsonObject], slices: Mapping[str, Content], plan: SlicePlan
) -> None:
    left = dict(wanted)
    kept: dict[str, list[JsonObject]] = {}
    for name, content in slices.items():
        uids = [entry["targetRef"]["uid"] for entry in content.endpoints if "targetRef" in entry]
        kept[name] = [left.pop(uid) for uid in uids if uid in left]
    for entries in kept.values():
        while left and len(entries) < MAX_PER_SLICE:
            entries.append(left.pop(next(iter(left))))
    for name, entries in kept.items():
        if not entries:
            plan.delete.append(name)
        elif entries != slices[name].endpoints:
            plan.update[name] = Content(ports, entries)
    rest = list(left.values())
    for start in range(0, len(rest), MAX_PER_SLICE):
        plan.create.append(Content(ports, rest[start : start + MAX_PER_SLICE]))


def slice_ports(ports: tuple[Port, ...]) -> list[JsonObject]:
    """The ports of a slice as the API spells them."""
    return [
        {"name": name, "protocol": protocol}
        | ({"port": number} if number is not None else {})
        | ({"appProtocol": application} if application else {})
        for name, protocol, number, application in ports
    ]


def read_ports(ports: Iterable[JsonObject]) -> tuple[Port, ...]:
    """The inverse of `slice_ports`."""
    found = (
        (one.get("name") or "", one.get("protocol", "TCP"), one.get("port"), one.get("appProtocol")) for one in ports
    )
    return tuple(sorted(found, key=lambda one: (one[0], one[1], one[2] or 0)))


def endpoints_labels(service: ServiceFacts) -> dict[str, str]:
    return _copied_labels(service) | {ENDPOINTS_MANAGED_BY: ENDPOINTS_MANAGER}


class Subsets(msgspec.Struct, frozen=True):
    """`subsets` of the Endpoints object."""

    subsets: list[JsonObject]
    truncated: bool = False
    """There are more addresses than an Endpoints object may have."""


def plan_subsets(service: ServiceFacts, backends: Iterable[Backend]) -> Subsets:
    """Addresses that offer the same ports together, ready and not ready apart."""
    groups: dict[tuple[Port, ...], tuple[list[JsonObject], list[JsonObject]]] = {}
    for backend in backends:
        if backend.pod.terminating and not service.publish_not_ready:
            continue
        if service.ports and not backend.ports:
            continue
        ready, waiting = groups.setdefault(backend.ports, ([], []))
        (ready if backend.pod.ready or service.publish_not_ready else waiting).append(backend.address)
    return _limited(repacked(_subset(ports, *groups[ports]) for ports in sorted(groups, key=str)))


def _limited(subsets: list[JsonObject]) -> Subsets:
    """At most 1,000 addresses. Ready ones come first; each subset keeps its share of those that have to be cut.

    | ready | not ready | ready kept | not ready kept |
    |---:|---:|---:|---:|
    | 900 | 100 | 900 | 100 |
    | 900 | 500 | 900 | 100 |
    | 1500 | 500 | 1000 | 0 |
    """
    ready, waiting = (sum(len(one.get(name) or []) for one in subsets) for name in ("addresses", "notReadyAddresses"))
    if ready + waiting <= MAX_ADDRESSES:
        return Subsets(subsets)
    cut, total, room = "notReadyAddresses", waiting, MAX_ADDRESSES - ready
    if ready > MAX_ADDRESSES:
        subsets = [{name: value for name, value in one.items() if name != "notReadyAddresses"} for one in subsets]
        cut, total, room = "addresses", ready, MAX_ADDRESSES
    kept = []
    left = room
    for subset in subsets:
        addresses = subset.get(cut) or []
        share = min(left, -(-len(addresses) * room // total))
        left -= share
        kept.append({**subset, cut: addresses[:share]})
    return Subsets([{name: value for name, value in one.items() if value} for one in kept], truncated=True)


def _address(service: ServiceFacts, pod: BackendPod) -> JsonObject:
    address: JsonObject = {
        "ip": pod.addresses[0],
        "targetRef": {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
    }
    if pod.hostname and pod.subdomain == service.name:
        address["hostname"] = pod.hostname
    if pod.node:
        address["nodeName"] = pod.node
    return address


def _subset(ports: tuple[Port, ...], ready: list[JsonObject], waiting: list[JsonObject]) -> JsonObject:
    subset: JsonObject = {}
    if ready:
        subset["addresses"] = ready
    if waiting:
        subset["notReadyAddresses"] = waiting
    spelled = [
        {"port": number, "protocol": protocol}
        | ({"name": name} if name else {})
        | ({"appProtocol": application} if application else {})
        for name, protocol, number, application in ports
    ]
    if spelled:
        subset["ports"] = spelled
    return subset
