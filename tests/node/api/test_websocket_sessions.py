"""Sessions over WebSockets: what each version of the protocol says on the error channel, and base64 for browsers."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import WSMsgType, web

from kohort.node.api.exec_sessions import serve_session
from kohort.node.runtimes.interface import ERROR, STDOUT, CannotStart, Session

NON_ZERO = "command terminated with non-zero exit code: exit status 3"


class Finished:
    """A process that said something and ended."""

    def __init__(self, code: int) -> None:
        self._messages = [(STDOUT, b"out"), (ERROR, str(code).encode())]

    async def read(self) -> tuple[int, bytes] | None:
        return self._messages.pop(0) if self._messages else None

    async def write(self, channel: int, data: bytes) -> None:
        pass

    async def close(self) -> None:
        pass


@asynccontextmanager
async def serving(code: int, problem: str = "") -> AsyncIterator[str]:
    async def begin() -> Session:
        if problem:
            raise CannotStart(problem)
        return Finished(code)

    async def handle(request: web.Request) -> web.StreamResponse:
        return await serve_session(request, begin)

    application = web.Application()
    application.router.add_get("/exec", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/exec?output=1"
    finally:
        await runner.cleanup()


async def messages(protocol: str, code: int, problem: str = "") -> list[tuple[int, bytes]]:
    """What a client receives, channel and data."""
    found: list[tuple[int, bytes]] = []
    protocols = (protocol,) if protocol else ()
    async with (
        serving(code, problem) as url,
        aiohttp.ClientSession() as session,
        session.ws_connect(url, protocols=protocols) as client,
    ):
        assert (client.protocol or "") == protocol
        async for message in client:
            if message.type == WSMsgType.TEXT:
                found.append((int(message.data[0]), base64.b64decode(message.data[1:])))
            else:
                found.append((message.data[0], message.data[1:]))
    return found


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "v5.channel.k8s.io", "v4.base64.channel.k8s.io"])
async def test_since_version_4_the_outcome_is_a_status(protocol: str) -> None:
    output, (channel, status) = await messages(protocol, 0)
    assert (output, channel, json.loads(status)["status"]) == ((STDOUT, b"out"), ERROR, "Success")
    output, (channel, status) = await messages(protocol, 3)
    assert (output, channel, json.loads(status)["reason"]) == ((STDOUT, b"out"), ERROR, "NonZeroExitCode")


@pytest.mark.parametrize("protocol", ["", "channel.k8s.io", "base64.channel.k8s.io"])
async def test_before_version_4_only_a_failure_is_told_and_as_text(protocol: str) -> None:
    assert await messages(protocol, 0) == [(STDOUT, b"out")]
    assert await messages(protocol, 3) == [(STDOUT, b"out"), (ERROR, NON_ZERO.encode())]
    assert await messages(protocol, 0, "no such program") == [(ERROR, b"no such program")]
