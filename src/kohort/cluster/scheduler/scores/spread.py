"""Score for even spreading: soft topology constraints, or, without any, the pods of one controller over nodes and
zones."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from kohort.objects import well_known_names
from kohort.rules.scheduling.affinity_terms import SpreadRule
from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.filters.spread import included
from kohort.rules.scheduling.pod_and_node_info import NodeInfo, PodInfo

HOSTNAME: Final = well_known_names.HOSTNAME
ZONE: Final = well_known_names.ZONE


class _Constraint(msgspec.Struct, frozen=True):
    """One constraint with the pods it is about, counted per node."""

    topology_key: str
    max_skew: int
    counts: Mapping[str, int]
    rule: SpreadRule | None = None


def topology_spread_score(pod: PodInfo, cluster: ClusterState, nodes: Sequence[NodeInfo]) -> list[int] | None:
    constraints = _constraints(pod, cluster)
    if not constraints:
        return None
    explicit = bool(pod.pod.spec.topology_spread_constraints)
    ignored = [
        explicit and any(constraint.topology_key not in node.labels for constraint in constraints) for node in nodes
    ]
    raw = [0.0] * len(nodes)
    for constraint in constraints:
        candidates = [node for node, skip in zip(nodes, ignored, strict=True) if not skip]
        domains = _domains(constraint, constraints if explicit else (constraint,), pod, cluster, candidates)
        weight = math.log(len(domains) + 2)
        for index, node in enumerate(nodes):
            domain = node.labels.get(constraint.topology_key)
            if domain is not None and not ignored[index]:
                raw[index] += domains[domain] * weight + constraint.max_skew - 1
    return _scaled([round(value) for value in raw], ignored)


def _constraints(pod: PodInfo, cluster: ClusterState) -> tuple[_Constraint, ...]:
    if pod.pod.spec.topology_spread_constraints:
        return tuple(
            _Constraint(
                rule.topology_key,
                rule.max_skew,
                {} if rule.selector.everything else cluster.counts(rule.matcher),
                rule,
            )
            for rule in pod.soft_spread
        )
    siblings = cluster.owned.get(pod.owner) if pod.owner else None
    return () if siblings is None else (_Constraint(HOSTNAME, 3, siblings), _Constraint(ZONE, 5, siblings))


def _domains(
    constraint: _Constraint,
    constraints: Sequence[_Constraint],
    pod: PodInfo,
    cluster: ClusterState,
    candidates: Sequence[NodeInfo],
) -> dict[str, int]:
    """Matching pods per domain that has a candidate, counted over all nodes that the constraint lets count."""
    key = constraint.topology_key
    domains = {node.labels[key]: 0 for node in candidates if key in node.labels}
    for name, count in constraint.counts.items():
        node = cluster.nodes[name]
        domain = node.labels.get(key)
        if domain not in domains or node.node is None:
            continue
        if any(other.topology_key not in node.labels for other in constraints):
            continue
        if constraint.rule is None or included(constraint.rule, pod, node):
            domains[domain] += count
    return domains


def _scaled(values: list[int], ignored: list[bool]) -> list[int]:
    counted = [value for value, skip in zip(values, ignored, strict=True) if not skip]
    if not counted:
        return [0] * len(values)
    least, most = min(counted), max(counted)
    if most == 0:
        return [0 if skip else 100 for skip in ignored]
    return [0 if skip else 100 * (most + least - value) // most for value, skip in zip(values, ignored, strict=True)]
