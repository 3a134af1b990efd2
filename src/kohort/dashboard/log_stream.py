"""The logs of several pods as one stream of batches.

What one reader costs is bounded: at most `MOST_PODS` logs are followed, and lines that a slow browser has not taken yet
are kept up to `MOST_WAITING` and `MOST_WAITING_CHARACTERS`, long ones cut; then the pods' logs wait, as they do for a
slow terminal.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.pod_logs import TIMESTAMPS, Query, log_lines, stamped
from kohort.kube.tasks import cancel_all

MOST_PODS: Final = 64
MOST_WAITING: Final = 2000
MOST_WAITING_CHARACTERS: Final = 256 << 10
MOST_CHARACTERS: Final = 4000
"""Of a line."""
GATHER_SECONDS: Final = 0.1
FIRST_SECONDS: Final = 0.4
"""Longer for the first batch, so that the ends of all logs are in it and can be merged by time."""
LIFE_SECONDS: Final = 15.0
LOOK_SECONDS: Final = 1.0
"""How often pods are looked for that have started since."""
TAIL: Final = 100


class LogLine(msgspec.Struct, frozen=True):
    pod: str
    text: str
    tint: int
    """Lines of one pod share it."""
    at: str = ""
    """When it was written, in UTC; empty if that is not known."""


class WaitingLines:
    """Lines that were read and not sent yet."""

    def __init__(self) -> None:
        self._lines: deque[LogLine] = deque()
        self._changed = asyncio.Condition()
        self.characters = 0

    async def put(self, line: LogLine) -> None:
        async with self._changed:
            await self._changed.wait_for(self._has_room)
            self._lines.append(line)
            self.characters += len(line.text)
            self._changed.notify_all()

    def _has_room(self) -> bool:
        return len(self._lines) < MOST_WAITING and self.characters < MOST_WAITING_CHARACTERS

    async def any(self) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._lines))

    async def take(self) -> list[LogLine]:
        async with self._changed:
            found = [*self._lines]
            self._lines.clear()
            self.characters = 0
            self._changed.notify_all()
        return found


def in_order(batch: Sequence[LogLine]) -> list[LogLine]:
    """By time; a line without one stays behind the line that its pod wrote before.

    >>> lines = [LogLine("b", "2", 1, "09:02"), LogLine("b", "and", 1), LogLine("a", "1", 0, "09:01")]
    >>> [one.text for one in in_order(lines)]
    ['1', '2', 'and']
    """
    last: dict[str, str] = {}
    keyed = []
    for one in batch:
        last[one.pod] = one.at or last.get(one.pod, "")
        keyed.append((last[one.pod], one))
    return [one for _, one in sorted(keyed, key=lambda pair: pair[0])]


class ContainerLog(msgspec.Struct, frozen=True):
    """One start of a container: its log ends with it, and the next start has one of its own."""

    pod: str
    start: str = ""
    """Which one it is; empty before the first."""


async def merged_lines(
    client: Client, namespace: str, sources: Callable[[], Awaitable[Sequence[ContainerLog]]], container: str
) -> AsyncGenerator[list[LogLine], None]:
    """Batches of lines as they come; empty ones to show life. Looks for new sources again and again, so that pods which
    are recreated, start later or restart are followed as well; ends when `sources` raises."""
    waiting = WaitingLines()
    of = (("container", container),) if container else ()
    query: Query = (("follow", "true"), ("tailLines", str(TAIL)), TIMESTAMPS, *of)
    clock = asyncio.get_running_loop().time
    readers: dict[ContainerLog, asyncio.Task[None]] = {}
    tints: dict[str, int] = {}
    newest: dict[str, str] = {}
    """By pod: when its last line was written."""

    async def read(pod: str, tint: int) -> None:
        known = newest.get(pod, "")
        try:
            async for text in log_lines(client, namespace, pod, query):
                at, said = stamped(text)
                if at and at <= known:
                    continue  # Its status said later than its log that the container has started.
                newest[pod] = at or newest.get(pod, "")
                shown = said if len(said) <= MOST_CHARACTERS else f"{said[:MOST_CHARACTERS]}… (cut)"
                await waiting.put(LogLine(pod, shown, tint, at))
        except ApiError as problem:
            await waiting.put(LogLine(pod, f"(no logs: {problem.message})", tint))

    def follow(found: Sequence[ContainerLog]) -> None:
        for one in [*readers]:
            if one not in found and readers[one].done():
                del readers[one]
        followed = {one.pod for one, reader in readers.items() if not reader.done()}
        new = [one for one in found if one not in readers and one.pod not in followed]
        for one in new[: MOST_PODS - len(followed)]:
            readers[one] = asyncio.create_task(read(one.pod, tints.setdefault(one.pod, len(tints))))

    try:
        follow(await sources())
        gather, looked, shown = FIRST_SECONDS, clock(), clock()
        while True:
            batch: list[LogLine] = []
            with suppress(TimeoutError):
                await asyncio.wait_for(waiting.any(), LOOK_SECONDS)
                await asyncio.sleep(gather)
                gather = GATHER_SECONDS
                batch = in_order(await waiting.take())
            if batch or clock() - shown >= LIFE_SECONDS:
                yield batch
                shown = clock()
            if clock() - looked >= LOOK_SECONDS:
                follow(await sources())
                looked = clock()
    finally:
        await cancel_all(*readers.values())
