"""Ensures that a node has only one agent.

Two agents under one name would each start every pod of the node and overwrite each other's reports. This can happen in
two ways, and there is a guard for each.

*The same directory.* The kernel locks it for one process, and the lock goes with the process, however that ends.

*The same name, from another directory or another machine.* A directory has an identity, drawn when it is first used,
and every renewal of the node's lease carries it in an annotation (the holder of such a lease is by convention the
node's name, which is the same for all agents). An agent that finds another identity watches the lease for longer than
the interval between renewals. If the lease is renewed, another agent runs. If it is not, or if the last agent has
removed its identity when it stopped, the name is free. An agent that is restarted in its directory finds its own
identity and does not wait.
"""

import asyncio
import contextlib
import fcntl
import os
import uuid
from pathlib import Path
from typing import Final

from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.log import Log
from kohort.kube.private_files import make_private_directory, write_private
from kohort.kube.resources import LEASES
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject

AGENT: Final = "node.kohort.dev/agent"
"""The annotation of a lease with the identity of its agent; empty when the agent has stopped."""
NAMESPACE: Final = well_known_names.NODE_LEASES
LOCK: Final = "agent.lock"
RENEWAL_SECONDS: Final = 10.0
"""Between two renewals of a lease, by this agent and by every other."""
WATCH_SECONDS: Final = 1.25 * RENEWAL_SECONDS
_AGAIN_SECONDS: Final = 0.5
_log = Log(part="node")


class NodeTaken(Exception):
    """Another agent runs this node; the message says which and what to do."""


def lock(directory: Path) -> int:
    """Lock a directory; returns the descriptor to close to unlock it. Raises NodeTaken."""
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(descriptor, 32, 0).decode().strip()
        os.close(descriptor)
        who = f" (pid {owner})" if owner else ""
        raise NodeTaken(
            f"a node runs on {directory} already{who}: stop it, or choose another directory with --data-dir"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def identity(directory: Path) -> str:
    """Identifies the agents of this directory."""
    path = directory / "records" / "agent"
    with contextlib.suppress(FileNotFoundError):
        if found := path.read_text().strip():
            return found
    make_private_directory(path.parent)
    fresh = str(uuid.uuid4())
    write_private(path, fresh.encode())
    return fresh


async def check(client: Client, name: str, own: str) -> None:
    """Return when the node has no other agent. Raises NodeTaken."""
    seen = await _lease(client, name)
    if seen is None or not _may_be_anothers(seen, own):
        return
    _log.warning("the lease of this node names another agent; watching whether that agent renews it", node=name)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WATCH_SECONDS
    while loop.time() < deadline:
        await asyncio.sleep(_AGAIN_SECONDS)
        now = await _lease(client, name)
        if now is None or not _may_be_anothers(now, own):
            return
        if _renewed(now) != _renewed(seen):
            raise NodeTaken(
                f'another agent runs the node "{name}", it has just renewed its lease: '
                "stop that one, or give this one another name (kohort node --name)"
            )


def _may_be_anothers(lease: JsonObject, own: str) -> bool:
    """A lease without the annotation is that of a kubelet."""
    holder = (lease["metadata"].get("annotations") or {}).get(AGENT)
    if holder in (own, ""):
        return False
    renewed = _renewed(lease)
    if not renewed:
        return False
    age = (clock.now() - clock.parse_time(renewed)).total_seconds()
    return age < float(lease["spec"].get("leaseDurationSeconds") or 0)


def _renewed(lease: JsonObject) -> str:
    return str((lease.get("spec") or {}).get("renewTime") or "")


async def _lease(client: Client, name: str) -> JsonObject | None:
    """The lease as the API server has it; retries while the API server does not answer."""
    while True:
        try:
            found: JsonObject | None = await client.find(LEASES, name, NAMESPACE)
            return found
        except OSError as problem:
            _log.warning("failed to reach the API server", problem=str(problem))
        except ApiError as problem:
            if problem.code < 500:
                _log.warning("failed to read the lease of the node", node=name, problem=str(problem))
                return None
        await asyncio.sleep(1.0)
