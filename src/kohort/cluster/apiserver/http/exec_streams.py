"""Connections that stop being HTTP: exec, attach and port-forward, and logs and watches over WebSockets.

With WebSockets towards both sides, of the same subprotocol, messages are passed on: channels for exec and attach, and
for port-forward as kubectl does it a whole SPDY connection, with a pair of streams for every connection that is
forwarded. The bytes of a client that speaks SPDY itself are relayed to the node (`spdy_relay.py`).

Logs and watches are ordinary answers whose frames become messages: the bytes of a log as they come, one message for
each event of a watch.

The node is asked first. The client gets its 101 only after the node agreed, so that a refusal is an ordinary answer.
"""

import asyncio
import base64
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping, Sequence
from typing import Final

import aiohttp
from aiohttp import WSMsgType, web

from kohort.cluster.apiserver.auth.authentication import offered_subprotocols
from kohort.cluster.apiserver.auth.model import User
from kohort.cluster.apiserver.endpoints import paths
from kohort.cluster.apiserver.endpoints.node_connections import NodeLocation
from kohort.cluster.apiserver.http.aiohttp_response import AlreadyWritten
from kohort.cluster.apiserver.http.node_client import MAX_MESSAGE, VERSIONS, HttpsNodeClient
from kohort.cluster.apiserver.http.spdy_relay import join_connections
from kohort.cluster.apiserver.representation.negotiation import JSON
from kohort.cluster.apiserver.server import ApiServer, failure_response
from kohort.kube import errors
from kohort.kube.http import Request
from kohort.kube.tasks import cancel_all
from kohort.rules.stream_protocols import CHANNELS, PORT_FORWARD, SPDY_TUNNEL

BINARY: Final = "binary.k8s.io"
BASE64: Final = "base64.binary.k8s.io"


class UpgradeHandler:
    """Serves requests to upgrade a connection."""

    def __init__(self, server: ApiServer, nodes: HttpsNodeClient) -> None:
        self._server = server
        self._nodes = nodes

    async def serve(self, request: Request, user: User, incoming: web.BaseRequest) -> web.StreamResponse:
        over_websocket = request.headers.get("upgrade", "").lower() == "websocket"
        try:
            if over_websocket and not leads_to_node(request.path):
                answer = await self._server.handle(request, user)
                if not isinstance(answer.body, bytes):
                    offered = offered_subprotocols(request.headers)
                    return await _messages(incoming, answer.headers, answer.body, offered)
            else:
                location = await self._server.connect(request, user)
                if not over_websocket:
                    return await self._relay(incoming, location)
                return await self._bridge(incoming, location, offered_subprotocols(request.headers))
        except errors.ApiError as error:
            answer = failure_response(request, error)
        assert isinstance(answer.body, bytes)
        return web.Response(status=answer.status, headers=answer.headers, body=answer.body)

    async def _relay(self, incoming: web.BaseRequest, location: NodeLocation) -> web.StreamResponse:
        versions = incoming.headers.getall(VERSIONS, [])
        answer = await self._nodes.upgraded(location, incoming.headers["upgrade"], versions)
        try:
            client, node = join_connections(incoming, answer)
            with contextlib.suppress(ConnectionError):
                await _first(client.pass_on(node), node.pass_on(client))
        finally:
            answer.close()
        return AlreadyWritten(keep_alive=False)

    async def _bridge(
        self, incoming: web.BaseRequest, location: NodeLocation, offered: Sequence[str]
    ) -> web.StreamResponse:
        spoken = PORT_FORWARD if location.path.startswith("/portForward/") else CHANNELS
        chosen = next((one for one in spoken if one in offered), "")
        if not chosen and offered:
            raise errors.bad_request(f"unable to negotiate a subprotocol; offered: {', '.join(offered)}")
        node = await self._nodes.websocket(location, (chosen,) if chosen else ())
        if chosen == SPDY_TUNNEL and node.protocol != chosen:
            await node.close()
            raise errors.bad_request(f"unable to upgrade: node {location.node} does not speak {chosen}")
        client = web.WebSocketResponse(protocols=(chosen,) if chosen else (), max_msg_size=MAX_MESSAGE, compress=False)
        try:
            await client.prepare(incoming)
            await _first(_pass_on(client, node), _pass_on(node, client))
            await client.close(code=node.close_code or aiohttp.WSCloseCode.OK)
        finally:
            await node.close()
        return client


def leads_to_node(path: str) -> bool:
    """Whether a request to upgrade is answered by a node, and not by this server."""
    found = paths.parse(path)
    return found is not None and found.subresource in ("exec", "attach", "portforward")


async def _messages(
    incoming: web.BaseRequest, headers: Mapping[str, str], frames: AsyncIterator[bytes], offered: Sequence[str]
) -> web.StreamResponse:
    """Send what an answer consists of as messages; an empty one says that it begins. The client only listens."""
    is_watch = headers.get("content-type", "").startswith(JSON)
    chosen = next((one for one in (BINARY, BASE64) if one in offered), "")
    client = web.WebSocketResponse(protocols=(chosen,) if chosen else (), max_msg_size=MAX_MESSAGE, compress=False)
    await client.prepare(incoming)

    async def send() -> None:
        if not is_watch:
            await (client.send_str("") if chosen == BASE64 else client.send_bytes(b""))
        async for frame in frames:
            if is_watch:
                for event in frame.splitlines():
                    await client.send_str(event.decode())
            elif chosen == BASE64:
                await client.send_str(base64.b64encode(frame).decode())
            else:
                await client.send_bytes(frame)

    async def listen() -> None:
        async for _ in client:
            pass

    try:
        with contextlib.suppress(ConnectionError):
            await _first(send(), listen())
            await client.close()
    finally:
        if isinstance(frames, AsyncGenerator):
            await frames.aclose()
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
        await cancel_all(*tasks)
