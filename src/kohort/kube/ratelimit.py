"""A token bucket on loop time.

A burst up to the bucket's size passes without any wait; only what is beyond it is spread out at `rate`. Waiters are
served in order: each one takes its token at once, possibly into debt, and sleeps until its token has been filled.
"""

import asyncio
from collections.abc import Callable


class TokenBucket:
    __slots__ = ("_clock", "_last", "_tokens", "burst", "rate")

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] | None = None) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError(f"a bucket needs a rate above 0 and a burst of at least 1, got {rate} and {burst}")
        self.rate = rate
        self.burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._last: float | None = None

    async def take(self) -> None:
        """One token, after waiting for it if need be."""
        wait = self.reserve()
        if wait > 0:
            try:
                await asyncio.sleep(wait)
            except asyncio.CancelledError:
                self._tokens += 1
                raise

    def try_take(self) -> bool:
        """One token, if there is one right now."""
        self._fill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def reserve(self) -> float:
        """Take a token and say how many seconds to wait before using it."""
        self._fill()
        self._tokens -= 1
        return max(0.0, -self._tokens / self.rate)

    def _fill(self) -> None:
        now = self._now()
        if self._last is not None:
            self._tokens = min(float(self.burst), self._tokens + (now - self._last) * self.rate)
        self._last = now

    def _now(self) -> float:
        return self._clock() if self._clock is not None else asyncio.get_running_loop().time()
