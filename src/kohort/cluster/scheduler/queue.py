"""Pending pods, in one of three states, as in kube-scheduler.

| state         | pods                                   | leave it when                                               |
|---------------|----------------------------------------|-------------------------------------------------------------|
| active        | ready for a decision                   | it is their turn                                            |
| backoff       | failed recently, a change may help     | the back-off is over (1 s doubling to 10 s), or none active |
| unschedulable | no node takes them at present          | a change may help, or after five minutes in any case        |

Whose turn it is: higher priority first; among pods of one priority the namespaces take turns, one pod each; within a
namespace the earliest arrival first. kube-scheduler has one line for all namespaces of a priority: thousands of pods
that no node takes, all of which are tried again with every pod that leaves its node, then stand before each new pod
of every other namespace.

The arrival is when the pod was first queued, not its latest attempt: a pod that had to wait never falls behind younger
pods of its namespace and priority, so no pod starves among equals. A pod whose last attempt failed for a reason outside
the cluster's state (a rejected write, a lost connection) always waits for the end of its back-off.

No operation but `requeue` looks at all pods of a state. Time is an argument: the queue never reads a clock.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable
from enum import Enum
from itertools import islice, takewhile
from typing import Final

import msgspec

from kohort.rules.scheduling.pod_and_node_info import PodInfo
from kohort.rules.scheduling.rejection import FilterName

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


class NamespaceTurns:
    """Pods in the order in which they are taken: see the rule at the head of the module."""

    def __init__(self) -> None:
        self._lines: dict[int, dict[str, list[tuple[float, int, QueuedPod]]]] = {}
        """By priority and namespace; the namespaces in the order of their turns."""

    def add(self, entry: QueuedPod) -> None:
        line = self._lines.setdefault(entry.info.priority, {}).setdefault(entry.info.namespace, [])
        insort(line, (entry.arrived, entry.number, entry))

    def remove(self, entry: QueuedPod) -> None:
        line = self._lines[entry.info.priority][entry.info.namespace]
        del line[bisect_left(line, (entry.arrived, entry.number))]
        self._drop_if_empty(entry)

    def take(self) -> QueuedPod | None:
        if not self._lines:
            return None
        namespaces = self._lines[max(self._lines)]
        namespace, line = next(iter(namespaces.items()))
        _, _, entry = line.pop(0)
        # To the end of the turns.
        namespaces[namespace] = namespaces.pop(namespace)
        self._drop_if_empty(entry)
        return entry

    def _drop_if_empty(self, entry: QueuedPod) -> None:
        namespaces = self._lines[entry.info.priority]
        if not namespaces[entry.info.namespace]:
            del namespaces[entry.info.namespace]
        if not namespaces:
            del self._lines[entry.info.priority]


class SchedulingQueue:
    def __init__(self) -> None:
        self._waiting: dict[str, QueuedPod] = {}
        self._counts = dict.fromkeys(QueueState, 0)
        self._active = NamespaceTurns()
        self._early = NamespaceTurns()
        """Pods in back-off that may be tried before its end."""
        self._ready: list[tuple[float, int, QueuedPod]] = []
        """Heap of the ends of back-offs; those of pods that left it before stay until their time."""
        self._unschedulable: dict[str, QueuedPod] = {}
        """In the order of `unschedulable_since`."""
        self._number = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, uid: str) -> bool:
        return uid in self._waiting

    def get(self, uid: str) -> QueuedPod | None:
        return self._waiting.get(uid)

    def count(self, state: QueueState) -> int:
        return self._counts[state]

    def add(self, info: PodInfo, now: float) -> QueuedPod:
        """A pod that is queued for the first time."""
        self._number += 1
        entry = self._waiting[info.uid] = QueuedPod(info, now, self._number)
        self._counts[entry.state] += 1
        self._enter(entry, QueueState.ACTIVE)
        return entry

    def update(self, info: PodInfo) -> None:
        """The pod has changed; its state stays as it is."""
        entry = self._waiting[info.uid]
        state = entry.state
        if state is QueueState.UNSCHEDULABLE or entry.info.priority == info.priority:
            entry.info = info
            return
        self._leave(entry)
        entry.info = info
        self._enter(entry, state)

    def remove(self, uid: str) -> None:
        entry = self._waiting.pop(uid, None)
        if entry is not None:
            self._leave(entry)
            self._counts[QueueState.IN_PROGRESS] -= 1

    def pop(self, now: float) -> QueuedPod | None:
        """The next pod to decide about, None if no pod is ready."""
        self._activate_ready(now)
        entry = self._active.take()
        if entry is None:
            # With no active pod, pods in back-off are tried early.
            entry = self._early.take()
        if entry is not None:
            self._set_state(entry, QueueState.IN_PROGRESS)
            entry.attempts += 1
        return entry

    def mark_unschedulable(self, entry: QueuedPod, rejected_by: frozenset[FilterName], now: float) -> None:
        """No node takes the pod; `rejected_by` are the filters that rejected it."""
        if self._waiting.get(entry.info.uid) is not entry:
            return
        self._leave(entry)
        entry.rejected_by = rejected_by
        entry.unschedulable_since = now
        entry.ready = now + backoff(entry.attempts)
        entry.must_back_off = False
        self._enter(entry, QueueState.UNSCHEDULABLE)

    def retry(self, entry: QueuedPod, now: float) -> None:
        """The attempt failed for a reason that lies outside the cluster's state."""
        if self._waiting.get(entry.info.uid) is not entry:
            return
        self._leave(entry)
        entry.ready = now + backoff(entry.attempts)
        entry.must_back_off = True
        self._enter(entry, QueueState.BACKOFF)

    def requeue(self, may_help: Callable[[QueuedPod], bool], now: float) -> int:
        """Something changed: unschedulable pods that it may help get another attempt. Returns how many."""
        return self._requeue([entry for entry in self._unschedulable.values() if may_help(entry)], now)

    def requeue_overdue(self, now: float) -> int:
        overdue = takewhile(lambda entry: _overdue_at(entry) <= now, self._unschedulable.values())
        return self._requeue([*overdue], now)

    def next_time(self) -> float | None:
        """When the next pod becomes ready by time alone; None if only a change can bring work."""
        self._drop_outdated_times()
        times = [time for time, _, _ in self._ready[:1]]
        times += [_overdue_at(entry) for entry in islice(self._unschedulable.values(), 1)]
        return min(times, default=None)

    def _requeue(self, entries: list[QueuedPod], now: float) -> int:
        for entry in entries:
            self._enter(entry, QueueState.ACTIVE if entry.ready <= now else QueueState.BACKOFF)
        return len(entries)

    def _activate_ready(self, now: float) -> None:
        self._drop_outdated_times()
        while self._ready and self._ready[0][0] <= now:
            self._enter(self._ready[0][2], QueueState.ACTIVE)
            self._drop_outdated_times()

    def _drop_outdated_times(self) -> None:
        while self._ready:
            time, _, entry = self._ready[0]
            if entry.state is QueueState.BACKOFF and entry.ready == time:
                return
            heapq.heappop(self._ready)

    def _enter(self, entry: QueuedPod, state: QueueState) -> None:
        self._leave(entry)
        self._set_state(entry, state)
        match state:
            case QueueState.ACTIVE:
                self._active.add(entry)
            case QueueState.UNSCHEDULABLE:
                self._unschedulable[entry.info.uid] = entry
            case QueueState.BACKOFF:
                heapq.heappush(self._ready, (entry.ready, entry.number, entry))
                if not entry.must_back_off:
                    self._early.add(entry)

    def _leave(self, entry: QueuedPod) -> None:
        """Before a change of what its state depends on."""
        match entry.state:
            case QueueState.ACTIVE:
                self._active.remove(entry)
            case QueueState.UNSCHEDULABLE:
                del self._unschedulable[entry.info.uid]
            case QueueState.BACKOFF if not entry.must_back_off:
                self._early.remove(entry)
        self._set_state(entry, QueueState.IN_PROGRESS)

    def _set_state(self, entry: QueuedPod, state: QueueState) -> None:
        self._counts[entry.state] -= 1
        self._counts[state] += 1
        entry.state = state


def _overdue_at(entry: QueuedPod) -> float:
    return entry.unschedulable_since + LONGEST_UNSCHEDULABLE


def backoff(attempts: int) -> float:
    """Seconds between this many failed attempts and the next one.

    >>> [backoff(attempts) for attempts in range(1, 7)]
    [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    """
    return float(min(FIRST_BACKOFF * 2 ** min(max(attempts, 1) - 1, 10), LONGEST_BACKOFF))
