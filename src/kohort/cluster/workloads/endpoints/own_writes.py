"""Distinguishes changes of the cache that our own writes caused from all others.

A cache shows a write a moment after it was made. Until then it shows the object as it was before, and a decision based
on that may be wrong. When the cache shows the write, there is nothing to do, unless a reconcile was postponed until
then. Without this, Services with hundreds of pods would be reconciled twice for every change: for the change itself,
and for the write that followed from it.
"""

from kohort.kube.resources import Key
from kohort.objects.json_types import JsonObject


class OwnWrites:
    def __init__(self) -> None:
        self._replaced: dict[Key, str] = {}
        self._written: dict[Key, str] = {}
        self._waiting: set[Key] = set()

    def record(self, before: JsonObject, version: str) -> None:
        """We replaced the object that the cache showed as `before`."""
        key = key_of(before)
        self._replaced[key], self._written[key] = version_of(before), version

    def is_pending(self, cached: JsonObject) -> bool:
        """Whether the cache does not show our write yet. If so, a reconcile waits for it."""
        key = key_of(cached)
        if self._replaced.get(key) != version_of(cached):
            return False
        self._waiting.add(key)
        return True

    def is_awaited_change(self, old: JsonObject | None, new: JsonObject | None) -> bool:
        """Whether a reconcile waits for this change of the cache, or the object was created or deleted."""
        if old is None or new is None:
            self._forget(key_of(old or new or {}))
            return True
        key = key_of(new)
        waiting = key in self._waiting
        self._waiting.discard(key)
        return waiting

    def is_relevant_change(self, old: JsonObject | None, new: JsonObject | None) -> bool:
        """The same, or the change is not one of our writes."""
        return self.is_awaited_change(old, new) or new is None or self._written.get(key_of(new)) != version_of(new)

    def _forget(self, key: Key) -> None:
        self._replaced.pop(key, None)
        self._written.pop(key, None)
        self._waiting.discard(key)


def key_of(obj: JsonObject) -> Key:
    return Key(obj["metadata"]["namespace"], obj["metadata"]["name"])


def version_of(obj: JsonObject) -> str:
    version: str = obj["metadata"]["resourceVersion"]
    return version
