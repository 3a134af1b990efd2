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
its own controller. A Deployment that is scaled keeps the proportion of its versions, at once, as Kubernetes does it.
"""

from collections.abc import Sequence

import msgspec


class PartitionedSizes(msgspec.Struct, frozen=True):
    new: int
    old: tuple[int, ...]
    """In the order of the given ones."""


class SetSize(msgspec.Struct, frozen=True):
    """A ReplicaSet: how many pods it should have, and how many of them are available."""

    wanted: int
    available: int


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
    replicas: int, new: int, old: Sequence[int], wanted_new: int | None = None, new_sized_for: int | None = None
) -> PartitionedSizes:
    """Of a Deployment that was scaled to `replicas`; `wanted_new` is what a percentage asks for. The ReplicaSets are
    written one after the other, so only the size of the Deployment that the new one was last sized for
    (`new_sized_for`) says which share it has.

    >>> scaled_sizes(10, 2, [3]), scaled_sizes(5, 4, [2, 4])
    (PartitionedSizes(new=4, old=(6,)), PartitionedSizes(new=2, old=(1, 2)))
    >>> scaled_sizes(10, 2, [6], new_sized_for=5), scaled_sizes(10, 4, [3], new_sized_for=10)
    (PartitionedSizes(new=4, old=(6,)), PartitionedSizes(new=4, old=(6,)))
    """
    if new + sum(old) == 0:
        return PartitionedSizes(0, tuple(old))
    before = new_sized_for or new + sum(old)
    share = wanted_new if wanted_new is not None else (2 * new * replicas + before) // (2 * before)
    target = max(0, min(share, replicas)) if any(old) else replicas
    rest, left = replicas - target, sum(old)
    sizes = []
    for size in old:
        part = rest * size // left if left else 0
        sizes.append(part)
        rest, left = rest - part, left - size
    if sizes and rest:
        sizes[-1] += rest
    return PartitionedSizes(target, tuple(sizes))


def _old_sizes(replicas: int, wanted: int, new: SetSize, old: Sequence[SetSize], unavailable: int) -> list[int]:
    sizes = [one.wanted for one in old]
    surplus = sum(sizes) - wanted
    spare = new.available + sum(one.available for one in old) - (replicas - unavailable)
    # Pods that are not available are no loss.
    for place, one in enumerate(old):
        idle = max(0, min(one.wanted - one.available, surplus))
        sizes[place] -= idle
        surplus -= idle
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
