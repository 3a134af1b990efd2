"""The door of a node. What is behind it is loaded when somebody knocks: most nodes of most clusters never run a command
or show a log, and aiohttp would be a fifth of their start and of their memory."""

import asyncio
import contextlib
import socket
from pathlib import Path

from kohort.node.agent import Agent
from kohort.node.api.client_authentication import reachable_name, serving_context


async def listen(agent: Agent, directory: Path, authority: str) -> None:
    """Tell the agent where the door is, and answer it until cancelled."""
    name, host = agent.name, agent.node.host
    making = asyncio.to_thread(serving_context, directory, host, name, authority)
    context, agent.hostname = await asyncio.gather(making, reachable_name(name, host))
    with socket.create_server((host, 0)) as door:
        agent.port = door.getsockname()[1]
        agent.heartbeat.changed()
        await _knocked(door)
        from kohort.node.api.server import NodeApi

        api = NodeApi(agent)
        try:
            await api.start(door, context)
            await asyncio.Event().wait()
        finally:
            with contextlib.suppress(OSError):
                await api.stop()


async def _knocked(door: socket.socket) -> None:
    """Wait until a connection could be accepted."""
    door.setblocking(False)
    loop = asyncio.get_running_loop()
    knock = loop.create_future()

    def heard() -> None:
        loop.remove_reader(door)
        knock.set_result(None)

    loop.add_reader(door, heard)
    try:
        await knock
    finally:
        loop.remove_reader(door)
