"""How long to wait before something that has failed is made again.

Not at all the first time, then a pause that doubles up to the longest one. More than twice the longest pause without
another failure resets the count, as in Kubernetes.

| what is made again                                     | first pause | longest pause |
|--------------------------------------------------------|------------:|--------------:|
| groups                                                 |        10 s |         5 min |
| containers (`container_restarts`)                      |        10 s |         5 min |
| sandboxes of pods that end by themselves               |        10 s |         5 min |
| pods of StatefulSets that a node rejects               |        10 s |         5 min |
| pods of groups that a node rejects                     |        10 s |         5 min |
| failed pods of DaemonSets, per node                    |         1 s |        15 min |
| failed pods of Jobs                                    |        10 s |        10 min |
| calls to the container runtime of a node               |       0.1 s |           3 s |

Connections and requests that fail are repeated by `kube.backoff`, with random pauses: many clients must not come back
at the same moment.
"""

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

FIRST_PAUSE: Final = 10.0
LONGEST_PAUSE: Final = 300.0

K = TypeVar("K", bound=Hashable)


def reset_after(longest: float = LONGEST_PAUSE) -> float:
    """Seconds without a failure that still count."""
    return 2 * longest


def resets_count(quiet: float, longest: float = LONGEST_PAUSE) -> bool:
    """Whether so many seconds without a failure reset the count."""
    return quiet > reset_after(longest)


def pause_after(failures: int, first: float = FIRST_PAUSE, longest: float = LONGEST_PAUSE) -> float:
    """Seconds to wait after so many failures in a row.

    >>> [pause_after(failures) for failures in range(8)]
    [0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]
    """
    return min(first * 2.0 ** min(failures - 1, 30), longest) if failures > 0 else 0.0


class RestartBackoff(Generic[K]):
    """Remembers how often in a row each thing was made again, and when last."""

    def __init__(self, first: float = FIRST_PAUSE, longest: float = LONGEST_PAUSE) -> None:
        self._first, self._longest = first, longest
        self._known: dict[K, tuple[int, float]] = {}

    def pause(self, key: K, now: float) -> float:
        """Seconds from now until it may be made again."""
        times, last = self._known.get(key, (0, now))
        if resets_count(now - last, self._longest):
            return 0.0
        return max(0.0, last + pause_after(times, self._first, self._longest) - now)

    def times(self, key: K) -> int:
        """How often in a row."""
        return self._known.get(key, (0, 0.0))[0]

    def done(self, key: K, now: float) -> None:
        """It was made again."""
        times, last = self._known.get(key, (0, now))
        self._known[key] = (1 if resets_count(now - last, self._longest) else times + 1, now)

    def forget_old(self, now: float) -> None:
        self._known = {
            key: (times, last)
            for key, (times, last) in self._known.items()
            if not resets_count(now - last, self._longest)
        }

    def forget(self, concerned: Callable[[K], bool]) -> None:
        """Forget everything about these keys."""
        self._known = {key: entry for key, entry in self._known.items() if not concerned(key)}
