"""Pods that PodDisruptionBudgets of users keep from being evicted for ever.

| PodDisruptionBudgets that select a running pod | it is evicted |
|---|---|
| two or more, that of its set included | never: Kubernetes refuses to evict such a pod |
| one of a user that allows no disruption while all its pods are healthy | never |
| that of its set only | as the budget of the set says: `drain_forecast` |
| any other | sooner or later |
"""

from collections.abc import Iterable, Sequence

import msgspec

from kohort.groups.caches import owned_by
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.snapshot import Snapshot
from kohort.objects.core import Pod
from kohort.objects.meta import compiled
from kohort.objects.policy import PodDisruptionBudget
from kohort.objects.well_known_names import MIRROR_POD


class EvictionObstacle(msgspec.Struct, frozen=True, rename="camel"):
    namespace: str
    pod: str
    budgets: tuple[str, ...]
    """The PodDisruptionBudgets of users that select it."""
    budget_of_set: str = ""
    """That of its set, if it selects the pod too."""

    @property
    def several(self) -> bool:
        return len(self.budgets) + bool(self.budget_of_set) > 1


def eviction_obstacles(
    pods: Iterable[Pod], budgets: Sequence[PodDisruptionBudget], sets: Iterable[Snapshot]
) -> list[EvictionObstacle]:
    """`budgets` are those of the namespaces of these pods."""
    known = [one.group_set for one in sets]
    found = []
    for pod in pods:
        if pod.metadata.deleting or pod.status.phase != "Running" or not is_taken_by_drain(pod):
            continue
        own, others = "", []
        for one in selecting(pod, budgets):
            if _is_of_set(one, known):
                own = one.metadata.name
            else:
                others.append(one)
        names = tuple(one.metadata.name for one in others)
        if others and (len(others) + bool(own) > 1 or _never_allows(others[0])):
            found.append(EvictionObstacle(pod.metadata.namespace, pod.metadata.name, names, own))
    return found


def is_taken_by_drain(pod: Pod) -> bool:
    """`kubectl drain --ignore-daemonsets` leaves pods of DaemonSets, and static pods; finished pods are in no way."""
    owner = pod.metadata.controller
    static = MIRROR_POD in pod.metadata.annotations
    return not pod.finished and not static and (owner is None or owner.kind != "DaemonSet")


def selecting(pod: Pod, budgets: Iterable[PodDisruptionBudget]) -> list[PodDisruptionBudget]:
    return [
        one
        for one in budgets
        if one.metadata.namespace == pod.metadata.namespace and compiled(one.spec.selector).matches(pod.metadata.labels)
    ]


def _is_of_set(budget: PodDisruptionBudget, sets: Iterable[LeaderWorkerSet]) -> bool:
    return any(owned_by(budget.metadata, one) for one in sets)


def _never_allows(budget: PodDisruptionBudget) -> bool:
    """A budget with unhealthy pods may allow more when they are healthy."""
    status = budget.status
    seen = status.observed_generation >= budget.metadata.generation and status.expected_pods > 0
    return seen and status.disruptions_allowed == 0 and status.current_healthy >= status.expected_pods


def obstacle_words(one: EvictionObstacle) -> str:
    if one.several:
        names = " and ".join(filter(None, (one.budget_of_set, *one.budgets)))
        return f"PodDisruptionBudgets {names} select {one.pod}, and Kubernetes evicts no pod that more than one selects"
    return f"PodDisruptionBudget {one.budgets[0]} of {one.pod} allows no disruption although all its pods are healthy"
