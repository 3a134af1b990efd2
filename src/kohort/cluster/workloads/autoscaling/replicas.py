"""How many replicas a metric asks for.

The average over the pods is compared with its target. Within the tolerance nothing changes; otherwise as many replicas
are wanted as bring the average back to the target, rounded up. Pods that do not report are counted on the careful side:

| the reporting pods alone ask for | a pod without a number counts as | an unready pod counts as |
|---|---|---|
| fewer | the target; for a target in percent, all that it requests if that is more | nothing, it is left out |
| more | 0 | 0 |

If that turns the direction around, nothing changes.

All numbers are whole thousandths, and averages and percentages are rounded down, as in Kubernetes: the same figures
lead to the same number of replicas.
"""

import math
from collections.abc import Callable, Mapping

import msgspec

from kohort.cluster.workloads.autoscaling.behavior import DEFAULT_TOLERANCE, Tolerance


class PodNumbers(msgspec.Struct, frozen=True):
    """What the pods of a target report for one metric."""

    values: Mapping[str, int]
    """Thousandths, by pod."""
    missing: frozenset[str] = frozenset()
    """Pods that run and do not report."""
    unready: frozenset[str] = frozenset()
    """Pods that have not started, or whose number says nothing yet."""


class WantedReplicas(msgspec.Struct, frozen=True):
    replicas: int
    average: int
    """Thousandths."""
    percent: int | None = None
    """Of what the reporting pods request."""


def wanted_by_average(
    current: int, numbers: PodNumbers, target: int, tolerance: Tolerance = DEFAULT_TOLERANCE
) -> WantedReplicas | None:
    """For a target per pod, in thousandths. None if no pod reports."""
    if not numbers.values:
        return None

    def ratio(values: Mapping[str, int]) -> float:
        return _average(values) / target

    replicas = _wanted(current, numbers, ratio, lambda _: target, tolerance)
    return WantedReplicas(replicas, _average(numbers.values))


def wanted_by_utilization(
    current: int,
    numbers: PodNumbers,
    requests: Mapping[str, int],
    target: int,
    tolerance: Tolerance = DEFAULT_TOLERANCE,
) -> WantedReplicas | None:
    """For a target in percent of what pods request. None if the reporting pods request nothing."""

    def percent(values: Mapping[str, int]) -> int:
        return sum(values.values()) * 100 // sum(requests[name] for name in values)

    def careful(name: str) -> int:
        return requests[name] * max(100, target) // 100

    if not any(requests[name] for name in numbers.values):
        return None
    replicas = _wanted(current, numbers, lambda values: percent(values) / target, careful, tolerance)
    return WantedReplicas(replicas, _average(numbers.values), percent(numbers.values))


def _wanted(
    current: int,
    numbers: PodNumbers,
    ratio: Callable[[Mapping[str, int]], float],
    careful: Callable[[str], int],
    tolerance: Tolerance,
) -> int:
    """`ratio` is that of usage to target, `careful` what a missing pod counts as when the others ask for fewer."""
    first = ratio(numbers.values)
    unready = numbers.unready if first > 1 else frozenset()
    if not numbers.missing and not unready:
        return current if tolerance.covers(first) else math.ceil(first * len(numbers.values))
    values = {**numbers.values, **dict.fromkeys(unready, 0)}
    if first != 1:
        values |= {name: careful(name) if first < 1 else 0 for name in numbers.missing}
    second = ratio(values)
    wanted = math.ceil(second * len(values))
    turned = (first < 1 < second) or (second < 1 < first)
    against = (second < 1 and wanted > current) or (second > 1 and wanted < current)
    return current if turned or against or tolerance.covers(second) else wanted


def _average(values: Mapping[str, int]) -> int:
    return sum(values.values()) // len(values)
