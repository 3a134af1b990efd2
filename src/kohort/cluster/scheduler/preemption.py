"""Which pods are evicted for a pod of higher priority.

On every node where preemption may help, remove all pods of lower priority. If the pod then fits, put them back one by
one: pods whose eviction would break a disruption budget first, then the others, each by falling priority. Those that
no longer fit beside the pod are the victims on that node. The node with the cheapest eviction is chosen:

1. fewest budgets broken, 2. lowest priority of its highest victim, 3. smallest sum of the victims' priorities,
4. fewest victims, 5. the one whose highest victims started last.
"""

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Final

import msgspec

from kohort.cluster.scheduler.decision import Unschedulable, node_rejection
from kohort.objects.meta import compiled
from kohort.objects.policy import PodDisruptionBudget
from kohort.rules.pod_disruption import PREEMPTION, disruption_reason
from kohort.rules.scheduler_message import NodeReason
from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.filters import prepare
from kohort.rules.scheduling.pod_and_node_info import NodeInfo, PodInfo
from kohort.rules.scheduling.rejection import VOLUME_FILTERS, FilterName, NodeRejection, PodRejection, unresolvable

NO_VICTIMS: Final = unresolvable(FilterName.DEFAULT_PREEMPTION, NodeReason.NO_PREEMPTION_VICTIMS)


class Eviction(msgspec.Struct, frozen=True):
    node: str
    victims: tuple[PodInfo, ...]
    broken_budgets: int


class NoEvictionReason(Enum):
    POD_CANNOT_BE_PLACED = auto()
    """There are no nodes, or no node can take the pod."""
    VOLUMES_NOT_READY = auto()
    POLICY_NEVER = auto()
    VICTIMS_TERMINATING = auto()
    """Pods evicted for this pod are still leaving the nominated node."""
    NO_NODE_HELPED = auto()


class NoEviction(msgspec.Struct, frozen=True):
    reason: NoEvictionReason
    rejections: Mapping[str, NodeRejection] = {}
    """By node name, what was found where preemption could have helped."""


def find_eviction(pod: PodInfo, unschedulable: Unschedulable, cluster: ClusterState) -> Eviction | NoEviction:
    """The cheapest eviction that lets the pod in, or why there is none."""
    if unschedulable.nodes == 0:
        return NoEviction(NoEvictionReason.POD_CANNOT_BE_PLACED)
    if unschedulable.rejection is not None:
        about_volumes = unschedulable.rejection.filter in VOLUME_FILTERS
        return NoEviction(
            NoEvictionReason.VOLUMES_NOT_READY if about_volumes else NoEvictionReason.POD_CANNOT_BE_PLACED
        )
    not_eligible = _not_eligible(pod, unschedulable, cluster)
    if not_eligible is not None:
        return NoEviction(not_eligible)
    found: list[Eviction] = []
    rejections: dict[str, NodeRejection] = {}
    for name in unschedulable.preemptible:
        outcome = _on_node(pod, cluster.nodes[name], cluster)
        if isinstance(outcome, Eviction):
            found.append(outcome)
        else:
            rejections[name] = outcome
    if found:
        return min(found, key=_cost)
    return NoEviction(NoEvictionReason.NO_NODE_HELPED, rejections)


def _not_eligible(pod: PodInfo, unschedulable: Unschedulable, cluster: ClusterState) -> NoEvictionReason | None:
    if pod.pod.spec.preemption_policy == "Never":
        return NoEvictionReason.POLICY_NEVER
    nominated = cluster.nomination_of(pod.uid) or pod.pod.status.nominated_node_name
    node = cluster.nodes.get(nominated)
    rejection = unschedulable.rejections.get(nominated)
    if node is None or (rejection is not None and not rejection.preemption_may_help):
        return None
    if any(other.priority < pod.priority and _terminating_after_preemption(other) for other in node.pods.values()):
        return NoEvictionReason.VICTIMS_TERMINATING
    return None


def _terminating_after_preemption(pod: PodInfo) -> bool:
    return not pod.alive and disruption_reason(pod.pod) == PREEMPTION


def _on_node(pod: PodInfo, node: NodeInfo, cluster: ClusterState) -> Eviction | NodeRejection:
    lower = [other for other in node.pods.values() if other.priority < pod.priority]
    if not lower:
        return NO_VICTIMS
    lower.sort(key=_importance)
    with cluster.without(lower):
        rejection = _rejection(pod, node, cluster)
        if rejection is not None:
            return rejection
        breaking, harmless = _by_budget(lower, cluster.budgets)
        broken = [other for other in breaking if not _try_to_keep(other, pod, node, cluster)]
        others = [other for other in harmless if not _try_to_keep(other, pod, node, cluster)]
        victims = sorted(broken + others, key=_importance)
    return Eviction(node.name, tuple(victims), len(broken)) if victims else NO_VICTIMS


def _try_to_keep(other: PodInfo, pod: PodInfo, node: NodeInfo, cluster: ClusterState) -> bool:
    cluster.add_pod(other, node.name)
    if _rejection(pod, node, cluster) is None:
        return True
    cluster.remove_pod(other.uid)
    return False


def _rejection(pod: PodInfo, node: NodeInfo, cluster: ClusterState) -> NodeRejection | None:
    prepared = prepare(pod, cluster)
    if isinstance(prepared, PodRejection):
        return prepared.on_node()
    return node_rejection(pod, node, cluster, prepared)


def _by_budget(
    pods: Iterable[PodInfo], budgets: Mapping[tuple[str, str], PodDisruptionBudget]
) -> tuple[list[PodInfo], list[PodInfo]]:
    """Pods whose removal would break a budget, and the others; every pod uses up what its budgets still allow."""
    allowed = {key: budget.status.disruptions_allowed for key, budget in budgets.items()}
    breaking: list[PodInfo] = []
    harmless: list[PodInfo] = []
    for pod in pods:
        breaks = False
        for key, budget in budgets.items():
            if not breaks and _covers(budget, pod):
                allowed[key] -= 1
                breaks = allowed[key] < 0
        (breaking if breaks else harmless).append(pod)
    return breaking, harmless


def _covers(budget: PodDisruptionBudget, pod: PodInfo) -> bool:
    if budget.metadata.namespace != pod.namespace or not pod.labels:
        return False
    if pod.key.name in budget.status.disrupted_pods:
        return False
    try:
        selector = compiled(budget.spec.selector)
    except ValueError:
        return False
    return not selector.everything and selector.matches(pod.labels)


def _importance(pod: PodInfo) -> tuple[int, str]:
    """Sorts by importance: higher priority first, then earlier start."""
    return -pod.priority, pod.pod.status.start_time or "9"


def _cost(eviction: Eviction) -> tuple[int, int, int, int, str]:
    victims = eviction.victims
    highest = victims[0].priority
    earliest = min(v.pod.status.start_time or "9" for v in victims if v.priority == highest)
    return (
        eviction.broken_budgets,
        highest,
        sum(victim.priority + 2**31 for victim in victims),
        len(victims),
        _reversed(earliest),
    )


def _reversed(text: str) -> str:
    """Sorts the other way round: a later start is cheaper."""
    return "".join(chr(0x10FFFF - ord(character)) for character in text)
