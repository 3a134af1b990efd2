"""How many pods a ReplicaSet creates or deletes, and which ones are deleted first.

Pods whose deletion costs the least are deleted first:

| compared | deleted first |
|---|---|
| node | not yet on one |
| phase | Pending before Unknown before Running |
| readiness | not Ready |
| deletion cost annotation | lower |
| crowding | more pods of sets with the same owner on the node |
| ready since | later (younger), by order of magnitude |
| restarts | more |
| created | later |
"""

import math
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from kohort.objects import well_known_names

DELETION_COST: Final = well_known_names.DELETION_COST
BURST: Final = 500

_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


class Replica(msgspec.Struct, frozen=True):
    """One pod, as far as the rules need it."""

    name: str
    node: str = ""
    phase: str = "Running"
    ready: bool = True
    ready_since: datetime | None = None
    available: bool = True
    cost: int = 0
    restarts: int = 0
    created: datetime | None = None
    terminating: bool = False
    finished: bool = False
    fully_labelled: bool = True

    @property
    def active(self) -> bool:
        return not self.terminating and not self.finished


class Plan(msgspec.Struct, frozen=True):
    create: int
    delete: tuple[str, ...]


def plan(wanted: int, pods: Sequence[Replica], neighbours: Sequence[str] = (), now: datetime | None = None) -> Plan:
    """`neighbours` names the nodes of all pods of related sets, one entry a pod; nodes with many of them are
    crowded."""
    active = [pod for pod in pods if pod.active]
    missing = wanted - len(active)
    if missing >= 0:
        return Plan(min(missing, BURST), ())
    ranked = rank(active, neighbours, now)
    return Plan(0, tuple(pod.name for pod in ranked[: min(-missing, BURST)]))


def rank(pods: Sequence[Replica], neighbours: Sequence[str] = (), now: datetime | None = None) -> list[Replica]:
    """The pods, first to be deleted first."""
    crowd = Counter(neighbours)

    def order(pod: Replica) -> tuple[object, ...]:
        return (
            bool(pod.node),
            _PHASES.get(pod.phase, 2),
            pod.ready,
            pod.cost,
            -crowd[pod.node],
            _magnitude(pod.ready_since, now) if pod.ready else 0,
            -pod.restarts,
            _magnitude(pod.created, now),
            pod.name,
        )

    return sorted(pods, key=order)


def _magnitude(moment: datetime | None, now: datetime | None) -> int:
    """Ages are compared by order of magnitude: whether a pod is 50 or 55 minutes old shall not decide."""
    if moment is None or now is None:
        return 0
    nanoseconds = (now - moment).total_seconds() * 1e9
    return int(math.log2(nanoseconds)) if nanoseconds >= 1 else -1


class Counts(msgspec.Struct, frozen=True):
    replicas: int
    fully_labelled: int
    ready: int
    available: int
    terminating: int


def count(pods: Sequence[Replica]) -> Counts:
    active = [pod for pod in pods if pod.active]
    return Counts(
        replicas=len(active),
        fully_labelled=sum(pod.fully_labelled for pod in active),
        ready=sum(pod.ready for pod in active),
        available=sum(pod.available for pod in active),
        terminating=sum(pod.terminating and not pod.finished for pod in pods),
    )
