"""How often watch streams are written to when there are many of them, and the chunks that they share.

Every write to a connection costs a system call and a TLS record, however small it is. With two hundred watchers and a
commit every few milliseconds that would be all the server does. So a stream that was just written to waits for the next
round, and takes with it whatever has come together by then. The longer a round takes, the longer is the pause after it,
so that writing gets about a fifth of the time and requests the rest; on a machine that has other things to do, rounds
become fewer and fuller by themselves. A few streams never wait at all, and the first change after a pause is always
written at once. One timer serves all.
"""

import asyncio
from collections.abc import Callable
from typing import Final

FEW: Final = 10
"""Streams for which rounds are not worth waiting for."""
REST: Final = 4.0
"""How much longer than a round the pause after it is."""
SHORTEST, LONGEST = 0.002, 0.1
"""Bounds of the pause, in seconds."""


class ChunkEncoder:
    """Frames as chunks of an HTTP body. In a round most streams get the very same frame; it is wrapped once."""

    def __init__(self) -> None:
        self._frame = self._chunk = b""

    def of(self, frame: bytes) -> bytes:
        if frame is not self._frame:
            self._frame, self._chunk = frame, b"%x\r\n%b\r\n" % (len(frame), frame)
        return self._chunk


class StreamRounds:
    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        """`clock` measures how long a round takes; default is the clock of the event loop."""
        self.streams = 0
        self.chunks = ChunkEncoder()
        self._clock = clock
        self._pause = SHORTEST
        self._waiting: list[asyncio.Future[None]] = []

    async def next(self) -> None:
        """Wait for the next round; not at all while there are few streams."""
        if self.streams < FEW:
            return
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_later(self._pause, self._begin, loop)
        mine = loop.create_future()
        self._waiting.append(mine)
        await mine

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
        # The streams that were woken run before this.
        clock = self._clock or loop.time
        loop.call_soon(self._over, clock, clock())

    def _over(self, clock: Callable[[], float], begun: float) -> None:
        self._pause = min(max(REST * (clock() - begun), SHORTEST), LONGEST)
