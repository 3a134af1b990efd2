"""How fast an autoscaler may change the number of replicas: `spec.behavior`, with the defaults of Kubernetes.

| | scaleUp | scaleDown |
|---|---|---|
| stabilizationWindowSeconds | 0 | 300 |
| policies | 4 pods or 100% per 15 s | 100% per 15 s |
| selectPolicy | Max | Max |

Stabilization first: of what was wanted within the window, the lowest for scaling up and the highest for scaling down.
Then the policies: how many replicas more or fewer there may be than at the beginning of each period.
"""

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from kohort.objects.json_types import JsonObject

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
LONGEST_WINDOW: Final = 3600.0


class Recommendation(msgspec.Struct, frozen=True):
    at: float
    replicas: int


class ScaleEvent(msgspec.Struct, frozen=True):
    at: float
    change: int
    """Replicas more, or fewer if negative."""


class Limited(msgspec.Struct, frozen=True):
    replicas: int
    reason: str = ""
    """Of the condition ScalingLimited; empty if nothing limited it."""


def rules(behavior: JsonObject | None, direction: str) -> JsonObject:
    """`scaleUp` or `scaleDown` of a spec, with defaults."""
    given = {key: value for key, value in ((behavior or {}).get(direction) or {}).items() if value is not None}
    return {**(_UP if direction == "scaleUp" else _DOWN), **given}


def stabilized(
    current: int, wanted: int, history: Sequence[Recommendation], behavior: JsonObject | None, now: float
) -> int:
    """What is wanted, held back by what was wanted a while ago. `history` has earlier recommendations."""
    up, down = rules(behavior, "scaleUp"), rules(behavior, "scaleDown")

    def within(seconds: float) -> list[int]:
        return [one.replicas for one in history if one.at > now - seconds]

    lowest = min([wanted, *within(up["stabilizationWindowSeconds"])])
    highest = max([wanted, *within(down["stabilizationWindowSeconds"])])
    return min(max(current, lowest), highest)


def limited_by_policies(
    current: int, wanted: int, events: Sequence[ScaleEvent], behavior: JsonObject | None, now: float
) -> Limited:
    if wanted > current:
        limit = _limit(current, rules(behavior, "scaleUp"), events, now, up=True)
        return Limited(limit, "ScaleUpLimit") if wanted > limit else Limited(wanted)
    if wanted < current:
        limit = _limit(current, rules(behavior, "scaleDown"), events, now, up=False)
        return Limited(limit, "ScaleDownLimit") if wanted < limit else Limited(wanted)
    return Limited(wanted)


def _limit(current: int, rule: JsonObject, events: Sequence[ScaleEvent], now: float, *, up: bool) -> int:
    if rule["selectPolicy"] == "Disabled":
        return current
    limits: list[int] = []
    for policy in rule["policies"]:
        begin = current - sum(one.change for one in events if one.at > now - policy["periodSeconds"])
        if policy["type"] == "Pods":
            limits.append(begin + (policy["value"] if up else -policy["value"]))
        elif up:
            limits.append(math.ceil(begin * (1 + policy["value"] / 100)))
        else:
            limits.append(int(begin * (1 - policy["value"] / 100)))
    widest = (max if up else min) if rule["selectPolicy"] == "Max" else (min if up else max)
    limit = widest(limits)
    return max(limit, current) if up else min(limit, current)
