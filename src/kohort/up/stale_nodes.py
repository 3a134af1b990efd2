"""Nodes of an earlier start that nobody runs any more.

Nodes are objects in the store and outlive the process that ran them: the simulated ones, and this machine where it was
one. They would look ready for a while, pods would be put there and never run, and nobody would end those that are there
already. So the data directory notes which nodes a start has run, and the next one that does not run some of them
removes those with their pods, before any controller looks. Nodes that somebody made by hand, or that another process
runs, are not in the note and stay.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from kohort.kube.client import Client
from kohort.kube.errors import NotFound
from kohort.kube.private_files import write_private
from kohort.kube.resources import NODES, PODS
from kohort.objects.core import Pod


async def retire(client: Client, note: Path, running: Sequence[str]) -> str:
    """Remove the nodes of an earlier start that are not `running` now, and note those that are; returns what was done,
    empty if nothing was."""
    former = [name for name in _noted(note) if name not in running]
    gone = [name for name in former if await client.find(NODES, name) is not None]
    pods = [await _remove(client, name) for name in gone]
    _note(note, running)
    return _told(gone, sum(pods)) if gone else ""


def _noted(note: Path) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        return note.read_text().split()
    return []


def _note(note: Path, names: Sequence[str]) -> None:
    if names:
        write_private(note, "".join(f"{name}\n" for name in names).encode())
    else:
        note.unlink(missing_ok=True)


async def _remove(client: Client, name: str) -> int:
    """The node and its pods, at once: there is no agent that could end them. Returns how many pods that were."""
    pods = (await client.list(PODS, field_selector=f"spec.nodeName={name}", type=Pod)).items
    for pod in pods:
        with contextlib.suppress(NotFound):
            await client.delete(PODS, pod.metadata.name, pod.metadata.namespace, grace_seconds=0)
    with contextlib.suppress(NotFound):
        await client.delete(NODES, name)
    return len(pods)


def _told(names: Sequence[str], pods: int) -> str:
    """
    >>> _told(["sim-0", "sim-1", "sim-2"], 1)
    'removed nodes sim-0 to sim-2, which an earlier start ran, and 1 pod there'
    """
    which = f"node {names[0]}" if len(names) == 1 else f"nodes {names[0]} to {names[-1]}"
    there = f", and {pods} pod{'' if pods == 1 else 's'} there" if pods else ""
    return f"removed {which}, which an earlier start ran{there}"
