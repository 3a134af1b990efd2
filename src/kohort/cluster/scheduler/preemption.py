"""Making room for a more important pod.

On every node that could become right, take away all less important pods; if the pod then fits, put them back one by
one, the most important first, those under a disruption budget before the others, and keep out only those that do not
fit beside the pod. Of all nodes the cheapest is taken:

1. fewest budgets broken, 2. lowest of the highest victims, 3. smallest sum of their priorities, 4. fewest victims,
5. the one whose most important victims started last.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from kohort.cluster.scheduler.cluster_state import ClusterState
from kohort.cluster.scheduler.decision import Misfit, histogram, judged
from kohort.cluster.scheduler.filter_result import Refusal, Verdict, hopeless
from kohort.cluster.scheduler.filters import prepare
from kohort.cluster.scheduler.pod_and_node_info import NodeFacts, PodFacts
from kohort.objects.meta import compiled, find_condition
from kohort.objects.policy import PodDisruptionBudget

NO_VICTIMS: Final = hopeless("DefaultPreemption", "No preemption victims found for incoming pod")
NOT_HELPFUL: Final = hopeless("DefaultPreemption", "Preemption is not helpful for scheduling")
NO_CLAIMS: Final = "no new claims to deallocate"
"""Kubernetes 1.34 and later say this first of every pod without device claims; tools match on the whole line."""

PREEMPTED: Final = "PreemptionByScheduler"


class Eviction(msgspec.Struct, frozen=True):
    node: str
    victims: tuple[PodFacts, ...]
    broken_budgets: int


class NoEviction(msgspec.Struct, frozen=True):
    message: str


def make_room(pod: PodFacts, misfit: Misfit, cluster: ClusterState) -> Eviction | NoEviction:
    """The cheapest eviction that lets the pod in, or why there is none."""
    if misfit.nodes == 0:
        return NoEviction("")
    if misfit.refusal is not None:
        return NoEviction("not found" if misfit.refusal.filter.startswith("Volume") else "")
    objection = _not_eligible(pod, misfit, cluster)
    if objection:
        return NoEviction(f"{NO_CLAIMS}, preemption: {objection}")
    found: list[Eviction] = []
    verdicts: dict[str, Verdict] = {}
    for name in misfit.preemptible:
        outcome = _on_node(pod, cluster.nodes[name], cluster)
        if isinstance(outcome, Eviction):
            found.append(outcome)
        else:
            verdicts[name] = outcome
    if found:
        return min(found, key=_price)
    text = f"0/{misfit.nodes} nodes are available:{histogram(verdicts, misfit.nodes, NOT_HELPFUL)}"
    return NoEviction(f"{NO_CLAIMS}, preemption: {text}")


def _not_eligible(pod: PodFacts, misfit: Misfit, cluster: ClusterState) -> str:
    if pod.pod.spec.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    nominated = pod.pod.status.nominated_node_name
    node = cluster.nodes.get(nominated)
    verdict = misfit.verdicts.get(nominated)
    if node is None or (verdict is not None and not verdict.preemption_may_help):
        return ""
    if any(other.priority < pod.priority and _leaving_by_preemption(other) for other in node.pods.values()):
        return "not eligible due to a terminating pod on the nominated node."
    return ""


def _leaving_by_preemption(pod: PodFacts) -> bool:
    target = find_condition(pod.pod.status.conditions, "DisruptionTarget")
    return not pod.alive and target is not None and target.status == "True" and target.reason == PREEMPTED


def _on_node(pod: PodFacts, node: NodeFacts, cluster: ClusterState) -> Eviction | Verdict:
    weaker = [other for other in node.pods.values() if other.priority < pod.priority]
    if not weaker:
        return NO_VICTIMS
    weaker.sort(key=_importance)
    with cluster.without(weaker):
        verdict = _verdict(pod, node, cluster)
        if verdict is not None:
            return verdict
        guarded, plain = _by_budget(weaker, cluster.budgets)
        broken = [other for other in guarded if not _reprieved(other, pod, node, cluster)]
        others = [other for other in plain if not _reprieved(other, pod, node, cluster)]
        victims = sorted(broken + others, key=_importance)
    return Eviction(node.name, tuple(victims), len(broken)) if victims else NO_VICTIMS


def _reprieved(other: PodFacts, pod: PodFacts, node: NodeFacts, cluster: ClusterState) -> bool:
    cluster.put_pod(other, node.name)
    if _verdict(pod, node, cluster) is None:
        return True
    cluster.take_pod(other.uid)
    return False


def _verdict(pod: PodFacts, node: NodeFacts, cluster: ClusterState) -> Verdict | None:
    judge = prepare(pod, cluster)
    if isinstance(judge, Refusal):
        return hopeless(judge.filter, judge.message)
    return judged(pod, node, cluster, judge)


def _by_budget(
    pods: Iterable[PodFacts], budgets: Mapping[tuple[str, str], PodDisruptionBudget]
) -> tuple[list[PodFacts], list[PodFacts]]:
    """Pods whose removal would break a budget, and the others; every pod uses up what its budgets still allow."""
    allowed = {key: budget.status.disruptions_allowed for key, budget in budgets.items()}
    breaking: list[PodFacts] = []
    harmless: list[PodFacts] = []
    for pod in pods:
        breaks = False
        for key, budget in budgets.items():
            if not breaks and _covers(budget, pod):
                allowed[key] -= 1
                breaks = allowed[key] < 0
        (breaking if breaks else harmless).append(pod)
    return breaking, harmless


def _covers(budget: PodDisruptionBudget, pod: PodFacts) -> bool:
    if budget.metadata.namespace != pod.namespace or not pod.labels:
        return False
    if pod.key.name in budget.status.disrupted_pods:
        return False
    try:
        selector = compiled(budget.spec.selector)
    except ValueError:
        return False
    return not selector.everything and selector.matches(pod.labels)


def _importance(pod: PodFacts) -> tuple[int, str]:
    """Most important first: higher priority, then started earlier."""
    return -pod.priority, pod.pod.status.start_time or "9"


def _price(eviction: Eviction) -> tuple[int, int, int, int, str]:
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
