"""Resource names with exact amounts, and the few operations on them.

A name that is missing is not a name with amount zero: an absent limit means unlimited, an absent request means that
no amount was given. Every operation here keeps that difference.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from kohort.objects.quantity import ZERO, Quantity

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
HUGE_PAGES_PREFIX: Final = "hugepages-"

Amounts: TypeAlias = Mapping[str, Quantity]
Written: TypeAlias = Mapping[str, str | int | float]
"""Amounts as they stand in an object, still to be read."""


def amounts_of(written: Written | None) -> dict[str, Quantity]:
    return {name: Quantity.parse(value) for name, value in written.items()} if written else {}


def written_of(amounts: Amounts) -> dict[str, str]:
    """The form in which an object carries them."""
    return {name: str(amount) for name, amount in amounts.items()}


def supported_at_pod_level(name: str) -> bool:
    """Which names `spec.resources` of a pod may hold; all others belong to containers."""
    return name in (CPU, MEMORY) or name.startswith(HUGE_PAGES_PREFIX)


def added(left: Amounts, right: Amounts) -> dict[str, Quantity]:
    total = dict(left)
    for name, amount in right.items():
        known = total.get(name)
        total[name] = amount if known is None else known + amount
    return total


def summed(parts: Iterable[Amounts]) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for part in parts:
        total = added(total, part)
    return total


def largest(*views: Amounts) -> dict[str, Quantity]:
    """Name by name the greatest amount that any view holds.

    >>> largest({"cpu": Quantity.parse("1")}, {"cpu": Quantity.parse("2"), "memory": Quantity.parse("1Gi")})
    {'cpu': Quantity('2'), 'memory': Quantity('1Gi')}
    """
    greatest: dict[str, Quantity] = {}
    for view in views:
        for name, amount in view.items():
            known = greatest.get(name)
            if known is None or amount > known:
                greatest[name] = amount
    return greatest


def reduced(amounts: Amounts, by: Amounts) -> dict[str, Quantity]:
    """Amounts less what `by` holds, never below zero; names only in `by` do not appear."""
    return {name: max(amount - by.get(name, ZERO), ZERO) for name, amount in amounts.items()}
