"""The recent changes of one bucket, kept so that watches resume and lists can be read as they were.

The window is one list shared by all readers; a reader is a position in it. So a change costs the same whether one or a
thousand readers follow, a slow reader costs nothing while it lags, and it learns that it fell behind by seeing its
position cut off: it cannot miss a change without noticing.

Kept are all changes younger than `KEEP_SECONDS` and the newest `KEEP_CHANGES` however old, as long as they fit into
`KEEP_BYTES`. Client-go resumes a watch within seconds, a paged list within minutes.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence

from kohort.cluster.apiserver.storage.model import Change, HistoryExpired

KEEP_SECONDS = 300.0
KEEP_CHANGES = 4096
KEEP_BYTES = 32 << 20
TRIM_EVERY = 256
"""Cutting the head of a list moves its tail, so surplus is cut after this many changes, not after each."""


def _revision(change: Change) -> int:
    return change.after.revision


class ChangeWindow:
    __slots__ = (
        "_ages",
        "_bytes",
        "_changes",
        "_keep_bytes",
        "_keep_changes",
        "_keep_seconds",
        "_untrimmed",
        "first",
        "floor",
    )

    def __init__(
        self,
        floor: int,
        *,
        keep_seconds: float = KEEP_SECONDS,
        keep_changes: int = KEEP_CHANGES,
        keep_bytes: int = KEEP_BYTES,
    ) -> None:
        self._changes: list[Change] = []
        self._ages: deque[tuple[float, int]] = deque()
        """When changes arrived: (time, position after the last one of that moment)."""
        self._bytes = 0
        self._untrimmed = 0
        self._keep_seconds = keep_seconds
        self._keep_changes = keep_changes
        self._keep_bytes = keep_bytes
        self.first = 0
        """Position of the oldest change kept. Positions count all changes since the start and never move."""
        self.floor = floor
        """Every change after this revision is here."""

    @property
    def end(self) -> int:
        return self.first + len(self._changes)

    def append(self, changes: Sequence[Change], time: float) -> None:
        self._changes.extend(changes)
        self._bytes += sum(len(change.after.raw) for change in changes)
        if self._ages and self._ages[-1][0] == time:
            self._ages.pop()
        self._ages.append((time, self.end))
        self._untrimmed += len(changes)
        if self._untrimmed >= TRIM_EVERY or self._bytes > self._keep_bytes * 5 // 4:
            self._untrimmed = 0
            self._cut(self._surplus(time))

    def position_after(self, revision: int) -> int:
        """Where a reader that has seen everything up to `revision` goes on."""
        if revision < self.floor:
            raise HistoryExpired(self.floor)
        return self.first + bisect_right(self._changes, revision, key=_revision)

    def read(self, position: int, limit: int) -> Sequence[Change]:
        start = position - self.first
        return self._changes[start : start + limit]

    def back_to(self, revision: int) -> Iterable[Change]:
        """The changes after `revision`, newest first: what must be undone to see the past."""
        start = self.position_after(revision) - self.first
        return reversed(self._changes[start:])

    def _surplus(self, time: float) -> int:
        """How many of the oldest changes may or must go."""
        excess_bytes = self._bytes - self._keep_bytes
        heavy = 0
        while excess_bytes > 0 and heavy < len(self._changes) - 1:
            excess_bytes -= len(self._changes[heavy].after.raw)
            heavy += 1
        aged = 0
        for arrived, end in self._ages:
            if time - arrived <= self._keep_seconds:
                break
            aged = end - self.first
        return max(heavy, min(aged, len(self._changes) - self._keep_changes))

    def _cut(self, count: int) -> None:
        if count <= 0:
            return
        gone = self._changes[:count]
        del self._changes[:count]
        self.first += count
        self.floor = gone[-1].after.revision
        self._bytes -= sum(len(change.after.raw) for change in gone)
        while self._ages and self._ages[0][1] <= self.first:
            self._ages.popleft()
