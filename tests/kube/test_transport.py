"""HTTPS on loopback: certificates both ways, connections that are reused, cut, refused."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.kube.model_server import ModelServer

from kohort.kube import errors
from kohort.kube.client import Client, Selection
from kohort.kube.credentials import Certificate, Credentials, Files, Static
from kohort.kube.http import Request
from kohort.kube.informer import Informer
from kohort.kube.resources import CONFIG_MAPS
from kohort.kube.tasks import cancel_all
from kohort.kube.transport import Connection, HttpsTransport
from kohort.objects.meta import PartialObject

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Pki:
    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.ca = self._sign("ca", self._key, is_ca=True).public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str) -> Certificate:
        key = ec.generate_private_key(ec.SECP256R1())
        chain = self._sign(name, key).public_bytes(serialization.Encoding.PEM)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Certificate(chain, private)

    def _sign(self, name: str, key: ec.EllipticCurvePrivateKey, is_ca: bool = False) -> x509.Certificate:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")])
        now = datetime.now(UTC)
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        return (
            x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(is_ca, None), critical=True)
            .add_extension(names, critical=False)
            .sign(self._key, hashes.SHA256())
        )


PKI = Pki()


class Front:
    """An HTTPS server on a free port; `handler` answers everything."""

    def __init__(self, handler: Handler, tmp_path: Path) -> None:
        self._handler = handler
        self._directory = tmp_path
        self.peers: list[tuple[str, int] | None] = []

    async def __aenter__(self) -> "Front":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = PKI.issue("server")
        path = self._directory / "server.pem"
        path.write_bytes(pair.chain + pair.key)
        context.load_cert_chain(path)
        (self._directory / "ca.pem").write_bytes(PKI.ca)
        context.load_verify_locations(self._directory / "ca.pem")
        context.verify_mode = ssl.CERT_OPTIONAL
        self._runner = web.ServerRunner(web.Server(self._note), shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        self.url = f"https://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _note(self, request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        self.peers.append(request.transport.get_extra_info("peername"))
        return await self._handler(request)  # type: ignore[arg-type]


def connect(front: Front, *sources: Static | Files, **options: object) -> HttpsTransport:
    connection = Connection(front.url, **({"ca": PKI.ca} | options))  # type: ignore[arg-type]
    return HttpsTransport(connection, Credentials(*sources))


async def echo(request: web.Request) -> web.Response:
    assert request.transport is not None
    peer = request.transport.get_extra_info("peercert")
    return web.json_response(
        {
            "method": request.method,
            "path": request.raw_path,
            "agent": request.headers.get("User-Agent"),
            "authorization": request.headers.get("Authorization"),
            "body": (await request.read()).decode(),
            "certificate": dict(pair[0] for pair in peer["subject"])["commonName"] if peer else None,
        }
    )


def test_a_request_arrives_as_it_was_meant(tmp_path: Path) -> None:
    async def story() -> None:
        async with Front(echo, tmp_path) as front:
            transport = connect(front, Static("secret", PKI.issue("me")))
            query = (("labelSelector", "a in (b, c),d!=e"), ("fieldManager", "x/y"))
            request = Request("POST", "/api/v1/namespaces/a b/pods", query, {"user-agent": "test/1"}, b"{}")
            response = await transport.send(request)
            await transport.close()
        assert response.status == 200
        assert response.headers["content-type"].startswith("application/json")
        assert isinstance(response.body, bytes)
        answer = msgspec.json.decode(response.body)
        assert answer["path"] == ("/api/v1/namespaces/a%20b/pods?labelSelector=a+in+(b,+c),d!%3De&fieldManager=x/y")
        assert (answer["method"], answer["agent"], answer["body"]) == ("POST", "test/1", "{}")
        assert (answer["authorization"], answer["certificate"]) == ("Bearer secret", "me")

    asyncio.run(story())


def test_connections_are_reused(tmp_path: Path) -> None:
    async def story() -> None:
        async with Front(echo, tmp_path) as front:
            transport = connect(front)
            for _ in range(5):
                await transport.send(Request("GET", "/version"))
            await transport.close()
            assert len(set(front.peers)) == 1

    asyncio.run(story())


def test_a_burst_shares_a_bounded_number_of_connections(tmp_path: Path) -> None:
    async def story() -> None:
        async with Front(echo, tmp_path) as front:
            transport = connect(front)
            await asyncio.gather(*(transport.send(Request("GET", "/version")) for _ in range(300)))
            await transport.close()
            assert len(set(front.peers)) <= 64

    asyncio.run(story())


def test_missing_credentials_are_a_request_without_an_answer(tmp_path: Path) -> None:
    async def story() -> None:
        async with Front(echo, tmp_path) as front:
            transport = connect(front, Files(token=tmp_path / "missing"))
            with pytest.raises(errors.Unreachable, match=r"cannot read .*missing: No such file"):
                await transport.send(Request("POST", "/version", body=b"{}"))
            await transport.close()
            assert front.peers == []

    asyncio.run(story())


def test_a_stranger_is_not_trusted(tmp_path: Path) -> None:
    async def story() -> None:
        async with Front(echo, tmp_path) as front:
            transport = connect(front, ca=Pki().ca)
            with pytest.raises(errors.Unreachable, match="certificate verify failed"):
                await transport.send(Request("GET", "/version"))
            await transport.close()
            trusting = connect(front, ca=b"", insecure=True)
            assert (await trusting.send(Request("GET", "/version"))).status == 200
            await trusting.close()

    asyncio.run(story())


def test_after_a_401_the_credentials_are_read_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    async def check(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != "Bearer new":
            return web.json_response({"kind": "Status", "code": 401, "reason": "Unauthorized"}, status=401)
        return web.json_response({"metadata": {"name": "a"}})

    async def story() -> None:
        async with Front(check, tmp_path) as front:
            transport = connect(front, Files(token=token))
            client = Client(transport)
            with pytest.raises(errors.Unauthorized):
                await client.get(CONFIG_MAPS, "a", "n")
            token.write_text("new")
            assert await client.get(CONFIG_MAPS, "a", "n") == {"metadata": {"name": "a"}}
            await transport.close()

    asyncio.run(story())


def test_a_rotated_client_certificate_gets_new_connections(tmp_path: Path) -> None:
    def write(name: str) -> None:
        pair = PKI.issue(name)
        (tmp_path / "c.pem").write_bytes(pair.chain)
        (tmp_path / "k.pem").write_bytes(pair.key)

    async def check(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        name = dict(pair[0] for pair in request.transport.get_extra_info("peercert")["subject"])["commonName"]
        return web.json_response({"metadata": {"name": name}}, status=200 if name == "second" else 401)

    async def story() -> None:
        write("first")
        async with Front(check, tmp_path) as front:
            transport = connect(front, Files(chain=tmp_path / "c.pem", key=tmp_path / "k.pem"))
            assert (await transport.send(Request("GET", "/x"))).status == 401
            write("second")
            assert (await transport.send(Request("GET", "/x"))).status == 200
            await transport.close()

    asyncio.run(story())


def test_an_address_without_a_listener_is_unreachable_and_named() -> None:
    async def story() -> None:
        transport = HttpsTransport(Connection("https://127.0.0.1:1"))
        with pytest.raises(errors.Unreachable, match=r"POST https://127\.0\.0\.1:1/api: "):
            await transport.send(Request("POST", "/api", body=b"{}"))
        with pytest.raises(errors.Unreachable):
            async with transport.stream(Request("GET", "/api")):
                pass
        await transport.close()

    asyncio.run(story())


@pytest.fixture
def server() -> Iterator[ModelServer]:
    yield ModelServer()


def test_an_informer_over_https_survives_cut_connections(server: ModelServer, tmp_path: Path) -> None:
    async def forward(request: web.Request) -> web.StreamResponse:
        query = tuple((name, value) for name, value in request.query.items())
        answer = await server.handle(Request(request.method, request.path, query, {}, await request.read()))
        if isinstance(answer.body, bytes):
            return web.Response(status=answer.status, body=answer.body)
        response = web.StreamResponse(status=answer.status)
        await response.prepare(request)
        try:
            async for frame in answer.body:
                await response.write(frame)
        except errors.Unreachable:
            assert request.transport is not None
            request.transport.abort()
        return response

    async def story() -> None:
        async with Front(forward, tmp_path) as front:
            transport = connect(front)
            informer = Informer.alone(Client(transport), Selection(CONFIG_MAPS), PartialObject)
            arrived = asyncio.Event()
            informer.on_change(lambda old, new: arrived.set() if len(informer) == 3 else None)
            task = asyncio.create_task(informer.run())
            server.put("configmaps", "n", "a")
            await informer.wait_synced()
            server.put("configmaps", "n", "b")
            server.break_watches()
            server.put("configmaps", "n", "c")
            async with asyncio.timeout(10):
                await arrived.wait()
            await cancel_all(task)
            await transport.close()

    asyncio.run(story())
