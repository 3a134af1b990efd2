"""Score from preferred affinity between pods, in both directions: terms of the pod itself and terms of the pods on the
nodes."""

from collections.abc import Mapping, Sequence

from kohort.rules.scheduling.affinity_terms import Term, affinity_matcher
from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.pod_and_node_info import NodeInfo, PodInfo

Weights = dict[str, dict[str, int]]
"""Topology key to value to weight."""


def inter_pod_affinity_score(pod: PodInfo, cluster: ClusterState, nodes: Sequence[NodeInfo]) -> list[int] | None:
    weights: Weights = {}
    for term, weight in pod.preferred_affinity:
        _add(weights, term, weight, cluster.counts(affinity_matcher((term,))), cluster)
    for term, weight in pod.preferred_anti_affinity:
        _add(weights, term, -weight, cluster.counts(affinity_matcher((term,))), cluster)
    for (term, weight), counts in cluster.preference_counts.items():
        if term.matches(pod.namespace, pod.labels, cluster.namespaces):
            _add(weights, term, weight, counts, cluster)
    if not weights:
        return None
    sums = [
        sum(values.get(node.labels.get(key, ""), 0) for key, values in weights.items() if key in node.labels)
        for node in nodes
    ]
    least, most = min(sums), max(sums)
    return [int(100 * ((value - least) / (most - least))) for value in sums] if most > least else None


def _add(weights: Weights, term: Term, weight: int, counts: Mapping[str, int], cluster: ClusterState) -> None:
    for name, count in counts.items():
        value = cluster.nodes[name].labels.get(term.topology_key)
        if value is not None:
            values = weights.setdefault(term.topology_key, {})
            values[value] = values.get(value, 0) + weight * count
