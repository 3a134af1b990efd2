"""Whether groups that do not exist yet would find nodes, tried out on a copy of the cluster.

A group is placed pod after pod, each on the first node that the scheduler's own filters let through. So labels, taints,
affinity, spread, ports and requests count, and with them exclusive placement and a group's own nodes:

| a pod needs | looked for |
|---|---|
| a domain for its group, or for its subgroup | each value of the node label in turn, until one takes all of the pods |
| anything else | the first node |

That is not the whole scheduler. Volumes, quotas and preemption are left out, and so are scores: a pod that finds no
node here might have found one in another order. What does not fit here will hardly fit there: enough for a
user who has the accelerators for two groups and asks for a third.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from kohort.objects.core import Node, Pod
from kohort.rules.scheduler_message import InsufficientResource, NodeReason
from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.filters import FILTERS, NODE_ONLY, Filter, prepare
from kohort.rules.scheduling.filters.volumes import volume_binding, volume_restrictions, volume_zone
from kohort.rules.scheduling.planned_group import PlannedGroup, Unit
from kohort.rules.scheduling.pod_and_node_info import NodeInfo, PodInfo
from kohort.rules.scheduling.rejection import FilterName, NodeRejection, PodRejection
from kohort.rules.scheduling.rejection_text import counted_reasons
from kohort.rules.scheduling.resource_request import ResourceUse

UNSEEN: Final = "volumes, quotas and preemption"
_VOLUMES: Final = (volume_binding, volume_restrictions, volume_zone)
_JUDGED: Final[Sequence[Filter]] = [one for one in FILTERS if one not in _VOLUMES]
_NAMED_AT_MOST: Final = 3

PodWithoutNode = tuple[PlannedGroup, Pod]
"""With the group that it belongs to."""


class Obstacle(msgspec.Struct, frozen=True):
    """Why pods find no node."""

    reason: str
    """In words."""
    lacking: tuple[str, ...] = ()
    """Resources that no node has enough of, if it is only for those."""


class TrialPlacement:
    """The nodes of a cluster, with groups that come and go."""

    def __init__(self, nodes: Iterable[Node], pods: Iterable[Pod]) -> None:
        self._state = ClusterState()
        for node in nodes:
            self._state.add_node(node)
        for pod in pods:
            if pod.spec.node_name and not pod.finished:
                self._state.add_pod(PodInfo(pod), pod.spec.node_name)
        self._open = [info for info in self._state.schedulable if info.node is not None and info.node.ready]
        self._full: dict[ResourceUse, set[str]] = {}
        """Nodes without room for a pod with such requests. They stay so until pods go."""

    def place(self, group: PlannedGroup) -> list[Pod]:
        """Place a group; those of its pods that find no node, if not all do."""

        def place_units(nodes: Sequence[NodeInfo]) -> None:
            for unit in sorted(group.units, key=lambda unit: not unit.topology):  # the choosy ones first
                if self._place_unit(unit, nodes) and group.topology:
                    return

        return self._in_one_domain(group.topology, self._open, group.pods, place_units)

    def remove(self, uids: Iterable[str]) -> None:
        for uid in uids:
            self._state.remove_pod(uid)
        self._full.clear()

    def usable(self, groups: Iterable[PlannedGroup]) -> list[Node]:
        """Nodes that would take one of the pods if they were empty."""
        wanted = {
            (tuple(pod.spec.node_selector.items()), tuple(pod.spec.tolerations)): (pod, group.topologies)
            for group in groups
            for pod in group.pods
        }
        found: dict[str, Node] = {}
        for pod, labels in wanted.values():
            prepared = prepare(PodInfo(pod), self._state, tuple(NODE_ONLY.values()))
            if isinstance(prepared, PodRejection):
                continue
            for node in self._open:
                if node.node and all(one in node.labels for one in labels) and prepared.rejection(node) is None:
                    found[node.name] = node.node
        return list(found.values())

    def obstacle(self, left: Sequence[PodWithoutNode]) -> Obstacle:
        """Why these pods find no node: labels that are missing first, because a table of free cpus does not show
        them."""
        unlabelled = list(dict.fromkeys(text for group, pod in left for text in self._missing_labels(group, pod)))
        if unlabelled:
            more = f" and {len(unlabelled) - _NAMED_AT_MOST} more" if len(unlabelled) > _NAMED_AT_MOST else ""
            return Obstacle(", ".join(unlabelled[:_NAMED_AT_MOST]) + more)
        group, pod = left[0]
        rejections = self._rejections(pod, group.topologies)
        concerned = [one for one in rejections.values() if one.filter not in NODE_ONLY]
        shortages = [short for one in concerned if (short := _shortage(one))]
        if shortages and len(shortages) == len(concerned):
            lacking = tuple(sorted(set.intersection(*shortages) or set.union(*shortages)))
            return Obstacle(f"not enough {' and '.join(lacking)} on any", lacking)
        if group.topologies:
            label = group.topologies[-1]
            count = len(_domains(self._open, label))
            values = f"{count} value{'' if count == 1 else 's'}"
            who = "group" if group.topology == label else "subgroup"
            return Obstacle(
                f"node label {label} has {values}, and every {who} needs one to itself with room for all its pods"
            )
        words = counted_reasons(rejections, len(self._open)).strip().rstrip(".")
        return Obstacle(words or "no node is open")

    def _place_unit(self, unit: Unit, nodes: Sequence[NodeInfo]) -> list[Pod]:
        def place_pods(domain: Sequence[NodeInfo]) -> None:
            for pod in unit.pods:
                if not self._place_pod(pod, domain) and unit.topology:
                    return

        return self._in_one_domain(unit.topology, nodes, unit.pods, place_pods)

    def _in_one_domain(
        self,
        topology: str,
        nodes: Sequence[NodeInfo],
        pods: Sequence[Pod],
        place: Callable[[Sequence[NodeInfo]], None],
    ) -> list[Pod]:
        """Place pods on nodes with one value of a label, whichever takes all. Without a label all nodes are one. In a
        domain that does not take one of them the others need not be tried."""
        fewest = list(pods)
        for domain in _domains(nodes, topology).values() if topology else (nodes,):
            place(domain)
            left = [pod for pod in pods if pod.metadata.uid not in self._state.pods]
            if not left or not topology:
                return left
            fewest = min(fewest, left, key=len)
            if len(left) < len(pods):
                self.remove(pod.metadata.uid for pod in pods)
        return fewest

    def _place_pod(self, pod: Pod, nodes: Sequence[NodeInfo]) -> bool:
        info = PodInfo(pod)
        prepared = prepare(info, self._state, _JUDGED)
        if isinstance(prepared, PodRejection):
            return False
        full = self._full.setdefault(info.requested, set())
        for node in nodes:
            if node.name in full:
                continue
            rejection = prepared.rejection(node)
            if rejection is None:
                self._state.add_pod(info, node.name)
                return True
            if rejection.filter is FilterName.NODE_RESOURCES_FIT:
                full.add(node.name)
        return False

    def _rejections(self, pod: Pod, topologies: Sequence[str] = ()) -> Mapping[str, NodeRejection]:
        """Why not, of every node that is open and has these labels."""
        prepared = prepare(PodInfo(pod), self._state, _JUDGED)
        if isinstance(prepared, PodRejection):
            return {}
        nodes = [node for node in self._open if all(label in node.labels for label in topologies)]
        return {node.name: rejection for node in nodes if (rejection := prepared.rejection(node)) is not None}

    def _missing_labels(self, group: PlannedGroup, pod: Pod) -> list[str]:
        """Labels that placement goes by and that no open node has."""
        absent = [
            f"no node has the label {label}"
            for label in group.topologies
            if not any(label in node.labels for node in self._open)
        ]
        return absent + [
            f"no node is labelled {key}={value}"
            for key, value in pod.spec.node_selector.items()
            if not any(node.labels.get(key) == value for node in self._open)
        ]


def _domains(nodes: Iterable[NodeInfo], topology: str) -> dict[str, list[NodeInfo]]:
    found: dict[str, list[NodeInfo]] = {}
    for node in nodes:
        if topology in node.labels:
            found.setdefault(node.labels[topology], []).append(node)
    return found


def _shortage(rejection: NodeRejection) -> set[str]:
    """Resources that the node has too little of; `pods` for the number of pods."""
    names = {reason.resource for reason in rejection.reasons if isinstance(reason, InsufficientResource)}
    return names | {"pods"} if NodeReason.TOO_MANY_PODS in rejection.reasons else names
