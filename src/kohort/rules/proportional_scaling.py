"""How ReplicaSets of several versions share a change in the size of their Deployment. Pure.

Each keeps its share of the pods: its size, times the most pods that the Deployment may have now, divided by the most
that it could have when the ReplicaSet was last sized (`max-replicas`: replicas and surge). Halves are rounded up. The
largest one comes first, so that what rounding adds does not reach the smaller ones, and it takes what rounding leaves:

| replicas, surge | sizes | scaled to, with surge | sizes |
|-----------------|-------|-----------------------|-------|
| 5, 2            | 3, 2  | 10, 3                 | 6, 4  |
| 4, 1            | 3, 1  | 6, 2                  | 5, 1  |
| 4, 1            | 3, 1  | 8, 2                  | 6, 2  |
| 10, 3           | 6, 4  | 5, 2                  | 3, 2  |
"""

from collections.abc import Sequence

import msgspec


class ScaledSet(msgspec.Struct, frozen=True):
    replicas: int
    most_before: int
    """Pods that the Deployment could have when this size was chosen."""


def proportional_sizes(most: int, change: int, by_size: Sequence[ScaledSet]) -> list[int]:
    """The sizes, in the order of the given ones, of which the largest comes first. `change` is how many pods are added
    or removed in all, and `most` how many the Deployment may have now."""
    sizes: list[int] = []
    left = change
    for one in by_size:
        share = _share(most, left, one)
        sizes.append(one.replicas + share)
        left -= share
    for place, size in enumerate(sizes):
        sizes[place] = max(0, size + left)
        left -= sizes[place] - size
    return sizes


def _share(most: int, left: int, one: ScaledSet) -> int:
    if most == 0:
        share = -one.replicas
    else:
        before = one.most_before
        share = (2 * one.replicas * most + before) // (2 * before) - one.replicas if before else 0
    return min(share, left) if left > 0 else max(share, left) if left < 0 else 0
