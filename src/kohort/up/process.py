"""The life of a cluster as a process: from its start to a signal."""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable

from kohort.up.cluster import Options, Running, cluster, parts_only
from kohort.up.parts import API_SERVER

SWITCH_SECONDS = 0.0005
"""How long the event loop may keep the interpreter from the thread that commits. The default, ten times as long, is
added to the latency of every write while the loop is busy."""


def run(options: Options, ready: Callable[[Running], None]) -> None:
    """Run a cluster until SIGTERM or SIGINT; calls `ready` once it is. Raises CannotStart."""
    sys.setswitchinterval(SWITCH_SECONDS)
    # A start makes things that stay: modules, classes, caches. Looking for garbage among them is a waste of time.
    gc.disable()
    asyncio.run(_run(options, ready))


async def _run(options: Options, ready: Callable[[Running], None]) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _stop, stopped)
    start = cluster if API_SERVER in options.parts else parts_only
    async with start(options) as running:
        # What was loaded to get here stays; the collector need not look at it again. Caches grow by many small objects
        # that live long, so it should look rarely at the rest, too.
        gc.freeze()
        gc.set_threshold(20_000, 20, 100)
        gc.enable()
        ready(running)
        await stopped.wait()


def _stop(stopped: asyncio.Event) -> None:
    """Stop in order. Whoever asks twice does not want to wait, and what was acknowledged is safe anyway."""
    if stopped.is_set():
        os._exit(130)
    stopped.set()
