"""How much room an edit needs at its worst moment, on top of what the set has now.

Groups have the old template or the new one, and at every step so many of each stand beside each other: what a step
makes is there when what it replaces is gone. The demand is the largest sum over all steps, less that of today.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from kohort.groups.leaderworkerset import LeaderWorkerTemplate
from kohort.inspection.capacity_forecast import Move
from kohort.objects.core import Pod
from kohort.objects.quantity import ZERO, Quantity
from kohort.resources.effective import requests


class RollStep(Move, Protocol):
    @property
    def partition(self) -> int:
        """Groups that are made take the new template from here on."""
        ...

    @property
    def resized(self) -> Sequence[int]:
        """Groups that get what the new template asks for, in place."""
        ...


class Demand(msgspec.Struct, frozen=True):
    pods: int
    requests: Mapping[str, str]
    """Only what grows."""


def demand(
    steps: Sequence[RollStep], standing: int, old: LeaderWorkerTemplate | None, new: LeaderWorkerTemplate, more: int = 0
) -> Demand:
    """`standing` groups of the old template are there now; `more` new ones come that are in no step."""
    before = old if old is not None else new
    now, then = group_requests(before, 1), group_requests(new, 1)
    moments = set(_counts(steps, standing))
    pods = max((left * before.size + made * new.size for left, made in moments), default=0) - standing * before.size
    pods += more * new.size
    growth = {}
    for name in dict.fromkeys((*now, *then)):
        one, other = now.get(name, ZERO), then.get(name, ZERO)
        growth[name] = (
            max((one * left + other * made for left, made in moments), default=ZERO) - one * standing + other * more
        )
    return Demand(max(pods, 0), {name: str(amount) for name, amount in growth.items() if amount > ZERO})


def _counts(steps: Sequence[RollStep], standing: int) -> Iterator[tuple[int, int]]:
    """How many groups of the old and of the new template there are after each step."""
    new: dict[int, bool] = dict.fromkeys(range(standing), False)
    yield standing, 0
    for step in steps:
        for index in step.removed:
            new.pop(index, None)
        new |= dict.fromkeys((*step.recreated, *step.resized), True)
        new |= {index: index >= step.partition or not standing for index in step.created}
        made = sum(new.values())
        yield len(new) - made, made


def group_requests(template: LeaderWorkerTemplate, groups: int) -> dict[str, Quantity]:
    """What so many groups ask of the nodes."""
    total: dict[str, Quantity] = {}
    for pod_template, count in ((template.leader, groups), (template.worker, groups * (template.size - 1))):
        if not count:
            continue
        pod = msgspec.convert({"spec": pod_template.get("spec") or {}}, Pod)
        for name, amount in requests(pod).items():
            total[name] = total.get(name, ZERO) + amount * count
    return total
