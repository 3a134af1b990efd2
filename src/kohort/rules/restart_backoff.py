"""How long to wait before something that has failed is made again.

Not at all the first time, then longer and longer: 10 s, 20 s, 40 s, up to 5 minutes. Twice the longest pause without
another failure, and it begins with a clean slate. Groups are recreated by this rule, and the pods of the embedded
cluster's StatefulSets that their nodes refuse.
"""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

FIRST_PAUSE: Final = 10.0
LONGEST_PAUSE: Final = 300.0
FORGIVEN_AFTER: Final = 600.0

K = TypeVar("K", bound=Hashable)


class RestartBackoff(Generic[K]):
    def __init__(self) -> None:
        self._known: dict[K, tuple[int, float]] = {}
        """How often in a row, and when last."""

    def pause(self, key: K, now: float) -> float:
        """Seconds from now until it may be made again."""
        times, last = self._known.get(key, (0, now))
        if times == 0 or now - last > FORGIVEN_AFTER:
            return 0.0
        return max(0.0, last + min(FIRST_PAUSE * 2.0 ** min(times - 1, 10), LONGEST_PAUSE) - now)

    def times(self, key: K) -> int:
        """How often in a row."""
        return self._known.get(key, (0, 0.0))[0]

    def done(self, key: K, now: float) -> None:
        """It was made again."""
        times, last = self._known.get(key, (0, now))
        self._known[key] = (1 if now - last > FORGIVEN_AFTER else times + 1, now)

    def forget_old(self, now: float) -> None:
        for key in [one for one, (_, last) in self._known.items() if now - last > FORGIVEN_AFTER]:
            del self._known[key]
