"""Filters that compare a pod with the node itself: cordon, taints, labels, ports."""

from typing import Final

from kohort.objects.placement import Taint, Toleration
from kohort.rules.scheduler_message import NodeReason
from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.pod_and_node_info import NodeInfo, PodInfo, Port
from kohort.rules.scheduling.rejection import (
    FilterName,
    NodeCheck,
    NodeRejection,
    PodProblem,
    PodProblemKind,
    PodRejection,
    resolvable,
    unresolvable,
)

UNSCHEDULABLE: Final = unresolvable(FilterName.NODE_UNSCHEDULABLE, NodeReason.UNSCHEDULABLE)
UNTOLERATED: Final = unresolvable(FilterName.TAINT_TOLERATION, NodeReason.UNTOLERATED_TAINT)
WRONG_LABELS: Final = unresolvable(FilterName.NODE_AFFINITY, NodeReason.NODE_AFFINITY)
PORT_TAKEN: Final = resolvable(FilterName.NODE_PORTS, NodeReason.HOST_PORT_TAKEN)
NAME_CONFLICT: Final = PodRejection(FilterName.NODE_AFFINITY, PodProblem(PodProblemKind.CONFLICTING_NODE_NAMES))

_CORDON: Final = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
ANY_ADDRESS: Final = "0.0.0.0"


def node_schedulable(pod: PodInfo, cluster: ClusterState) -> NodeCheck | None:
    """Cordoned nodes take only pods that tolerate the cordon's taint."""
    if not cluster.restricted or tolerates(pod.tolerations, _CORDON):
        return None
    return _node_schedulable


def _node_schedulable(node: NodeInfo) -> NodeRejection | None:
    return UNSCHEDULABLE if node.unschedulable else None


def tolerated_taints(pod: PodInfo, cluster: ClusterState) -> NodeCheck | None:
    """NoSchedule and NoExecute taints keep a pod away unless it tolerates them."""
    if not cluster.restricted:
        return None
    tolerations = pod.tolerations

    def check(node: NodeInfo) -> NodeRejection | None:
        for taint in node.repelling_taints:
            if not tolerates(tolerations, taint):
                return UNTOLERATED
        return None

    return check


def node_affinity(pod: PodInfo, cluster: ClusterState) -> NodeCheck | PodRejection | None:
    """Node selector and required node affinity."""
    rule = pod.node_rule
    if rule is None:
        return None
    if rule.names is not None and not rule.names:
        return NAME_CONFLICT

    def check(node: NodeInfo) -> NodeRejection | None:
        return None if rule.matches(node.name, node.labels) else WRONG_LABELS

    return check


def free_ports(pod: PodInfo, cluster: ClusterState) -> NodeCheck | None:
    """Ports of the node: the same protocol and number collide where the addresses collide; 0.0.0.0 is every address."""
    wanted = pod.ports
    if not wanted:
        return None

    def check(node: NodeInfo) -> NodeRejection | None:
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
