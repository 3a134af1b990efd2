"""Affinity and anti-affinity between pods.

Required affinity: in the node's domain of each term runs a pod that matches *all* of the pod's terms. The first of
its kind would wait for itself for ever, so if nothing in the cluster matches and the pod matches its own terms, any
node with the topology keys will do. Required anti-affinity: in no term's domain runs a pod that matches that term. It
binds both sides: what the pods already there refuse is refused too.
"""

from collections.abc import Iterable
from typing import Final

from kohort.cluster.scheduler.affinity_terms import Term, affinity_matcher
from kohort.cluster.scheduler.cluster_state import ClusterState
from kohort.cluster.scheduler.filter_result import Check, Verdict, for_now, hopeless
from kohort.cluster.scheduler.pod_and_node_info import NodeFacts, PodFacts

NAME: Final = "InterPodAffinity"
NOT_ATTRACTED: Final = hopeless(NAME, "node(s) didn't match pod affinity rules")
REPELS: Final = for_now(NAME, "node(s) didn't match pod anti-affinity rules")
REPELLED: Final = for_now(NAME, "node(s) didn't satisfy existing pods anti-affinity rules")

Domain = tuple[str, str]
"""Topology key and value."""


def inter_pod_affinity(pod: PodFacts, cluster: ClusterState) -> Check | None:
    wanted = _attracting_domains(pod, cluster)
    unwanted = _repelling_domains(pod, cluster)
    refused = _refusing_domains(pod, cluster)
    if not pod.affinity and not unwanted and not refused:
        return None
    keys = [term.topology_key for term in pod.affinity]
    first_of_its_kind = not wanted and _matches_own_terms(pod, cluster)
    refused_keys = {key for key, _ in refused}

    def attracted(labels: dict[str, str]) -> bool:
        for key in keys:
            value = labels.get(key)
            if value is None or not (first_of_its_kind or (key, value) in wanted):
                return False
        return True

    def check(node: NodeFacts) -> Verdict | None:
        labels = node.labels
        if keys and not attracted(labels):
            return NOT_ATTRACTED
        for term in pod.anti_affinity:
            if (term.topology_key, labels.get(term.topology_key)) in unwanted:
                return REPELS
        for key in refused_keys:
            if (key, labels.get(key)) in refused:
                return REPELLED
        return None

    return check


def _attracting_domains(pod: PodFacts, cluster: ClusterState) -> set[Domain]:
    if not pod.affinity:
        return set()
    return _domains(pod.affinity, cluster.counts(affinity_matcher(pod.affinity)), cluster)


def _repelling_domains(pod: PodFacts, cluster: ClusterState) -> set[Domain]:
    found: set[Domain] = set()
    for term in pod.anti_affinity:
        found |= _domains((term,), cluster.counts(affinity_matcher((term,))), cluster)
    return found


def _refusing_domains(pod: PodFacts, cluster: ClusterState) -> set[Domain]:
    found: set[Domain] = set()
    for term, nodes in cluster.repelled_by.items():
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


def _matches_own_terms(pod: PodFacts, cluster: ClusterState) -> bool:
    return all(term.matches(pod.namespace, pod.labels, cluster.namespaces) for term in pod.affinity)
