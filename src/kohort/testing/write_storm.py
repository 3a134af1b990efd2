"""Writing without end.

An operator that answers each of its own writes with another one never lets virtual time move, since that moves only
when there is nothing left to do. Whoever waits for time to pass would wait for ever, so it is told.
"""

import asyncio
from collections import Counter

from kohort.kube.http import Request

ENDLESS = 10_000
"""So many writes to one place at one moment are no work any more."""


class Storms:
    """Counts what is written to each place while the clock stands still."""

    def __init__(self) -> None:
        self._moment = 0.0
        self._counts: Counter[tuple[str, str]] = Counter()
        self._broke_out: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def written(self, request: Request) -> None:
        now = asyncio.get_running_loop().time()
        if now != self._moment:
            self._moment = now
            self._counts.clear()
        place = (request.method, request.path)
        self._counts[place] += 1
        if self._counts[place] >= ENDLESS and not self._broke_out.done():
            self._broke_out.set_result(" ".join(place))

    async def pause(self, seconds: float) -> None:
        """Sleep. Raises when that would never end."""
        done, _ = await asyncio.wait((self._broke_out,), timeout=seconds)
        for storm in done:
            raise AssertionError(f"somebody writes without end: {ENDLESS} times {storm.result()} at one moment")
