"""Topology spread: no domain may have many more matching pods than the domain with the fewest.

For every constraint: matching pods in the node's domain, plus one if the pod matches itself, less the smallest number
in any domain, must not exceed `maxSkew`. Domains are counted over nodes that carry all topology keys and that the
constraint's policies let count. With fewer domains than `minDomains` the smallest number is taken as zero.
"""

from typing import Final

from kohort.rules.scheduler_message import NodeReason
from kohort.rules.scheduling.affinity_terms import SpreadRule
from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.filters.nodes import tolerates
from kohort.rules.scheduling.pod_and_node_info import NodeInfo, PodInfo
from kohort.rules.scheduling.rejection import FilterName, NodeCheck, NodeRejection, resolvable, unresolvable

TOO_SKEWED: Final = resolvable(FilterName.POD_TOPOLOGY_SPREAD, NodeReason.TOPOLOGY_SPREAD)
NO_DOMAIN: Final = unresolvable(FilterName.POD_TOPOLOGY_SPREAD, NodeReason.TOPOLOGY_LABEL_MISSING)

Domains = dict[str, int]


def topology_spread(pod: PodInfo, cluster: ClusterState) -> NodeCheck | None:
    if not pod.spread:
        return None
    keys = [rule.topology_key for rule in pod.spread]
    counted = [n for n in cluster.schedulable if all(key in n.labels for key in keys)]
    limits = [_limits(rule, pod, cluster, counted) for rule in pod.spread]

    def check(node: NodeInfo) -> NodeRejection | None:
        for rule, domains, most in limits:
            domain = node.labels.get(rule.topology_key)
            if domain is None:
                return NO_DOMAIN
            if domains.get(domain, 0) > most:
                return TOO_SKEWED
        return None

    return check


def _limits(
    rule: SpreadRule, pod: PodInfo, cluster: ClusterState, nodes: list[NodeInfo]
) -> tuple[SpreadRule, Domains, int]:
    """The matching pods per domain, and how many a domain may hold before this pod comes."""
    domains = domains_of(rule, pod, cluster, nodes)
    least = min(domains.values(), default=0) if len(domains) >= rule.min_domains else 0
    itself = 1 if rule.selector.matches(pod.labels) else 0
    return rule, domains, rule.max_skew + least - itself


def domains_of(rule: SpreadRule, pod: PodInfo, cluster: ClusterState, nodes: list[NodeInfo]) -> Domains:
    counts = {} if rule.selector.everything else cluster.counts(rule.matcher)
    domains: Domains = {}
    for node in nodes:
        if included(rule, pod, node):
            domain = node.labels[rule.topology_key]
            domains[domain] = domains.get(domain, 0) + counts.get(node.name, 0)
    return domains


def included(rule: SpreadRule, pod: PodInfo, node: NodeInfo) -> bool:
    """Whether the constraint's policies let a node count."""
    if rule.honor_affinity and pod.node_rule is not None and not pod.node_rule.matches(node.name, node.labels):
        return False
    return not rule.honor_taints or all(tolerates(pod.tolerations, taint) for taint in node.repelling_taints)
