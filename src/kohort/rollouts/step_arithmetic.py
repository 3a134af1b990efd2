"""Counting in steps: how many replicas a step means, and which step comes next."""

import itertools
from collections.abc import Sequence
from typing import Final

from kohort.objects import int_or_string

NO_STEP: Final = -1


def planned(wanted: int | str, replicas: int) -> int:
    """How many of `replicas` are of the new version at a step: percentages round up, nothing exceeds the whole.

    >>> [planned("20%", total) for total in (1, 2, 3, 4, 8)]
    [1, 1, 1, 1, 2]
    """
    return max(0, min(int_or_string.resolve(wanted, replicas, round_up=True), replicas))


def planned_in_place(wanted: int | str, replicas: int) -> int:
    """The same where both versions live in one Deployment: only a literal "100%" may ask for all, since a surge of a
    hundred percent would otherwise begin to replace old pods.

    >>> planned_in_place("90%", 2), planned_in_place("100%", 2), planned_in_place(2, 2), planned_in_place("50%", 1)
    (1, 2, 2, 1)
    """
    count = planned(wanted, replicas)
    capped = replicas > 1 and isinstance(wanted, str) and wanted != "100%"
    return min(count, replicas - 1) if capped else count


def partition_for(planned: int, replicas: int, held: int) -> int:
    """The partition at which `planned` of `replicas` have the new version; `held` is the one at which none has.

    >>> partition_for(1, 5, held=99), partition_for(5, 5, held=99), partition_for(0, 5, held=99)
    (4, 0, 99)
    """
    return max(0, replicas - planned) if planned > 0 else held


def next_index(index: int, steps: int) -> int:
    """The step after this one (both count from 1), or NO_STEP."""
    return index + 1 if index < steps else NO_STEP


def allowed_failures(threshold: int | str | None, updated: int) -> int:
    """How many updated replicas may be unready; a percentage is one of those updated."""
    return 0 if threshold is None else int_or_string.resolve(threshold, updated, round_up=True)


def same_targets(counts: Sequence[int]) -> list[tuple[int, int, int]]:
    """Neighbouring steps (from 1) that come to the same number of replicas, and that number."""
    pairs = itertools.pairwise(counts)
    return [(index, index + 1, count) for index, (count, after) in enumerate(pairs, start=1) if count == after]
