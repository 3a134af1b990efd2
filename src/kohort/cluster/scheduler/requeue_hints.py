"""Which changes are worth another try for which parked pod.

| change                            | may help a pod that was refused by                                            |
|-----------------------------------|--------------------------------------------------------------------------------|
| a node came or changed            | cordon, taints, labels or size, if the node passes one of those that refused |
|                                   | anything else, if the node by itself would take it                            |
| a node went                       | topology spread (the emptiest domain may be gone)                             |
| a pod left its node               | resources, ports, affinity, spread, exclusive volumes; nominated room        |
| a pod on a node needs less        | resources, if it is less of something that the pod asks for                   |
| a pod came to a node, or relabelled | affinity to it, spread over it                                              |
| claims, volumes, classes          | volume filters                                                                |
| labels of a namespace             | affinity                                                                      |

A pod that met no node at all was refused by nobody: every change is worth a try.
"""

from collections.abc import Callable
from typing import Final

from kohort.cluster.scheduler.cluster_state import ClusterState
from kohort.cluster.scheduler.filter_result import Refusal
from kohort.cluster.scheduler.filters import NODE_ONLY, Filter
from kohort.cluster.scheduler.filters.node_resources import could_ever_fit
from kohort.cluster.scheduler.pod_and_node_info import NodeFacts, PodFacts
from kohort.cluster.scheduler.queue import Waiting
from kohort.objects.core import Node

Hint = Callable[[Waiting], bool]

AFFINITY: Final = "InterPodAffinity"
SPREAD: Final = "PodTopologySpread"
FIT: Final = "NodeResourcesFit"
_FREED_BY_A_POD: Final = frozenset({FIT, "NodePorts", AFFINITY, SPREAD, "VolumeRestrictions"})
_VOLUMES: Final = frozenset({"VolumeBinding", "VolumeRestrictions", "VolumeZone"})


def node_came(node: NodeFacts, cluster: ClusterState) -> Hint:
    def may_help(entry: Waiting) -> bool:
        if not entry.refused_by:
            return True
        passed = {name for name, filter in NODE_ONLY.items() if _passes(filter, entry.facts, node, cluster)}
        if could_ever_fit(entry.facts, node):
            passed.add(FIT)
        alone = {*NODE_ONLY, FIT}
        if entry.refused_by & alone:
            return bool(entry.refused_by & passed)
        return passed == alone

    return may_help


def _passes(filter: Filter, pod: PodFacts, node: NodeFacts, cluster: ClusterState) -> bool:
    check = filter(pod, cluster)
    return check is None or (not isinstance(check, Refusal) and check(node) is None)


def node_differs(before: Node, after: Node) -> bool:
    """Whether a node changed in anything that a filter looks at; heartbeats do not count."""
    return (
        before.status.allocatable != after.status.allocatable
        or before.metadata.labels != after.metadata.labels
        or before.spec != after.spec
    )


def node_went(entry: Waiting) -> bool:
    return not entry.refused_by or SPREAD in entry.refused_by


def pod_left(pod: PodFacts) -> Hint:
    def may_help(entry: Waiting) -> bool:
        if not entry.refused_by:
            return True
        refused = entry.refused_by & _FREED_BY_A_POD
        if refused == {AFFINITY} or refused == {SPREAD}:
            return _concerns(entry.facts, pod, AFFINITY in refused)
        return bool(refused)

    return may_help


def pod_shrank(before: PodFacts, after: PodFacts) -> Hint:
    def may_help(entry: Waiting) -> bool:
        return FIT in entry.refused_by and after.holds.shrank_since(before.holds, entry.facts.asks)

    return may_help


def pod_came(pod: PodFacts) -> Hint:
    def may_help(entry: Waiting) -> bool:
        if AFFINITY in entry.refused_by and entry.facts.affinity:
            return True
        return SPREAD in entry.refused_by and entry.facts.namespace == pod.namespace

    return may_help


def storage_changed(entry: Waiting) -> bool:
    return bool(entry.refused_by & _VOLUMES) or bool(entry.facts.claims and not entry.refused_by)


def namespace_changed(entry: Waiting) -> bool:
    return AFFINITY in entry.refused_by


def _concerns(waiting: PodFacts, gone: PodFacts, affinity: bool) -> bool:
    """Anti-affinity has two sides, so only the absence of any rule on both makes a pod's departure irrelevant."""
    if affinity:
        return bool(waiting.anti_affinity or gone.anti_affinity)
    return waiting.namespace == gone.namespace
