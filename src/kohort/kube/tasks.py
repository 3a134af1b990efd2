"""Cancelling tasks and waiting for their end."""

import asyncio
from collections.abc import Awaitable, Callable

from kohort.objects.json_types import Json


async def as_coroutine(run: Callable[[], Awaitable[None]]) -> None:
    """A coroutine from anything that can be awaited; tasks are made of coroutines only."""
    await run()


async def cancel_all(*tasks: "asyncio.Task[Json]") -> None:
    """Cancel and wait until they have really ended. Their exceptions are ignored."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
