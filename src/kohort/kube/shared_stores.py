"""Which mirrors run in this process.

A manager has caches of its own unless it is given some: parts that live in one process can share them, and then hold
and decode every object once. A mirror runs while somebody is attached to it.
"""

import asyncio

from kohort.kube.client import Client, Selection
from kohort.kube.object_identity import T
from kohort.kube.shared_store import Mirror
from kohort.objects.json_types import Json


class Caches:
    def __init__(self, client: Client, *, namespaces: tuple[str, ...] = ()) -> None:
        """`namespaces` confine every mirror that is not of one namespace anyway."""
        self._client = client
        self._namespaces = namespaces
        self._mirrors: dict[tuple[Selection, Json], Mirror[Json]] = {}
        self._tasks: dict[Mirror[Json], asyncio.Task[None]] = {}
        self._users: dict[Mirror[Json], int] = {}

    def mirror(self, selection: Selection, view: type[T]) -> Mirror[T]:
        """The one copy of this selection as this view."""
        found: Mirror[T] | None = self._mirrors.get((selection, view))
        if found is None:
            found = Mirror(self._client, selection, view, namespaces=self._namespaces)
            self._mirrors[selection, view] = found
        return found

    def attach(self, mirror: Mirror[T]) -> "asyncio.Task[None]":
        """Run it, or take part in its running."""
        self._users[mirror] = self._users.get(mirror, 0) + 1
        task = self._tasks.get(mirror)
        if task is None:
            name = f"mirror of {mirror.selection.resource.qualified}"
            task = self._tasks[mirror] = asyncio.create_task(mirror.run(), name=name)
        return task

    def detach(self, mirror: Mirror[T]) -> "asyncio.Task[None] | None":
        """The last one to leave ends it: the ending task is returned, to be waited for."""
        self._users[mirror] -= 1
        if self._users[mirror]:
            return None
        del self._users[mirror]
        self._mirrors.pop((mirror.selection, mirror.view), None)
        task = self._tasks.pop(mirror)
        task.cancel()
        return task
