"""Affinity and anti-affinity between pods.

Required affinity: in the node's domain of each term runs a pod that matches *all* of the pod's terms. The first of
its kind would wait for itself for ever, so if nothing in the cluster matches and the pod matches its own terms, any
node with the topology keys will do. Required anti-affinity: in no term's domain runs a pod that matches that term. It
applies in both directions: the anti-affinity of pods that already run there counts as well.
"""

from collections.abc import Iterable
from typing import Final

from kohort.rules.scheduler_message import NodeReason
from kohort.rules.scheduling.affinity_terms import Term, affinity_matcher
from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.pod_and_node_info import NodeInfo, PodInfo
from kohort.rules.scheduling.rejection import FilterName, NodeCheck, NodeRejection, resolvable, unresolvable

AFFINITY_UNMET: Final = unresolvable(FilterName.INTER_POD_AFFINITY, NodeReason.POD_AFFINITY)
ANTI_AFFINITY: Final = resolvable(FilterName.INTER_POD_AFFINITY, NodeReason.POD_ANTI_AFFINITY)
EXISTING_ANTI_AFFINITY: Final = resolvable(FilterName.INTER_POD_AFFINITY, NodeReason.EXISTING_POD_ANTI_AFFINITY)

Domain = tuple[str, str]
"""Topology key and value."""


def inter_pod_affinity(pod: PodInfo, cluster: ClusterState) -> NodeCheck | None:
    wanted = _affinity_domains(pod, cluster)
    unwanted = _anti_affinity_domains(pod, cluster)
    refused = _existing_anti_affinity_domains(pod, cluster)
    if not pod.affinity and not unwanted and not refused:
        return None
    keys = [term.topology_key for term in pod.affinity]
    first_of_its_kind = not wanted and _matches_own_terms(pod, cluster)
    refused_keys = {key for key, _ in refused}

    def affinity_met(labels: dict[str, str]) -> bool:
        for key in keys:
            value = labels.get(key)
            if value is None or not (first_of_its_kind or (key, value) in wanted):
                return False
        return True

    def check(node: NodeInfo) -> NodeRejection | None:
        labels = node.labels
        if keys and not affinity_met(labels):
            return AFFINITY_UNMET
        for term in pod.anti_affinity:
            if (term.topology_key, labels.get(term.topology_key)) in unwanted:
                return ANTI_AFFINITY
        for key in refused_keys:
            if (key, labels.get(key)) in refused:
                return EXISTING_ANTI_AFFINITY
        return None

    return check


def _affinity_domains(pod: PodInfo, cluster: ClusterState) -> set[Domain]:
    if not pod.affinity:
        return set()
    return _domains(pod.affinity, cluster.counts(affinity_matcher(pod.affinity)), cluster)


def _anti_affinity_domains(pod: PodInfo, cluster: ClusterState) -> set[Domain]:
    found: set[Domain] = set()
    for term in pod.anti_affinity:
        found |= _domains((term,), cluster.counts(affinity_matcher((term,))), cluster)
    return found


def _existing_anti_affinity_domains(pod: PodInfo, cluster: ClusterState) -> set[Domain]:
    found: set[Domain] = set()
    for term, nodes in cluster.anti_affinity_counts.items():
        if term.matches(pod.namespace, pod.labels, cluster.namespaces):
            found |= _domains((term,), nodes, cluster)
    return found


def _domains(terms: tuple[Term, ...], nodes: Iterable[str], cluster: ClusterState) -> set[Domain]:
    found: set[Domain] = set()
    for name in nodes:
        labels = cluster.nodes[name].labels
        for term in terms:
            value = labels.get(term.topology_key)
            if value is not None:
                found.add((term.topology_key, value))
    return found


def _matches_own_terms(pod: PodInfo, cluster: ClusterState) -> bool:
    return all(term.matches(pod.namespace, pod.labels, cluster.namespaces) for term in pod.affinity)
