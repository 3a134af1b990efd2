"""Listens for connections to the node's API. The server behind it is loaded with the first connection: most nodes never
run a command or show a log, and aiohttp would take a fifth of their start-up time and memory."""

import asyncio
import contextlib
import socket
from pathlib import Path

from kohort.node.agent import Agent
from kohort.node.api.client_authentication import reachable_name, serving_context


async def listen(agent: Agent, directory: Path, authority: str) -> None:
    """Report the port of the node's API, and serve it until cancelled."""
    name, host = agent.state.machine.name, agent.state.machine.address
    making = asyncio.to_thread(serving_context, directory, host, name, authority)
    context, agent.state.hostname = await asyncio.gather(making, reachable_name(name, host))
    with socket.create_server((host, 0)) as listening:
        agent.state.port = listening.getsockname()[1]
        agent.heartbeat.changed()
        await _first_connection(listening)
        from kohort.node.api.server import NodeApi

        api = NodeApi(agent)
        try:
            await api.start(listening, context)
            await asyncio.Event().wait()
        finally:
            with contextlib.suppress(OSError):
                await api.stop()


async def _first_connection(listening: socket.socket) -> None:
    """Wait until a connection could be accepted."""
    listening.setblocking(False)
    loop = asyncio.get_running_loop()
    arrived = loop.create_future()

    def on_readable() -> None:
        loop.remove_reader(listening)
        arrived.set_result(None)

    loop.add_reader(listening, on_readable)
    try:
        await arrived
    finally:
        loop.remove_reader(listening)
