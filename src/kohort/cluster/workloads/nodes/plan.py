"""Which taints follow from the conditions of a node, and how long pods tolerate them.

| node | taint | effects |
|---|---|---|
| Ready is False | node.kubernetes.io/not-ready | NoSchedule, NoExecute |
| Ready is Unknown | node.kubernetes.io/unreachable | NoSchedule, NoExecute |
| MemoryPressure | node.kubernetes.io/memory-pressure | NoSchedule |
| DiskPressure | node.kubernetes.io/disk-pressure | NoSchedule |
| PIDPressure | node.kubernetes.io/pid-pressure | NoSchedule |
| NetworkUnavailable | node.kubernetes.io/network-unavailable | NoSchedule |
| spec.unschedulable | node.kubernetes.io/unschedulable | NoSchedule |

A node without a Ready condition is not tainted for it, and loses the taint that it was registered with; when it has
not reported for too long, Ready becomes Unknown.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from kohort.objects.core import Node, Pod, Taint
from kohort.objects.meta import condition_is, find_condition

PREFIX: Final = "node.kubernetes.io/"
NOT_READY: Final = f"{PREFIX}not-ready"
UNREACHABLE: Final = f"{PREFIX}unreachable"
UNSCHEDULABLE: Final = f"{PREFIX}unschedulable"
_PRESSURES: Final = {
    "MemoryPressure": f"{PREFIX}memory-pressure",
    "DiskPressure": f"{PREFIX}disk-pressure",
    "PIDPressure": f"{PREFIX}pid-pressure",
    "NetworkUnavailable": f"{PREFIX}network-unavailable",
}
MANAGED: Final = frozenset({NOT_READY, UNREACHABLE, UNSCHEDULABLE, *_PRESSURES.values()})


def health_taints(node: Node) -> list[Taint]:
    """The taints that follow from the table above."""
    ready = find_condition(node.status.conditions, "Ready")
    found: list[Taint] = []
    if ready is not None and ready.status != "True":
        key = NOT_READY if ready.status == "False" else UNREACHABLE
        found += [Taint(key, "NoSchedule"), Taint(key, "NoExecute")]
    for condition, key in _PRESSURES.items():
        if condition_is(node.status.conditions, condition):
            found.append(Taint(key, "NoSchedule"))
    if node.spec.unschedulable:
        found.append(Taint(UNSCHEDULABLE, "NoSchedule"))
    return found


def wanted_taints(node: Node, now: str) -> Sequence[Taint] | None:
    """The complete list that the node must have; None when it has it. Taints of others stay."""
    wanted = {(taint.key, taint.effect): taint for taint in health_taints(node)}
    kept = [taint for taint in node.spec.taints if taint.key not in MANAGED or (taint.key, taint.effect) in wanted]
    have = {(taint.key, taint.effect) for taint in kept}
    added = [Taint(taint.key, taint.effect, time_added=now) for pair, taint in wanted.items() if pair not in have]
    return None if not added and len(kept) == len(node.spec.taints) else [*kept, *added]


def seconds_to_stay(pod: Pod, taints: Iterable[Taint]) -> float | None:
    """How long a pod may stay on a node with these taints: 0 is "not at all", None is "for ever"."""
    shortest: float | None = None
    for taint in taints:
        if taint.effect != "NoExecute":
            continue
        matching = [one for one in pod.spec.tolerations if one.tolerates(taint)]
        if not matching:
            return 0
        limits = [max(0, one.toleration_seconds) for one in matching if one.toleration_seconds is not None]
        if limits:
            shortest = min([shortest, *limits] if shortest is not None else limits)
    return shortest
