"""Detects operators that write without end.

An operator that reacts to each of its own writes with another one keeps virtual time from moving, because time moves
only when nothing is left to do. A test that waits for time to pass would hang, so it fails instead.
"""

import asyncio
from collections import Counter

from kohort.kube.http import Request

MOST_WRITES = 10_000
"""To one path at one moment of virtual time."""


class WriteStormDetector:
    """Counts the writes to each path while the clock stands still."""

    def __init__(self) -> None:
        self._moment = 0.0
        self._counts: Counter[tuple[str, str]] = Counter()
        self._detected: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def record(self, request: Request) -> None:
        now = asyncio.get_running_loop().time()
        if now != self._moment:
            self._moment = now
            self._counts.clear()
        target = (request.method, request.path)
        self._counts[target] += 1
        if self._counts[target] >= MOST_WRITES and not self._detected.done():
            self._detected.set_result(" ".join(target))

    async def pause(self, seconds: float) -> None:
        """Sleep. Raises AssertionError when a write storm keeps the clock from moving."""
        done, _ = await asyncio.wait((self._detected,), timeout=seconds)
        for storm in done:
            target = storm.result()
            raise AssertionError(f"a controller writes without end: {MOST_WRITES} times {target} at one moment")
