"""How agent and supervisor talk: frames of a length, a channel and content. Requests and answers are JSON.

The socket is in the state directory, which only its owner may enter. A socket's path is limited to 107 bytes, so the
directory is opened first and the socket is named relative to that descriptor. Both sides also ask the kernel who the
other one is: commands are only taken from the same user (or root), and only given to a supervisor of the same user.
"""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from kohort.node.runtimes.interface import Instance, Launch

CONTROL: Final = 254
_HEAD: Final = struct.Struct("!IB")
LONGEST: Final = 1 << 20
SOCKET: Final = "supervisor.sock"
MARKERS: Final = ("instances", SOCKET, "supervisor.log")
"""One of these is in every state directory that a supervisor has used."""
_CREDENTIALS: Final = struct.Struct("3i")
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class SupervisorRequest(msgspec.Struct, frozen=True):
    """A request. `launch` answers with the instance; `execute` and `attach` go on as a session; `watch` as a stream."""

    what: Literal["list", "launch", "signal", "remove", "execute", "attach", "watch", "stop"]
    id: str = ""
    launch: Launch | None = None
    number: int = 0


class SupervisorReply(msgspec.Struct, frozen=True):
    problem: str = ""
    instances: tuple[Instance, ...] = ()


class WrongPeer(ConnectionError):
    """The process at the other end of a socket belongs to another user."""


async def connect(state: Path) -> Connection:
    """A connection to the supervisor of a state directory. Raises OSError, WrongPeer if it belongs to another user."""
    made = socket.socket(socket.AF_UNIX)
    try:
        made.setblocking(False)
        with _socket_path(state) as path:
            await asyncio.get_running_loop().sock_connect(made, path)
        if (uid := peer_uid(made)) != os.geteuid():
            raise WrongPeer(f"{state / SOCKET} is served by uid {uid}, not by uid {os.geteuid()}: it is not used")
        return await asyncio.open_unix_connection(sock=made)
    except BaseException:
        made.close()
        raise


def listening_socket(state: Path) -> socket.socket:
    """The supervisor's socket, in place of one that an earlier supervisor has left."""
    made = socket.socket(socket.AF_UNIX)
    try:
        with _socket_path(state) as path:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            made.bind(path)
            os.chmod(path, 0o600)
    except BaseException:
        made.close()
        raise
    return made


def peer_uid(connected: socket.socket) -> int:
    """The user of the process at the other end."""
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1])


@contextlib.contextmanager
def _socket_path(state: Path) -> Iterator[str]:
    directory = os.open(state, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{SOCKET}"
    finally:
        os.close(directory)


async def read(reader: asyncio.StreamReader) -> tuple[int, bytes] | None:
    """The next frame, None at the end."""
    try:
        length, channel = _HEAD.unpack(await reader.readexactly(_HEAD.size))
        return channel, await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def frame(channel: int, content: bytes) -> bytes:
    return _HEAD.pack(len(content), channel) + content
