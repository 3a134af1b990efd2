"""Runs the demo: starts the cluster, runs the chapters with a display, prints the figures, removes everything."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import click

from kohort.demo import display
from kohort.demo.chapters import Demo
from kohort.demo.cluster_state import DemoClusterState
from kohort.demo.demo_cluster import CannotStartDemo, cluster

if TYPE_CHECKING:
    from rich.live import Live

INTERRUPTED = 130
REFRESH_SECONDS = 0.25


async def run(patience: float) -> int:
    """The exit code: 0 if all chapters succeeded and every request was answered, within `patience` seconds."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, _cancel_once, task)
    try:
        async with asyncio.timeout(patience):
            return await _run_chapters()
    except asyncio.CancelledError:
        click.echo("stopped; nothing is left behind", err=True)
        return INTERRUPTED
    except TimeoutError:
        more = "on a busy machine allow more time: kohort demo --patience 300"
        click.echo(f"kohort: the demo was stopped after {patience:g} s; {more}", err=True)
        return 1
    except CannotStartDemo as problem:
        click.echo(f"kohort: {problem}", err=True)
        return 1


def _cancel_once(task: "asyncio.Task[int]") -> None:
    """A second signal must not interrupt the removal of the cluster."""
    if not task.cancelling():
        task.cancel()


async def _run_chapters() -> int:
    async with cluster() as running:
        async with DemoClusterState(running.client) as state, contextlib.AsyncExitStack() as resources:
            demo = Demo(running, state, resources)
            async with _displayed(demo):
                done = await demo.run()
        ok = done and demo.client is not None and not demo.client.failures
        click.echo("\n".join(display.summary(demo, ok)))
    return 0 if ok else 1


@contextlib.asynccontextmanager
async def _displayed(demo: Demo) -> AsyncIterator[None]:
    if not sys.stdout.isatty():
        demo.print_line = click.echo
        yield
        return
    from rich.live import Live

    with Live(display.screen(demo), auto_refresh=False, vertical_overflow="crop") as live:
        drawing = asyncio.create_task(_draw(live, demo))
        try:
            yield
        finally:
            drawing.cancel()
            live.update(display.screen(demo), refresh=True)


async def _draw(live: "Live", demo: Demo) -> None:
    while True:
        live.update(display.screen(demo), refresh=True)
        await asyncio.sleep(REFRESH_SECONDS)
