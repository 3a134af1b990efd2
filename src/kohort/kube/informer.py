"""A local, always current copy of a collection, as narrow typed views.

Objects are decoded from the wire straight into the view and are immutable, so nothing is copied on the way in or out
and a reader can keep what it got. Reads never wait and never touch the network; between two `await`s a reader sees one
consistent state. What a view leaves out is never in memory.

A change runs through `on_change(old, new)`: `old` is None for a new object, `new` is None for a vanished one. After
lost history the new state is compared with the old one, and only what differs is reported; objects that have not
changed keep their identity. Handlers run inside the informer and must not block; one that raises is logged and does not
stop the rest.
"""

import asyncio
import builtins
from collections.abc import Callable, Iterable
from typing import Generic

from kohort.kube.client import Client, Selection
from kohort.kube.frames import ChangeType
from kohort.kube.identity import T, version_of
from kohort.kube.log import Log
from kohort.kube.resources import Key, Resource
from kohort.kube.watch import Follower

_log = Log(module="kohort.kube.informer")

Index = Callable[[T], Iterable[str]]
"""Under which values an object is found."""
ChangeHandler = Callable[[T | None, T | None], None]


class Informer(Generic[T]):
    def __init__(self, client: Client, selection: Selection, view: type[T]) -> None:
        self.selection = selection
        self.view = view
        self._follower: Follower[T] = Follower(client, selection, view, self)
        self._objects: dict[Key, T] = {}
        self._namespaces: dict[str, dict[Key, T]] = {}
        self._indexes: dict[str, tuple[Index[T], dict[str, dict[Key, T]]]] = {}
        self._handlers: list[ChangeHandler[T]] = []
        self._synced = asyncio.Event()
        self._metrics = client.metrics.informer(selection.resource.qualified) if client.metrics else None

    @property
    def resource(self) -> Resource:
        return self.selection.resource

    # Reading

    @property
    def synced(self) -> bool:
        """Whether the copy has been complete once. It stays so: later it can only be a little behind."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def list(self, namespace: str = "") -> builtins.list[T]:
        return [*(self._namespaces.get(namespace, {}) if namespace else self._objects).values()]

    def by_index(self, index: str, value: str) -> builtins.list[T]:
        """The objects filed under `value`. The index must have been declared with `add_index`."""
        return [*self._indexes[index][1].get(value, {}).values()]

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    # Setting up

    def add_index(self, name: str, function: Index[T]) -> None:
        """Declare an index; may be done at any time. The same name for the same function is no conflict."""
        known = self._indexes.get(name)
        if known is not None:
            if known[0] is function:
                return
            raise ValueError(f"{self.resource.qualified}: index {name!r} is already declared with another function")
        entries: dict[str, dict[Key, T]] = {}
        self._indexes[name] = (function, entries)
        for key, obj in self._objects.items():
            _file(entries, function(obj), key, obj)

    def on_change(self, handler: ChangeHandler[T]) -> None:
        """Call `handler(old, new)` for every change from now on, and at once for everything already here."""
        self._handlers.append(handler)
        for obj in [*self._objects.values()]:
            self._call(handler, None, obj)

    def remove_handler(self, handler: ChangeHandler[T]) -> None:
        self._handlers.remove(handler)

    async def run(self) -> None:
        """Keep the copy current until cancelled."""
        await self._follower.run()

    # Sink of the follower

    def replace(self, objects: dict[Key, T]) -> None:
        gone = [key for key in self._objects if key not in objects]
        for key in gone:
            self._set(key, None)
        for key, obj in objects.items():
            before = self._objects.get(key)
            if before is None or version_of(before) != version_of(obj):
                self._set(key, obj)
        self._synced.set()
        if self._metrics is not None:
            self._metrics.listed()
            self._metrics.holds(len(self._objects))

    def change(self, type: ChangeType, key: Key, obj: T) -> None:
        self._set(key, None if type == "DELETED" else obj)
        if self._metrics is not None and type != "MODIFIED":
            self._metrics.holds(len(self._objects))

    def forget(self, key: Key) -> None:
        self._set(key, None)

    def _set(self, key: Key, obj: T | None) -> None:
        before = self._objects.get(key)
        if before is None and obj is None:
            return
        self._refile(key, before, obj)
        for handler in self._handlers:
            self._call(handler, before, obj)

    def _refile(self, key: Key, before: T | None, obj: T | None) -> None:
        if obj is None:
            del self._objects[key]
            _unfile(self._namespaces, (key.namespace,), key)
        else:
            self._objects[key] = obj
            _file(self._namespaces, (key.namespace,), key, obj)
        for function, entries in self._indexes.values():
            after = () if obj is None else tuple(function(obj))
            if before is not None:
                _unfile(entries, [value for value in function(before) if value not in after], key)
            if obj is not None:
                _file(entries, after, key, obj)

    def _call(self, handler: ChangeHandler[T], before: T | None, obj: T | None) -> None:
        try:
            handler(before, obj)
        except Exception:
            _log.exception("change handler failed", resource=self.resource.qualified)


def _file(entries: dict[str, dict[Key, T]], values: Iterable[str], key: Key, obj: T) -> None:
    for value in values:
        entries.setdefault(value, {})[key] = obj


def _unfile(entries: dict[str, dict[Key, T]], values: Iterable[str], key: Key) -> None:
    """Empty entries go too: values such as owner uids never come back."""
    for value in values:
        bucket = entries.get(value)
        if bucket is not None:
            bucket.pop(key, None)
            if not bucket:
                del entries[value]
