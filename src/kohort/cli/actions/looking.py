"""`get`, `status`, `explain`, `history`, `diff`."""

import asyncio
from collections.abc import AsyncIterator, Callable

import click

from kohort.cli.actions import reading
from kohort.cli.actions.changes import Changes
from kohort.cli.actions.printing import document, fitted, show, table
from kohort.cli.actions.screen import Screen
from kohort.cli.connection import DIFFERENT, NOT_YET, TOO_LATE
from kohort.inspection import cause, causes, history, holding, progress, tree
from kohort.inspection.containercauses import LATELY, restarts
from kohort.inspection.snapshot import Snapshot
from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.resources import Key


async def get(client: Client, namespace: str, name: str | None, form: str, watch: bool) -> int:
    """One set, or all of a namespace; without a namespace, all."""
    if not watch:
        lines = await _pictures(client, namespace, name, form)
        show(fitted(lines) if form == "text" else lines)
        return 0
    with Screen(live=form in ("text", "wide")) as screen:
        async with Changes(client, namespace, name) as changes:
            while True:
                await changes.next()
                screen.show("\n".join(await _pictures(client, namespace, name, form)))


async def _pictures(client: Client, namespace: str, name: str | None, form: str) -> list[str]:
    wanted = [Key(namespace, name)] if name else await reading.keys(client, namespace)
    trees = [tree.tree_of(await reading.snapshot(client, one.namespace, one.name), clock.now()) for one in wanted]
    if form in ("json", "yaml"):
        return [document(trees[0] if name else trees, form)]
    if not trees:
        await reading.see_namespace(client, namespace)
        place = f"namespace {namespace}" if namespace else "any namespace"
        return [f"No LeaderWorkerSets in {place}. Try: {reading.first_set(namespace)}"]
    return [line for one in trees for line in tree.drawn(one, wide=form == "wide")]


async def status(
    client: Client, namespace: str, name: str, form: str, watch: bool, timeout: float | None = None
) -> int:
    """3 while not done. With `watch` it returns when the set is done, or after `timeout` seconds with 5, but not before
    the first look: no time to wait is not a reason to say that it is not done."""
    end = None if timeout is None else asyncio.get_running_loop().time() + timeout
    try:
        async with asyncio.timeout(None) as patience:
            return await _follow(client, namespace, name, form, watch, lambda: patience.reschedule(end))
    except TimeoutError:
        click.echo(f"kohort: {name} is not done after {timeout:g} s; kohort explain {name} says why", err=True)
        return TOO_LATE


async def _follow(client: Client, namespace: str, name: str, form: str, watch: bool, looked: Callable[[], None]) -> int:
    """`looked` is called after every look that finds the set not done."""
    with Screen(live=watch and form == "text") as screen:
        async for found in _snapshots(client, namespace, name, watch):
            now = progress.progress_of(found)
            if form != "text":
                screen.show(document(now, form))
            elif screen.live:
                screen.show("\n".join([_progress_text(now), *tree.drawn(tree.tree_of(found, clock.now()))[1:]]))
            else:
                screen.show(_progress_text(now))
            if now.done:
                return 0
            if watch:
                looked()
    return NOT_YET


def _progress_text(found: progress.Progress) -> str:
    line = progress.line(found)
    return f"{line}\n  waiting for {found.waiting_for}" if found.waiting_for else line


async def _snapshots(client: Client, namespace: str, name: str, watch: bool) -> AsyncIterator[Snapshot]:
    if not watch:
        yield await reading.snapshot(client, namespace, name, surroundings=True)
        return
    async with Changes(client, namespace, name) as changes:
        while True:
            await changes.next()
            yield await reading.snapshot(client, namespace, name, surroundings=True)


async def explain(client: Client, namespace: str, name: str, form: str) -> int:
    found = await reading.snapshot(client, namespace, name, surroundings=True)
    reasons = causes.causes(found)
    if form != "text":
        show([document(reasons, form)])
        return NOT_YET if reasons else 0
    show([tree.headline(tree.tree_of(found, clock.now()))])
    if not reasons:
        show(["Everything is as wanted.", *_lately(found)])
        if holding.paused(found):
            show([f"It is paused: a new revision waits until kohort resume {name}"])
        return 0
    for number, reason in enumerate(reasons, 1):
        show(cause.spoken(reason, number))
    if lately := _lately(found):
        show(lately)
    return NOT_YET


def _lately(found: Snapshot) -> list[str]:
    """What is in order again, or just now, and was not: no reason by itself, and no secret either."""
    both = [found] if found.canary is None else [found, found.canary]
    told = [f"  {text}" for one in both for text in restarts(one, clock.now())]
    return [f"Restarted in the last {int(LATELY.total_seconds()) // 60} minutes:", *told] if told else []


async def show_history(client: Client, namespace: str, name: str, form: str, revision: int | None = None) -> int:
    """All revisions, or the content of one."""
    found = await reading.snapshot(client, namespace, name)
    if revision is not None:
        show([document(history.content(history.chosen(found, revision)), "json" if form == "json" else "yaml")])
        return 0
    entries = history.entries(found, clock.now())
    if form not in ("text", "wide"):
        show([document(entries, form)])
        return 0
    rows = [
        [
            f"{'*' if one.current else ' '}{one.revision}",
            one.key,
            ",".join(map(str, one.groups)) or "-",
            str(one.size),
            one.served,
            " ".join(one.images),
            tree.spoken(one.age_seconds),
            one.change_cause or "-",
        ]
        for one in entries
    ]
    show(table([" REVISION", "KEY", "GROUPS", "SIZE", "SERVED", "IMAGES", "AGE", "CHANGE-CAUSE"], rows))
    return 0


async def diff(client: Client, namespace: str, name: str, old: int | None, new: int | None, exit_code: bool) -> int:
    """Between the last two revisions, between one and the current, or between any two."""
    found = await reading.snapshot(client, namespace, name)
    before = history.chosen(found, -1 if old is None else old)
    after = history.current(found) if new is None else history.chosen(found, new)
    lines = history.difference(before, after)
    show(lines or [f"revisions {before.revision} and {after.revision} are the same"])
    return DIFFERENT if lines and exit_code else 0
