"""The stores that run in this process.

A manager has caches of its own unless it is given some: parts that live in one process can share them, and then hold
and decode every object once. A store runs while an informer is attached to it.
"""

import asyncio

from kohort.kube.client import Client, Selection
from kohort.kube.object_identity import T
from kohort.kube.shared_store import SharedStore
from kohort.objects.json_types import Json


class SharedStores:
    def __init__(self, client: Client, *, namespaces: tuple[str, ...] = ()) -> None:
        """`namespaces` limit every store that is not of one namespace anyway."""
        self._client = client
        self._namespaces = namespaces
        self._stores: dict[tuple[Selection, Json], SharedStore[Json]] = {}
        self._tasks: dict[SharedStore[Json], asyncio.Task[None]] = {}
        self._users: dict[SharedStore[Json], int] = {}

    def store(self, selection: Selection, view: type[T]) -> SharedStore[T]:
        """The one copy of this selection as this view."""
        found: SharedStore[T] | None = self._stores.get((selection, view))
        if found is None:
            found = SharedStore(self._client, selection, view, namespaces=self._namespaces)
            self._stores[selection, view] = found
        return found

    def attach(self, store: SharedStore[T]) -> "asyncio.Task[None]":
        """Run the store, or count one more user of a running one."""
        self._users[store] = self._users.get(store, 0) + 1
        task = self._tasks.get(store)
        if task is None:
            name = f"store of {store.selection.resource.qualified}"
            task = self._tasks[store] = asyncio.create_task(store.run(), name=name)
        return task

    def detach(self, store: SharedStore[T]) -> "asyncio.Task[None] | None":
        """The last user ends the store: its ending task is returned, to be awaited."""
        self._users[store] -= 1
        if self._users[store]:
            return None
        del self._users[store]
        self._stores.pop((store.selection, store.view), None)
        task = self._tasks.pop(store)
        task.cancel()
        return task
