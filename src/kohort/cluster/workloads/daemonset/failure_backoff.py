"""How long a failed daemon pod stays on its node before it is deleted and replaced: one second, then twice as long each
time, up to fifteen minutes. A node without failures for half an hour starts at one second again."""

from typing import Final

FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 900.0


class FailureBackoff:
    def __init__(self) -> None:
        self._delays: dict[str, dict[tuple[str, int], tuple[float, float]]] = {}
        """By the uid of the DaemonSet, then by node and generation: when a failed pod was deleted, and the delay."""

    def remaining(self, uid: str, node: str, generation: int, now: float) -> float:
        """Seconds until the next failed pod may be deleted; zero if it may be at once."""
        when, delay = self._delays.get(uid, {}).get((node, generation), (now, 0.0))
        return max(0.0, when + delay - now)

    def deleted(self, uid: str, node: str, generation: int, now: float) -> None:
        """A failed pod is deleted. Entries that are too old to matter are dropped."""
        known = {
            place: (when, delay)
            for place, (when, delay) in self._delays.get(uid, {}).items()
            if now - when <= 2 * LONGEST_SECONDS and place[1] == generation
        }
        _, before = known.get((node, generation), (0.0, 0.0))
        known[node, generation] = now, min(before * 2 or FIRST_SECONDS, LONGEST_SECONDS)
        self._delays[uid] = known

    def forget(self, uid: str) -> None:
        self._delays.pop(uid, None)
