"""How the ReplicaSets of a Deployment are sized while a partition keeps some pods at the old version. Pure.

`partition` pods have the new version, the others the old one. Between here and there the limits of the Deployment's
rolling update hold, and every call makes as much progress as they allow:

* at most `replicas + surge` pods exist, and at least `replicas - unavailable` are available;
* new pods are added up to the partition, as far as there is room; there are not fewer than before, unless the partition
  is 0 or a percentage (`exact`), and then old ones stand in for them first;
* old pods are removed down to `replicas - partition`: first those that are not available, then as many as others can
  stand in for; never more than there are too many.

| replicas | surge, unavailable | partition | new (available) | old (available) | new | old |
|---------:|--------------------|----------:|----------------:|----------------:|----:|----:|
|        5 | 1, 0               |         2 |           0 (0) |           5 (5) |   1 |   5 |
|        5 | 1, 0               |         2 |           1 (1) |           5 (5) |   2 |   4 |
|        5 | 1, 0               |         2 |           2 (2) |           4 (4) |   2 |   3 |
|        5 | 0, 1               |         2 |           0 (0) |           5 (5) |   1 |   4 |
|        5 | 0, 1               |         2 |           1 (0) |           4 (4) |   1 |   4 |
|        5 | 1, 0               |         0 |           2 (2) |           3 (3) |   2 |   4 |
|        5 | 1, 0               |         0 |           2 (2) |           4 (4) |   1 |   5 |
|        5 | 1, 0               |         2 |           3 (3) |           2 (2) |   3 |   2 |
|        5 | any                |       any |           0 (0) |            none |   5 |   – |

What old pods leave is filled in the same call: a Deployment whose only active ReplicaSet is too small is filled up by
its own controller. A Deployment that is scaled keeps the proportion of its versions, at once, as Kubernetes does it
(`rules/proportional_scaling`).
"""

from collections.abc import Sequence

import msgspec

from kohort.rules.proportional_scaling import ScaledSet, proportional_sizes


class PartitionedSizes(msgspec.Struct, frozen=True):
    new: int
    old: tuple[int, ...]
    """In the order of the given ones."""


class SetSize(msgspec.Struct, frozen=True):
    """A ReplicaSet: how many pods it should have, and how many of them are available."""

    wanted: int
    available: int
    most_before: int | None = None
    """Of a ReplicaSet that has not followed its Deployment, which was scaled: how many pods that could have before."""


def next_sizes(
    replicas: int,
    partition: int,
    new: SetSize,
    old: Sequence[SetSize],
    *,
    surge: int,
    unavailable: int,
    exact: bool = False,
) -> PartitionedSizes:
    """`old` are the ReplicaSets of other versions; pods of the first ones go first, and the last one gets more."""
    if not any(one.wanted for one in old):
        return PartitionedSizes(replicas, tuple(0 for _ in old))
    partition = min(partition if exact or partition <= 0 else max(partition, new.wanted), replicas)
    if surge <= 0 and unavailable <= 0:
        # Neither more nor fewer would stop everything; Kubernetes takes one away then.
        unavailable = 1
    sizes = _old_sizes(replicas, replicas - partition, new, old, unavailable)
    room = max(0, replicas + surge - new.wanted - sum(sizes))
    if new.wanted <= partition:
        grown = min(partition, new.wanted + room)
    else:
        spare = new.available + sum(one.available for one in old) - (replicas - unavailable)
        grown = max(partition, new.available - max(0, spare))
    if sum(sizes) < replicas - partition:
        sizes = _refilled(sizes, replicas - partition, replicas + surge - grown)
    return PartitionedSizes(grown, tuple(sizes))


def scaled_sizes(
    replicas: int, surge: int, new: SetSize, old: Sequence[SetSize], wanted_new: int | None = None
) -> PartitionedSizes:
    """Of a Deployment that was scaled to `replicas`; `wanted_new` is what a percentage asks for. Otherwise every
    version keeps its share, as Kruise Rollouts does it; of fewer pods, those of old versions that are not available go
    first. ReplicaSets are written one after the other: those that are sized already (`most_before` is None) stay.

    >>> scaled_sizes(10, 3, SetSize(2, 2, most_before=7), [SetSize(3, 3, most_before=7)])
    PartitionedSizes(new=4, old=(6,))
    >>> scaled_sizes(10, 3, SetSize(2, 2, most_before=7), [SetSize(6, 3)])
    PartitionedSizes(new=4, old=(6,))
    """
    if not any(one.wanted for one in old):
        return PartitionedSizes(replicas if new.wanted else 0, tuple(0 for _ in old))
    if wanted_new is not None:
        target = max(0, min(wanted_new, replicas))
        return PartitionedSizes(target, tuple(_divided(replicas - target, [one.wanted for one in old])))
    change = replicas - new.wanted - sum(one.wanted for one in old)
    kept = _without_idle(old, -change)
    change += sum(one.wanted for one in old) - sum(kept)
    sizes = [new.wanted, *kept]
    unsized = [place for place, one in enumerate((new, *old)) if one.most_before is not None and sizes[place]]
    # The largest first. Of equal ones: pods of the new version are added first, and removed last.
    unsized.sort(key=lambda place: (-sizes[place], place if change > 0 else -place))
    most = replicas + surge if replicas else 0
    given = [ScaledSet(sizes[place], (new, *old)[place].most_before or 0) for place in unsized]
    for place, size in zip(unsized, proportional_sizes(most, change, given), strict=True):
        sizes[place] = size
    return PartitionedSizes(sizes[0], tuple(sizes[1:]))


def _without_idle(old: Sequence[SetSize], surplus: int) -> list[int]:
    sizes = []
    for one in old:
        idle = max(0, min(one.wanted - one.available, surplus))
        sizes.append(one.wanted - idle)
        surplus -= idle
    return sizes


def _divided(whole: int, shares: Sequence[int]) -> list[int]:
    """In proportion to `shares`."""
    left, sizes = sum(shares), []
    for share in shares:
        part = whole * share // left if left else 0
        sizes.append(part)
        whole, left = whole - part, left - share
    if sizes and whole:
        sizes[-1] += whole
    return sizes


def _old_sizes(replicas: int, wanted: int, new: SetSize, old: Sequence[SetSize], unavailable: int) -> list[int]:
    # Pods that are not available are no loss.
    sizes = _without_idle(old, sum(one.wanted for one in old) - wanted)
    surplus = sum(sizes) - wanted
    spare = new.available + sum(one.available for one in old) - (replicas - unavailable)
    for place, one in enumerate(old):
        gone = max(0, min(sizes[place], one.available, surplus, spare))
        sizes[place] -= gone
        surplus -= gone
        spare -= gone
    return sizes


def _refilled(sizes: list[int], wanted: int, limit: int) -> list[int]:
    """A partition that went back, or a Deployment that grew: the last of the old versions gets more pods."""
    missing = min(wanted, limit) - sum(sizes)
    if sizes and missing > 0:
        return [*sizes[:-1], sizes[-1] + missing]
    return sizes
