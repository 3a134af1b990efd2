"""Runs a cluster in this process until a signal."""

import asyncio
import contextlib
import faulthandler
import gc
import os
import resource
import signal
import sys
from collections.abc import Callable

from kohort.kube import tls_buffers
from kohort.up.cluster import RunningCluster, UpOptions, cluster, parts_only
from kohort.up.detached import is_detached
from kohort.up.loop_errors import LoopErrorLog
from kohort.up.restart_policy import INTERRUPTED

SWITCH_SECONDS = 0.0005
"""How long the event loop may keep the interpreter from the thread that commits. The default, ten times as long, is
added to the latency of every write while the loop is busy."""
OPEN_FILES = 65536


def run(options: UpOptions, ready: Callable[[RunningCluster], None]) -> int:
    """Run a cluster until SIGTERM or SIGINT; calls `ready` once it is. Returns the exit code: that of an interruption
    if SIGINT came before the cluster was ready. Raises CannotStart."""
    sys.setswitchinterval(SWITCH_SECONDS)
    # A start makes things that stay: modules, classes, caches. Looking for garbage among them is a waste of time.
    gc.disable()
    tls_buffers.limit_tls_buffers()
    allow_connections()
    if is_detached():
        # A crash of the interpreter leaves the stacks of all threads in the log.
        faulthandler.enable()
    return asyncio.run(_run(options, ready))


def allow_connections() -> None:
    """As many open files as the system lets us have: what a shell gives its programs is meant for those that use
    select(2), and is less than a few hundred clients need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _run(options: UpOptions, ready: Callable[[RunningCluster], None]) -> int:
    asyncio.get_running_loop().set_exception_handler(LoopErrorLog())
    stopped, is_ready = asyncio.Event(), asyncio.Event()
    received: list[signal.Signals] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _stop, stopped, received, number)
    serving = asyncio.create_task(_serve(options, ready, is_ready, stopped))
    stopping = asyncio.create_task(stopped.wait())
    await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
    if not is_ready.is_set():
        # Asked to stop while still starting: there is nothing to bring to an end in order.
        serving.cancel()
    stopping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    return INTERRUPTED if not is_ready.is_set() and signal.SIGINT in received else 0


async def _serve(
    options: UpOptions, ready: Callable[[RunningCluster], None], is_ready: asyncio.Event, stopped: asyncio.Event
) -> None:
    start = cluster if options.is_cluster else parts_only
    async with start(options) as running:
        # What was loaded to get here stays; the collector need not look at it again. Caches grow by many small objects
        # that live long, so it should look rarely at the rest, too.
        gc.freeze()
        gc.set_threshold(20_000, 20, 100)
        gc.enable()
        ready(running)
        is_ready.set()
        await stopped.wait()


def _stop(stopped: asyncio.Event, received: list[signal.Signals], number: signal.Signals) -> None:
    """Stop in order; at the second signal end at once: acknowledged writes are on disk."""
    if stopped.is_set():
        os._exit(INTERRUPTED)
    received.append(number)
    stopped.set()
