"""The logs of several pods as one stream of batches.

What one reader costs is bounded: at most `MOST_PODS` logs are followed, and lines that a slow browser has not taken yet
are kept up to `MOST_WAITING`; then the pods' logs wait, as they do for a slow terminal.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.pod_logs import Query, log_lines
from kohort.kube.tasks import cancel_all

MOST_PODS: Final = 64
MOST_WAITING: Final = 2000
GATHER_SECONDS: Final = 0.1
LIFE_SECONDS: Final = 15.0
TAIL: Final = 100


class LogLine(msgspec.Struct, frozen=True):
    pod: str
    text: str
    tint: int
    """Lines of one pod share it."""


async def merged_lines(
    client: Client, namespace: str, pods: Sequence[str], container: str
) -> AsyncIterator[list[LogLine]]:
    """Batches of lines as they come, until the last log has ended; empty ones to show life."""
    waiting: asyncio.Queue[LogLine | None] = asyncio.Queue(MOST_WAITING)
    query: Query = (("follow", "true"), ("tailLines", str(TAIL)), *((("container", container),) if container else ()))

    async def read(pod: str, tint: int) -> None:
        try:
            async for text in log_lines(client, namespace, pod, query):
                await waiting.put(LogLine(pod, text, tint))
        except ApiError as problem:
            await waiting.put(LogLine(pod, f"(no logs: {problem.message})", tint))
        finally:
            await waiting.put(None)

    readers = [asyncio.create_task(read(pod, tint)) for tint, pod in enumerate(pods[:MOST_PODS])]
    try:
        left = len(readers)
        while left:
            try:
                first = await asyncio.wait_for(waiting.get(), LIFE_SECONDS)
            except TimeoutError:
                yield []
                continue
            batch = [first]
            await asyncio.sleep(GATHER_SECONDS)
            while not waiting.empty():
                batch.append(waiting.get_nowait())
            left -= batch.count(None)
            yield [one for one in batch if one is not None]
    finally:
        await cancel_all(*readers)
