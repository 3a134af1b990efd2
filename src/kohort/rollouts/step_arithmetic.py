"""Counting in steps: how many replicas a step means, and which step comes next."""

import itertools
from collections.abc import Sequence
from typing import Final

from kohort.kube.resources import DEPLOYMENTS
from kohort.objects import int_or_string
from kohort.rules import rollout_labels

NO_STEP: Final = -1
GroupKind = tuple[str, str]
"""API group and kind of a workload."""


def planned(wanted: int | str, replicas: int, workload: GroupKind, style: str) -> int:
    """How many of `replicas` (pods, or groups of a LeaderWorkerSet) have the new version at a step that wants so many.
    Percentages round up, and nothing exceeds the whole.

    | both versions live in | "95%" of 10 | "100%" of 10 | 10 of 10 |
    |-----------------------|------------:|-------------:|---------:|
    | one Deployment        |           9 |           10 |       10 |
    | one StatefulSet       |          10 |           10 |       10 |
    | two workloads         |          10 |           10 |       10 |

    In one Deployment only a literal "100%" may ask for all, since a surge of a hundred percent would otherwise begin to
    replace old pods.

    >>> [planned("20%", total, ("apps", "Deployment"), "Canary") for total in (1, 2, 3, 4, 8)]
    [1, 1, 1, 1, 2]
    >>> [planned(wanted, 2, ("apps", "Deployment"), "BlueGreen") for wanted in ("90%", "100%", 2)]
    [1, 2, 2]
    """
    count = max(0, min(int_or_string.resolve(wanted, replicas, round_up=True), replicas))
    leaves_one = isinstance(wanted, str) and wanted != "100%" and replicas > 1
    return min(count, replicas - 1) if leaves_one and share_deployment(workload, style) else count


def share_deployment(workload: GroupKind, style: str) -> bool:
    """Whether pods of both versions live in one Deployment."""
    return workload == DEPLOYMENTS.group_kind and style in (rollout_labels.BLUE_GREEN, rollout_labels.PARTITION)


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
