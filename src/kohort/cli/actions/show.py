"""`get`, `status`, `explain`, `history`, `diff`."""

import asyncio
from collections.abc import AsyncIterator, Callable

import click

from kohort.cli.actions import snapshot_reader
from kohort.cli.actions.change_watch import Changes
from kohort.cli.actions.live_text import Screen
from kohort.cli.actions.output_formats import document, fitted, show, table
from kohort.cli.connection import DIFFERENT, NOT_YET, PAUSED, TOO_LATE, print_error
from kohort.inspection import cause, history, progress, roll_pause, tree
from kohort.inspection.advice import Command, Verb
from kohort.inspection.container_causes import RECENTLY, restarts
from kohort.inspection.release_subject import command
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.workload import PlainWorkload
from kohort.inspection.workload_views import (
    WorkloadTree,
    causes_of_subject,
    drawn_workload,
    headline_of_workload,
    progress_of_subject,
    tree_of_workload,
)
from kohort.kube import clock
from kohort.kube.client import Client


async def get(client: Client, namespace: str, name: str | None, form: str, watch: bool, labels: str = "") -> int:
    """One workload, or all sets of a namespace; without a namespace, all."""
    if not watch:
        lines, unreadable = await _pictures(client, namespace, name, form, labels)
        show(fitted(lines) if form == "text" else lines)
        return print_error("\n".join(unreadable)) if unreadable else 0
    if name is not None:
        name = (await snapshot_reader.subject(client, namespace, name)).reference
    with Screen(live=form in ("text", "wide")) as screen:
        async with Changes(client, namespace, name) as changes:
            while True:
                await changes.next()
                lines, unreadable = await _pictures(client, namespace, name, form, labels)
                screen.show("\n".join([*lines, *unreadable] if form in ("text", "wide") else lines))


async def _pictures(
    client: Client, namespace: str, name: str | None, form: str, labels: str
) -> tuple[list[str], list[str]]:
    """Lines, and why workloads are missing in them."""
    if name:
        found, unreadable = snapshot_reader.Readings([await snapshot_reader.subject(client, namespace, name)], [])
    else:
        keys = await snapshot_reader.keys(client, namespace, labels)
        found, unreadable = await snapshot_reader.read_all(client, keys)
    trees = [_tree(one) for one in found]
    if form in ("json", "yaml"):
        return [document(trees[0] if name else trees, form)], unreadable
    if not trees and not unreadable:
        return [await snapshot_reader.nothing(client, namespace, labels)], []
    return [line for one in trees for line in _drawn(one, wide=form == "wide")], unreadable


def _tree(subject: Snapshot | PlainWorkload) -> tree.SetTree | WorkloadTree:
    if isinstance(subject, PlainWorkload):
        return tree_of_workload(subject, clock.now())
    return tree.tree_of(subject, clock.now())


def _drawn(found: tree.SetTree | WorkloadTree, *, wide: bool = False) -> list[str]:
    return drawn_workload(found, wide=wide) if isinstance(found, WorkloadTree) else tree.drawn(found, wide=wide)


def _headline(found: tree.SetTree | WorkloadTree) -> str:
    return headline_of_workload(found) if isinstance(found, WorkloadTree) else tree.headline(found)


async def status(
    client: Client, namespace: str, name: str, form: str, watch: bool, timeout: float | None = None
) -> int:
    """3 while not done, 4 while a release waits for approval. With `watch` it returns when the workload is done or its
    release is paused or stopped, or after `timeout` seconds with 5, but not before the first look: no time to wait is
    not a reason to say that it is not done."""
    end = None if timeout is None else asyncio.get_running_loop().time() + timeout
    try:
        async with asyncio.timeout(None) as patience:
            return await _follow(client, namespace, name, form, watch, lambda: patience.reschedule(end))
    except TimeoutError:
        why = Command(Verb.EXPLAIN, name, namespace).text
        click.echo(f"kohort: {name} is not done after {timeout:g} s; find out why with: {why}", err=True)
        return TOO_LATE


