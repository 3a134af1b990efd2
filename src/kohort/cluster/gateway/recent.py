"""What was made of bytes that come again and again: heads of requests, heads of answers.

Two generations: what was used since the last turn, and what was used in the turn before. A turn comes when the young
one is full, and every few seconds, so neither many different heads nor an old one (it may contain a token) stay.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    def __init__(self, limit: int) -> None:
        """`limit`: entries of a generation."""
        self._limit = limit
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        found = self._young.get(key)
        if found is None and (found := self._old.get(key)) is not None:
            self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        if len(self._young) >= self._limit:
            self.turn()
        self._young[key] = value

    def turn(self) -> None:
        """Forget what was not used since the turn before this one."""
        self._old, self._young = self._young, {}

    def clear(self) -> None:
        self._young = {}
        self._old = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)
