"""Ends the containers of an agent that was killed, without another agent."""

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import Final

import msgspec

from kohort.node.runtimes.interface import CannotStart, Instance, parse_container_key
from kohort.node.runtimes.process import process_launch
from kohort.node.runtimes.process.runtime import ProcessRuntime
from kohort.node.runtimes.process.supervisor_protocol import connect

KILL_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.02


class _Kept(msgspec.Struct):
    """The part of a supervisor's records that shows what runs, without asking it."""

    instance: Instance


async def end_processes(state: Path) -> set[str]:
    """End all containers below a runtime's directory, and their supervisor; returns the UIDs of pods that were running.
    Raises OSError when a process does not end."""
    pods = {parse_container_key(each.id).pod_uid for each in living_containers(state)}
    if _unended(state) or await _is_supervised(state):
        await _end_containers(state)
    return pods


async def _end_containers(state: Path) -> None:
    """By their supervisor, or by its successor if that is gone: it knows which processes belong to a container."""
    runtime = ProcessRuntime(state)
    try:
        async with asyncio.timeout(KILL_SECONDS):
            for id, instance in (await runtime.instances()).items():
                if instance.running:
                    await runtime.signal(id, signal.SIGKILL)
            while living_containers(state):  # noqa: ASYNC110 (only the parent of a process is notified)
                await asyncio.sleep(_POLL_SECONDS)
            await runtime.close(stop=True)
            while await _is_supervised(state):  # noqa: ASYNC110
                await asyncio.sleep(_POLL_SECONDS)
    except CannotStart as problem:
        raise OSError(str(problem)) from problem
    except TimeoutError as problem:
        numbers = ", ".join(str(each.pid) for each in living_containers(state)) or "of the supervisor"
        raise TimeoutError(f"processes do not end: {numbers}") from problem
    finally:
        await runtime.close(stop=False)


def living_containers(state: Path) -> list[Instance]:
    """Containers whose processes run. A process with the same pid but another start time is not one of them."""
    return [each for each in _unended(state) if process_launch.birth(each.pid) == each.birth]


def _unended(state: Path) -> list[Instance]:
    """Containers without a recorded end. Daemons that they have started may run on after them."""
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
