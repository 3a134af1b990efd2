"""Filters that compare a pod with the node itself: cordon, taints, labels, ports."""

from typing import Final

from kohort.cluster.scheduler.cluster_state import ClusterState
from kohort.cluster.scheduler.filter_result import Check, Refusal, Verdict, for_now, hopeless
from kohort.cluster.scheduler.pod_and_node_info import NodeFacts, PodFacts, Port
from kohort.objects.placement import Taint, Toleration

UNSCHEDULABLE: Final = hopeless("NodeUnschedulable", "node(s) were unschedulable")
UNTOLERATED: Final = hopeless("TaintToleration", "node(s) had untolerated taint(s)")
WRONG_LABELS: Final = hopeless("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
PORT_TAKEN: Final = for_now("NodePorts", "node(s) didn't have free ports for the requested pod ports")
NAME_CONFLICT: Final = Refusal("NodeAffinity", "pod affinity terms conflict")

_CORDON: Final = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
ANY_ADDRESS: Final = "0.0.0.0"


def node_schedulable(pod: PodFacts, cluster: ClusterState) -> Check | None:
    """Cordoned nodes take only pods that tolerate the cordon's taint."""
    if not cluster.guarded or tolerates(pod.tolerations, _CORDON):
        return None
    return _node_schedulable


def _node_schedulable(node: NodeFacts) -> Verdict | None:
    return UNSCHEDULABLE if node.unschedulable else None


def tolerated_taints(pod: PodFacts, cluster: ClusterState) -> Check | None:
    """NoSchedule and NoExecute taints keep a pod away unless it tolerates them."""
    if not cluster.guarded:
        return None
    tolerations = pod.tolerations

    def check(node: NodeFacts) -> Verdict | None:
        for taint in node.repelling_taints:
            if not tolerates(tolerations, taint):
                return UNTOLERATED
        return None

    return check


def node_affinity(pod: PodFacts, cluster: ClusterState) -> Check | Refusal | None:
    """Node selector and required node affinity."""
    rule = pod.node_rule
    if rule is None:
        return None
    if rule.names is not None and not rule.names:
        return NAME_CONFLICT

    def check(node: NodeFacts) -> Verdict | None:
        return None if rule.matches(node.name, node.labels) else WRONG_LABELS

    return check


def free_ports(pod: PodFacts, cluster: ClusterState) -> Check | None:
    """Ports of the node: same protocol and number collide if the addresses do; 0.0.0.0 is every address."""
    wanted = pod.ports
    if not wanted:
        return None

    def check(node: NodeFacts) -> Verdict | None:
        if not node.ports:
            return None
        return PORT_TAKEN if any(_collides(port, taken) for port in wanted for taken in node.ports) else None

    return check


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    return any(toleration.tolerates(taint) for toleration in tolerations)


def _collides(port: Port, other: Port) -> bool:
    protocol, address, number = port
    other_protocol, other_address, other_number = other
    if number != other_number or protocol != other_protocol:
        return False
    return address == other_address or ANY_ADDRESS in (address, other_address)