async def _follow(client: Client, namespace: str, name: str, form: str, watch: bool, looked: Callable[[], None]) -> int:
    """`looked` is called after every look that finds the set not done."""
    with Screen(live=watch and form == "text") as screen:
        async for found in _snapshots(client, namespace, name, watch):
            now = progress_of_subject(found, clock.now())
            if form != "text":
                screen.show(document(now, form))
            elif screen.live:
                screen.show("\n".join([*progress.progress_lines(now), *_drawn(_tree(found))[1:]]))
            else:
                screen.show("\n".join(progress.progress_lines(now)))
            if now.done:
                return 0
            if now.at_pause:
                return PAUSED
            if watch and now.resize is not None and now.resize.stopped:
                why = Command(Verb.EXPLAIN, name, namespace).text
                click.echo(f"kohort: the resize of {name} has stopped; find out what to do with: {why}", err=True)
                return NOT_YET
            if watch and now.release is not None and now.release.stopped:
                why = Command(Verb.EXPLAIN, name, namespace).text
                text = f"kohort: step {now.release.step} of Rollout {now.release.rollout} has stopped"
                click.echo(f"{text}; find out what to do with: {why}", err=True)
                return NOT_YET
            if watch:
                looked()
    return NOT_YET


async def _snapshots(client: Client, namespace: str, name: str, watch: bool) -> AsyncIterator[Snapshot | PlainWorkload]:
    if not watch:
        yield await snapshot_reader.subject(client, namespace, name, surroundings=True)
        return
    named = (await snapshot_reader.subject(client, namespace, name)).reference
    async with Changes(client, namespace, named) as changes:
        while True:
            await changes.next()
            yield await snapshot_reader.subject(client, namespace, named, surroundings=True)


async def explain(client: Client, namespace: str, name: str, form: str) -> int:
    found = await snapshot_reader.subject(client, namespace, name, surroundings=True)
    reasons = causes_of_subject(found)
    as_wanted = all(one.note for one in reasons)
    if form != "text":
        show([document(cause.documents(reasons), form)])
        return 0 if as_wanted else NOT_YET
    show([_headline(_tree(found))])
    if as_wanted:
        show(["Everything is as wanted."])
    for number, reason in enumerate(reasons, 1):
        show(cause.cause_lines(reason, number))
    if lately := _recent_restarts(found):
        show(lately)
    if not reasons and roll_pause.paused(found):
        show([f"It is paused: a new revision waits until {command(found, Verb.RESUME).text}"])
    return 0 if as_wanted else NOT_YET


def _recent_restarts(found: Snapshot | PlainWorkload) -> list[str]:
    """Restarts of containers that run again: no cause of a problem, but worth a line."""
    both = [found.pod_context] if found.canary is None else [found.pod_context, found.canary.pod_context]
    lines = [f"  {text}" for one in both for text in restarts(one, clock.now())]
    return [f"Restarted in the last {int(RECENTLY.total_seconds()) // 60} minutes:", *lines] if lines else []


async def show_history(client: Client, namespace: str, name: str, form: str, revision: int | None = None) -> int:
    """All revisions, or the content of one."""
    found = await snapshot_reader.subject(client, namespace, name)
    if revision is not None:
        show([document(history.chosen(found, revision).content, "json" if form == "json" else "yaml")])
        return 0
    entries = history.entries(found, clock.now())
    if form not in ("text", "wide"):
        show([document(entries, form)])
        return 0
    rows = [
        [
            f"{'*' if one.current else ' '}{one.revision}",
            one.key,
            *_members(one, found),
            one.served,
            " ".join(one.images),
            tree.age_text(one.age_seconds),
            one.change_cause or "-",
        ]
        for one in entries
    ]
    columns = ["GROUPS", "SIZE"] if isinstance(found, Snapshot) else ["PODS"]
    show(table([" REVISION", "KEY", *columns, "SERVED", "IMAGES", "AGE", "CHANGE-CAUSE"], rows))
    return 0


def _members(one: history.HistoryEntry, subject: Snapshot | PlainWorkload) -> list[str]:
    if isinstance(subject, PlainWorkload):
        return [str(one.pods)]
    return [",".join(map(str, one.groups)) or "-", str(one.size)]


async def diff(client: Client, namespace: str, name: str, old: int | None, new: int | None, exit_code: bool) -> int:
    """Between the last two revisions, between one and the current, or between any two."""
    found = await snapshot_reader.subject(client, namespace, name)
    before = history.chosen(found, -1 if old is None else old)
    after = history.current(found) if new is None else history.chosen(found, new)
    lines = history.difference(before, after)
    show(lines or [f"revisions {before.number} and {after.number} are the same"])
    return DIFFERENT if lines and exit_code else 0
