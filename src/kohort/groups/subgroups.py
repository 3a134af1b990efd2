"""Which subgroup a pod of a group belongs to, and which groups can be divided.

| size | subGroupSize | type | subgroups |
|--:|--:|---|---|
| 4 | 2 | LeaderWorker | {0,1} {2,3} |
| 5 | 2 | LeaderWorker | {0,1,2} {3,4} |
| 5 | 2 | LeaderExcluded | leader in none; {1,2} {3,4} |
| 3 | 1 | LeaderWorker | {0} {1} {2} |
| 3 | 1 | LeaderExcluded | leader in none; worker 1 in 1, worker 2 in 2 |

When the workers alone fill whole subgroups and the group does not, the leader is an extra member of the first one.
`crd` says in CEL which groups can be divided; `validation` asks here.
"""

from typing import Final

from kohort.rules import group_labels

# Why a subGroupPolicy is refused, by the webhook and by the rules in the definition alike.
SIZE_MISSING: Final = "subGroupPolicy needs the number of pods in a subgroup"
SIZE_TOO_SMALL: Final = "subGroupSize must be equal or greater than 1"
SIZE_TOO_LARGE: Final = "subGroupSize cannot be larger than size"
NOT_DIVISIBLE: Final = "size or size - 1 must be divisible by subGroupSize"
WORKERS_NOT_DIVISIBLE: Final = "size-1 must be divisible by subGroupSize when using LeaderExcluded"
ADDED_LATER: Final = "cannot enable subGroupSize after the lws is already created"
REMOVED_LATER: Final = "cannot remove subGroupSize after enabled"


def subgroup_of(worker: int, *, size: int, subgroup_size: int, policy: str = group_labels.LEADER_WORKER) -> int | None:
    """The subgroup of a pod by its worker index; None for a leader that is in none."""
    if worker == 0:
        return None if excludes_leader(policy) else 0
    extra = leader_is_extra(size, subgroup_size)
    return (worker - 1) // subgroup_size if extra else worker // subgroup_size


def excludes_leader(policy: str | None) -> bool:
    """Whether the leader is in no subgroup."""
    return policy == group_labels.LEADER_EXCLUDED


def leader_is_extra(size: int, subgroup_size: int) -> bool:
    """Whether the workers alone fill whole subgroups, and all pods together do not."""
    return workers_divide_evenly(size, subgroup_size) and not group_divides_evenly(size, subgroup_size)


def group_divides_evenly(size: int, subgroup_size: int) -> bool:
    return size % subgroup_size == 0


def workers_divide_evenly(size: int, subgroup_size: int) -> bool:
    return (size - 1) % subgroup_size == 0
