"""Nodes by topology: which groups are where, and which accelerators are free.

| level | label |
|---|---|
| zone | `topology.kubernetes.io/zone` |
| below it | the labels by which sets are placed exclusively, and those whose name ends with `/rack` |

Free is what is allocatable less what pods request that are on the node and have not finished. A user who may not list
the pods of all namespaces sees only the share of pods that this user may see, and the page says so.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from kohort.objects import well_known_names
from kohort.objects.core import Node, Pod
from kohort.objects.quantity import ZERO, Quantity
from kohort.resources import ACCOUNTING, CPU, MEMORY, requests
from kohort.rules import group_labels
from kohort.rules.group_identity import group_index

ZONE: Final = well_known_names.ZONE
PAGE_SIZE: Final = 100
NO_VALUE: Final = ""


class NodeResource(msgspec.Struct, frozen=True, rename="camel"):
    """Accelerators of one kind, or cpu or memory."""

    resource: str
    allocatable: str
    requested: str
    free: str
    free_share: float
    """From 0 to 1."""


class GroupOnNode(msgspec.Struct, frozen=True, rename="camel"):
    namespace: str
    set: str
    group: int
    pods: int


class NodeRow(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    ready: bool
    schedulable: bool
    devices: Sequence[NodeResource]
    groups: Sequence[GroupOnNode]
    other_pods: int


class Domain(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes with the same values of the topology labels."""

    values: tuple[str, ...]
    accelerators: Sequence[NodeResource]
    nodes: Sequence[NodeRow]


class NodesPage(msgspec.Struct, frozen=True, rename="camel"):
    topology: Sequence[str]
    """The labels, outermost first."""
    accelerators: Sequence[NodeResource]
    """Of all nodes."""
    domains: Sequence[Domain]
    total: int
    page: int
    pages: int
    partial: bool
    """Only some pods may be seen, so less may be free than is shown."""


class PodRequests:
    """What pods request, computed once for each version of a pod."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, Mapping[str, Quantity]]] = {}

    def of(self, pod: Pod) -> Mapping[str, Quantity]:
        metadata = pod.metadata
        known = self._known.get(metadata.uid)
        if known is not None and known[0] == metadata.resource_version:
            return known[1]
        found = requests(pod, ACCOUNTING)
        self._known[metadata.uid] = (metadata.resource_version, found)
        return found

    def keep(self, pods: Sequence[Pod]) -> None:
        """Forget pods that are gone, once they are as many as those that are there."""
        if len(self._known) > 2 * len(pods) + 100:
            there = {one.metadata.uid for one in pods}
            self._known = {uid: value for uid, value in self._known.items() if uid in there}


def topology_of(nodes: Iterable[Node], exclusive: Iterable[str]) -> list[str]:
    """The labels by which nodes are shown."""
    keys = {key for node in nodes for key in node.metadata.labels}
    racks = sorted({one for one in exclusive if one in keys} | {key for key in keys if key.endswith("/rack")})
    return [*([ZONE] if ZONE in keys else []), *(one for one in racks if one != ZONE)]


def nodes_page(
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    exclusive: Iterable[str],
    page: int,
    known: PodRequests,
    *,
    partial: bool,
) -> NodesPage:
    topology = topology_of(nodes, exclusive)
    by_node: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.spec.node_name and not pod.finished:
            by_node.setdefault(pod.spec.node_name, []).append(pod)
    known.keep(pods)

    def place(node: Node) -> tuple[str, ...]:
        return tuple(node.metadata.labels.get(one, NO_VALUE) for one in topology)

    ordered = sorted(nodes, key=lambda one: (place(one), _natural(one.metadata.name)))
    used = {one.metadata.name: _used(by_node.get(one.metadata.name, ()), known) for one in ordered}
    pages = max(1, -(-len(ordered) // PAGE_SIZE))
    page = min(max(1, page), pages)
    shown: dict[tuple[str, ...], list[Node]] = {}
    for node in ordered[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]:
        shown.setdefault(place(node), []).append(node)
    domains = [
        Domain(
            values,
            _accelerators(inside, used),
            [_row(node, by_node.get(node.metadata.name, ()), used[node.metadata.name]) for node in inside],
        )
        for values, inside in shown.items()
    ]
    return NodesPage(topology, _accelerators(ordered, used), domains, len(ordered), page, pages, partial)


def _natural(name: str) -> tuple[str, int]:
    """node-2 before node-10."""
    head = name.rstrip("0123456789")
    return head, int(name[len(head) :] or 0)


def _used(pods: Iterable[Pod], known: PodRequests) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for pod in pods:
        for name, amount in known.of(pod).items():
            total[name] = total.get(name, ZERO) + amount
    return total


def _accelerators(nodes: Sequence[Node], used: Mapping[str, Mapping[str, Quantity]]) -> list[NodeResource]:
    names = dict.fromkeys(name for node in nodes for name in node.status.allocatable if "/" in name)
    found = []
    for name in names:
        whole = sum((_allocatable(node, name) for node in nodes), ZERO)
        taken = sum((used[node.metadata.name].get(name, ZERO) for node in nodes), ZERO)
        if whole > ZERO:
            found.append(_device(name, whole, taken))
    return found


def _allocatable(node: Node, name: str) -> Quantity:
    return Quantity.parse(str(node.status.allocatable.get(name, "0")))


def _device(name: str, whole: Quantity, taken: Quantity) -> NodeResource:
    free = whole - taken if whole > taken else ZERO
    return NodeResource(
        name, str(whole), str(taken), str(free), round(free.nano / whole.nano, 3) if whole > ZERO else 0.0
    )


def _row(node: Node, pods: Sequence[Pod], used: Mapping[str, Quantity]) -> NodeRow:
    names = [one for one in node.status.allocatable if "/" in one] + [CPU, MEMORY]
    groups: dict[tuple[str, str, int], int] = {}
    for pod in pods:
        name, index = pod.metadata.labels.get(group_labels.NAME), group_index(pod.metadata.labels)
        if name and index is not None:
            place = (pod.metadata.namespace, name, index)
            groups[place] = groups.get(place, 0) + 1
    return NodeRow(
        name=node.metadata.name,
        ready=node.ready,
        schedulable=not node.spec.unschedulable,
        devices=[
            _device(name, whole, used.get(name, ZERO)) for name in names if (whole := _allocatable(node, name)) > ZERO
        ],
        groups=[GroupOnNode(*place, count) for place, count in sorted(groups.items())],
        other_pods=len(pods) - sum(groups.values()),
    )
