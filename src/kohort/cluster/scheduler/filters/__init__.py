"""Which nodes can take a pod.

Every filter looks at the pod once (`prepare`) and returns a check for nodes, or None if the pod gives it nothing to
do. The first check that refuses a node names the reason; the order is therefore part of the messages that people see.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from kohort.cluster.scheduler.cluster_state import ClusterState
from kohort.cluster.scheduler.filter_result import Check, Refusal, Verdict
from kohort.cluster.scheduler.filters.devices import resource_claims
from kohort.cluster.scheduler.filters.interpod import inter_pod_affinity
from kohort.cluster.scheduler.filters.node_resources import resources_fit
from kohort.cluster.scheduler.filters.nodes import (
    free_ports,
    node_affinity,
    node_schedulable,
    tolerated_taints,
)
from kohort.cluster.scheduler.filters.spread import topology_spread
from kohort.cluster.scheduler.filters.volumes import volume_binding, volume_restrictions, volume_zone
from kohort.cluster.scheduler.pod_and_node_info import NodeFacts, PodFacts

Filter = Callable[[PodFacts, ClusterState], Check | Refusal | None]

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
NODE_ONLY: Mapping[str, Filter] = {
    "NodeUnschedulable": node_schedulable,
    "TaintToleration": tolerated_taints,
    "NodeAffinity": node_affinity,
}
"""What depends on the node object alone: enough to see whether a changed node is worth another try."""


class Judge(msgspec.Struct, frozen=True):
    """All filters, ready for one pod and one state of the cluster."""

    checks: tuple[Check, ...]

    def verdict(self, node: NodeFacts) -> Verdict | None:
        for check in self.checks:
            found = check(node)
            if found is not None:
                return found
        return None


def prepare(pod: PodFacts, cluster: ClusterState, filters: Sequence[Filter] = FILTERS) -> Judge | Refusal:
    checks: list[Check] = []
    for filter in filters:
        found = filter(pod, cluster)
        if isinstance(found, Refusal):
            return found
        if found is not None:
            checks.append(found)
    return Judge(tuple(checks))


def fits(pod: PodFacts, node: NodeFacts, cluster: ClusterState) -> Verdict | None:
    """Whether a pod could run on a node: None if it could, else why not."""
    judge = prepare(pod, cluster)
    if isinstance(judge, Refusal):
        return Verdict(judge.filter, (judge.message,), preemption_may_help=False)
    return judge.verdict(node)
