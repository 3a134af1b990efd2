"""The pods behind each Service, kept up to date change by change.

A Service is reconciled whenever one of its pods changes. Searching all pods of the namespace and building the entries
of every pod each time would make the cost of a change grow with the number of pods. Here a pod is assigned to its
Services when it changes, and its entries are built once for as long as the pod, the zone of its node and the Service
stay the same. Views of pods are immutable, so comparing identities is enough.
"""

from collections.abc import Iterable

import msgspec

from kohort.cluster.workloads.endpoints import plan as endpoints_plan
from kohort.cluster.workloads.endpoints.plan import Backend, BackendPod, ServiceFacts
from kohort.kube.informer import Informer
from kohort.kube.resources import Key
from kohort.objects import well_known_names
from kohort.objects.core import Node, Pod
from kohort.objects.json_types import JsonObject

_ZONE = well_known_names.ZONE
_SELECTOR = "one-selected-label"


class _Node(msgspec.Struct, frozen=True):
    """The part of a pod's entries that comes from its node."""

    zone: str = ""
    placed: bool = True
    """It exists, or the pod has none yet."""


class _CachedBackend(msgspec.Struct, frozen=True):
    pod: Pod
    node: _Node
    backend: Backend | None


class _ServicePods(msgspec.Struct):
    """The pods of one Service, and their entries."""

    pods: dict[Key, Pod]
    facts: ServiceFacts | None = None
    cached: dict[Key, _CachedBackend] = msgspec.field(default_factory=dict)


class Backends:
    def __init__(self, services: Informer[JsonObject], pods: Informer[Pod], nodes: Informer[Node]) -> None:
        self._services = services
        self._pods = pods
        self._nodes = nodes
        self._behind: dict[Key, _ServicePods] = {}
        services.add_index(_SELECTOR, _one_selected_label)
        services.on_change(self._service_changed)
        pods.on_change(self._pod_changed)

    def services_of(self, pod: Pod) -> list[Key]:
        """The Services that select a pod."""
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        return [
            Key(namespace, service["metadata"]["name"])
            for label in labels.items()
            for service in self._services.by_index(_SELECTOR, _label(namespace, label))
            if service["spec"]["selector"].items() <= labels.items()
        ]

    def pods_of(self, service: JsonObject) -> list[Pod]:
        return [*self._of(service).pods.values()]

    def listed(self, service: JsonObject, facts: ServiceFacts) -> list[Backend]:
        """The pods that have a place in the endpoints of a Service, by name."""
        behind = self._of(service)
        if behind.facts != facts:
            behind.facts, behind.cached = facts, {}
        nodes = {name: self._node(name) for name in {pod.spec.node_name for pod in behind.pods.values()}}
        found = []
        for key, pod in behind.pods.items():
            known, node = behind.cached.get(key), nodes[pod.spec.node_name]
            if known is None or known.pod is not pod or known.node != node:
                known = behind.cached[key] = _CachedBackend(
                    pod, node, endpoints_plan.backend(facts, backend_pod(pod, node))
                )
            if known.backend is not None:
                found.append(known.backend)
        return sorted(found, key=lambda backend: backend.pod.name)

    def _node(self, name: str) -> _Node:
        node = self._nodes.get(Key("", name))
        return _Node(node.metadata.labels.get(_ZONE, "")) if node is not None else _Node(placed=not name)

    def _of(self, service: JsonObject) -> _ServicePods:
        metadata, selector = service["metadata"], service["spec"]["selector"].items()
        key = Key(metadata["namespace"], metadata["name"])
        behind = self._behind.get(key)
        if behind is None:
            pods = self._pods.list(key.namespace)
            selected = {_key(pod): pod for pod in pods if selector <= pod.metadata.labels.items()}
            behind = self._behind[key] = _ServicePods(selected)
        return behind

    def _service_changed(self, old: JsonObject | None, new: JsonObject | None) -> None:
        """The selector may have changed: the pods are searched again at the next request."""
        if old is not None and (new is None or old["spec"].get("selector") != new["spec"].get("selector")):
            self._behind.pop(Key(old["metadata"]["namespace"], old["metadata"]["name"]), None)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            key = _key(new)
            for behind in self._known(new):
                behind.pods[key] = new
        if old is not None and (new is None or old.metadata.labels != new.metadata.labels):
            key = _key(old)
            for behind in self._known(old):
                if behind.pods.get(key) is not new:
                    behind.pods.pop(key, None)
                    behind.cached.pop(key, None)

    def _known(self, pod: Pod) -> Iterable[_ServicePods]:
        return [behind for key in self.services_of(pod) if (behind := self._behind.get(key)) is not None]


def _label(namespace: str, label: tuple[str, str]) -> str:
    return f"{namespace}/{label[0]}={label[1]}"


def _one_selected_label(service: JsonObject) -> Iterable[str]:
    """One of the labels that a pod of the Service must have: an index by it finds the Services of a pod."""
    selector = service["spec"].get("selector")
    return (_label(service["metadata"]["namespace"], min(selector.items())),) if selector else ()


def _key(pod: Pod) -> Key:
    return Key(pod.metadata.namespace, pod.metadata.name)


def backend_pod(pod: Pod, node: _Node) -> BackendPod:
    found = tuple(one.ip for one in pod.status.pod_ips) or ((pod.status.pod_ip,) if pod.status.pod_ip else ())
    # Nodes without network privileges use loopback addresses, which the API does not accept in endpoints.
    addresses = tuple(address for address in found if not address.startswith("127."))
    return BackendPod(
        name=pod.metadata.name,
        namespace=pod.metadata.namespace,
        uid=pod.metadata.uid,
        addresses=addresses,
        node=pod.spec.node_name,
        zone=node.zone,
        hostname=pod.spec.hostname,
        subdomain=pod.spec.subdomain,
        ready=pod.ready,
        terminating=pod.metadata.deleting,
        finished=pod.finished,
        placed=node.placed,
        named_ports=named_ports(pod),
    )


def named_ports(pod: Pod) -> dict[tuple[str, str], int]:
    """Container ports by name and protocol; of several with the same name, the first."""
    found: dict[tuple[str, str], int] = {}
    for container in pod.spec.lasting_containers:
        for port in container.ports:
            if port.name:
                found.setdefault((port.name, port.protocol), port.container_port)
    return found
