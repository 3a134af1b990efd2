"""Problems of groups that the pod controller meets and the set controller reports in the condition `Waiting`.

They are kept by leader, because the name of a leader is the identity of its group, and are lost with the process: the
next attempt of the pod controller finds them again.
"""

from operator import itemgetter

import msgspec

from kohort.kube.resources import Key
from kohort.rules.group_identity import parse_index
from kohort.rules.recorded_restarts import DueRestart


class WorkersRefused(msgspec.Struct, frozen=True):
    """The API server refuses the StatefulSet of a group's workers."""

    message: str
    """Of the API server."""


class GroupProblems:
    def __init__(self) -> None:
        self._refused: dict[Key, WorkersRefused] = {}
        self._delayed: dict[Key, DueRestart] = {}

    def set_workers_refused(self, leader: Key, problem: WorkersRefused) -> None:
        self._refused[leader] = problem

    def clear_workers_refused(self, leader: Key) -> None:
        self._refused.pop(leader, None)

    def workers_refused(self, leader: Key) -> WorkersRefused | None:
        return self._refused.get(leader)

    def set_recreation_delayed(self, leader: Key, problem: DueRestart) -> None:
        self._delayed[leader] = problem

    def clear_recreation_delayed(self, leader: Key, pod: str = "") -> None:
        """Once the group was recreated; or, if `pod` is given, when that pod was the cause and is none any more."""
        known = self._delayed.get(leader)
        if known is not None and pod in ("", known.failed.pod):
            del self._delayed[leader]

    def recreation_delayed(self, leader: Key) -> DueRestart | None:
        return self._delayed.get(leader)

    def delayed_recreations(self, group_set: Key) -> list[tuple[int, DueRestart]]:
        """Of the groups of a set, by index."""
        prefix = f"{group_set.name}-"
        found = (
            (parse_index(leader.name.removeprefix(prefix)), due)
            for leader, due in self._delayed.items()
            if leader.namespace == group_set.namespace and leader.name.startswith(prefix)
        )
        return sorted(((index, due) for index, due in found if index is not None), key=itemgetter(0))

    def forget(self, leader: Key) -> None:
        """The leader is gone, and its problems with it."""
        self.clear_workers_refused(leader)
        self.clear_recreation_delayed(leader)
