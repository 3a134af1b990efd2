"""Removes nodes that an earlier start ran and this one does not.

Node objects are in the store and outlive the process that ran the nodes: simulated ones, and this machine. They would
look ready for a while; the scheduler would put pods there that never run, and no agent would end pods that are there
already. So the data directory records which nodes a start runs. The next start removes those that it does not run, with
their pods, before any controller starts. Nodes that a user created, or that another process runs, are not recorded and
stay.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from kohort.kube.client import Client
from kohort.kube.errors import NotFound
from kohort.kube.private_files import write_private
from kohort.kube.resources import NODES, PODS
from kohort.objects.core import Pod
from kohort.objects.counted_nouns import counted


async def remove_stale_nodes(client: Client, record: Path, running: Sequence[str]) -> str:
    """Remove the nodes of an earlier start that are not `running` now, and record those that are; returns a summary for
    the user, empty if nothing was removed."""
    former = [name for name in _read_names(record) if name not in running]
    gone = [name for name in former if await client.find(NODES, name) is not None]
    pods = [await _remove(client, name) for name in gone]
    _write_names(record, running)
    return _summary(gone, sum(pods)) if gone else ""


def _read_names(record: Path) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        return record.read_text().split()
    return []


def _write_names(record: Path, names: Sequence[str]) -> None:
    if names:
        write_private(record, "".join(f"{name}\n" for name in names).encode())
    else:
        record.unlink(missing_ok=True)


async def _remove(client: Client, name: str) -> int:
    """The node and its pods, at once: there is no agent that could end them. Returns how many pods that were."""
    pods = (await client.list(PODS, field_selector=f"spec.nodeName={name}", type=Pod)).items
    for pod in pods:
        with contextlib.suppress(NotFound):
            await client.delete(PODS, pod.metadata.name, pod.metadata.namespace, grace_seconds=0)
    with contextlib.suppress(NotFound):
        await client.delete(NODES, name)
    return len(pods)


def _summary(names: Sequence[str], pods: int) -> str:
    """
    >>> _summary(["sim-0", "sim-1", "sim-2"], 1)
    'removed nodes sim-0 to sim-2, which an earlier start ran, and 1 pod there'
    """
    which = f"node {names[0]}" if len(names) == 1 else f"nodes {names[0]} to {names[-1]}"
    there = f", and {counted(pods, 'pod')} there" if pods else ""
    return f"removed {which}, which an earlier start ran{there}"
