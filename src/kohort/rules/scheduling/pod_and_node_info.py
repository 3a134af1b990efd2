"""A pod and a node as decisions need them, computed once when they change."""

from kohort.kube.resources import Key
from kohort.objects.core import Node
from kohort.objects.placement import PodAffinity, Taint
from kohort.objects.pods import Container, Pod
from kohort.objects.quantity import Quantity
from kohort.rules.scheduling.affinity_terms import (
    NodeRule,
    NodeTerm,
    SpreadRule,
    Term,
    affinity_term,
    node_term,
    spread_rule,
)
from kohort.rules.scheduling.resource_request import ResourceUse, at_rest, requested_by, reserved_by

Port = tuple[str, str, int]
"""Protocol, address, number of a port of the node."""
RequestShape = tuple[int, int, int, int]
"""Cpu and memory that a pod requests, and the same as they are scored."""

_COMPILED = (
    "affinity",
    "anti_affinity",
    "claims",
    "compiled",
    "images",
    "node_rule",
    "owner",
    "ports",
    "preferred_affinity",
    "preferred_anti_affinity",
    "preferred_nodes",
    "soft_spread",
    "spread",
    "tolerations",
)
"""What follows from the spec, the labels and the owner of a pod."""
_SPREADING_OWNERS = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})


class PodInfo:
    """A pod, with its rules compiled and its amounts added up. Immutable: a changed pod gets a new one."""

    __slots__ = (
        "affinity",
        "alive",
        "anti_affinity",
        "claims",
        "compiled",
        "images",
        "key",
        "labels",
        "namespace",
        "node_rule",
        "owner",
        "pod",
        "ports",
        "preferred_affinity",
        "preferred_anti_affinity",
        "preferred_nodes",
        "priority",
        "requested",
        "reserved",
        "soft_spread",
        "spread",
        "tolerations",
        "uid",
    )

    def __init__(self, pod: Pod, *, before: "PodInfo | None" = None, count_deferred: bool = True) -> None:
        """`before` is the previous info of the same pod: amounts that cannot have changed are taken over."""
        spec, metadata = pod.spec, pod.metadata
        self.pod = pod
        self.uid = metadata.uid
        self.key = Key(metadata.namespace, metadata.name)
        self.namespace = metadata.namespace
        self.labels = metadata.labels
        self.alive = metadata.deletion_timestamp is None
        self.priority = spec.priority or 0
        self.requested: ResourceUse = (
            requested_by(pod) if before is None else requested_by(pod, before.pod, before.requested)
        )
        self.reserved: ResourceUse = self.requested
        if spec.node_name and not at_rest(pod):
            self.reserved = reserved_by(pod, count_deferred=count_deferred)
        if before is not None and _same_rules(before.pod, pod):
            for name in _COMPILED:
                setattr(self, name, getattr(before, name))
        else:
            self._compile(pod)

    def _compile(self, pod: Pod) -> None:
        spec, metadata = pod.spec, pod.metadata
        self.compiled = object()
        """The same object for all infos of a pod that share compiled rules."""
        self.ports: tuple[Port, ...] = _host_ports(pod)
        self.tolerations = spec.tolerations
        self.claims = tuple(filter(None, (volume.claim_name(metadata.name) for volume in spec.volumes)))
        self.images = tuple(normalized_image(container.image) for container in spec.all_containers)
        self.owner = _spreading_owner(pod)
        constraints = spec.topology_spread_constraints
        hard = [entry for entry in constraints if entry.when_unsatisfiable == "DoNotSchedule"]
        soft = [entry for entry in constraints if entry.when_unsatisfiable != "DoNotSchedule"]
        self.spread: tuple[SpreadRule, ...] = tuple(spread_rule(e, self.namespace, self.labels) for e in hard)
        self.soft_spread: tuple[SpreadRule, ...] = tuple(spread_rule(e, self.namespace, self.labels) for e in soft)
        self.node_rule: NodeRule | None = None
        self.preferred_nodes: tuple[tuple[NodeTerm, int], ...] = ()
        self.affinity: tuple[Term, ...] = ()
        self.anti_affinity: tuple[Term, ...] = ()
        self.preferred_affinity: tuple[tuple[Term, int], ...] = ()
        self.preferred_anti_affinity: tuple[tuple[Term, int], ...] = ()
        self._read_affinity(pod)

    def counts_like(self, before: "PodInfo") -> bool:
        """Whether replacing `before` by this leaves all sums of nodes and rules as they are."""
        return (
            self.compiled is before.compiled
            and self.alive == before.alive
            and self.reserved == before.reserved
            and self.labels == before.labels
        )

    def _read_affinity(self, pod: Pod) -> None:
        spec, affinity = pod.spec, pod.spec.affinity
        required = None
        if affinity is not None and affinity.node_affinity is not None:
            nodes = affinity.node_affinity
            required = nodes.required_during_scheduling_ignored_during_execution
            preferred = nodes.preferred_during_scheduling_ignored_during_execution
            self.preferred_nodes = tuple((node_term(entry.preference), entry.weight) for entry in preferred)
        if spec.node_selector or required is not None:
            self.node_rule = NodeRule(spec.node_selector, required)
        if affinity is not None and affinity.pod_affinity is not None:
            self.affinity, self.preferred_affinity = self._terms(affinity.pod_affinity)
        if affinity is not None and affinity.pod_anti_affinity is not None:
            self.anti_affinity, self.preferred_anti_affinity = self._terms(affinity.pod_anti_affinity)

    def _terms(self, rules: PodAffinity) -> tuple[tuple[Term, ...], tuple[tuple[Term, int], ...]]:
        hard = rules.required_during_scheduling_ignored_during_execution
        soft = rules.preferred_during_scheduling_ignored_during_execution
        return (
            tuple(affinity_term(term, self.namespace, self.labels) for term in hard),
            tuple((affinity_term(e.pod_affinity_term, self.namespace, self.labels), e.weight) for e in soft),
        )


