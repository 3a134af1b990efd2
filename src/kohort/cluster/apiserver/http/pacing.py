"""How often streams are written to, when there are many of them, and what they share.

Every write to a connection costs a system call and a TLS record, however small it is. With two hundred watchers and a
commit every few milliseconds that would be all the server does. So a stream that was just written to waits for the next
round, and takes with it whatever has come together by then. Rounds are the further apart the more streams there are, so
that writing never takes more than about a third of the time; a few streams never wait at all, and the first change
after a pause is always written at once. One timer serves all.
"""

import asyncio
from typing import Final

SECONDS_PER_STREAM: Final = 0.0002
"""Three to five times what one write takes."""
SHORTEST: Final = 0.002
"""Rounds closer together than this are not worth waiting for."""
LONGEST: Final = 0.05


class Chunks:
    """Frames as chunks of an HTTP body. In a round most streams get the very same frame; it is wrapped once."""

    def __init__(self) -> None:
        self._frame = self._chunk = b""

    def of(self, frame: bytes) -> bytes:
        if frame is not self._frame:
            self._frame, self._chunk = frame, b"%x\r\n%b\r\n" % (len(frame), frame)
        return self._chunk


class Rounds:
    def __init__(self) -> None:
        self.streams = 0
        self.chunks = Chunks()
        self._next: asyncio.Future[None] | None = None

    async def next(self) -> None:
        """Wait for the next round; at once while there are few streams."""
        pause = min(self.streams * SECONDS_PER_STREAM, LONGEST)
        if pause < SHORTEST:
            return
        if self._next is None:
            loop = asyncio.get_running_loop()
            self._next = loop.create_future()
            loop.call_later(pause, self._begin, self._next)
        # One future for all who wait: who is cancelled must not take it from the others.
        await asyncio.shield(self._next)

    def _begin(self, waiting: "asyncio.Future[None]") -> None:
        self._next = None
        waiting.set_result(None)
