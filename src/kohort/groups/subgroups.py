"""Which subgroup a pod of a group belongs to.

| size | subGroupSize | type | subgroups |
|--:|--:|---|---|
| 4 | 2 | LeaderWorker | {0,1} {2,3} |
| 5 | 2 | LeaderWorker | {0,1,2} {3,4} |
| 5 | 2 | LeaderExcluded | leader in none; {1,2} {3,4} |
| 3 | 1 | LeaderWorker | {0} {1} {2} |
| 3 | 1 | LeaderExcluded | leader in none; worker 1 in 1, worker 2 in 2 |

When the workers alone fill whole subgroups, the leader is an extra member of the first one.
"""

from kohort.rules import group_labels


def subgroup_of(worker: int, *, size: int, subgroup_size: int, policy: str = group_labels.LEADER_WORKER) -> int | None:
    """The subgroup of a pod by its worker index; None for a leader that is in none."""
    if worker == 0:
        return None if policy == group_labels.LEADER_EXCLUDED else 0
    extra_leader = (size - 1) % subgroup_size == 0 and size % subgroup_size != 0
    return (worker - 1) // subgroup_size if extra_leader else worker // subgroup_size
