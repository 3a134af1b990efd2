"""Connections whose requests are plain, until one is not."""

import asyncio
from collections.abc import Callable

import pytest
from tests.cluster.apiserver.http.waiting import Waiting

from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.http.https_server import HttpsServer
from kohort.cluster.apiserver.http.response_writer import ResponseWriter
from kohort.cluster.apiserver.http.simple_connection import HELD_LIMIT, Connection
from kohort.cluster.apiserver.http.simple_request import SimpleRequest
from kohort.kube.log import Log

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def plain(method: str, path: str, body: str = "", *, last: bool = False) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, *(["Connection: close"] if last else []), "", body]).encode()


def chunked(path: str, body: str, *, last: bool = False) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", "Content-Type: application/json", "Transfer-Encoding: chunked"]
    chunks = [f"{len(body):x}", body, "0", "", ""]
    return "\r\n".join([*lines, *(["Connection: close"] if last else []), "", *chunks]).encode()


def config_map(name: str) -> str:
    return f'{{"metadata":{{"name":"{name}"}}}}'


async def exchange(front: HttpsServer, *pieces: bytes) -> list[bytes]:
    """The codes of all answers on one connection; a piece is sent when the one before it has been answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    codes = []
    async with asyncio.timeout(5):
        for piece in pieces[:-1]:
            writer.write(piece)
            head = await reader.readuntil(b"\r\n\r\n")
            codes.append(head.split()[1])
            await reader.readexactly(int(head.partition(b"content-length: ")[2].split()[0]))
        writer.write(pieces[-1])
        rest = await reader.read()
    writer.close()
    return [*codes, *(part.split()[1] for part in rest.split(b"HTTP/1.1")[1:] for part in [b"HTTP/1.1" + part])]


async def test_a_connection_may_change_its_ways(front: HttpsServer) -> None:
    pieces = (
        plain("POST", CONFIG_MAPS, config_map("a")),
        plain("GET", f"{CONFIG_MAPS}/a"),
        chunked(CONFIG_MAPS, config_map("b")),
        plain("GET", f"{CONFIG_MAPS}/b"),
        plain("DELETE", f"{CONFIG_MAPS}/c", last=True),
    )
    assert await exchange(front, *pieces) == [b"201", b"200", b"201", b"200", b"404"]


@pytest.mark.parametrize("second", [plain, chunked])
async def test_what_arrives_early_is_answered_in_its_turn(front: HttpsServer, second: Callable[..., bytes]) -> None:
    args = ("POST",) if second is plain else ()
    together = plain("POST", CONFIG_MAPS, config_map("a")) + second(*args, CONFIG_MAPS, config_map("a"), last=True)
    assert await exchange(front, together) == [b"201", b"409"]


async def test_a_request_may_arrive_in_pieces(front: HttpsServer) -> None:
    whole = plain("POST", CONFIG_MAPS, config_map("a"), last=True)
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    async with asyncio.timeout(5):
        for piece in (whole[:30], whole[30:-10], whole[-10:]):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01)
        assert (await reader.read()).split()[1] == b"201"
    writer.close()


class Busy:
    """Never finishes an answer."""

    def __init__(self) -> None:
        self.connections: set[Connection] = set()

    async def serve(self, request: SimpleRequest, exchange: ResponseWriter, certificate: object) -> None:
        await asyncio.Event().wait()


class Pausable(asyncio.Transport):
    paused = False

    def pause_reading(self) -> None:
        self.paused = True


async def test_behind_a_request_that_takes_long_only_a_little_is_read() -> None:
    one, transport = Connection(Busy(), asyncio.Protocol, Log()), Pausable()
    one.connection_made(transport)
    one.data_received(plain("GET", CONFIG_MAPS))
    one.data_received(b"x" * HELD_LIMIT)
    assert not transport.paused
    one.data_received(b"x")
    assert transport.paused
    one.connection_lost(None)


async def test_a_silent_connection_is_closed(front: HttpsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    async with asyncio.timeout(5):
        writer.write(plain("GET", "/livez"))
        await reader.readuntil(b"\r\n\r\nok")
        front._close_idle(asyncio.get_running_loop())
        assert front.connections
        monkeypatch.setattr("kohort.cluster.apiserver.http.https_server.IDLE_SECONDS", -1.0)
        front._close_idle(asyncio.get_running_loop())
        assert await reader.read() == b""
    writer.close()


async def test_a_running_write_is_answered_before_the_server_stops() -> None:
    server = Waiting()
    front = HttpsServer(server, lambda *_: ADMIN)
    await front.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    async with asyncio.timeout(5):
        writer.write(plain("POST", CONFIG_MAPS, config_map("last")))
        await server.arrived.wait()
        stopping = asyncio.ensure_future(front.stop())
        await asyncio.sleep(0)
        server.released.set()
        assert (await reader.read()).split()[1] == b"201"
        await stopping
    writer.close()
    await server.close()
