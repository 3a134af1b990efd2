"""What was made of bytes that come again and again: heads of requests, heads of answers.

What comes once only is not kept: a value is kept when its key comes for the second time, and of the first time there is
just a hash. Two generations bound the rest: what was used since the last turn, and what was used in the turn before. A
turn comes when the young one is full, and every few seconds, so neither many different heads nor an old one (it may
contain a token) stay.
"""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_SEEN: Final = 8
"""Hashes of keys that came once, for each entry that may be kept."""


class Recent(Generic[K, V]):
    def __init__(self, limit: int) -> None:
        """`limit`: entries of a generation."""
        self._limit = limit
        self._seen: set[int] = set()
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        found = self._young.get(key)
        if found is None and (found := self._old.get(key)) is not None:
            self._keep(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        seen, number = self._seen, hash(key)
        if number in seen:
            self._keep(key, value)
            return
        if len(seen) >= _SEEN * self._limit:
            seen.clear()
        seen.add(number)

    def _keep(self, key: K, value: V) -> None:
        if len(self._young) >= self._limit:
            self.turn()
        self._young[key] = value

    def turn(self) -> None:
        """Forget what was not used since the turn before this one."""
        self._old, self._young = self._young, {}

    def clear(self) -> None:
        self._seen.clear()
        self._young = {}
        self._old = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)
