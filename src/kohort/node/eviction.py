"""Whom to end when memory runs out, before the kernel chooses. Pure.

First those that use more than they asked for, then the lower priority, then whoever exceeds by most.
"""

from collections.abc import Iterable

import msgspec

from kohort.objects.pods import Pod
from kohort.resources import MEMORY, SPEC, requests

CRITICAL = 2_000_000_000


class Candidate(msgspec.Struct, frozen=True):
    pod: Pod
    """As allocated."""
    usage: int


def first_to_go(candidates: Iterable[Candidate]) -> Candidate | None:
    """None when only critical pods are left."""
    possible = [each for each in candidates if (each.pod.spec.priority or 0) < CRITICAL]
    return min(possible, key=_place, default=None)


def words(candidate: Candidate) -> str:
    asked = _asked(candidate.pod)
    return (
        f"The node was low on resource: memory. Pod was using {candidate.usage}, "
        f"request is {asked}, has larger consumption of memory."
    )


def _place(candidate: Candidate) -> tuple[bool, int, int, str]:
    excess = candidate.usage - _asked(candidate.pod)
    return excess <= 0, candidate.pod.spec.priority or 0, -excess, candidate.pod.metadata.uid


def _asked(pod: Pod) -> int:
    amount = requests(pod, SPEC).get(MEMORY)
    return amount.value if amount is not None else 0
