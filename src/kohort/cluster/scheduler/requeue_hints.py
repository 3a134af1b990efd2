"""Which changes are worth another attempt for which unschedulable pod.

| change                            | may help a pod that was rejected by                                           |
|-----------------------------------|--------------------------------------------------------------------------------|
| a node was added or changed       | cordon, taints, labels or size, if the node passes one of these filters      |
|                                   | anything else, if the empty node would take the pod                           |
| a node was removed                | topology spread (the emptiest domain may be gone)                             |
| a pod left its node               | resources, if the node has room for the pod now; ports and claims, if it had  |
|                                   | any; anti-affinity of either of the two; spread, in its namespace             |
| a nomination ended                | resources, ports and anti-affinity likewise                                   |
| a pod on a node needs less        | resources, if it is less of something that the pod asks for, and there is room |
| a pod came to a node, or relabelled | affinity to it, spread over it in its namespace                             |
| claims, volumes, classes          | volume filters                                                                |
| labels of a namespace             | affinity                                                                      |

A pod for which there was no node at all was rejected by no filter: every change is worth an attempt.

"Has room now" may be asked of one node because room elsewhere has not changed; each change asks of its own node. It is
not kube-scheduler's rule, which retries every pod that was rejected for its resources whenever any pod leaves any node:
then thousands of pods that fit on no node take the time of all others with every pod of a roll.
"""

from collections.abc import Callable
from typing import Final

from kohort.cluster.scheduler.queue import QueuedPod
from kohort.objects.core import Node
from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.filters import NODE_ONLY, Filter
from kohort.rules.scheduling.filters.node_resources import could_ever_fit, room_for
from kohort.rules.scheduling.pod_and_node_info import NodeInfo, PodInfo
from kohort.rules.scheduling.rejection import VOLUME_FILTERS, FilterName, PodRejection

Hint = Callable[[QueuedPod], bool]

AFFINITY: Final = FilterName.INTER_POD_AFFINITY
SPREAD: Final = FilterName.POD_TOPOLOGY_SPREAD
FIT: Final = FilterName.NODE_RESOURCES_FIT


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


def pod_removed(pod: PodInfo, node: NodeInfo | None) -> Hint:
    """`node` is the one that the pod left, without the pod."""
    has_room = _room_on(node)

    def may_help(entry: QueuedPod) -> bool:
        rejected_by = entry.rejected_by
        return (
            not rejected_by
            or (FIT in rejected_by and has_room(entry.info))
            or (FilterName.NODE_PORTS in rejected_by and bool(pod.ports))
            or (FilterName.VOLUME_RESTRICTIONS in rejected_by and bool(pod.claims))
            or (AFFINITY in rejected_by and _anti_affinity_concerns(entry.info, pod))
            or (SPREAD in rejected_by and entry.info.namespace == pod.namespace)
        )

    return may_help


def pod_shrank(before: PodInfo, after: PodInfo, node: NodeInfo | None) -> Hint:
    """`node` is that of the pod, with what the pod needs now."""
    has_room = _room_on(node)

    def may_help(entry: QueuedPod) -> bool:
        return (
            FIT in entry.rejected_by
            and after.reserved.shrank_since(before.reserved, entry.info.requested)
            and has_room(entry.info)
        )

    return may_help


def _room_on(node: NodeInfo | None) -> Callable[[PodInfo], bool]:
    """Whether the node has room for a pod, with the pods on it, or without those that the pod could evict."""
    if node is None or node.node is None:
        return lambda pod: False
    there = node
    lowest = min((other.priority for other in there.pods.values()), default=0)

    def has_room(pod: PodInfo) -> bool:
        if not could_ever_fit(pod, there):
            return False
        evicts = bool(there.pods) and pod.priority > lowest
        return evicts or room_for(pod)(there) is None

    return has_room


def pod_added(pod: PodInfo, cluster: ClusterState) -> Hint:
    def may_help(entry: QueuedPod) -> bool:
        waiting = entry.info
        if AFFINITY in entry.rejected_by and any(
            term.matches(pod.namespace, pod.labels, cluster.namespaces) for term in waiting.affinity
        ):
            return True
        return SPREAD in entry.rejected_by and waiting.namespace == pod.namespace

    return may_help


def storage_changed(entry: QueuedPod) -> bool:
    return bool(entry.rejected_by & VOLUME_FILTERS) or bool(entry.info.claims and not entry.rejected_by)


def namespace_changed(entry: QueuedPod) -> bool:
    return AFFINITY in entry.rejected_by


def _anti_affinity_concerns(waiting: PodInfo, gone: PodInfo) -> bool:
    """Anti-affinity has two sides, so only the absence of any rule on both makes a pod's departure irrelevant."""
    return bool(waiting.anti_affinity or gone.anti_affinity)