class NodeInfo:
    """A node and what is on it. Its sums are kept current by the cluster state, never recomputed for a decision."""

    __slots__ = (
        "allowed_pods",
        "ephemeral_storage",
        "images",
        "labels",
        "memory",
        "milli_cpu",
        "name",
        "node",
        "pods",
        "ports",
        "preferred_taints",
        "repelling_taints",
        "resource_scores",
        "scalars",
        "scored_cpu",
        "scored_memory",
        "unschedulable",
        "used_cpu",
        "used_ephemeral_storage",
        "used_memory",
        "used_scalars",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        self.labels: dict[str, str] = {}
        self.unschedulable = False
        self.repelling_taints: tuple[Taint, ...] = ()
        self.preferred_taints: tuple[Taint, ...] = ()
        self.milli_cpu = self.memory = self.ephemeral_storage = self.allowed_pods = 0
        self.scalars: dict[str, int] = {}
        self.images: dict[str, int] = {}
        self.pods: dict[str, PodInfo] = {}
        self.ports: dict[Port, int] = {}
        self.used_cpu = self.used_memory = self.used_ephemeral_storage = 0
        self.scored_cpu = self.scored_memory = 0
        self.used_scalars: dict[str, int] = {}
        self.resource_scores: dict[RequestShape, int] = {}
        """Cache of `scores.node_resources`; cleared with every change."""

    def set_node(self, node: Node) -> None:
        """Read the node object; the pods on the node stay."""
        self.node = node
        self.labels = node.metadata.labels
        self.unschedulable = node.spec.unschedulable
        self.repelling_taints = tuple(t for t in node.spec.taints if t.effect in ("NoSchedule", "NoExecute"))
        self.preferred_taints = tuple(t for t in node.spec.taints if t.effect == "PreferNoSchedule")
        allocatable = {name: Quantity.parse(amount) for name, amount in node.status.allocatable.items()}
        zero = Quantity(0)
        self.milli_cpu = allocatable.pop("cpu", zero).milli
        self.memory = allocatable.pop("memory", zero).value
        self.ephemeral_storage = allocatable.pop("ephemeral-storage", zero).value
        self.allowed_pods = allocatable.pop("pods", zero).value
        self.scalars = {name: amount.value for name, amount in allocatable.items()}
        self.resource_scores.clear()
        self.images = {
            normalized_image(name): image.size_bytes for image in node.status.images for name in image.names or ()
        }

    def clear_node(self) -> None:
        """The node object is gone, its pods are still there."""
        self.set_node(Node())
        self.node = None

    def add_pod(self, info: PodInfo) -> None:
        self.pods[info.uid] = info
        self._count(info, 1)

    def remove_pod(self, info: PodInfo) -> None:
        del self.pods[info.uid]
        self._count(info, -1)

    def _count(self, info: PodInfo, sign: int) -> None:
        held = info.reserved
        self.used_cpu += sign * held.milli_cpu
        self.used_memory += sign * held.memory
        self.used_ephemeral_storage += sign * held.ephemeral_storage
        self.resource_scores.clear()
        self.scored_cpu += sign * held.scored_cpu
        self.scored_memory += sign * held.scored_memory
        for name, amount in held.scalars:
            self.used_scalars[name] = self.used_scalars.get(name, 0) + sign * amount
        for port in info.ports:
            count = self.ports.get(port, 0) + sign
            if count:
                self.ports[port] = count
            else:
                del self.ports[port]


def _same_rules(one: Pod, other: Pod) -> bool:
    """Whether the same rules follow from both. Caches intern equal parts, so this mostly compares addresses."""
    a, b = one.spec, other.spec
    return (
        a.containers == b.containers
        and a.init_containers == b.init_containers
        and a.volumes == b.volumes
        and a.tolerations == b.tolerations
        and a.topology_spread_constraints == b.topology_spread_constraints
        and a.affinity == b.affinity
        and a.node_selector == b.node_selector
        and one.metadata.labels == other.metadata.labels
        and one.metadata.owner_references == other.metadata.owner_references
    )


def normalized_image(name: str) -> str:
    """Image names without tag mean `latest`."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _host_ports(pod: Pod) -> tuple[Port, ...]:
    found: list[Port] = []
    for container in pod.spec.all_containers:
        if container.ports and (container.sidecar or _runs_always(pod, container)):
            found += [
                (port.protocol or "TCP", port.host_ip or "0.0.0.0", port.host_port)
                for port in container.ports
                if port.host_port > 0
            ]
    return tuple(found)


def _runs_always(pod: Pod, container: Container) -> bool:
    return any(container is main for main in pod.spec.main_containers)


def _spreading_owner(pod: Pod) -> str:
    """The controller whose pods should not all land on one node, empty if there is none."""
    controller = pod.metadata.controller
    return controller.uid if controller is not None and controller.kind in _SPREADING_OWNERS else ""
