"""Connections that stop being HTTP: exec, attach and port-forward.

Towards the client and towards the node both sides are WebSockets with the same subprotocol, so exec and attach are
messages passed on. Port-forward as kubectl does it is a SPDY connection inside a WebSocket, with a pair of streams for
every forwarded connection; each pair becomes a WebSocket to the node with two channels, data and errors.

The node is asked first. Only when it agreed does the client get its 101, so that a refusal is an ordinary HTTP answer.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from typing import Final

import aiohttp
import msgspec
from aiohttp import WSMsgType, web

from kohort.cluster.apiserver.auth.authentication import offered_subprotocols
from kohort.cluster.apiserver.auth.model import User
from kohort.cluster.apiserver.endpoints.nodes import NodeLocation
from kohort.cluster.apiserver.http.nodeclient import HttpsNodeClient
from kohort.cluster.apiserver.server import ApiServer, failure_response
from kohort.kube import errors, spdy
from kohort.kube.http import Request
from kohort.kube.log import Log

CHANNEL_PROTOCOLS: Final = (
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v3.channel.k8s.io",
    "v2.channel.k8s.io",
    "channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "base64.channel.k8s.io",
)
SPDY_TUNNEL: Final = "SPDY/3.1+portforward.k8s.io"
NODE_PORT_FORWARD: Final = "v4.channel.k8s.io"
PING_PERIOD: Final = 25.0
DATA, ERROR = 0, 1


class Streams:
    """Serves upgrade requests of the front."""

    def __init__(self, server: ApiServer, nodes: HttpsNodeClient) -> None:
        self._server = server
        self._nodes = nodes
        self._log = Log(part="streams")

    async def serve(self, request: Request, user: User, incoming: web.BaseRequest) -> web.StreamResponse:
        try:
            location = await self._server.connect(request, user)
            if request.headers.get("upgrade", "").lower() != "websocket":
                raise await self._unsupported(request, location)
            offered = offered_subprotocols(request.headers)
            if location.path.startswith("/portForward/") and SPDY_TUNNEL in offered:
                return await self._forward(incoming, location)
            return await self._bridge(incoming, location, offered)
        except errors.ApiError as error:
            answer = failure_response(request, error)
            assert isinstance(answer.body, bytes)
            return web.Response(status=answer.status, headers=answer.headers, body=answer.body)

    async def _unsupported(self, request: Request, location: NodeLocation) -> errors.ApiError:
        """For a protocol that is not spoken here. kubectl tries SPDY when a WebSocket was refused, and shows only the
        second answer: that says first what was wrong with the request itself."""
        objection = None if location.path.startswith("/portForward/") else await self._nodes.objection(location)
        words = f"unable to upgrade: {request.headers.get('upgrade', '')} is not supported"
        return objection or errors.bad_request(words)

    # --- exec, attach, and port-forward by channels -------------------------------------------------------------------

    async def _bridge(
        self, incoming: web.BaseRequest, location: NodeLocation, offered: Sequence[str]
    ) -> web.StreamResponse:
        chosen = next((one for one in CHANNEL_PROTOCOLS if one in offered), "")
        if not chosen:
            raise errors.bad_request(f"unable to negotiate a subprotocol; offered: {', '.join(offered) or 'none'}")
        node = await self._nodes.websocket(location, (chosen,))
        client = web.WebSocketResponse(protocols=(chosen,), max_msg_size=0, compress=False)
        try:
            await client.prepare(incoming)
            await _first(_pass_on(client, node), _pass_on(node, client))
            await client.close(code=node.close_code or aiohttp.WSCloseCode.OK)
        finally:
            await node.close()
        return client

    # --- port-forward by SPDY -----------------------------------------------------------------------------------------

    async def _forward(self, incoming: web.BaseRequest, location: NodeLocation) -> web.StreamResponse:
        client = web.WebSocketResponse(protocols=(SPDY_TUNNEL,), max_msg_size=0, compress=False)
        await client.prepare(incoming)
        tunnel = Tunnel(client, self._nodes, location, self._log)
        try:
            await tunnel.run()
        finally:
            await tunnel.close()
            with contextlib.suppress(ConnectionError):
                await client.close()
        return client


Peer = web.WebSocketResponse | aiohttp.ClientWebSocketResponse


async def _pass_on(source: Peer, target: Peer) -> None:
    """Messages from one side to the other until the source is closed."""
    async for message in source:
        if message.type == WSMsgType.BINARY:
            await target.send_bytes(message.data)
        elif message.type == WSMsgType.TEXT:
            await target.send_str(message.data)
        else:
            return


async def _first(*directions: Coroutine[None, None, None]) -> None:
    """Run all; when one ends, the others end too."""
    tasks = [asyncio.ensure_future(one) for one in directions]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Forwarded:
    """One forwarded connection: a pair of streams towards the client, a WebSocket towards the node."""

    def __init__(self, port: str) -> None:
        self.port = port
        self.streams: dict[str, int] = {}
        self.to_node: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.task: asyncio.Task[None] | None = None

    @property
    def complete(self) -> bool:
        return {"data", "error"} <= self.streams.keys()


class Tunnel:
    """The SPDY connection of one `kubectl port-forward`."""

    def __init__(self, client: web.WebSocketResponse, nodes: HttpsNodeClient, location: NodeLocation, log: Log) -> None:
        self._client = client
        self._nodes = nodes
        self._location = location
        self._log = log
        self._reader = spdy.Reader()
        self._writer = spdy.Writer()
        self._pairs: dict[str, Forwarded] = {}
        self._by_stream: dict[int, tuple[str, Forwarded]] = {}

    async def run(self) -> None:
        async for message in self._client:
            if message.type != WSMsgType.BINARY:
                continue
            try:
                for frame in self._reader.feed(message.data):
                    if not await self._take(frame):
                        return
            except spdy.ProtocolError as problem:
                self._log.warning("port-forward ended", problem=str(problem))
                return

    async def close(self) -> None:
        tasks = [pair.task for pair in self._pairs.values() if pair.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self, frame: spdy.Frame) -> bool:
        match frame:
            case spdy.StreamOpened(stream, headers, _):
                await self._opened(stream, headers)
            case spdy.StreamData(stream, data, fin):
                kind, pair = self._by_stream.get(stream, ("", None))
                if pair is not None and kind == "data":
                    if data:
                        pair.to_node.put_nowait(data)
                    if fin:
                        pair.to_node.put_nowait(None)
            case spdy.StreamReset(stream):
                _, pair = self._by_stream.pop(stream, ("", None))
                if pair is not None and pair.task is not None:
                    pair.task.cancel()
            case spdy.Ping(number):
                if number % 2:
                    await self._client.send_bytes(self._writer.ping(number))
            case spdy.GoAway():
                return False
        return True

    async def _opened(self, stream: int, headers: dict[str, str]) -> None:
        kind, port = headers.get("streamtype", ""), headers.get("port", "")
        if kind not in ("data", "error") or not port.isdigit():
            await self._client.send_bytes(self._writer.reset(stream))
            return
        await self._client.send_bytes(self._writer.reply(stream))
        identity = headers.get("requestid") or str(stream if kind == "error" else stream - 2)
        pair = self._pairs.setdefault(identity, Forwarded(port))
        pair.streams[kind] = stream
        self._by_stream[stream] = (kind, pair)
        if pair.complete and pair.task is None:
            pair.task = asyncio.ensure_future(self._carry(identity, pair))

    async def _carry(self, identity: str, pair: Forwarded) -> None:
        location = msgspec.structs.replace(self._location, query=(("port", pair.port), ("ports", pair.port)))
        data, error = pair.streams["data"], pair.streams["error"]
        problem = ""
        try:
            node = await self._nodes.websocket(location, (NODE_PORT_FORWARD,))
            try:
                problem = await self._exchange(pair, node)
            finally:
                await node.close()
        except errors.ApiError as refused:
            problem = f"error forwarding port {pair.port} to pod: {refused.message}"
        except (aiohttp.ClientError, ConnectionError) as lost:
            problem = f"error forwarding port {pair.port} to pod: {lost}"
        finally:
            self._pairs.pop(identity, None)
            with contextlib.suppress(ConnectionError):
                await self._client.send_bytes(self._writer.data(data, b"", fin=True))
                await self._client.send_bytes(self._writer.data(error, problem.encode(), fin=True))

    async def _exchange(self, pair: Forwarded, node: aiohttp.ClientWebSocketResponse) -> str:
        """Copy both ways until one side is done; the text that the node wrote to its error channel."""
        problems: list[bytes] = []
        data = pair.streams["data"]
        greeted = set()

        async def outward() -> None:
            async for message in node:
                if message.type != WSMsgType.BINARY or not message.data:
                    continue
                channel, payload = message.data[0], message.data[1:]
                if channel not in greeted:
                    # The first message of each channel is the port number, two bytes.
                    greeted.add(channel)
                    payload = payload[2:]
                if not payload:
                    continue
                if channel == DATA:
                    await self._client.send_bytes(self._writer.data(data, payload))
                elif channel == ERROR:
                    problems.append(payload)

        async def inward() -> None:
            while (chunk := await pair.to_node.get()) is not None:
                await node.send_bytes(bytes([DATA]) + chunk)

        await _first(outward(), inward())
        return b"".join(problems).decode(errors="replace")
