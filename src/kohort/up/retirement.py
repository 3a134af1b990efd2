"""Simulated nodes of an earlier start that nobody plays any more.

Nodes are objects in the store and outlive the process that played them. They would look ready for a while, pods would
be put there and never run, and nobody would end those that are there already. So the data directory notes how many a
start has made, and the next one that plays fewer removes the others with their pods, before any controller looks.
Simulated nodes that somebody made by hand, or that another process plays, are not in the note and stay.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from kohort.cluster.simulation.fleet import Fleet
from kohort.cluster.simulation.nodelife import is_simulated
from kohort.kube.client import Client
from kohort.kube.errors import NotFound
from kohort.kube.resources import NODES, PODS
from kohort.objects.core import Node, Pod


async def retire(client: Client, note: Path, wanted: int) -> str:
    """Remove those beyond `wanted`, and note that there are so many; returns what was done, empty if nothing was."""
    former = Fleet(_noted(note)).names()
    nodes = [await client.find(NODES, name, type=Node) for name in former[wanted:]]
    gone = [node.metadata.name for node in nodes if node is not None and is_simulated(node)]
    pods = [await _remove(client, name) for name in gone]
    _note(note, wanted)
    return _told(gone, sum(pods)) if gone else ""


def _noted(note: Path) -> int:
    with contextlib.suppress(FileNotFoundError, ValueError):
        return int(note.read_text())
    return 0


def _note(note: Path, count: int) -> None:
    if count:
        note.write_text(f"{count}\n")
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
    >>> _told(["sim-0", "sim-1"], 1)
    'removed simulated nodes sim-0 to sim-1 of an earlier start and 1 pod there'
    """
    which = f"node {names[0]}" if len(names) == 1 else f"nodes {names[0]} to {names[-1]}"
    there = f" and {pods} pod{'' if pods == 1 else 's'} there" if pods else ""
    return f"removed simulated {which} of an earlier start{there}"
