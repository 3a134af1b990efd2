"""All objects of one kind: their present state in key order, their recent past, and who waits for their future."""

import asyncio
from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import merge
from typing import TypeAlias

from kohort.cluster.apiserver.storage.change_history import ChangeWindow
from kohort.cluster.apiserver.storage.model import Change, Stored

ObjectKey: TypeAlias = tuple[str, str]
"""Namespace and name."""


class Bucket:
    __slots__ = ("_keys", "_objects", "_snapshot", "_waiting", "window")

    def __init__(self, window: ChangeWindow) -> None:
        self.window = window
        self._objects: dict[ObjectKey, Stored] = {}
        self._keys: list[ObjectKey] = []
        self._snapshot: tuple[Stored, ...] | None = None
        """The whole list in key order, until the next change."""
        self._waiting: dict[asyncio.Future[None], None] = {}
        """In the order in which they began to wait, so that a run on virtual time is the same each time."""

    def __len__(self) -> int:
        return len(self._objects)

    def load(self, objects: dict[ObjectKey, Stored]) -> None:
        self._objects = objects
        self._keys = sorted(objects)
        self._snapshot = None

    def get(self, key: ObjectKey) -> Stored | None:
        return self._objects.get(key)

    def list(self, namespace: str) -> Sequence[Stored]:
        if namespace:
            return tuple(map(self._objects.__getitem__, self._keys_of(namespace)))
        if self._snapshot is None:
            self._snapshot = tuple(map(self._objects.__getitem__, self._keys))
        return self._snapshot

    def list_at(self, revision: int, namespace: str) -> Sequence[Stored]:
        """The past, by undoing every change since. Raises HistoryExpired."""
        undone: dict[ObjectKey, Stored | None] = {}
        for change in self.window.back_to(revision):
            if not namespace or change.after.namespace == namespace:
                undone[change.after.namespace, change.after.name] = change.before
        if not undone:
            return self.list(namespace)
        gone_since = sorted(key for key in undone if key not in self._objects)
        past = (
            undone[key] if key in undone else self._objects[key] for key in merge(self._keys_of(namespace), gone_since)
        )
        return tuple(stored for stored in past if stored is not None)

    def commit(self, changes: Sequence[Change], time: float) -> None:
        """Make changes visible, to readers and to watchers at once."""
        for change in changes:
            self._put(change)
        self._snapshot = None
        self.window.append(changes, time)
        self.wake()

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def next_commit(self) -> asyncio.Future[None]:
        """Done at the next commit; `ignore` ends the wait."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = None
        return future

    def ignore(self, future: asyncio.Future[None]) -> None:
        self._waiting.pop(future, None)

    def _keys_of(self, namespace: str) -> Sequence[ObjectKey]:
        if not namespace:
            return self._keys
        start = bisect_left(self._keys, (namespace, ""))
        return self._keys[start : bisect_left(self._keys, (namespace + "\0", ""), lo=start)]

    def _put(self, change: Change) -> None:
        key = (change.after.namespace, change.after.name)
        if change.type == "DELETED":
            del self._objects[key]
            del self._keys[bisect_left(self._keys, key)]
            return
        if change.type == "ADDED":
            insort(self._keys, key)
        self._objects[key] = change.after
