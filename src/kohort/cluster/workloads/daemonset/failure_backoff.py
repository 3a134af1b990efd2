"""How long a failed daemon pod stays on its node before it is deleted and replaced: one second, then twice as long each
time, up to fifteen minutes. A node without failures for half an hour starts at one second again."""

from typing import Final

from kohort.rules.restart_backoff import RestartBackoff

FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 900.0


class FailureBackoff:
    def __init__(self) -> None:
        self._by_set: dict[str, RestartBackoff[tuple[str, int]]] = {}
        """By the uid of the DaemonSet; in it by node and generation."""

    def remaining(self, uid: str, node: str, generation: int, now: float) -> float:
        """Seconds until the next failed pod may be deleted; zero if it may be at once."""
        known = self._by_set.get(uid)
        return known.pause((node, generation), now) if known is not None else 0.0

    def deleted(self, uid: str, node: str, generation: int, now: float) -> None:
        """A failed pod is deleted. Entries that are too old to matter are dropped."""
        known = self._by_set.setdefault(uid, RestartBackoff(FIRST_SECONDS, LONGEST_SECONDS))
        known.forget_old(now)
        known.forget(lambda place: place[1] != generation)
        known.done((node, generation), now)

    def forget(self, uid: str) -> None:
        self._by_set.pop(uid, None)
