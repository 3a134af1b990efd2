"""How replicas move between the ReplicaSets of a Deployment.

Two limits hold at every moment of a rolling update: no more than `replicas + maxSurge` pods exist, and no fewer than
`replicas - maxUnavailable` are available. Replicas that are not available are removed first, because that lowers
no availability.
"""

from collections.abc import Sequence

import msgspec

from kohort.rules.proportional_scaling import ScaledSet, proportional_sizes
from kohort.rules.rolling_limits import RollLimits


class ReplicaSetFacts(msgspec.Struct, frozen=True):
    name: str
    replicas: int
    available: int = 0
    """Available pods that stay: those above `replicas` are about to go, also if the status still counts them."""
    pods: int = 0
    """Pods that exist, those that are terminating included."""
    created: str = ""
    """Creation time, for age order; RFC 3339 sorts as text."""
    scaled_for: int | None = None
    """`desired-replicas` annotation: the size of the Deployment when this set was last scaled."""
    scaled_to: int | None = None
    """`max-replicas` annotation: that size plus the surge of then."""


Sizes = dict[str, int]
"""New `spec.replicas` by ReplicaSet name; sets that keep their size are absent."""


def plan_rolling(replicas: int, limits: RollLimits, new: ReplicaSetFacts, old: Sequence[ReplicaSetFacts]) -> Sizes:
    """One step of a rolling update: grow the new set, or else shrink the old ones."""
    grown = _grow(replicas, limits, new, old)
    if grown != new.replicas:
        return {new.name: grown}
    return _shrink(replicas, limits, new, old)


def _grow(replicas: int, limits: RollLimits, new: ReplicaSetFacts, old: Sequence[ReplicaSetFacts]) -> int:
    if new.replicas >= replicas:
        return replicas
    total = new.replicas + sum(one.replicas for one in old)
    room = max(0, replicas + limits.surge - total)
    return min(new.replicas + room, replicas)


def _shrink(replicas: int, limits: RollLimits, new: ReplicaSetFacts, old: Sequence[ReplicaSetFacts]) -> Sizes:
    minimum = replicas - limits.unavailable
    total = new.replicas + sum(one.replicas for one in old)
    spare = total - minimum - (new.replicas - new.available)
    sizes = {one.name: one.replicas for one in old}
    if spare <= 0:
        return {}
    removed = 0
    by_age = sorted(old, key=lambda one: one.created)
    for one in by_age:
        broken = min(sizes[one.name] - min(one.available, sizes[one.name]), spare - removed)
        sizes[one.name] -= broken
        removed += broken
    available = new.available + sum(one.available for one in old)
    allowed = available - minimum
    for one in by_age:
        healthy = min(sizes[one.name], max(0, allowed))
        sizes[one.name] -= healthy
        allowed -= healthy
    return {one.name: sizes[one.name] for one in old if sizes[one.name] != one.replicas}


def plan_recreate(replicas: int, new: ReplicaSetFacts | None, old: Sequence[ReplicaSetFacts]) -> Sizes:
    """Scale all old sets to zero first; the caller creates the new set when no old pod exists any more."""
    shrinking = {one.name: 0 for one in old if one.replicas}
    if shrinking or any(one.pods for one in old):
        return shrinking
    return {new.name: replicas} if new is not None and new.replicas != replicas else {}


def plan_scaling(
    replicas: int,
    limits: RollLimits,
    sets: Sequence[ReplicaSetFacts],
    new: ReplicaSetFacts | None = None,
    *,
    rolling: bool = True,
    reported: int = 0,
) -> Sizes:
    """A changed `replicas` in the middle of a roll, or while paused: each set keeps its share.

    | sets that have replicas | what happens |
    |---|---|
    | none | the set of the current template takes the whole size, or else the newest |
    | one | it takes the whole size |
    | several, the new one complete | the others go |
    | several, in a rolling update | they grow or shrink in proportion; what rounding leaves goes to the largest |
    | several, otherwise | they stay |

    `reported` is the size in the status of the Deployment, for sets that do not say what they were scaled for.
    """
    active = [one for one in sets if one.replicas > 0]
    if len(active) <= 1:
        return _scale_single(replicas, sets, active, new)
    if new is not None and new.replicas == new.available == new.scaled_for == replicas:
        return {one.name: 0 for one in active if one.name != new.name}
    if not rolling:
        return {}
    allowed = replicas + limits.surge if replicas > 0 else 0
    change = allowed - sum(one.replicas for one in active)
    if change == 0:
        return {}
    by_age = sorted(active, key=lambda one: (one.created, one.name), reverse=change > 0)
    by_size = sorted(by_age, key=lambda one: -one.replicas)
    sizes = proportional_sizes(allowed, change, [ScaledSet(one.replicas, one.scaled_to or reported) for one in by_size])
    return {one.name: size for one, size in zip(by_size, sizes, strict=True) if size != one.replicas}


def _scale_single(
    replicas: int, sets: Sequence[ReplicaSetFacts], active: Sequence[ReplicaSetFacts], new: ReplicaSetFacts | None
) -> Sizes:
    newest = max(sets, key=lambda one: (one.created, one.name), default=None)
    target = active[0] if active else new or newest
    return {target.name: replicas} if target is not None and target.replicas != replicas else {}
