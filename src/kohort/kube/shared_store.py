"""A collection of objects, decoded once, for all informers of the process that read it as the same view.

A `SharedStore` holds a collection and keeps it current. It has no indexes and no handlers: those belong to the
informers that read it, of which several may start and end independently. Parts that share a process therefore pay
once for the connection, the decoding and the memory of, say, all pods.

A store can be limited to some namespaces: then it watches each of them separately, because a service account that may
read two namespaces may not list all of them.
"""

import asyncio
from collections.abc import Callable
from typing import Generic

import msgspec

from kohort.kube.client import Client, Selection
from kohort.kube.object_identity import T, version_of
from kohort.kube.resources import Key
from kohort.kube.watch import Follower
from kohort.kube.watch_frames import ChangeType

Listener = Callable[[Key, T | None, T | None], None]


class SharedStore(Generic[T]):
    def __init__(
        self, client: Client, selection: Selection, view: type[T], *, namespaces: tuple[str, ...] = ()
    ) -> None:
        """`namespaces` limit a selection without a namespace."""
        self.selection = selection
        self.view = view
        self.objects: dict[Key, T] = {}
        self.namespaces: dict[str, dict[Key, T]] = {}
        self.synced = asyncio.Event()
        """Set when the copy has been complete once. It stays so: later it can only be a little behind."""
        self._listeners: list[Listener[T]] = []
        confined = namespaces if selection.resource.namespaced and not selection.namespace else ()
        self._missing = set(confined)
        """Namespaces whose first state has not arrived."""
        self._followers: list[Follower[T]] = [
            Follower(client, msgspec.structs.replace(selection, namespace=one), view, _OneNamespace(self, one))
            for one in confined
        ] or [Follower(client, selection, view, self)]
        self._metrics = client.metrics.informer(selection.resource.qualified) if client.metrics else None

    def listen(self, listener: Listener[T]) -> None:
        """Call `listener(key, old, new)` for every change from now on."""
        self._listeners.append(listener)

    def ignore(self, listener: Listener[T]) -> None:
        self._listeners.remove(listener)

    async def run(self) -> None:
        """Keep the copy current until cancelled."""
        async with asyncio.TaskGroup() as group:
            for follower in self._followers:
                group.create_task(follower.run())

    # The sink of the watch

    def replace(self, objects: dict[Key, T]) -> None:
        self._replace(self.objects, objects)
        self.synced.set()

    def replace_namespace(self, namespace: str, objects: dict[Key, T]) -> None:
        """Replace the content of one of the namespaces."""
        self._replace(self.namespaces.get(namespace, {}), objects)
        self._missing.discard(namespace)
        if not self._missing:
            self.synced.set()

    def _replace(self, present: dict[Key, T], objects: dict[Key, T]) -> None:
        gone = [key for key in present if key not in objects]
        for key in gone:
            self._set(key, None)
        for key, obj in objects.items():
            before = self.objects.get(key)
            if before is None or version_of(before) != version_of(obj):
                self._set(key, obj)
        if self._metrics is not None:
            self._metrics.listed()
            self._metrics.holds(len(self.objects))

    def change(self, type: ChangeType, key: Key, obj: T) -> None:
        self._set(key, None if type == "DELETED" else obj)
        if self._metrics is not None and type != "MODIFIED":
            self._metrics.holds(len(self.objects))

    def forget(self, key: Key) -> None:
        self._set(key, None)

    def _set(self, key: Key, obj: T | None) -> None:
        before = self.objects.get(key)
        if before is None and obj is None:
            return
        if obj is None:
            del self.objects[key]
            self._leave_namespace(key)
        else:
            self.objects[key] = obj
            self.namespaces.setdefault(key.namespace, {})[key] = obj
        for listener in self._listeners:
            listener(key, before, obj)

    def _leave_namespace(self, key: Key) -> None:
        inside = self.namespaces[key.namespace]
        del inside[key]
        if not inside:
            del self.namespaces[key.namespace]


class _OneNamespace(Generic[T]):
    """The sink of the watch of one namespace."""

    def __init__(self, store: SharedStore[T], namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self.change = store.change
        self.forget = store.forget

    def replace(self, objects: dict[Key, T]) -> None:
        self._store.replace_namespace(self._namespace, objects)
