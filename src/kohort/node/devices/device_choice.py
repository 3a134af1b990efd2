"""Which devices a container gets, of those that are free.

| reusable | free, by NUMA node | asked for | chosen | because                                             |
|----------|--------------------|----------:|--------|-----------------------------------------------------|
| a        | 0: b c             |         1 | a      | an init container of the pod has had it             |
| -        | 0: a b, 1: c d e   |         2 | a b    | the smallest node that has enough                   |
| -        | 0: a b, 1: c d e   |         3 | c d e  | the only node that has enough                       |
| -        | 0: a b, 1: c d     |         3 | a b c  | no node has enough                                  |
"""

import re
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from kohort.node.devices.messages import Device
from kohort.objects.pods import Container, PodSpec
from kohort.objects.quantity import Quantity
from kohort.rules.extended_resources import is_extended

_NO_NODE: Final = -1


class ContainerNeed(msgspec.Struct, frozen=True):
    """How many devices of each kind a container must get."""

    container: str
    amounts: dict[str, int]
    passes_on: bool
    """It ends before the next container starts, which may have its devices then."""


class TooFew(msgspec.Struct, frozen=True):
    """There are not enough devices."""

    resource: str
    wanted: int
    available: int


def needs_of(spec: PodSpec) -> list[ContainerNeed]:
    """In the order in which containers start. Limits count: requests of such resources equal them."""
    found = [_need(each, passes_on=not each.sidecar) for each in spec.init_containers]
    found += [_need(each, passes_on=False) for each in spec.main_containers]
    return [each for each in found if each.amounts]


def _need(container: Container, *, passes_on: bool) -> ContainerNeed:
    limits = {name: Quantity.parse(amount).value for name, amount in container.resources.limits.items()}
    amounts = {name: amount for name, amount in limits.items() if is_extended(name) and amount > 0}
    return ContainerNeed(container.name, amounts, passes_on)


def choose(resource: str, wanted: int, free: Iterable[Device], reusable: Collection[str]) -> tuple[str, ...] | TooFew:
    """`free` are healthy devices that no pod has, and `reusable` those that this pod has and can use again."""
    kept = sorted(reusable, key=natural)[:wanted]
    others = [each for each in free if each.id not in reusable]
    missing = wanted - len(kept)
    if missing > len(others):
        return TooFew(resource, wanted, len(reusable) + len(others))
    return (*kept, *_near(others, missing))


def is_valid(choice: Collection[str], wanted: int, available: Collection[str], must_include: Collection[str]) -> bool:
    """Whether a plugin's preference is an answer to what it was asked."""
    chosen = set(choice)
    return len(choice) == len(chosen) == wanted and chosen <= set(available) and set(must_include) <= chosen


def natural(id: str) -> tuple[tuple[bool, int, str], ...]:
    """gpu-2 before gpu-10."""
    return tuple((not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", id))


def _near(devices: list[Device], wanted: int) -> list[str]:
    """From one NUMA node if one has enough: the one with the fewest, so that larger ones stay whole."""
    ordered = sorted(devices, key=lambda each: natural(each.id))
    nodes: dict[int, list[str]] = {}
    for device in ordered:
        nodes.setdefault(min(device.numa_nodes, default=_NO_NODE), []).append(device.id)
    enough = [(len(ids), node, ids) for node, ids in nodes.items() if len(ids) >= wanted]
    if enough:
        return min(enough)[2][:wanted]
    whole = sorted(nodes.items(), key=lambda item: (-len(item[1]), item[0]))
    return [id for _, ids in whole for id in ids][:wanted]
