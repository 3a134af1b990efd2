"""Growing pauses between attempts, with jitter so that many clients do not come back at the same moment."""

import random


class Backoff:
    """Pauses of `base`, 2 x `base`, ... up to `limit`, each times a random factor between 0.5 and 1.5."""

    __slots__ = ("_attempts", "_base", "_limit")

    def __init__(self, base: float = 0.2, limit: float = 30.0) -> None:
        self._base = base
        self._limit = limit
        self._attempts = 0

    def next(self) -> float:
        pause: float = min(self._limit, self._base * 2 ** min(self._attempts, 40))
        self._attempts += 1
        return pause * random.uniform(0.5, 1.5)

    def reset(self) -> None:
        self._attempts = 0
