"""How agent and supervisor talk: frames of a length, a channel and content. Requests and answers are JSON."""

import asyncio
import hashlib
import os
import struct
import tempfile
from pathlib import Path
from typing import Final, Literal

import msgspec

from kohort.node.runtimes.interface import Instance, Launch

CONTROL: Final = 254
_HEAD: Final = struct.Struct("!IB")
LONGEST: Final = 1 << 20
LONGEST_SOCKET_PATH: Final = 104


class Ask(msgspec.Struct, frozen=True):
    """A request. `launch` answers with the instance; `execute` and `attach` go on as a session; `watch` as a stream."""

    what: Literal["list", "launch", "signal", "remove", "execute", "attach", "watch", "stop"]
    id: str = ""
    launch: Launch | None = None
    number: int = 0


class Answer(msgspec.Struct, frozen=True):
    problem: str = ""
    instances: tuple[Instance, ...] = ()


def socket_path(state: Path) -> Path:
    """Where the supervisor of a state directory listens: there, unless the kernel finds the path too long."""
    path = state.absolute() / "supervisor.sock"
    if len(os.fsencode(path)) < LONGEST_SOCKET_PATH:
        return path
    return Path(tempfile.gettempdir(), f"kohort-{hashlib.sha256(os.fsencode(path)).hexdigest()[:20]}.sock")


async def read(reader: asyncio.StreamReader) -> tuple[int, bytes] | None:
    """The next frame, None at the end."""
    try:
        length, channel = _HEAD.unpack(await reader.readexactly(_HEAD.size))
        return channel, await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def frame(channel: int, content: bytes) -> bytes:
    return _HEAD.pack(len(content), channel) + content
