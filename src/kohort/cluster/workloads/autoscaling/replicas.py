"""How many replicas a metric asks for.

The average over the pods is compared with its target. Within the tolerance nothing changes; otherwise as many replicas
are wanted as bring the average back to the target, rounded up. Pods that do not report are counted on the careful side:

| the reporting pods alone ask for | a pod without a number counts as | a pod that has not started counts as |
|---|---|---|
| fewer | the whole target | nothing, it is left out |
| more | 0 | 0 |

If that turns the direction around, nothing changes.
"""

import math
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

TOLERANCE: Final = 0.1


class PodNumbers(msgspec.Struct, frozen=True):
    """What the pods of a target report for one metric."""

    values: Mapping[str, float]
    """By pod."""
    missing: int = 0
    """Pods that run and do not report."""
    pending: int = 0
    """Pods that have not started."""


class WantedReplicas(msgspec.Struct, frozen=True):
    replicas: int
    average: float


def wanted_replicas(
    current: int, numbers: PodNumbers, target: float, tolerance: float = TOLERANCE
) -> WantedReplicas | None:
    """For a target per pod. None if no pod reports."""
    values = list(numbers.values.values())
    if not values:
        return None
    average = sum(values) / len(values)
    ratio = average / target
    if not numbers.missing and not (numbers.pending and ratio > 1):
        kept = abs(ratio - 1) <= tolerance
        return WantedReplicas(current if kept else math.ceil(_rounded(ratio * len(values))), average)
    values += [target if ratio < 1 else 0.0] * numbers.missing
    values += [0.0] * (numbers.pending if ratio > 1 else 0)
    careful = sum(values) / len(values) / target
    turned = (ratio < 1 < careful) or (careful < 1 < ratio)
    wanted = math.ceil(_rounded(careful * len(values)))
    if (
        turned
        or abs(careful - 1) <= tolerance
        or (careful < 1 and wanted > current)
        or (careful > 1 and wanted < current)
    ):
        return WantedReplicas(current, average)
    return WantedReplicas(wanted, average)


class WantedByUtilization(msgspec.Struct, frozen=True):
    replicas: int
    percent: int
    """Of what the ready pods request."""
    average: float


def wanted_by_utilization(
    current: int,
    usage: Mapping[str, int],
    unready: Collection[str],
    missing: Collection[str],
    requests: Mapping[str, int],
    target: int,
    tolerance: float = TOLERANCE,
) -> WantedByUtilization | None:
    """For a target in percent of what pods request. A missing pod counts as using all that it requests, or the target
    if that is more, when the others ask for fewer. None if no pod reports."""
    if not any(name in requests for name in usage):
        return None
    percent = _percent(usage, requests)
    ratio, average = percent / target, sum(usage.values()) / len(usage)
    if not missing and not (unready and ratio > 1):
        kept = abs(ratio - 1) <= tolerance
        wanted = current if kept else math.ceil(_rounded(ratio * len(usage)))
        return WantedByUtilization(wanted, percent, average)
    careful = dict(usage)
    if ratio < 1:
        careful |= {name: requests.get(name, 0) * max(100, target) // 100 for name in missing}
    elif ratio > 1:
        careful |= dict.fromkeys(missing, 0)
    if ratio > 1:
        careful |= dict.fromkeys(unready, 0)
    second = _percent(careful, requests) / target
    wanted = math.ceil(_rounded(second * len(careful)))
    turned = (ratio < 1 < second) or (second < 1 < ratio)
    against = (second < 1 and wanted > current) or (second > 1 and wanted < current)
    if turned or against or abs(second - 1) <= tolerance:
        wanted = current
    return WantedByUtilization(wanted, percent, average)


def _percent(usage: Mapping[str, int], requests: Mapping[str, int]) -> int:
    asked = sum(requests[name] for name in usage if name in requests)
    used = sum(amount for name, amount in usage.items() if name in requests)
    return used * 100 // asked if asked else 0


def wanted_for_total(current: int, total: float, target: float, tolerance: float = TOLERANCE) -> WantedReplicas:
    """For a target of all pods together."""
    ratio = total / target
    kept = abs(ratio - 1) <= tolerance
    return WantedReplicas(current if kept else math.ceil(_rounded(ratio * current)), total)


def _rounded(value: float) -> float:
    """Without the last digits, which are noise of the division: 3.0000000000000004 is 3."""
    return round(value, 9)
