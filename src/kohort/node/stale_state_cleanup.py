"""What an agent that was killed has left on this machine, taken away without another agent.

Its containers run on, for the next agent to find them. When there shall be no next one, somebody has to do what an
agent does at an orderly end: end the pods and their supervisor, and give back networks and addresses.
"""

import asyncio
import contextlib
import shutil
import signal
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Final

import msgspec

from kohort.node import emptydir, service_network
from kohort.node.pod_addresses import release_recorded
from kohort.node.pod_network_namespaces import Namespaces
from kohort.node.runtimes.interface import CannotStart, Instance, parse_container_key
from kohort.node.runtimes.process import process_launch
from kohort.node.runtimes.process.client import ProcessRuntime
from kohort.node.runtimes.process.supervisor_protocol import connect

KILL_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.02


class _Kept(msgspec.Struct):
    """Of what a supervisor keeps on disk: enough to see what runs without asking it."""

    instance: Instance


async def end(directory: Path) -> int:
    """End what is left below a node's directory; returns how many pods still ran. No agent may be there. Raises OSError
    when something does not end."""
    state = directory / "runtime"
    pods = {parse_container_key(each.id).pod_uid for each in _alive(state)}
    if _unended(state) or await _is_supervised(state):
        await _end_containers(state)
    unmount_volumes(directory)
    Namespaces(directory / "networks").remove_all()
    records = directory / "records"
    service_network.remove_recorded(records / "service-network", records / "addresses")
    for record in (records / "addresses", records / "service-addresses"):
        release_recorded(record)
    return len(pods)


def unmount_volumes(directory: Path) -> None:
    """Take away what is mounted for pods of a node."""
    for pod in _pods(directory):
        emptydir.unmount_all(pod / "volumes")


def orphaned_directories(directory: Path, known: Container[str]) -> list[Path]:
    """Logs and volumes of pods that were deleted while nobody looked."""
    return [pod for pod in _pods(directory) if pod.name not in known]


def remove_directories(pods: Iterable[Path]) -> None:
    for pod in pods:
        emptydir.unmount_all(pod / "volumes")
        shutil.rmtree(pod, ignore_errors=True)


def _pods(directory: Path) -> list[Path]:
    place = directory / "pods"
    return list(place.iterdir()) if place.is_dir() else []


async def _end_containers(state: Path) -> None:
    """By their supervisor, or by its successor if that is gone as well: they know what belongs to a container."""
    runtime = ProcessRuntime(state)
    try:
        async with asyncio.timeout(KILL_SECONDS):
            for id, instance in (await runtime.instances()).items():
                if instance.running:
                    await runtime.signal(id, signal.SIGKILL)
            while _alive(state):  # noqa: ASYNC110 (nobody tells those who are not their parent)
                await asyncio.sleep(_POLL_SECONDS)
            await runtime.close(stop=True)
            while await _is_supervised(state):  # noqa: ASYNC110
                await asyncio.sleep(_POLL_SECONDS)
    except CannotStart as problem:
        raise OSError(str(problem)) from problem
    except TimeoutError as problem:
        numbers = ", ".join(str(each.pid) for each in _alive(state)) or "of the supervisor"
        raise TimeoutError(f"processes do not end: {numbers}") from problem
    finally:
        await runtime.close(stop=False)


def _alive(state: Path) -> list[Instance]:
    """Containers whose processes are there. A process that only has the number of one is not it."""
    return [each for each in _unended(state) if process_launch.birth(each.pid) == each.birth]


def _unended(state: Path) -> list[Instance]:
    """Containers whose end nobody has seen. Daemons that they have started may be there when they are not."""
    found = []
    for path in (state / "instances").glob("*.json"):
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            found.append(msgspec.json.decode(path.read_bytes(), type=_Kept).instance)
    return [each for each in found if each.running]


async def _is_supervised(state: Path) -> bool:
    try:
        _, writer = await connect(state)
    except OSError:
        return False
    writer.close()
    return True
