"""TLS as clients see it, and as the protocol on top of it does."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kohort.cluster.apiserver.auth.certificates import Pki, ensure_pki
from kohort.cluster.apiserver.http import tls
from kohort.cluster.apiserver.http.tls import TlsConnection, TlsProtocolFactory


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return ensure_pki(tmp_path_factory.mktemp("pki"))


def client_context(pki: Pki, *, certificate: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(pki.ca_certificate))
    if certificate:
        context.load_cert_chain(pki.admin_certificate, pki.admin_key)
    return context


class Echo(asyncio.Protocol):
    """Says what it hears. A full stop ends the conversation."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.pauses: list[bool] = []
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)
        if data.endswith(b"."):
            self.transport.close()

    def pause_writing(self) -> None:
        self.pauses.append(True)

    def resume_writing(self) -> None:
        self.pauses.append(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


@asynccontextmanager
async def listening(pki: Pki, protocol: Callable[[], asyncio.Protocol] = Echo) -> AsyncIterator[int]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(TlsProtocolFactory(pki.server_context(), protocol), "127.0.0.1", 0)
    try:
        async with asyncio.timeout(10):
            yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_what_is_said_is_heard(pki: Pki, version: ssl.TLSVersion) -> None:
    context = client_context(pki)
    context.maximum_version = version
    said = b"".join(b"%d " % number for number in range(200_000)) + b"."
    async with listening(pki) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(said)
        assert await reader.read() == said
        writer.close()


async def test_a_goodbye_is_said(pki: Pki) -> None:
    """A client can tell the end from a connection that was cut."""

    def talk(port: int) -> bytes:
        context = client_context(pki)
        with socket.create_connection(("127.0.0.1", port)) as plain:
            secured = context.wrap_socket(plain, server_hostname="127.0.0.1", suppress_ragged_eofs=False)
            secured.sendall(b"bye.")
            return secured.recv(100) + secured.recv(100)

    async with listening(pki) as port:
        assert await asyncio.to_thread(talk, port) == b"bye."


@pytest.mark.parametrize("shown", [True, False])
async def test_a_client_certificate_identifies_its_user(pki: Pki, shown: bool) -> None:
    made: list[Echo] = []

    def echo() -> Echo:
        made.append(Echo())
        return made[-1]

    async with listening(pki, echo) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_context(pki, certificate=shown))
        writer.write(b".")
        assert await reader.read() == b"."
        assert made[0].transport is not None
        certificate = made[0].transport.get_extra_info("peercert")
        writer.close()
    assert bool(certificate) is shown


async def test_a_certificate_of_another_authority_is_refused(pki: Pki, tmp_path: Path) -> None:
    other = ensure_pki(tmp_path)
    context = client_context(pki)
    context.load_cert_chain(other.admin_certificate, other.admin_key)
    async with listening(pki, _never) as port:
        with pytest.raises(ssl.SSLError, match="ALERT"):
            reader, _ = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            await reader.read()


def _never() -> asyncio.Protocol:
    raise AssertionError("there should be no protocol for this client")


async def test_a_client_without_tls_gets_a_message(pki: Pki) -> None:
    async with listening(pki, _never) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        assert (head, body) == (b"HTTP/1.0 400 Bad Request", b"Client sent an HTTP request to an HTTPS server.\n")
        writer.close()


@pytest.mark.parametrize("data", [b"\x16nonsense that is no handshake", b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"])
async def test_what_only_looks_like_tls_is_closed(pki: Pki, data: bytes) -> None:
    async with listening(pki, _never) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        await reader.read()
        writer.close()


class Below(asyncio.Transport):
    """The side of the socket, without one."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed = self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.closed or self.aborted


class Client:
    """A TLS client whose bytes are carried by hand, as many at a time as the test likes."""

    def __init__(self, pki: Pki, connection: TlsConnection, below: Below, step: int) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.engine = client_context(pki).wrap_bio(self.incoming, self.outgoing, server_hostname="127.0.0.1")
        self.connection, self.below, self.step = connection, below, step

    def shake(self) -> None:
        for _ in range(5):
            try:
                self.engine.do_handshake()
            except ssl.SSLWantReadError:
                self.carry()
            else:
                self.carry()
                return

    def carry(self) -> None:
        """What was written goes to the server, what it answered comes back."""
        data = self.outgoing.read()
        for start in range(0, len(data), self.step):
            piece = data[start : start + self.step]
            self.connection.get_buffer(-1)[: len(piece)] = piece
            self.connection.buffer_updated(len(piece))
        self.incoming.write(self.below.sent)
        self.below.sent = b""


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
async def test_records_may_arrive_in_pieces_and_together(pki: Pki, step: int) -> None:
    echo, below = Echo(), Below()
    connection = TlsProtocolFactory(pki.server_context(), lambda: echo)()
    connection.connection_made(below)
    client = Client(pki, connection, below, step)
    client.shake()
    for word in (b"one ", b"two ", b"three"):
        client.engine.write(word)
    client.carry()
    heard = b"".join(client.engine.read() for _ in range(1 if step > 7 else 3))
    assert heard == b"one two three"
    connection.connection_lost(None)
    assert echo.lost


async def test_a_damaged_record_ends_the_connection(pki: Pki) -> None:
    echo, below = Echo(), Below()
    connection = TlsProtocolFactory(pki.server_context(), lambda: echo)()
    connection.connection_made(below)
    client = Client(pki, connection, below, 1 << 20)
    client.shake()
    client.engine.write(b"one")
    record = bytearray(client.outgoing.read())
    record[-1] ^= 1
    connection.get_buffer(-1)[: len(record)] = record
    connection.buffer_updated(len(record))
    assert below.closed
    assert connection.is_closing()
    connection.write(b"nobody hears this")
    connection.connection_lost(None)


async def test_a_slow_reader_slows_the_writer(pki: Pki) -> None:
    echo, below = Echo(), Below()
    connection = TlsProtocolFactory(pki.server_context(), lambda: echo)()
    connection.connection_made(below)
    connection.pause_writing()
    Client(pki, connection, below, 1 << 20).shake()
    connection.pause_writing()
    connection.resume_writing()
    assert echo.pauses == [True, False]
    connection.connection_lost(None)


async def test_a_handshake_that_does_not_end_is_given_up(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "HANDSHAKE_SECONDS", 0.01)
    async with listening(pki, _never) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        writer.close()
