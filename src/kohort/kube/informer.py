"""A local, always current copy of a collection, as narrow typed views.

Objects are decoded from the wire straight into the view and are immutable, so nothing is copied on the way in or out
and a reader can keep what it got. Reads never wait and never touch the network; between two `await`s a reader sees one
consistent state. What a view leaves out is never in memory.

A change runs through `on_change(old, new)`: `old` is None for a new object, `new` is None for a vanished one. After
lost history the new state is compared with the old one, and only what differs is reported; objects that have not
changed keep their identity. Handlers run inside the informer and must not block; one that raises is logged and does not
stop the rest.

The objects live in a `Mirror`, which several informers may share. Indexes and handlers are the informer's own and end
with it (`close`).
"""

import builtins
from collections.abc import Callable, Iterable
from typing import Generic

from kohort.kube.client import Client, Selection
from kohort.kube.log import Log
from kohort.kube.object_identity import T
from kohort.kube.resources import Key, Resource
from kohort.kube.shared_store import Mirror

_log = Log(module="kohort.kube.informer")

Index = Callable[[T], Iterable[str]]
"""Under which values an object is found."""
ChangeHandler = Callable[[T | None, T | None], None]


class Informer(Generic[T]):
    def __init__(self, mirror: Mirror[T]) -> None:
        self._mirror = mirror
        self._indexes: dict[str, tuple[Index[T], dict[str, dict[Key, T]]]] = {}
        self._handlers: list[ChangeHandler[T]] = []
        mirror.listen(self._changed)

    @classmethod
    def alone(cls, client: Client, selection: Selection, view: type[T]) -> "Informer[T]":
        """An informer with a mirror of its own, to be `run` by the caller."""
        return cls(Mirror(client, selection, view))

    @property
    def mirror(self) -> Mirror[T]:
        return self._mirror

    @property
    def selection(self) -> Selection:
        return self._mirror.selection

    @property
    def view(self) -> type[T]:
        return self._mirror.view

    @property
    def resource(self) -> Resource:
        return self._mirror.selection.resource

    # Reading

    @property
    def synced(self) -> bool:
        """Whether the copy has been complete once. It stays so: later it can only be a little behind."""
        return self._mirror.synced.is_set()

    async def wait_synced(self) -> None:
        await self._mirror.synced.wait()

    def get(self, key: Key) -> T | None:
        return self._mirror.objects.get(key)

    def list(self, namespace: str = "") -> builtins.list[T]:
        mirror = self._mirror
        return [*(mirror.namespaces.get(namespace, {}) if namespace else mirror.objects).values()]

    def by_index(self, index: str, value: str) -> builtins.list[T]:
        """The objects filed under `value`. The index must have been declared with `add_index`."""
        return [*self._indexes[index][1].get(value, {}).values()]

    def __len__(self) -> int:
        return len(self._mirror.objects)

    def __contains__(self, key: Key) -> bool:
        return key in self._mirror.objects

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
        for key, obj in self._mirror.objects.items():
            _file(entries, function(obj), key, obj)

    def on_change(self, handler: ChangeHandler[T]) -> None:
        """Call `handler(old, new)` for every change from now on, and at once for everything already here."""
        self._handlers.append(handler)
        for obj in self.list():
            self._tell((handler,), None, obj)

    async def run(self) -> None:
        """Keep the copy current until cancelled; only for an informer that has its mirror alone."""
        await self._mirror.run()

    def close(self) -> None:
        """No more handlers, no more indexes; the mirror goes on for others."""
        self._mirror.ignore(self._changed)
        self._handlers.clear()
        self._indexes.clear()

    def _changed(self, key: Key, before: T | None, obj: T | None) -> None:
        for function, entries in self._indexes.values():
            after = () if obj is None else tuple(function(obj))
            if before is not None:
                _unfile(entries, [value for value in function(before) if value not in after], key)
            if obj is not None:
                _file(entries, after, key, obj)
        self._tell(self._handlers, before, obj)

    def _tell(self, handlers: Iterable[ChangeHandler[T]], before: T | None, obj: T | None) -> None:
        for handler in handlers:
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
