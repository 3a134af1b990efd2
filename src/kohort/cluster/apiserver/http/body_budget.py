"""How much of the memory may be taken by bodies that are being read.

A body is read only after its sender was found to be allowed to make the request. Those who are allowed could still send
megabytes over hundreds of connections and never finish, so what is held of all bodies together is bounded, each user
has a part of that, and a body has a deadline.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from kohort.kube import errors

TOTAL_BYTES: Final = 64 * 1024 * 1024
USER_BYTES: Final = 16 * 1024 * 1024
"""Of one user."""


@dataclass(frozen=True, slots=True)
class ReadDeadlines:
    """Seconds that clients have for sending what they began."""

    head: float = 32.0
    """From the beginning of a connection to the end of the first head; as long as upstream waits."""
    body: float = 60.0
    """From the end of the head to the end of the body."""


class BodyBudget:
    def __init__(self, total: int = TOTAL_BYTES, of_user: int = USER_BYTES) -> None:
        self._total = total
        self._of_user = of_user
        self.taken = 0
        self._by_user: Counter[str] = Counter()

    def take(self, user: str, size: int) -> None:
        """Account for bytes that were read; 429 when there are too many."""
        if self.taken + size > self._total or self._by_user[user] + size > self._of_user:
            raise errors.failure(429, "TooManyRequests", "too many requests, please try again later", retry_after=1)
        self.taken += size
        self._by_user[user] += size

    def give_back(self, user: str, size: int) -> None:
        self.taken -= size
        self._by_user[user] -= size
        if self._by_user[user] <= 0:
            del self._by_user[user]


def body_too_late(seconds: float) -> errors.ApiError:
    message = f"Timeout: the body of the request did not arrive within {seconds:g} seconds"
    return errors.failure(408, "Timeout", message)
