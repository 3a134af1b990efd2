"""Waiting for the cache to show what was just written.

A controller whose objects get generated names cannot see from a stale cache that it already made them, and would make
them again. So it records the uids that it created or deleted, and does not plan for that key until the cache has caught
up with all of them. Objects that never appear (another client deleted them at once) are dropped after a while.
"""

import asyncio
from typing import Final, Protocol

from kohort.kube.resources import Key
from kohort.objects.meta import ObjectMeta

_TIMEOUT_SECONDS: Final = 300.0


class Cached(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


class Expectations:
    def __init__(self) -> None:
        self._appear: dict[Key, set[str]] = {}
        self._leave: dict[Key, set[str]] = {}
        self._since: dict[Key, float] = {}

    def created(self, key: Key, uid: str, cached: Cached | None) -> None:
        """`cached` is what the cache shows under the name of the new object: if anything, there is nothing to wait
        for."""
        if cached is None:
            self._appear.setdefault(key, set()).add(uid)
            self._since.setdefault(key, _now())

    def deleted(self, key: Key, uid: str, cached: Cached | None) -> None:
        """`cached` is what the cache shows under the name of the deleted object. It is waited for while that is the
        object itself, without a mark of deletion."""
        if cached is not None and cached.metadata.uid == uid and not cached.metadata.deleting:
            self._leave.setdefault(key, set()).add(uid)
            self._since.setdefault(key, _now())

    def seen(self, key: Key, uid: str, *, leaving: bool) -> None:
        """The cache shows this object: present, or gone or marked for deletion."""
        self._appear.get(key, set()).discard(uid)
        if leaving:
            self._leave.get(key, set()).discard(uid)

    def met(self, key: Key) -> bool:
        """The cache shows everything that was written for this key."""
        if not self._appear.get(key) and not self._leave.get(key):
            self.forget(key)
            return True
        if _now() - self._since.get(key, 0.0) > _TIMEOUT_SECONDS:
            self.forget(key)
            return True
        return False

    def forget(self, key: Key) -> None:
        for notes in (self._appear, self._leave, self._since):
            notes.pop(key, None)


def _now() -> float:
    return asyncio.get_running_loop().time()
