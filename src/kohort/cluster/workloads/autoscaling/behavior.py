"""How fast an autoscaler may change the number of replicas: its bounds and `spec.behavior`.

| | scaleUp | scaleDown | no `behavior` at all |
|---|---|---|---|
| tolerance | 10% | 10% | 10% |
| stabilizationWindowSeconds | 0 | 300 | 300, for scaling down |
| policies | 4 pods or 100% per 15 s | 100% per 15 s | up to twice as many at a time, and always up to 4 |
| selectPolicy | Max | Max | |

Stabilization first. With `behavior`, the lowest number that was wanted within the window limits scaling up, the highest
limits scaling down, and neither changes the direction. Without it, the highest is wanted, also if that is more than
there are now: a set that a person scaled in grows again. The number of replicas at the first sight of a target counts
as wanted, so that a restart of the controller does not end a window early.

Then the policies, how many replicas more or fewer there may be than at the beginning of each period, and the bounds.
The stricter of the two gives the reason; the bound does if both allow the same.
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from kohort.objects.json_types import JsonObject
from kohort.objects.quantity import Quantity

_UP: Final[JsonObject] = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN: Final[JsonObject] = {
    "stabilizationWindowSeconds": 300,
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}
_SHARE: Final = 0.1
LONGEST_WINDOW: Final = 3600.0


class Tolerance(msgspec.Struct, frozen=True):
    """How far a metric may be from its target, as a share of it, before the number of replicas changes."""

    up: float = _SHARE
    down: float = _SHARE

    def covers(self, ratio: float) -> bool:
        return 1 - self.down <= ratio <= 1 + self.up


DEFAULT_TOLERANCE: Final = Tolerance()


class Recommendation(msgspec.Struct, frozen=True):
    at: float
    replicas: int


class ScaleEvent(msgspec.Struct, frozen=True):
    at: float
    change: int
    """Replicas more, or fewer if negative."""


class Limit(StrEnum):
    """The reason of the condition ScalingLimited."""

    NONE = "DesiredWithinRange"
    MOST = "TooManyReplicas"
    LEAST = "TooFewReplicas"
    RATE_UP = "ScaleUpLimit"
    RATE_DOWN = "ScaleDownLimit"


class Limited(msgspec.Struct, frozen=True):
    replicas: int
    by: Limit = Limit.NONE


class Bounds(msgspec.Struct, frozen=True):
    least: int
    most: int


def rules(behavior: JsonObject | None, direction: str) -> JsonObject:
    """`scaleUp` or `scaleDown` of a spec, with defaults."""
    given = {key: value for key, value in ((behavior or {}).get(direction) or {}).items() if value is not None}
    return {**(_UP if direction == "scaleUp" else _DOWN), **given}


def tolerance_of(behavior: JsonObject | None) -> Tolerance:
    def of(direction: str) -> float:
        given = rules(behavior, direction).get("tolerance")
        return _SHARE if given is None else Quantity.parse(given).approximate

    return Tolerance(of("scaleUp"), of("scaleDown"))


def stabilized(
    current: int, wanted: int, history: Sequence[Recommendation], behavior: JsonObject | None, now: float
) -> int:
    """What is wanted, held back by what was wanted a while ago. `history` has earlier recommendations."""
    up, down = rules(behavior, "scaleUp"), rules(behavior, "scaleDown")

    def within(seconds: float) -> list[int]:
        return [one.replicas for one in history if one.at > now - seconds]

    highest = max([wanted, *within(down["stabilizationWindowSeconds"])])
    if behavior is None:
        return highest
    lowest = min([wanted, *within(up["stabilizationWindowSeconds"])])
    return min(max(current, lowest), highest)


def limited(
    current: int, wanted: int, bounds: Bounds, events: Sequence[ScaleEvent], behavior: JsonObject | None, now: float
) -> Limited:
    """What the bounds and policies leave of a stabilized number. `current` is within the bounds."""
    if wanted > current:
        rate = _highest_by_rate(current, events, behavior, now)
        most = Limited(rate, Limit.RATE_UP) if rate < bounds.most else Limited(bounds.most, Limit.MOST)
        return most if wanted > most.replicas else Limited(wanted)
    if wanted < current:
        rate = _lowest_by_rate(current, events, behavior, now)
        least = Limited(rate, Limit.RATE_DOWN) if rate > bounds.least else Limited(bounds.least, Limit.LEAST)
        return least if wanted < least.replicas else Limited(wanted)
    return Limited(wanted)


def _highest_by_rate(current: int, events: Sequence[ScaleEvent], behavior: JsonObject | None, now: float) -> int:
    if behavior is None:
        return max(2 * current, 4)
    rule = rules(behavior, "scaleUp")
    if rule["selectPolicy"] == "Disabled":
        return current
    limits: list[int] = [
        begin + policy["value"] if policy["type"] == "Pods" else math.ceil(begin * (1 + policy["value"] / 100))
        for policy, begin in _begins(current, rule, events, now)
    ]
    return max(current, min(limits) if rule["selectPolicy"] == "Min" else max(limits))


def _lowest_by_rate(current: int, events: Sequence[ScaleEvent], behavior: JsonObject | None, now: float) -> int:
    if behavior is None:
        return 0
    rule = rules(behavior, "scaleDown")
    if rule["selectPolicy"] == "Disabled":
        return current
    limits: list[int] = [
        begin - policy["value"] if policy["type"] == "Pods" else int(begin * (1 - policy["value"] / 100))
        for policy, begin in _begins(current, rule, events, now)
    ]
    return min(current, max(limits) if rule["selectPolicy"] == "Min" else min(limits))


def _begins(current: int, rule: JsonObject, events: Sequence[ScaleEvent], now: float) -> list[tuple[JsonObject, int]]:
    """Policies, and the number of replicas at the beginning of the period of each."""
    return [
        (policy, current - sum(one.change for one in events if one.at > now - policy["periodSeconds"]))
        for policy in rule["policies"]
    ]
