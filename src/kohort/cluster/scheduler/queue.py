"""Pods that wait for a node, in three rooms.

| room    | who                                       | leaves when                                                   |
|---------|-------------------------------------------|---------------------------------------------------------------|
| active  | ready for a decision                      | its turn comes: higher priority first, then who came first    |
| cooling | failed lately, something may have changed | its pause is over (1 s doubling to 10 s), or nobody is active |
| parked  | fits nowhere as things are                | a change may help, or after five minutes in any case          |

"Who came first" is when the pod first asked, not its latest attempt: a pod that had to wait never loses its place to
younger ones of the same priority, so nobody starves among equals. A pod whose last attempt failed for a reason
outside the cluster's state (a refused write, a lost connection) always sits out its pause.

Time is an argument: the queue never looks at a clock.
"""

import heapq
from collections.abc import Callable
from enum import Enum
from typing import Final

import msgspec

from kohort.cluster.scheduler.pod_and_node_info import PodFacts

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 10.0
LONGEST_PARKING: Final = 300.0


class Room(Enum):
    ACTIVE = "active"
    COOLING = "backoff"
    PARKED = "unschedulable"
    OUT = "out"
    """Being decided or bound."""


class Waiting(msgspec.Struct):
    """A pod in the queue. `facts` follow the pod as it changes."""

    facts: PodFacts
    asked: float
    number: int
    room: Room = Room.OUT
    attempts: int = 0
    ready: float = 0.0
    """When its pause is over."""
    parked: float = 0.0
    refused_by: frozenset[str] = frozenset()
    must_pause: bool = False
    reported: tuple[int, str] = (0, "")
    """Generation and message last written to the pod, so that it is written once."""


class SchedulingQueue:
    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._active: list[tuple[int, float, int, Waiting]] = []
        self._cooling: dict[str, Waiting] = {}
        self._parked: dict[str, Waiting] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, uid: str) -> bool:
        return uid in self._waiting

    def get(self, uid: str) -> Waiting | None:
        return self._waiting.get(uid)

    def count(self, room: Room) -> int:
        return sum(entry.room is room for entry in self._waiting.values())

    def add(self, facts: PodFacts, now: float) -> Waiting:
        """A pod that asks for a node for the first time."""
        self._number += 1
        entry = self._waiting[facts.uid] = Waiting(facts, now, self._number)
        self._activate(entry)
        return entry

    def update(self, facts: PodFacts) -> None:
        """The pod has changed, in whatever room it is."""
        entry = self._waiting[facts.uid]
        moved = entry.facts.priority != facts.priority
        entry.facts = facts
        if moved and entry.room is Room.ACTIVE:
            self._activate(entry)

    def remove(self, uid: str) -> None:
        entry = self._waiting.pop(uid, None)
        if entry is not None:
            self._enter(entry, Room.OUT)

    def pop(self, now: float) -> Waiting | None:
        """The next pod to decide about, None if nobody is ready."""
        self._warm_up(now)
        entry = self._pop_active() or self._most_important_cooling()
        if entry is not None:
            self._enter(entry, Room.OUT)
            entry.attempts += 1
        return entry

    def park(self, entry: Waiting, refused_by: frozenset[str], now: float) -> None:
        """It fits nowhere; `refused_by` are the filters that said so."""
        if entry.facts.uid not in self._waiting:
            return
        self._enter(entry, Room.PARKED)
        entry.refused_by = refused_by
        entry.parked = now
        entry.ready = now + pause(entry.attempts)
        entry.must_pause = False

    def retry(self, entry: Waiting, now: float) -> None:
        """The attempt failed for no fault of the pod."""
        if entry.facts.uid not in self._waiting:
            return
        self._enter(entry, Room.COOLING)
        entry.ready = now + pause(entry.attempts)
        entry.must_pause = True

    def wake(self, may_help: Callable[[Waiting], bool], now: float) -> int:
        """Something changed: parked pods that it may help get another try. Returns how many."""
        woken = [entry for entry in self._parked.values() if may_help(entry)]
        for entry in woken:
            self._leave_parking(entry, now)
        return len(woken)

    def wake_overdue(self, now: float) -> int:
        return self.wake(lambda entry: now - entry.parked >= LONGEST_PARKING, now)

    def next_time(self) -> float | None:
        """When somebody's pause or parking is over; None if only a change can bring work."""
        times = [entry.ready for entry in self._cooling.values()]
        times += [entry.parked + LONGEST_PARKING for entry in self._parked.values()]
        return min(times, default=None)

    def _leave_parking(self, entry: Waiting, now: float) -> None:
        if entry.ready <= now:
            self._activate(entry)
        else:
            self._enter(entry, Room.COOLING)

    def _activate(self, entry: Waiting) -> None:
        self._enter(entry, Room.ACTIVE)
        heapq.heappush(self._active, (-entry.facts.priority, entry.asked, entry.number, entry))

    def _warm_up(self, now: float) -> None:
        for entry in [entry for entry in self._cooling.values() if entry.ready <= now]:
            self._activate(entry)

    def _pop_active(self) -> Waiting | None:
        while self._active:
            priority, _, _, entry = heapq.heappop(self._active)
            # An entry may lie in the heap more than once, or under a priority that it no longer has.
            if entry.room is Room.ACTIVE and priority == -entry.facts.priority:
                return entry
        return None

    def _most_important_cooling(self) -> Waiting | None:
        """With nothing else to do there is no point in letting a pod sit out its pause."""
        cooling = (entry for entry in self._cooling.values() if not entry.must_pause)
        return min(cooling, key=lambda entry: (-entry.facts.priority, entry.asked, entry.number), default=None)

    def _enter(self, entry: Waiting, room: Room) -> None:
        uid = entry.facts.uid
        self._cooling.pop(uid, None)
        self._parked.pop(uid, None)
        entry.room = room
        if room is Room.COOLING:
            self._cooling[uid] = entry
        elif room is Room.PARKED:
            self._parked[uid] = entry


def pause(attempts: int) -> float:
    """How long a pod rests after this many attempts.

    >>> [pause(attempts) for attempts in range(1, 7)]
    [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    """
    return float(min(FIRST_PAUSE * 2 ** min(max(attempts, 1) - 1, 10), LONGEST_PAUSE))
