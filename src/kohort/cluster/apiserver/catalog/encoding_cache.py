"""A cache of encoded objects that is bounded by their size."""

import threading
from typing import Generic, TypeVar

Key = TypeVar("Key")


class EncodingCache(Generic[Key]):
    """The newest entries that fit into `limit` bytes. What is bigger than a quarter of it is not kept at all.

    Large answers are rendered in a thread, so entries are added under a lock. Reading needs none.
    """

    __slots__ = ("_entries", "_limit", "_lock", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._entries: dict[Key, bytes] = {}
        self._lock = threading.Lock()

    def get(self, key: Key) -> bytes | None:
        return self._entries.get(key)

    def put(self, key: Key, value: bytes) -> bytes:
        if len(value) * 4 > self._limit:
            return value
        with self._lock:
            self._size += len(value) - len(self._entries.pop(key, b""))
            self._entries[key] = value
            while self._size > self._limit:
                oldest = next(iter(self._entries))
                self._size -= len(self._entries.pop(oldest))
        return value
