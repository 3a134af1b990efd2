"""Which batch brought a replica.

Labels that are there stay; the rest is filled from the newest batch down, so that replicas which a scale-up added to an
older batch do not take the place of those that the newest batch just brought.
"""

from collections import Counter
from collections.abc import Mapping, Sequence


def assign(known: Mapping[str, int | None], planned: Sequence[int]) -> dict[str, int]:
    """The batch (from 1) of every replica that has none yet. `known` maps replicas, in order, to their batch; `planned`
    is how many replicas of the new version there are after each batch so far."""
    wanted = {
        number: count - (planned[number - 2] if number > 1 else 0) for number, count in enumerate(planned, start=1)
    }
    taken = Counter(batch for batch in known.values() if batch in wanted)
    free = [replica for replica, batch in known.items() if batch not in wanted]
    result: dict[str, int] = {}
    for number in sorted(wanted, reverse=True):
        for _ in range(wanted[number] - taken[number]):
            if not free:
                return result
            result[free.pop()] = number
    return result
