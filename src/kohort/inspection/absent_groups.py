"""Which groups of a set are looked at, of those that do not exist.

A set may want two billion groups, of which none exists. A user who may create sets in one namespace writes that number,
so nothing that is made for other users, such as a page of all sets, may cost as much as it says.
"""

from collections.abc import Collection
from typing import Final

import msgspec

MOST_ABSENT: Final = 1000
"""Groups that do not exist, of those that are shown or named; the others are only counted."""


class GroupWindow(msgspec.Struct, frozen=True):
    """The groups that a forecast plays through: all that exist, and as many absent ones as are shown. Absent groups
    above these are only counted, because each of them is like the last one in here.

    >>> window = GroupWindow.over({0, 4})
    >>> window.end, window.within(7), window.beyond(7), window.beyond(1_000_000)
    (1005, 7, 0, 998995)
    """

    end: int

    @staticmethod
    def over(existing: Collection[int]) -> "GroupWindow":
        return GroupWindow(max(existing, default=-1) + 1 + MOST_ABSENT)

    def within(self, count: int) -> int:
        """How many of so many groups are in the window."""
        return min(count, self.end)

    def beyond(self, count: int) -> int:
        return max(0, count - self.end)


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
