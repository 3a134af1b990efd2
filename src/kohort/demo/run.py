"""The demo from curtain to curtain: home, scene, story, view, and an end that leaves nothing behind."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import click

from kohort.demo import display
from kohort.demo.chapters import Story
from kohort.demo.cluster_state import Scene
from kohort.demo.demo_cluster import CannotBegin, cluster

if TYPE_CHECKING:
    from rich.live import Live

INTERRUPTED = 130
REFRESH_SECONDS = 0.25


async def perform(patience: float) -> int:
    """The exit code: 0 if everything worked and every request was answered, within so many seconds."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, _leave, task)
    try:
        async with asyncio.timeout(patience):
            return await _play()
    except asyncio.CancelledError:
        click.echo("stopped; nothing is left behind", err=True)
        return INTERRUPTED
    except TimeoutError:
        more = "a busy machine may need more: kohort demo --patience 300"
        click.echo(f"kohort: not over after {patience:g} s, stopped; {more}", err=True)
        return 1
    except CannotBegin as problem:
        click.echo(f"kohort: {problem}", err=True)
        return 1


def _leave(task: "asyncio.Task[int]") -> None:
    """Only once: who asks twice would else end the demo while it tidies up."""
    if not task.cancelling():
        task.cancel()


async def _play() -> int:
    async with cluster() as home:
        async with Scene(home.client) as scene, contextlib.AsyncExitStack() as resources:
            story = Story(home, scene, resources)
            async with _shown(story):
                done = await story.tell()
        ok = done and story.traffic is not None and not story.traffic.failures
        click.echo("\n".join(display.summary(story, ok)))
    return 0 if ok else 1


@contextlib.asynccontextmanager
async def _shown(story: Story) -> AsyncIterator[None]:
    if not sys.stdout.isatty():
        story.told = click.echo
        yield
        return
    from rich.live import Live

    with Live(display.picture(story), auto_refresh=False, vertical_overflow="crop") as live:
        drawing = asyncio.create_task(_draw(live, story))
        try:
            yield
        finally:
            drawing.cancel()
            live.update(display.picture(story), refresh=True)


async def _draw(live: "Live", story: Story) -> None:
    while True:
        live.update(display.picture(story), refresh=True)
        await asyncio.sleep(REFRESH_SECONDS)
