"""Port-forward: connections from clients of the API server to ports of pods.

| the client asks for                       | one forwarded connection is                                     |
|-------------------------------------------|-----------------------------------------------------------------|
| a WebSocket with channels                 | two channels of it, data and errors, for each port in the query |
| SPDY, or SPDY inside a WebSocket (kubectl)| a pair of streams, which belong together by their request id    |
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import WSCloseCode, WSMsgType, web

from kohort.kube.tasks import cancel_all
from kohort.node.api.spdy_connection import (
    MAX_MESSAGE,
    MAX_STREAMS,
    SpdyConnection,
    Stream,
    Tunnel,
    Upgraded,
    asks_for_spdy,
)
from kohort.rules.stream_protocols import FORWARD_CHANNELS, SPDY_TUNNEL, UPGRADE_REQUIRED

FORWARD: Final = "portforward.k8s.io"
CHUNK: Final = 65536
MOST_PORTS: Final = 128
"""Of one connection with channels, which have two numbers below 256 for each port."""
_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


Connect = Callable[[int], Awaitable[_Connection]]
"""Connects to a port of the pod. Raises OSError."""


async def serve_forwarding(request: web.Request, connect: Connect) -> web.StreamResponse:
    if asks_for_spdy(request):
        upgraded = Upgraded(FORWARD)
        await upgraded.begin(request)
        await serve_streams(SpdyConnection(upgraded), connect)
        return upgraded
    offered = request.headers.get("Sec-WebSocket-Protocol", "")
    tunnel = web.WebSocketResponse(protocols=(SPDY_TUNNEL,), max_msg_size=MAX_MESSAGE, compress=False)
    if not tunnel.can_prepare(request).ok:
        return web.Response(status=400, text=UPGRADE_REQUIRED)
    if SPDY_TUNNEL in offered:
        await tunnel.prepare(request)
        await serve_streams(SpdyConnection(Tunnel(tunnel)), connect)
        return tunnel
    asked = request.query.getall("port", [])
    ports = [number for number in map(_port, asked) if number is not None]
    if not asked or len(ports) < len(asked) or len(ports) > MOST_PORTS:
        return web.Response(status=400, text=f"you must specify 1 to {MOST_PORTS} ports, each from 1 to 65535")
    channels = web.WebSocketResponse(protocols=(FORWARD_CHANNELS,), max_msg_size=MAX_MESSAGE, compress=False)
    await channels.prepare(request)
    await _by_channels(channels, ports, connect)
    return channels


def _port(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) < 65536 else None


# Streams


async def serve_streams(connection: SpdyConnection, connect: Connect) -> None:
    waiting: dict[str, dict[str, Stream]] = {}
    tasks: set[asyncio.Task[None]] = set()
    try:
        async for stream in connection.opened():
            kind = stream.headers.get("streamtype", "")
            # Old clients do not number their requests: they open the error stream, then the one for data.
            number = stream.number if kind == "error" else stream.number - 2
            request = stream.headers.get("requestid") or str(number)
            pair = waiting.setdefault(request, {})
            if len(waiting) > MAX_STREAMS:
                return
            pair[kind] = stream
            if {"data", "error"} <= pair.keys():
                del waiting[request]
                task = asyncio.create_task(_carry_pair(pair["data"], pair["error"], connect))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
    finally:
        await cancel_all(*tasks)
        await connection.close()


async def _carry_pair(data: Stream, error: Stream, connect: Connect) -> None:
    port = data.headers.get("port", "")
    problem = ""
    try:
        if (number := _port(port)) is None:
            raise OSError("not a number from 1 to 65535")
        reader, writer = await connect(number)
    except OSError as found:
        problem = f"failed to connect to port {port} of the pod: {found}"
    else:
        try:
            await _both_ways(data, reader, writer)
        finally:
            writer.close()
    with contextlib.suppress(ConnectionError):
        await data.write(b"", last=True)
        await error.write(problem.encode(), last=True)


async def _both_ways(data: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until the pod closes its side: a client that has closed its own may still wait for the answer."""

    async def inward() -> None:
        with contextlib.suppress(OSError):
            while (chunk := await data.read()) is not None:
                writer.write(chunk)
                await writer.drain()
            writer.write_eof()

    sending = asyncio.create_task(inward())
    try:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK):
                await data.write(chunk)
    finally:
        sending.cancel()


# Channels


async def _by_channels(channels: web.WebSocketResponse, ports: list[int], connect: Connect) -> None:
    connections: dict[int, asyncio.StreamWriter] = {}
    tasks: list[asyncio.Task[None]] = []
    for index, port in enumerate(ports):
        for channel in (2 * index, 2 * index + 1):
            await channels.send_bytes(bytes([channel]) + port.to_bytes(2, "little"))
        try:
            reader, writer = await connect(port)
        except OSError as problem:
            message = f"failed to connect to port {port} of the pod: {problem}"
            await channels.send_bytes(bytes([2 * index + 1]) + message.encode())
            continue
        connections[2 * index] = writer
        tasks.append(asyncio.create_task(_outward(channels, reader, 2 * index)))
    try:
        if connections:
            await _until_one_side_ends(channels, connections, tasks)
    finally:
        for task in tasks:
            task.cancel()
        for writer in connections.values():
            writer.close()
        await channels.close(code=WSCloseCode.OK)


async def _until_one_side_ends(
    channels: web.WebSocketResponse, connections: dict[int, asyncio.StreamWriter], tasks: "list[asyncio.Task[None]]"
) -> None:
    async def inward() -> None:
        async for message in channels:
            if message.type == WSMsgType.BINARY and message.data:
                writer = connections.get(message.data[0])
                if writer is not None:
                    writer.write(message.data[1:])
                    with contextlib.suppress(ConnectionError):
                        await writer.drain()

    async def outward() -> None:
        await asyncio.gather(*tasks)

    directions = [asyncio.create_task(inward()), asyncio.create_task(outward())]
    await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
    for direction in directions:
        direction.cancel()


async def _outward(channels: web.WebSocketResponse, reader: asyncio.StreamReader, channel: int) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(CHUNK):
            await channels.send_bytes(bytes([channel]) + data)
