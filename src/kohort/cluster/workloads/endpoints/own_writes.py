"""Writes of our own, as they come back from the cache.

A cache shows a write a moment after it was made. Until then it shows what is no longer there, and a decision about that
may be wrong: what has to be written may look as if it were written already. And when the cache does show it, there is
nothing to do, unless somebody had to wait for it. Else Services with hundreds of pods would be looked at twice for
every change: for its cause, and for what was written because of it.
"""

from kohort.kube.resources import Key
from kohort.objects.json_types import JsonObject


class Echoes:
    def __init__(self) -> None:
        self._replaced: dict[Key, str] = {}
        self._written: dict[Key, str] = {}
        self._waiting: set[Key] = set()

    def wrote(self, before: JsonObject, version: str) -> None:
        """An object that the cache showed like this was replaced."""
        key = key_of(before)
        self._replaced[key], self._written[key] = version_of(before), version

    def is_awaited(self, cached: JsonObject) -> bool:
        """Whether the cache has yet to show what was written. If so, it will be an answer."""
        key = key_of(cached)
        if self._replaced.get(key) != version_of(cached):
            return False
        self._waiting.add(key)
        return True

    def is_answer(self, old: JsonObject | None, new: JsonObject | None) -> bool:
        """Whether somebody waited for this change of the cache, or the object came or went."""
        if old is None or new is None:
            self._forget(key_of(old or new or {}))
            return True
        key = key_of(new)
        waiting = key in self._waiting
        self._waiting.discard(key)
        return waiting

    def is_news(self, old: JsonObject | None, new: JsonObject | None) -> bool:
        """The same, and whatever somebody else has done."""
        return self.is_answer(old, new) or new is None or self._written.get(key_of(new)) != version_of(new)

    def _forget(self, key: Key) -> None:
        self._replaced.pop(key, None)
        self._written.pop(key, None)
        self._waiting.discard(key)


def key_of(obj: JsonObject) -> Key:
    return Key(obj["metadata"]["namespace"], obj["metadata"]["name"])


def version_of(obj: JsonObject) -> str:
    version: str = obj["metadata"]["resourceVersion"]
    return version
