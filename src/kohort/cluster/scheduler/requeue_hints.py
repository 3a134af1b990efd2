"""Which changes are worth another attempt for which unschedulable pod.

| change                            | may help a pod that was rejected by                                           |
|-----------------------------------|--------------------------------------------------------------------------------|
| a node was added or changed       | cordon, taints, labels or size, if the node passes one of these filters      |
|                                   | anything else, if the empty node would take the pod                           |
| a node was removed                | topology spread (the emptiest domain may be gone)                             |
| a pod left its node               | resources, ports, affinity, spread, exclusive volumes; nominated room        |
| a pod on a node needs less        | resources, if it is less of something that the pod asks for                   |
| a pod came to a node, or relabelled | affinity to it, spread over it                                              |
| claims, volumes, classes          | volume filters                                                                |
| labels of a namespace             | affinity                                                                      |

A pod for which there was no node at all was rejected by no filter: every change is worth an attempt.
"""

from collections.abc import Callable
from typing import Final

from kohort.cluster.scheduler.cluster_state import ClusterState
from kohort.cluster.scheduler.filters import NODE_ONLY, Filter
from kohort.cluster.scheduler.filters.node_resources import could_ever_fit
from kohort.cluster.scheduler.pod_and_node_info import NodeInfo, PodInfo
from kohort.cluster.scheduler.queue import QueuedPod
from kohort.cluster.scheduler.rejection import VOLUME_FILTERS, FilterName, PodRejection
from kohort.objects.core import Node

Hint = Callable[[QueuedPod], bool]

AFFINITY: Final = FilterName.INTER_POD_AFFINITY
SPREAD: Final = FilterName.POD_TOPOLOGY_SPREAD
FIT: Final = FilterName.NODE_RESOURCES_FIT
_FREED_BY_A_POD: Final = frozenset({FIT, FilterName.NODE_PORTS, AFFINITY, SPREAD, FilterName.VOLUME_RESTRICTIONS})


def node_added(node: NodeInfo, cluster: ClusterState) -> Hint:
    def may_help(entry: QueuedPod) -> bool:
        if not entry.rejected_by:
            return True
        passed = {name for name, filter in NODE_ONLY.items() if _passes(filter, entry.info, node, cluster)}
        if could_ever_fit(entry.info, node):
            passed.add(FIT)
        alone = {*NODE_ONLY, FIT}
        if entry.rejected_by & alone:
            return bool(entry.rejected_by & passed)
        return passed == alone

    return may_help


def _passes(filter: Filter, pod: PodInfo, node: NodeInfo, cluster: ClusterState) -> bool:
    check = filter(pod, cluster)
    return check is None or (not isinstance(check, PodRejection) and check(node) is None)


def node_differs(before: Node, after: Node) -> bool:
    """Whether a node changed in anything that a filter looks at; heartbeats do not count."""
    return (
        before.status.allocatable != after.status.allocatable
        or before.metadata.labels != after.metadata.labels
        or before.spec != after.spec
    )


def node_removed(entry: QueuedPod) -> bool:
    return not entry.rejected_by or SPREAD in entry.rejected_by


def pod_removed(pod: PodInfo) -> Hint:
    def may_help(entry: QueuedPod) -> bool:
        if not entry.rejected_by:
            return True
        rejected = entry.rejected_by & _FREED_BY_A_POD
        if rejected == {AFFINITY} or rejected == {SPREAD}:
            return _concerns(entry.info, pod, AFFINITY in rejected)
        return bool(rejected)

    return may_help


def pod_shrank(before: PodInfo, after: PodInfo) -> Hint:
    def may_help(entry: QueuedPod) -> bool:
        return FIT in entry.rejected_by and after.reserved.shrank_since(before.reserved, entry.info.requested)

    return may_help


def pod_added(pod: PodInfo) -> Hint:
    def may_help(entry: QueuedPod) -> bool:
        if AFFINITY in entry.rejected_by and entry.info.affinity:
            return True
        return SPREAD in entry.rejected_by and entry.info.namespace == pod.namespace

    return may_help


def storage_changed(entry: QueuedPod) -> bool:
    return bool(entry.rejected_by & VOLUME_FILTERS) or bool(entry.info.claims and not entry.rejected_by)


def namespace_changed(entry: QueuedPod) -> bool:
    return AFFINITY in entry.rejected_by


def _concerns(waiting: PodInfo, gone: PodInfo, affinity: bool) -> bool:
    """Anti-affinity has two sides, so only the absence of any rule on both makes a pod's departure irrelevant."""
    if affinity:
        return bool(waiting.anti_affinity or gone.anti_affinity)
    return waiting.namespace == gone.namespace
