"""Finds the processes of a container, also those that have left its process group or lost their parent.

A process that starts a session of its own is in no group of its container any more, and one whose parent has ended
becomes a child of the supervisor. What both keep is their environment: every process of a container is started with a
mark in it, and so is every command that is executed there, and all that they start have it from them. The kernel shows
the environment that a program was started with, so changing it later hides nothing. A process that was started with an
environment in which the mark is missing is still found while its ancestors live, as their descendant.

A cluster may run in a container of another one. Its containers carry both marks.
"""

import contextlib
import hashlib
import os
import signal
import time
from pathlib import Path
from typing import Final

VARIABLE: Final = "KOHORT_CONTAINER"
_WORD: Final = f"{VARIABLE}=".encode()
ROUNDS: Final = 50
_PAUSE_SECONDS: Final = 0.01


def mark(state: Path, id: str) -> str:
    """Of a container: several nodes may be on one machine, so where its supervisor keeps its state is in it."""
    return f"{hashlib.sha256(os.fsencode(state.absolute())).hexdigest()[:12]}/{id}"


def marked(env: dict[str, str], own: str) -> dict[str, str]:
    """An environment with the mark, after those that we have ourselves."""
    return {**env, VARIABLE: f"{os.environ.get(VARIABLE, '')} {own}".strip()}


def end_marked(own: str) -> None:
    """Kill all processes with a mark, and what they start meanwhile. Takes a moment: not for the event loop."""
    for _ in range(ROUNDS):
        found = _with_mark(own.encode())
        if not found:
            return
        for pid in found:
            kill(pid)
        time.sleep(_PAUSE_SECONDS)


def descendants(pid: int) -> list[int]:
    """What a process has started, and what that has started: as long as their ancestors live, that can be seen."""
    found = _children(pid)
    for child in list(found):
        found += descendants(child)
    return found


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def _with_mark(own: bytes) -> list[int]:
    """Zombies are not found: they have no environment any more."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):
                content = Path("/proc", name, "environ").read_bytes()
                if own in content and any(
                    own in word.removeprefix(_WORD).split() for word in content.split(b"\0") if word.startswith(_WORD)
                ):
                    found.append(int(name))
    return found
