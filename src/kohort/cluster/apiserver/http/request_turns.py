"""Fair order of requests: a flood of small requests by one user does not delay the requests of others.

Most requests are answered within one step of the event loop, so what a user has in flight says little about its share
of the processor. Three limits hold for each user:

| limit         | what it bounds                                                       | beyond it                  |
|---------------|----------------------------------------------------------------------|----------------------------|
| PER_ROUND     | requests that are begun in one round of the event loop               | they wait for a next round |
| MAX_IN_FLIGHT | requests that wait for something: a write, a webhook, another server | they wait for one to end   |
| MAX_WAITING   | requests that wait for one of the two                                | 429, try again in a second |

All users that wait get their requests in every round, so a request of another user waits for one round at most. A user
below the limits, that is nearly always, costs two counters per request: a round is announced only when a user has begun
half as many requests as are allowed, and the counters start again with it. Watches and other streams count only until
they begin.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from kohort.cluster.apiserver.auth.model import User
from kohort.kube import errors
from kohort.kube.http import Request, Response

PER_ROUND: Final = 50
MAX_IN_FLIGHT: Final = 400
MAX_WAITING: Final = 2000
MANY_USERS: Final = 1000
"""Users after which those without requests are forgotten."""

Handle = Callable[[Request, User], Awaitable[Response]]


@dataclass(slots=True)
class _UserTurns:
    begun: int = 0
    """Requests begun since the last round."""
    in_flight: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)


class FairHandler:
    def __init__(
        self,
        handle: Handle,
        *,
        per_round: int = PER_ROUND,
        max_in_flight: int = MAX_IN_FLIGHT,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        """`handle` answers a request and does not raise ApiError."""
        self._handle = handle
        self._per_round = per_round
        self._half_round = max(1, per_round // 2)
        self._max_in_flight = max_in_flight
        self._max_waiting = max_waiting
        self._users: dict[str, _UserTurns] = {}
        self._round_scheduled = False

    async def handle(self, request: Request, user: User) -> Response:
        """Answer a request when its user has a turn. ApiError 429 when too many requests of the user wait."""
        turns = self._users.get(user.name)
        if turns is None:
            turns = self._add_user(user.name)
        if turns.waiting or turns.begun >= self._per_round or turns.in_flight >= self._max_in_flight:
            await self._wait(turns)
        else:
            turns.begun += 1
            turns.in_flight += 1
            if turns.begun == self._half_round:
                self._schedule_round()
        try:
            return await self._handle(request, user)
        finally:
            turns.in_flight -= 1
            if turns.waiting:
                self._schedule_round()

    def _add_user(self, name: str) -> _UserTurns:
        if len(self._users) >= MANY_USERS:
            self._schedule_round()
        turns = self._users[name] = _UserTurns()
        return turns

    async def _wait(self, turns: _UserTurns) -> None:
        """Wait for a turn; the request counts as begun when this returns."""
        if len(turns.waiting) >= self._max_waiting:
            raise errors.failure(429, "TooManyRequests", "too many requests, please try again later", retry_after=1)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        turns.waiting.append(turn)
        self._schedule_round()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                turns.in_flight -= 1
                self._schedule_round()
            raise

    def _schedule_round(self) -> None:
        if not self._round_scheduled:
            self._round_scheduled = True
            asyncio.get_running_loop().call_soon(self._next_round)

    def _next_round(self) -> None:
        self._round_scheduled = False
        for name, turns in list(self._users.items()):
            turns.begun = 0
            if turns.waiting:
                self._release(turns)
            elif not turns.in_flight:
                del self._users[name]

    def _release(self, turns: _UserTurns) -> None:
        """Let as many requests of a user begin as one round allows."""
        while turns.waiting and turns.begun < self._per_round and turns.in_flight < self._max_in_flight:
            turn = turns.waiting.popleft()
            if not turn.done():  # otherwise the client is gone
                turns.begun += 1
                turns.in_flight += 1
                turn.set_result(None)
        if turns.waiting and turns.begun:
            self._schedule_round()
