"""Which nodes can take a pod.

Every filter looks at the pod once and returns a check for nodes, or None if the pod gives it nothing to
do. The first check that rejects a node gives the reason, so the order of the filters shows in messages.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.filters.devices import resource_claims
from kohort.rules.scheduling.filters.interpod import inter_pod_affinity
from kohort.rules.scheduling.filters.node_resources import resources_fit
from kohort.rules.scheduling.filters.nodes import (
    free_ports,
    node_affinity,
    node_schedulable,
    tolerated_taints,
)
from kohort.rules.scheduling.filters.spread import topology_spread
from kohort.rules.scheduling.filters.volumes import volume_binding, volume_restrictions, volume_zone
from kohort.rules.scheduling.pod_and_node_info import NodeInfo, PodInfo
from kohort.rules.scheduling.rejection import FilterName, NodeCheck, NodeRejection, PodRejection

Filter = Callable[[PodInfo, ClusterState], NodeCheck | PodRejection | None]

FILTERS: Sequence[Filter] = (
    node_schedulable,
    tolerated_taints,
    node_affinity,
    free_ports,
    resources_fit,
    volume_restrictions,
    volume_binding,
    volume_zone,
    topology_spread,
    inter_pod_affinity,
    resource_claims,
)
NODE_ONLY: Mapping[FilterName, Filter] = {
    FilterName.NODE_UNSCHEDULABLE: node_schedulable,
    FilterName.TAINT_TOLERATION: tolerated_taints,
    FilterName.NODE_AFFINITY: node_affinity,
}
"""Filters that depend on the node object alone: whether a changed node is worth another attempt."""


class PreparedFilters(msgspec.Struct, frozen=True):
    """All filters, ready for one pod and one state of the cluster."""

    checks: tuple[NodeCheck, ...]

    def rejection(self, node: NodeInfo) -> NodeRejection | None:
        for check in self.checks:
            found = check(node)
            if found is not None:
                return found
        return None


def prepare(pod: PodInfo, cluster: ClusterState, filters: Sequence[Filter] = FILTERS) -> PreparedFilters | PodRejection:
    checks: list[NodeCheck] = []
    for filter in filters:
        found = filter(pod, cluster)
        if isinstance(found, PodRejection):
            return found
        if found is not None:
            checks.append(found)
    return PreparedFilters(tuple(checks))


def fits(pod: PodInfo, node: NodeInfo, cluster: ClusterState) -> NodeRejection | None:
    """Whether a pod could run on a node: None if it could, else why not."""
    prepared = prepare(pod, cluster)
    if isinstance(prepared, PodRejection):
        return prepared.on_node()
    return prepared.rejection(node)
