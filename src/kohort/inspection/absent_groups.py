"""Which groups of a set are looked at, of those that do not exist.

A set may want two billion groups, of which none exists. A user who may create sets in one namespace writes that number,
so nothing that is made for other users, such as a page of all sets, may cost as much as it says.
"""

from collections.abc import Collection
from typing import Final

MOST_ABSENT: Final = 1000
"""Groups that do not exist, of those that are shown or named; the others are only counted."""


def looked_at(existing: Collection[int], wanted: int) -> tuple[list[int], int]:
    """The indexes of existing groups and of the first absent ones, and how many absent ones are left out.

    >>> looked_at({1, 7}, 3)
    ([0, 1, 2, 7], 0)
    >>> indexes, left = looked_at({5000}, 2**31 - 1)
    >>> (indexes[:2], indexes[-2:], left)
    ([0, 1], [999, 5000], 2147482646)
    """
    there = set(existing)
    absent: list[int] = []
    for index in range(wanted):
        if len(absent) == MOST_ABSENT:
            break
        if index not in there:
            absent.append(index)
    left = wanted - sum(index < wanted for index in there) - len(absent)
    return sorted([*there, *absent]), left
