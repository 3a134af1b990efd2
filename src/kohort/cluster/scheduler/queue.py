"""Pending pods, in one of three states, as in kube-scheduler.

| state         | pods                                   | leave it when                                               |
|---------------|----------------------------------------|-------------------------------------------------------------|
| active        | ready for a decision                   | it is their turn: higher priority, then earlier arrival     |
| backoff       | failed recently, a change may help     | the back-off is over (1 s doubling to 10 s), or none active |
| unschedulable | no node takes them at present          | a change may help, or after five minutes in any case        |

The arrival is when the pod was first queued, not its latest attempt: a pod that had to wait never falls behind younger
pods of the same priority, so no pod starves among equals. A pod whose last attempt failed for a reason outside the
cluster's state (a rejected write, a lost connection) always waits for the end of its back-off.

Time is an argument: the queue never reads a clock.
"""

import heapq
from collections.abc import Callable
from enum import Enum
from typing import Final

import msgspec

from kohort.cluster.scheduler.pod_and_node_info import PodInfo
from kohort.cluster.scheduler.rejection import FilterName

FIRST_BACKOFF: Final = 1.0
LONGEST_BACKOFF: Final = 10.0
LONGEST_UNSCHEDULABLE: Final = 300.0


class QueueState(Enum):
    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    IN_PROGRESS = "in progress"
    """Being decided or bound."""


class QueuedPod(msgspec.Struct):
    """A pod in the queue. `info` is replaced when the pod changes."""

    info: PodInfo
    arrived: float
    number: int
    state: QueueState = QueueState.IN_PROGRESS
    attempts: int = 0
    ready: float = 0.0
    """When its back-off is over."""
    unschedulable_since: float = 0.0
    rejected_by: frozenset[FilterName] = frozenset()
    must_back_off: bool = False
    reported: tuple[int, str] = (0, "")
    """Generation and message last written to the pod, so that it is written once."""


class SchedulingQueue:
    def __init__(self) -> None:
        self._waiting: dict[str, QueuedPod] = {}
        self._active: list[tuple[int, float, int, QueuedPod]] = []
        self._backoff: dict[str, QueuedPod] = {}
        self._unschedulable: dict[str, QueuedPod] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, uid: str) -> bool:
        return uid in self._waiting

    def get(self, uid: str) -> QueuedPod | None:
        return self._waiting.get(uid)

    def count(self, state: QueueState) -> int:
        return sum(entry.state is state for entry in self._waiting.values())

    def add(self, info: PodInfo, now: float) -> QueuedPod:
        """A pod that is queued for the first time."""
        self._number += 1
        entry = self._waiting[info.uid] = QueuedPod(info, now, self._number)
        self._activate(entry)
        return entry

    def update(self, info: PodInfo) -> None:
        """The pod has changed; its state stays as it is."""
        entry = self._waiting[info.uid]
        moved = entry.info.priority != info.priority
        entry.info = info
        if moved and entry.state is QueueState.ACTIVE:
            self._activate(entry)

    def remove(self, uid: str) -> None:
        entry = self._waiting.pop(uid, None)
        if entry is not None:
            self._enter(entry, QueueState.IN_PROGRESS)

    def pop(self, now: float) -> QueuedPod | None:
        """The next pod to decide about, None if no pod is ready."""
        self._activate_ready(now)
        entry = self._pop_active() or self._first_in_backoff()
        if entry is not None:
            self._enter(entry, QueueState.IN_PROGRESS)
            entry.attempts += 1
        return entry

    def mark_unschedulable(self, entry: QueuedPod, rejected_by: frozenset[FilterName], now: float) -> None:
        """No node takes the pod; `rejected_by` are the filters that rejected it."""
        if entry.info.uid not in self._waiting:
            return
        self._enter(entry, QueueState.UNSCHEDULABLE)
        entry.rejected_by = rejected_by
        entry.unschedulable_since = now
        entry.ready = now + backoff(entry.attempts)
        entry.must_back_off = False

    def retry(self, entry: QueuedPod, now: float) -> None:
        """The attempt failed for a reason that lies outside the cluster's state."""
        if entry.info.uid not in self._waiting:
            return
        self._enter(entry, QueueState.BACKOFF)
        entry.ready = now + backoff(entry.attempts)
        entry.must_back_off = True

    def requeue(self, may_help: Callable[[QueuedPod], bool], now: float) -> int:
        """Something changed: unschedulable pods that it may help get another attempt. Returns how many."""
        helped = [entry for entry in self._unschedulable.values() if may_help(entry)]
        for entry in helped:
            self._leave_unschedulable(entry, now)
        return len(helped)

    def requeue_overdue(self, now: float) -> int:
        return self.requeue(lambda entry: now - entry.unschedulable_since >= LONGEST_UNSCHEDULABLE, now)

    def next_time(self) -> float | None:
        """When the next pod becomes ready by time alone; None if only a change can bring work."""
        times = [entry.ready for entry in self._backoff.values()]
        times += [entry.unschedulable_since + LONGEST_UNSCHEDULABLE for entry in self._unschedulable.values()]
        return min(times, default=None)

    def _leave_unschedulable(self, entry: QueuedPod, now: float) -> None:
        if entry.ready <= now:
            self._activate(entry)
        else:
            self._enter(entry, QueueState.BACKOFF)

    def _activate(self, entry: QueuedPod) -> None:
        self._enter(entry, QueueState.ACTIVE)
        heapq.heappush(self._active, (-entry.info.priority, entry.arrived, entry.number, entry))

    def _activate_ready(self, now: float) -> None:
        for entry in [entry for entry in self._backoff.values() if entry.ready <= now]:
            self._activate(entry)

    def _pop_active(self) -> QueuedPod | None:
        while self._active:
            priority, _, _, entry = heapq.heappop(self._active)
            # An entry may be in the heap more than once, or with a priority that it no longer has.
            if entry.state is QueueState.ACTIVE and priority == -entry.info.priority:
                return entry
        return None

    def _first_in_backoff(self) -> QueuedPod | None:
        """With no active pod, pods in back-off are tried early."""
        early = (entry for entry in self._backoff.values() if not entry.must_back_off)
        return min(early, key=lambda entry: (-entry.info.priority, entry.arrived, entry.number), default=None)

    def _enter(self, entry: QueuedPod, state: QueueState) -> None:
        uid = entry.info.uid
        self._backoff.pop(uid, None)
        self._unschedulable.pop(uid, None)
        entry.state = state
        if state is QueueState.BACKOFF:
            self._backoff[uid] = entry
        elif state is QueueState.UNSCHEDULABLE:
            self._unschedulable[uid] = entry


def backoff(attempts: int) -> float:
    """Seconds between this many failed attempts and the next one.

    >>> [backoff(attempts) for attempts in range(1, 7)]
    [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    """
    return float(min(FIRST_BACKOFF * 2 ** min(max(attempts, 1) - 1, 10), LONGEST_BACKOFF))
