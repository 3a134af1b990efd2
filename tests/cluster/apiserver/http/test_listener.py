"""Sockets that wait for clients, also when there are too many of them."""

import asyncio
import contextlib
import resource
import socket
from collections.abc import AsyncIterator

import pytest

from kohort.cluster.apiserver.http import listener
from kohort.cluster.apiserver.http.listener import Listener
from kohort.kube.log import Log


class Greeting(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"welcome")
        transport.close()


@pytest.fixture
async def sockets() -> AsyncIterator[Listener]:
    one = Listener(Greeting, Log())
    yield one
    one.close()


async def greeting(host: str, port: int) -> bytes:
    async with asyncio.timeout(5):
        reader, writer = await asyncio.open_connection(host, port)
        said = await reader.read()
    writer.close()
    return said


async def test_all_addresses_of_a_host_have_the_same_port(sockets: Listener) -> None:
    port = await sockets.open("localhost", 0)
    for address in {entry[4][0] for entry in socket.getaddrinfo("localhost", port)}:
        assert await greeting(str(address), port) == b"welcome"


async def test_more_come_than_are_let_in_at_once(sockets: Listener) -> None:
    port = await sockets.open("127.0.0.1", 0)
    said = await asyncio.gather(*(greeting("127.0.0.1", port) for _ in range(3 * listener.AT_ONCE)))
    assert set(said) == {b"welcome"}


async def test_a_port_that_is_taken_is_an_error_and_leaves_nothing_open(sockets: Listener) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        await sockets.open("127.0.0.1", taken.getsockname()[1])
    assert await sockets.open("127.0.0.1", 0)


async def test_a_process_without_files_says_so_once_and_goes_on_later(
    sockets: Listener, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(listener, "REST_SECONDS", 0.01)
    port = await sockets.open("127.0.0.1", 0)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.create_connection(("127.0.0.1", port)) as waiting, contextlib.ExitStack() as files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (waiting.fileno() + 1, hard))
        files.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        await asyncio.sleep(0.1)
        files.close()
        waiting.setblocking(False)
        async with asyncio.timeout(5):
            assert await asyncio.get_running_loop().sock_recv(waiting, 100) == b"welcome"
    assert capsys.readouterr().err.count("failed to accept connections") == 1
