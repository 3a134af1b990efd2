"""A local, always current copy of a collection, as narrow typed views.

Objects are decoded from the wire straight into the view and are immutable, so nothing is copied on the way in or out
and a reader can keep what it got. Reads never wait and never touch the network; between two `await`s a reader sees one
consistent state. Fields that a view leaves out are never in memory.

A change runs through `on_change(old, new)`: `old` is None for a new object, `new` is None for a vanished one. After
lost history the new state is compared with the old one, and only what differs is reported; objects that have not
changed keep their identity. Handlers run inside the informer and must not block; one that raises is logged and does not
stop the rest.

The objects are kept in a `SharedStore`, which several informers may share. Indexes and handlers are the informer's own
and end with it (`close`).
"""

import builtins
from collections.abc import Callable, Iterable
from typing import Generic

from kohort.kube.client import Client, Selection
from kohort.kube.log import Log
from kohort.kube.object_identity import T
from kohort.kube.resources import Key, Resource
from kohort.kube.shared_store import SharedStore

_log = Log(module="kohort.kube.informer")

Index = Callable[[T], Iterable[str]]
"""Under which values an object is found."""
ChangeHandler = Callable[[T | None, T | None], None]


class Informer(Generic[T]):
    def __init__(self, store: SharedStore[T]) -> None:
        self._store = store
        self._indexes: dict[str, tuple[Index[T], dict[str, dict[Key, T]]]] = {}
        self._handlers: list[ChangeHandler[T]] = []
        store.listen(self._changed)

    @classmethod
    def alone(cls, client: Client, selection: Selection, view: type[T]) -> "Informer[T]":
        """An informer with a store of its own, to be `run` by the caller."""
        return cls(SharedStore(client, selection, view))

    @property
    def store(self) -> SharedStore[T]:
        return self._store

    @property
    def selection(self) -> Selection:
        return self._store.selection

    @property
    def view(self) -> type[T]:
        return self._store.view

    @property
    def resource(self) -> Resource:
        return self._store.selection.resource

    # Reading

    @property
    def synced(self) -> bool:
        """Whether the copy has been complete once. From then on it can only lag behind."""
        return self._store.synced.is_set()

    async def wait_synced(self) -> None:
        await self._store.synced.wait()

    def get(self, key: Key) -> T | None:
        return self._store.objects.get(key)

    def list(self, namespace: str = "") -> builtins.list[T]:
        store = self._store
        return [*(store.namespaces.get(namespace, {}) if namespace else store.objects).values()]

    def by_index(self, index: str, value: str) -> builtins.list[T]:
        """The objects with this index value. The index must have been declared with `add_index`."""
        return [*self._indexes[index][1].get(value, {}).values()]

    def __len__(self) -> int:
        return len(self._store.objects)

    def __contains__(self, key: Key) -> bool:
        return key in self._store.objects

    # Setting up

    def add_index(self, name: str, function: Index[T]) -> None:
        """Declare an index; may be done at any time. The same name with the same function may be declared twice."""
        known = self._indexes.get(name)
        if known is not None:
            if known[0] is function:
                return
            raise ValueError(f"{self.resource.qualified}: index {name!r} is already declared with another function")
        entries: dict[str, dict[Key, T]] = {}
        self._indexes[name] = (function, entries)
        for key, obj in self._store.objects.items():
            _add_to_index(entries, function(obj), key, obj)

    def on_change(self, handler: ChangeHandler[T]) -> None:
        """Call `handler(old, new)` for every change from now on, and at once for everything already here."""
        self._handlers.append(handler)
        for obj in self.list():
            self._notify((handler,), None, obj)

    async def run(self) -> None:
        """Keep the copy current until cancelled; only for an informer that has its store alone."""
        await self._store.run()

    def close(self) -> None:
        """Remove handlers and indexes; other informers keep using the store."""
        self._store.ignore(self._changed)
        self._handlers.clear()
        self._indexes.clear()

    def _changed(self, key: Key, before: T | None, obj: T | None) -> None:
        for function, entries in self._indexes.values():
            after = () if obj is None else tuple(function(obj))
            if before is not None:
                _remove_from_index(entries, [value for value in function(before) if value not in after], key)
            if obj is not None:
                _add_to_index(entries, after, key, obj)
        self._notify(self._handlers, before, obj)

    def _notify(self, handlers: Iterable[ChangeHandler[T]], before: T | None, obj: T | None) -> None:
        for handler in handlers:
            try:
                handler(before, obj)
            except Exception:
                _log.exception("change handler failed", resource=self.resource.qualified)


def _add_to_index(entries: dict[str, dict[Key, T]], values: Iterable[str], key: Key, obj: T) -> None:
    for value in values:
        entries.setdefault(value, {})[key] = obj


def _remove_from_index(entries: dict[str, dict[Key, T]], values: Iterable[str], key: Key) -> None:
    """Remove empty entries as well: values such as owner uids never recur."""
    for value in values:
        bucket = entries.get(value)
        if bucket is not None:
            bucket.pop(key, None)
            if not bucket:
                del entries[value]
