"""How many failures of groups are dealt with at the same time.

A failure keeps a worker of the pod controller busy while its evidence is read, which may take two seconds, and all
groups of a set are recorded in one status. Without a limit, one set with hundreds of failing groups, or a rack that
dies, would keep the groups of all other namespaces from being completed. So failures of one namespace use two workers
at most, and all failures together leave some of the eight to other work. A failure that gets no slot is looked at again
a moment later.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

MOST_PER_NAMESPACE: Final = 2
MOST: Final = 5
WAIT: Final = 0.5
"""Seconds after which a failure without a slot is looked at again."""


class FailureSlots:
    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    @contextmanager
    def take(self, namespace: str) -> Iterator[bool]:
        """Whether there was a free slot; it is free again at the end of the block."""
        if self._taken[namespace] >= MOST_PER_NAMESPACE or self._taken.total() >= MOST:
            yield False
            return
        self._taken[namespace] += 1
        try:
            yield True
        finally:
            self._taken[namespace] -= 1
            if not self._taken[namespace]:
                del self._taken[namespace]
