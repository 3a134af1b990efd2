"""Exec and attach: a client of the runtime's streaming server, which listens on the loopback of this machine.

The runtime answers Exec and Attach with a URL that can be used once. SPDY/3.1 is spoken there rather than WebSockets,
because runtimes offer no version of the latter in which the end of standard input can be sent, which `kubectl exec -i`
with a file needs.
"""

import asyncio
import contextlib
from typing import Final
from urllib.parse import urlsplit

import msgspec

from kohort.kube import spdy
from kohort.node.runtimes.interface import CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT, CannotStart

PROTOCOL: Final = "v4.channel.k8s.io"
CONNECT_SECONDS: Final = 30.0
MAX_QUEUED: Final = 256
CHUNK: Final = 65536
CANNOT_EXECUTE: Final = 126
NAMES: Final = {ERROR: "error", STDIN: "stdin", STDOUT: "stdout", STDERR: "stderr", RESIZE: "resize"}


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] = []


class _Outcome(msgspec.Struct):
    """The Status object in which a session ends."""

    status: str = ""
    reason: str = ""
    message: str = ""
    details: _Details | None = None


class StreamSession:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, channels: tuple[int, ...]) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = spdy.Writer()
        self._numbers = {channel: 2 * index + 1 for index, channel in enumerate(channels)}
        self._arrived: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue(MAX_QUEUED)
        self._outcome = b""
        self._ended = False
        for channel, number in self._numbers.items():
            writer.write(self._frames.open(number, {"streamtype": NAMES[channel]}))
        self._listening = asyncio.create_task(self._listen(), name="cri-session")

    async def read(self) -> tuple[int, bytes] | None:
        return await self._arrived.get()

    async def write(self, channel: int, data: bytes) -> None:
        ends = channel == CLOSE and data[:1] == bytes([STDIN])
        number = self._numbers.get(STDIN if ends else channel)
        if number is None or self._writer.is_closing():
            return
        self._writer.write(self._frames.data(number, b"" if ends else data, fin=ends))
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    async def close(self) -> None:
        self._listening.cancel()
        self._writer.close()

    async def _listen(self) -> None:
        frames, channels = spdy.Reader(), {number: channel for channel, number in self._numbers.items()}
        try:
            while data := await self._reader.read(CHUNK):
                for frame in frames.feed(data):
                    match frame:
                        case spdy.StreamData(number, content, fin):
                            await self._take(channels.get(number, CLOSE), content, fin)
                        case spdy.Ping(number) if number % 2 == 0:
                            self._writer.write(self._frames.ping(number))
                        case spdy.GoAway():
                            break
        except (spdy.ProtocolError, ConnectionError):
            pass
        finally:
            self._writer.close()
        if self._outcome:
            await self._end()
        await self._arrived.put(None)

    async def _take(self, channel: int, content: bytes, fin: bool) -> None:
        if channel == ERROR:
            self._outcome += content
            if fin or _is_complete(self._outcome):  # some runtimes close the connection without ending the stream
                await self._end()
        elif content:
            await self._arrived.put((channel, content))

    async def _end(self) -> None:
        if not self._ended:
            self._ended = True
            for message in ending(self._outcome):
                await self._arrived.put(message)


async def connect(url: str, *, stdin: bool, tty: bool) -> StreamSession:
    """Begin a session at a URL of the runtime. Raises CannotStart."""
    place = urlsplit(url)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(place.hostname, place.port)
            path = place.path + (f"?{place.query}" if place.query else "")
            writer.write(
                f"POST {path} HTTP/1.1\r\nHost: {place.netloc}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
                f"X-Stream-Protocol-Version: {PROTOCOL}\r\nContent-Length: 0\r\n\r\n".encode()
            )
            head = (await reader.readuntil(b"\r\n\r\n")).decode(errors="replace")
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as problem:
        raise CannotStart(f"the streaming server of the runtime cannot be reached: {problem}") from problem
    line = head.partition("\r\n")[0]
    if " 101" not in line:
        writer.close()
        raise CannotStart(f"the streaming server of the runtime answered: {line}")
    channels = (ERROR, *((STDIN,) if stdin else ()), STDOUT, *(() if tty else (STDERR,)), *((RESIZE,) if tty else ()))
    return StreamSession(reader, writer, channels)


def _is_complete(outcome: bytes) -> bool:
    try:
        msgspec.json.decode(outcome, type=_Outcome)
    except msgspec.MsgspecError:
        return False
    return True


def ending(outcome: bytes) -> list[tuple[int, bytes]]:
    """The last messages of a session, from the Status object that the runtime has sent: its exit code and, for a
    command that could not be run, why."""
    try:
        found = msgspec.json.decode(outcome, type=_Outcome)
    except msgspec.MsgspecError:
        return [(STDERR, outcome), (ERROR, str(CANNOT_EXECUTE).encode())] if outcome else [(ERROR, b"0")]
    if found.status == "Success":
        return [(ERROR, b"0")]
    for cause in found.details.causes if found.details is not None else ():
        if cause.reason == "ExitCode" and cause.message.isdecimal():
            return [(ERROR, cause.message.encode())]
    return [(STDERR, found.message.encode() + b"\n"), (ERROR, str(CANNOT_EXECUTE).encode())]
