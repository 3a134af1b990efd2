"""How long to wait before something that has failed is made again.

Not at all the first time, then 10 s, 20 s, 40 s, up to 5 minutes. Ten minutes without another failure reset the count.
By this rule groups are recreated, the embedded cluster's StatefulSets replace pods that their nodes reject, and nodes
restart containers (`container_restarts`).
"""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

FIRST_PAUSE: Final = 10.0
LONGEST_PAUSE: Final = 300.0
FORGIVEN_AFTER: Final = 600.0

K = TypeVar("K", bound=Hashable)


def pause_after(failures: int) -> float:
    """Seconds to wait after so many failures in a row.

    >>> [pause_after(failures) for failures in range(8)]
    [0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]
    """
    return min(FIRST_PAUSE * 2.0 ** min(failures - 1, 10), LONGEST_PAUSE) if failures else 0.0


class RestartBackoff(Generic[K]):
    def __init__(self) -> None:
        self._known: dict[K, tuple[int, float]] = {}
        """How often in a row, and when last."""

    def pause(self, key: K, now: float) -> float:
        """Seconds from now until it may be made again."""
        times, last = self._known.get(key, (0, now))
        if times == 0 or now - last > FORGIVEN_AFTER:
            return 0.0
        return max(0.0, last + pause_after(times) - now)

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
