"""Why a filter rejects a node for a pod, or the pod itself. The words are made in `rejection_text`."""

from collections.abc import Callable
from enum import Enum, StrEnum

import msgspec

from kohort.rules.scheduler_message import Reason
from kohort.rules.scheduling.pod_and_node_info import NodeInfo


class FilterName(StrEnum):
    """The plugins of kube-scheduler whose rules the filters follow."""

    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    TAINT_TOLERATION = "TaintToleration"
    NODE_AFFINITY = "NodeAffinity"
    NODE_PORTS = "NodePorts"
    NODE_RESOURCES_FIT = "NodeResourcesFit"
    VOLUME_RESTRICTIONS = "VolumeRestrictions"
    VOLUME_BINDING = "VolumeBinding"
    VOLUME_ZONE = "VolumeZone"
    POD_TOPOLOGY_SPREAD = "PodTopologySpread"
    INTER_POD_AFFINITY = "InterPodAffinity"
    DYNAMIC_RESOURCES = "DynamicResources"
    DEFAULT_PREEMPTION = "DefaultPreemption"


VOLUME_FILTERS = frozenset({FilterName.VOLUME_RESTRICTIONS, FilterName.VOLUME_BINDING, FilterName.VOLUME_ZONE})


class PodProblemKind(Enum):
    CONFLICTING_NODE_NAMES = "conflicting node names"
    DEVICES_NOT_ALLOCATED = "devices not allocated"
    CLAIM_NOT_FOUND = "claim not found"
    EPHEMERAL_CLAIM_NOT_CREATED = "ephemeral claim not created"
    CLAIM_LOST_ITS_VOLUME = "claim lost its volume"
    CLAIM_BEING_DELETED = "claim being deleted"
    CLAIM_OF_ANOTHER_POD = "claim of another pod"
    VOLUME_NOT_FOUND = "volume not found"
    CLAIM_NOT_BOUND = "claim not bound"


class PodProblem(msgspec.Struct, frozen=True):
    """Why no node can take the pod, whatever the node is. Claim and volume are named where the problem is one of
    them."""

    kind: PodProblemKind
    namespace: str = ""
    claim: str = ""
    volume: str = ""


class NodeRejection(msgspec.Struct, frozen=True, gc=False):
    """Why one node does not take a pod. A filter that accepts the node returns None instead."""

    filter: FilterName
    reasons: tuple[Reason | PodProblem, ...]
    preemption_may_help: bool
    """Whether the node could take the pod once other pods are removed from it."""


class PodRejection(msgspec.Struct, frozen=True):
    """No node is examined: the pod itself cannot be placed."""

    filter: FilterName
    problem: PodProblem

    def on_node(self) -> NodeRejection:
        return unresolvable(self.filter, self.problem)


NodeCheck = Callable[[NodeInfo], NodeRejection | None]
"""A filter prepared for one pod and one state of the cluster: examines one node after the other."""


def unresolvable(filter: FilterName, *reasons: Reason | PodProblem) -> NodeRejection:
    """Removing pods from the node would not help."""
    return NodeRejection(filter, reasons, preemption_may_help=False)


def resolvable(filter: FilterName, *reasons: Reason) -> NodeRejection:
    """Removing pods from the node could help."""
    return NodeRejection(filter, reasons, preemption_may_help=True)
