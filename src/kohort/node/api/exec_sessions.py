"""Exec and attach: sessions between clients of the API server and processes in containers.

Every protocol has five channels: standard input, output and error, the outcome, and the size of the terminal.
A WebSocket carries them as messages that begin with the channel's number, SPDY as streams with names. Since version 4
the outcome is a Status object; before, it is the message of a failure, and nothing at all for a success.
"""

import asyncio
import base64
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, Protocol

import msgspec
from aiohttp import WSCloseCode, WSMsgType, web

from kohort.node.api.spdy_connection import (
    MAX_MESSAGE,
    SpdyConnection,
    Stream,
    Upgraded,
    asks_for_spdy,
    offered_versions,
)
from kohort.node.runtimes.interface import CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT, CannotStart, Session
from kohort.objects.json_types import JsonObject
from kohort.rules.stream_protocols import CHANNELS, SPDY_VERSIONS, UPGRADE_REQUIRED

STREAMS_SECONDS: Final = 30.0
"""How long a client may take to open its streams."""
MAX_QUEUED: Final = 64
"""Pieces of input that wait for the process."""
MAX_SIZE_TEXT: Final = 4096
"""Characters of a terminal size that has not arrived completely; more is discarded."""
_STREAMS: Final = {"error": ERROR, "stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "resize": RESIZE}
Begin = Callable[[], Awaitable[Session]]


class Channels(Protocol):
    """The client's side of a session."""

    async def receive(self) -> tuple[int, bytes] | None:
        """What the client sends; None when it has gone."""
        ...

    async def send(self, channel: int, data: bytes) -> None: ...
    async def close(self) -> None: ...


async def serve_session(request: web.Request, begin: Begin, *, reports_exit_code: bool = True) -> web.StreamResponse:
    """Upgrade the connection as the client asks for it, begin the session, and carry data both ways until its end.
    Without `reports_exit_code` the session ends with success: attaching has not failed when the container has."""
    if not asks_for_spdy(request):
        messages = web.WebSocketResponse(protocols=CHANNELS, max_msg_size=MAX_MESSAGE, compress=False)
        if not messages.can_prepare(request).ok:
            return web.Response(status=400, text=UPGRADE_REQUIRED)
        await messages.prepare(request)
        protocol = messages.ws_protocol or ""
        channels = TextChannels(messages) if ".base64." in f".{protocol}" else MessageChannels(messages)
        await _talk(channels, begin, _wanted(request.query), Outcome(reports_exit_code, _has_status(protocol)))
        return messages
    offered = offered_versions(request)
    version = next((each for each in SPDY_VERSIONS if each in offered), "")
    if offered and not version:
        return web.Response(status=403, text=f"unable to upgrade: none of {', '.join(offered)} is spoken here")
    upgraded = Upgraded(version)
    await upgraded.begin(request)
    streams = StreamChannels(SpdyConnection(upgraded), _expected(request.query, version))
    if await streams.complete():
        await _talk(streams, begin, _wanted(request.query), Outcome(reports_exit_code, _has_status(version)))
    await streams.close()
    return upgraded


class Outcome(NamedTuple):
    """How the end of a session is reported to the client."""

    reports_exit_code: bool
    """Whether an exit code other than 0 is a failure."""
    has_status: bool
    """Whether the client reads Status objects."""

    def of_exit(self, code: int) -> bytes:
        return self._encoded(_exit_status(code if self.reports_exit_code else 0))

    def of_problem(self, problem: str) -> bytes:
        return self._encoded(_failed(problem))

    def _encoded(self, status: JsonObject) -> bytes:
        if self.has_status:
            return msgspec.json.encode(status)
        return str(status.get("message", "")).encode()


def _has_status(protocol: str) -> bool:
    return protocol.startswith(("v4.", "v5."))


class MessageChannels:
    def __init__(self, messages: web.WebSocketResponse) -> None:
        self._messages = messages

    async def receive(self) -> tuple[int, bytes] | None:
        async for message in self._messages:
            if message.type == WSMsgType.BINARY and message.data:
                return message.data[0], message.data[1:]
        return None

    async def send(self, channel: int, data: bytes) -> None:
        await self._messages.send_bytes(bytes([channel]) + data)

    async def close(self) -> None:
        await self._messages.close(code=WSCloseCode.OK)


class TextChannels:
    """For clients that cannot read bytes: the channel is a digit, the rest is base64."""

    def __init__(self, messages: web.WebSocketResponse) -> None:
        self._messages = messages

    async def receive(self) -> tuple[int, bytes] | None:
        async for message in self._messages:
            if message.type == WSMsgType.TEXT and message.data[:1].isdigit():
                with contextlib.suppress(ValueError):
                    return int(message.data[0]), base64.b64decode(message.data[1:], validate=True)
        return None

    async def send(self, channel: int, data: bytes) -> None:
        await self._messages.send_str(f"{channel}{base64.b64encode(data).decode()}")

    async def close(self) -> None:
        await self._messages.close(code=WSCloseCode.OK)


class StreamChannels:
    def __init__(self, connection: SpdyConnection, expected: frozenset[str]) -> None:
        self._connection = connection
        self._expected = expected
        self._streams: dict[str, Stream] = {}
        self._all_there = asyncio.Event()
        self._arrived: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue(MAX_QUEUED)
        self._tasks = [asyncio.create_task(self._listen())]

    async def complete(self) -> bool:
        """Whether the client has opened all streams that its request speaks of."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._all_there.wait(), STREAMS_SECONDS)
        return self._expected <= self._streams.keys()

    async def receive(self) -> tuple[int, bytes] | None:
        return await self._arrived.get()

    async def send(self, channel: int, data: bytes) -> None:
        for name, stream in self._streams.items():
            if _STREAMS[name] == channel:
                await stream.write(data)

    async def close(self) -> None:
        with contextlib.suppress(ConnectionError):
            for stream in self._streams.values():
                await stream.write(b"", last=True)
        for task in self._tasks:
            task.cancel()
        await self._connection.close()

    async def _listen(self) -> None:
        async for stream in self._connection.opened():
            name = stream.headers.get("streamtype", "")
            if name not in _STREAMS:
                continue
            self._streams[name] = stream
            if name == "stdin":
                self._tasks.append(asyncio.create_task(self._take_input(stream)))
            elif name == "resize":
                self._tasks.append(asyncio.create_task(self._take_sizes(stream)))
            if self._expected <= self._streams.keys():
                self._all_there.set()
        self._all_there.set()
        await self._arrived.put(None)

    async def _take_input(self, stream: Stream) -> None:
        while (data := await stream.read()) is not None:
            await self._arrived.put((STDIN, data))
        await self._arrived.put((CLOSE, bytes([STDIN])))

    async def _take_sizes(self, stream: Stream) -> None:
        """A row of JSON documents with nothing between them but space."""
        text = ""
        while (data := await stream.read()) is not None:
            text = (text + data.decode(errors="replace")).lstrip()
            with contextlib.suppress(json.JSONDecodeError):
                while text:
                    _, end = json.JSONDecoder().raw_decode(text)
                    await self._arrived.put((RESIZE, text[:end].encode()))
                    text = text[end:].lstrip()
            text = text if len(text) <= MAX_SIZE_TEXT else ""


async def _talk(channels: Channels, begin: Begin, wanted: frozenset[int], outcome: Outcome) -> None:
    try:
        session = await begin()
    except CannotStart as problem:
        with contextlib.suppress(ConnectionError):
            await channels.send(ERROR, outcome.of_problem(str(problem)))
            await channels.close()
        return
    inward = asyncio.create_task(_from_client(channels, session))
    try:
        with contextlib.suppress(ConnectionError):
            await _to_client(channels, session, wanted, outcome)
    finally:
        inward.cancel()
        await session.close()
        with contextlib.suppress(ConnectionError):
            await channels.close()


async def _from_client(channels: Channels, session: Session) -> None:
    while (message := await channels.receive()) is not None:
        channel, data = message
        if (channel == STDIN and data) or channel == RESIZE or (channel == CLOSE and data[:1] == bytes([STDIN])):
            await session.write(channel, data)
    await session.close()


async def _to_client(channels: Channels, session: Session, wanted: frozenset[int], outcome: Outcome) -> None:
    while (message := await session.read()) is not None:
        channel, data = message
        if channel == ERROR:
            if outcome_text := outcome.of_exit(int(data)):
                await channels.send(ERROR, outcome_text)
            return
        if channel in wanted:
            await channels.send(channel, data)


def _wanted(query: Mapping[str, str]) -> frozenset[int]:
    """The output that the client has asked for."""
    return frozenset(
        channel for channel, name in ((STDOUT, "output"), (STDERR, "error")) if query.get(name) in ("1", "true")
    )


def _expected(query: Mapping[str, str], version: str) -> frozenset[str]:
    """The streams that a client opens for its request; a terminal has one for its size since version 3."""
    asked = (("stdin", "input"), ("stdout", "output"), ("stderr", "error"))
    names = {stream for stream, name in asked if query.get(name) in ("1", "true")}
    if query.get("tty") in ("1", "true"):
        names.discard("stderr")
        if version in SPDY_VERSIONS[:2]:
            names.add("resize")
    return frozenset({"error", *names})


def _exit_status(code: int) -> JsonObject:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _failed(problem: str) -> JsonObject:
    return {"metadata": {}, "status": "Failure", "message": problem, "reason": "InternalError", "code": 500}
