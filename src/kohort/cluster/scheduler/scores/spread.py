"""Score for even spreading: soft topology constraints, or, without any, the pods of one controller over nodes and
zones."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from kohort.cluster.scheduler.affinity_terms import SpreadRule
from kohort.cluster.scheduler.cluster_state import ClusterState
from kohort.cluster.scheduler.filters.spread import included
from kohort.cluster.scheduler.pod_and_node_info import NodeFacts, PodFacts

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"


class _Aim(msgspec.Struct, frozen=True):
    """One constraint with the pods it is about, counted per node."""

    topology_key: str
    max_skew: int
    counts: Mapping[str, int]
    rule: SpreadRule | None = None


def spread_evenly(pod: PodFacts, cluster: ClusterState, nodes: Sequence[NodeFacts]) -> list[int] | None:
    aims = _aims(pod, cluster)
    if not aims:
        return None
    explicit = bool(pod.pod.spec.topology_spread_constraints)
    ignored = [explicit and any(aim.topology_key not in node.labels for aim in aims) for node in nodes]
    raw = [0.0] * len(nodes)
    for aim in aims:
        candidates = [node for node, skip in zip(nodes, ignored, strict=True) if not skip]
        domains = _domains(aim, aims if explicit else (aim,), pod, cluster, candidates)
        weight = math.log(len(domains) + 2)
        for index, node in enumerate(nodes):
            domain = node.labels.get(aim.topology_key)
            if domain is not None and not ignored[index]:
                raw[index] += domains[domain] * weight + aim.max_skew - 1
    return _scaled([round(value) for value in raw], ignored)


def _aims(pod: PodFacts, cluster: ClusterState) -> tuple[_Aim, ...]:
    if pod.pod.spec.topology_spread_constraints:
        return tuple(
            _Aim(
                rule.topology_key,
                rule.max_skew,
                {} if rule.selector.everything else cluster.counts(rule.matcher),
                rule,
            )
            for rule in pod.soft_spread
        )
    siblings = cluster.owned.get(pod.owner) if pod.owner else None
    return () if siblings is None else (_Aim(HOSTNAME, 3, siblings), _Aim(ZONE, 5, siblings))


def _domains(
    aim: _Aim, aims: Sequence[_Aim], pod: PodFacts, cluster: ClusterState, candidates: Sequence[NodeFacts]
) -> dict[str, int]:
    """Matching pods per domain that has a candidate, counted over all nodes that the constraint lets count."""
    key = aim.topology_key
    domains = {node.labels[key]: 0 for node in candidates if key in node.labels}
    for name, count in aim.counts.items():
        node = cluster.nodes[name]
        domain = node.labels.get(key)
        if domain not in domains or node.node is None:
            continue
        if any(other.topology_key not in node.labels for other in aims):
            continue
        if aim.rule is None or included(aim.rule, pod, node):
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
