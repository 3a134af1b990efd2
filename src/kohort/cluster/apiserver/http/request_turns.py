"""Fair order of requests: a flood of small requests by one user does not delay the requests of others.

Most requests are answered within one step of the event loop, so what a user has in flight says little about its share
of the processor. Three limits hold for each user:

| limit         | what it bounds                                                       | beyond it                  |
|---------------|----------------------------------------------------------------------|----------------------------|
| PER_ROUND     | requests that are begun in one round of the event loop               | they wait for a next round |
| MAX_IN_FLIGHT | requests that wait for something: a write, a webhook, another server | they wait for one to end   |
| MAX_WAITING   | requests that wait for one of the two                                | 429, try again in a second |

All users that wait get their requests in every round, so a request of another user waits for one round at most. A user
below the limits, that is nearly always, costs two counters per request. Watches and other streams count only until
they begin.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from kohort.cluster.apiserver.auth.model import User
from kohort.kube import errors
from kohort.kube.http import Request, Response

PER_ROUND: Final = 50
MAX_IN_FLIGHT: Final = 400
MAX_WAITING: Final = 2000

Handle = Callable[[Request, User], Awaitable[Response]]


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
        self._max_in_flight = max_in_flight
        self._max_waiting = max_waiting
        self._begun: dict[str, int] = {}
        """Requests begun in this round, by user."""
        self._in_flight: dict[str, int] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._round_scheduled = False

    async def handle(self, request: Request, user: User) -> Response:
        """Answer a request when its user has a turn. ApiError 429 when too many requests of the user wait."""
        name = user.name
        if not self._may_begin(name) or name in self._waiting:
            await self._wait(name)
        else:
            self._begin(name)
        try:
            return await self._handle(request, user)
        finally:
            self._end(name)

    def _may_begin(self, name: str) -> bool:
        return self._begun.get(name, 0) < self._per_round and self._in_flight.get(name, 0) < self._max_in_flight

    def _begin(self, name: str) -> None:
        self._begun[name] = self._begun.get(name, 0) + 1
        self._in_flight[name] = self._in_flight.get(name, 0) + 1
        if not self._round_scheduled:
            self._schedule_round()

    def _end(self, name: str) -> None:
        left = self._in_flight[name] - 1
        if left:
            self._in_flight[name] = left
        else:
            del self._in_flight[name]
        if name in self._waiting and not self._round_scheduled:
            self._schedule_round()

    async def _wait(self, name: str) -> None:
        """Wait for a turn; the request has begun when this returns."""
        queue = self._waiting.setdefault(name, deque())
        if len(queue) >= self._max_waiting:
            raise errors.failure(429, "TooManyRequests", "too many requests, please try again later", retry_after=1)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._end(name)
            raise

    def _schedule_round(self) -> None:
        self._round_scheduled = True
        asyncio.get_running_loop().call_soon(self._next_round)

    def _next_round(self) -> None:
        self._round_scheduled = False
        self._begun.clear()
        for name in list(self._waiting):
            queue = self._waiting[name]
            while queue and self._may_begin(name):
                turn = queue.popleft()
                if not turn.done():  # otherwise the client is gone
                    self._begin(name)
                    turn.set_result(None)
            if not queue:
                del self._waiting[name]
