"""Whose image is pulled next.

A few pulls run at the same time. When one is over, the namespace that has waited longest for a turn comes next, with
the first of its pulls: a namespace with a hundred images of a registry that hardly answers delays its own pods, and
those of others by a turn or two.
"""

import asyncio
from collections import deque


class PullTurns:
    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By namespace, in the order of their turns."""

    def ask(self, namespace: str) -> "asyncio.Future[None]":
        """A turn for one pull; done when it has come. `end` must follow."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._free:
            self._free -= 1
            turn.set_result(None)
        else:
            self._waiting.setdefault(namespace, deque()).append(turn)
        return turn

    def share(self, turn: "asyncio.Future[None]", namespace: str) -> None:
        """Another namespace waits for the same pull: it begins when the first of them has its turn."""
        queue = self._waiting.get(namespace, ())
        if not turn.done() and turn not in queue:
            self._waiting.setdefault(namespace, deque()).append(turn)

    def end(self) -> None:
        """A turn is over."""
        while self._waiting:
            namespace = next(iter(self._waiting))
            queue = self._waiting.pop(namespace)
            turn = queue.popleft()
            if queue:
                self._waiting[namespace] = queue  # behind all others
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
