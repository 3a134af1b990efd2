"""Which pods of a Deployment in partition style leave next, and how far its ReplicaSets may shrink meanwhile. Pure.

A ReplicaSet chooses itself which pods it deletes: those that are not ready, then those of the lowest deletion cost. So
the pods that shall go are chosen first, get the lowest cost and are drained, and then the ReplicaSet is made smaller by
as many. That is a round, and the Deployment has a record of it:

| pods that are too many | round of the record | the round is |
|---|---|---|
| none | any | over: pods that are left get requests again |
| some | some of its pods are left | those of its pods that are still too many; others wait for the next round |
| some | none, or its pods are gone | new: pods that are not ready; without any, the newest ones |

Pods that are not ready serve no requests, so they do not wait for others to be drained. A round does not grow: pods
that join would let all others wait again.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from kohort.objects.core import Pod
from kohort.objects.recorded_json import read_recorded
from kohort.objects.well_known_names import DELETION_COST
from kohort.rollouts.workloads.partition_sizes import PartitionedSizes, SetSize
from kohort.rules.rollout_labels import DRAINING_PODS, FORMER_DELETION_COST

LOWEST_COST: Final = "-2147483647"


class DrainingRound(msgspec.Struct, frozen=True):
    """The annotation of a Deployment."""

    pods: dict[str, str] = {}
    """Names by uid."""


def round_of(annotations: Mapping[str, str]) -> DrainingRound | None:
    return read_recorded(annotations.get(DRAINING_PODS, ""), DrainingRound)


class SetPods(msgspec.Struct, frozen=True):
    """A ReplicaSet: how many pods it should have now and next, and those that live."""

    wanted: int
    target: int
    pods: tuple[Pod, ...] = ()

    @property
    def surplus(self) -> int:
        return max(0, len(self.pods) - self.target)

    def least_size(self, drained: int) -> int:
        """How small it may be, so that only drained pods are deleted."""
        return max(self.target, min(self.wanted, len(self.pods) - drained))


Leaving = tuple[tuple[Pod, ...], ...]
"""Of each ReplicaSet."""


def next_round(sets: Sequence[SetPods], begun: Collection[str]) -> Leaving:
    """`begun` are uids of pods that were chosen before."""
    goes_on = tuple(_first(one, [pod for pod in one.pods if pod.metadata.uid in begun]) for one in sets)
    if any(goes_on):
        return goes_on
    not_ready = tuple(_first(one, [pod for pod in one.pods if not pod.ready]) for one in sets)
    return not_ready if any(not_ready) else tuple(_first(one, one.pods) for one in sets)


def _first(one: SetPods, pods: Sequence[Pod]) -> tuple[Pod, ...]:
    """The newest ones, as far as they are too many."""
    ordered = sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name), reverse=True)
    return tuple(ordered[: one.surplus])


def is_scaled(sets: Sequence[SetPods], leaving: Leaving) -> bool:
    """The ReplicaSets are small enough already, and about to delete these pods."""
    return all(one.wanted <= len(one.pods) - len(gone) for one, gone in zip(sets, leaving, strict=True) if gone)


def bounded_sizes(
    sizes: PartitionedSizes, new: SetSize, old: Sequence[SetSize], least: Sequence[int], limit: int
) -> PartitionedSizes:
    """`sizes`, but none below `least` (the new version first), and no more pods in all than `limit`, or than now.

    >>> bounded_sizes(PartitionedSizes(2, (4,)), SetSize(1, 1), [SetSize(5, 5)], [0, 5], 6)
    PartitionedSizes(new=1, old=(5,))
    """
    wanted = (sizes.new, *sizes.old)
    bounded = [max(size, at_least) for size, at_least in zip(wanted, least, strict=True)]
    if tuple(bounded) == wanted:
        return sizes
    present = [new.wanted, *(one.wanted for one in old)]
    over = sum(bounded) - max(limit, sum(present))
    for place in (0, *reversed(range(1, len(bounded)))):
        cut = min(max(0, over), max(0, bounded[place] - present[place]))
        bounded[place] -= cut
        over -= cut
    return PartitionedSizes(bounded[0], tuple(bounded[1:]))


def cost_patches(pods: Sequence[Pod], leaving: Collection[str]) -> dict[str, dict[str, str | None]]:
    """Annotations by name of the pod: those that leave are deleted first, others have their own cost again."""
    found: dict[str, dict[str, str | None]] = {}
    for pod in pods:
        annotations = pod.metadata.annotations
        marked = FORMER_DELETION_COST in annotations
        if pod.metadata.uid in leaving and not marked:
            found[pod.metadata.name] = {
                DELETION_COST: LOWEST_COST,
                FORMER_DELETION_COST: annotations.get(DELETION_COST, ""),
            }
        elif marked and pod.metadata.uid not in leaving:
            former = annotations[FORMER_DELETION_COST] or None
            found[pod.metadata.name] = {DELETION_COST: former, FORMER_DELETION_COST: None}
    return found
