"""Calls to webhooks over TLS on the loopback interface."""

import asyncio
import base64
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kohort.cluster.apiserver.admission.service_resolver import endpoint_resolver
from kohort.cluster.apiserver.admission.webhook_client import CallFailed, WebhookClient
from kohort.objects.json_types import JsonObject


class Identity:
    """A certificate that vouches for itself."""

    def __init__(self, folder: Path, name: str, *dns_names: str) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.UTC)
        names: list[x509.GeneralName] = [x509.DNSName(one) for one in dns_names]
        names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")) if not dns_names else x509.DNSName(name))
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        self.bundle = base64.b64encode(pem).decode()
        path = folder / f"{name}.pem"
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(secret + pem)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(path)


@asynccontextmanager
async def serving(identity: Identity, seen: list[str], status: int = 200) -> AsyncIterator[int]:
    async def answer(request: web.Request) -> web.Response:
        seen.append(f"{request.host} {request.path_qs} {(await request.read()).decode()}")
        return web.Response(text="answer", status=status)

    async with serving_with(identity, answer) as port:
        yield port


@asynccontextmanager
async def serving_with(
    identity: Identity, answer: Callable[[web.Request], Awaitable[web.Response]]
) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=identity.context)
    await site.start()
    assert runner.addresses
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def client_of(host: str, port: int) -> AsyncIterator[WebhookClient]:
    client = WebhookClient(lambda namespace, name, wanted: (host, port))
    try:
        yield client
    finally:
        await client.close()


def through_service(bundle: str) -> JsonObject:
    return {"service": {"namespace": "ns", "name": "hook", "path": "/check", "port": 9443}, "caBundle": bundle}


async def test_a_service_is_verified_by_its_name(tmp_path: Path) -> None:
    identity, seen = Identity(tmp_path, "hook", "hook.ns.svc"), list[str]()
    async with serving(identity, seen) as port, client_of("127.0.0.1", port) as client:
        assert await client.post(through_service(identity.bundle), b"review", 5) == b"answer"
    assert seen == ["hook.ns.svc /check?timeout=5s review"]


async def test_a_certificate_for_another_name_is_refused(tmp_path: Path) -> None:
    identity = Identity(tmp_path, "other", "other.ns.svc")
    async with serving(identity, []) as port, client_of("127.0.0.1", port) as client:
        with pytest.raises(CallFailed, match="x509"):
            await client.post(through_service(identity.bundle), b"", 5)


async def test_a_certificate_of_another_authority_is_refused_and_a_new_bundle_is_used_at_once(tmp_path: Path) -> None:
    old, new = Identity(tmp_path, "old", "hook.ns.svc"), Identity(tmp_path, "new", "hook.ns.svc")
    async with serving(new, []) as port, client_of("127.0.0.1", port) as client:
        with pytest.raises(CallFailed, match="failed to verify certificate"):
            await client.post(through_service(old.bundle), b"", 5)
        assert await client.post(through_service(new.bundle), b"", 5) == b"answer"


async def test_a_second_bundle_for_the_same_service_does_not_end_calls_in_flight(tmp_path: Path) -> None:
    first, second = Identity(tmp_path, "first", "hook.ns.svc"), Identity(tmp_path, "second", "hook.ns.svc")
    arrived, proceed = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        arrived.set()
        await proceed.wait()
        return web.Response(text="answer")

    async with serving_with(first, answer) as port, client_of("127.0.0.1", port) as client:
        call = asyncio.create_task(client.post(through_service(first.bundle), b"", 5))
        await arrived.wait()
        with pytest.raises(CallFailed, match="failed to verify certificate"):
            await client.post(through_service(second.bundle), b"", 5)
        waiting = asyncio.create_task(client.post(through_service(first.bundle), b"", 5))
        proceed.set()
        assert [await call, await waiting] == [b"answer", b"answer"]


async def test_only_idle_connections_are_closed_when_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.cluster.apiserver.admission.webhook_client.MAX_SESSIONS", 1)
    identity, other = Identity(tmp_path, "hook", "hook.ns.svc"), Identity(tmp_path, "other", "hook.ns.svc")
    open_now = set[object]()
    arrived, proceed = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        open_now.add(request.transport)
        if request.path == "/slow":
            arrived.set()
            await proceed.wait()
        return web.Response(text="answer")

    async with serving_with(identity, answer) as port, client_of("127.0.0.1", port) as client:
        url = f"https://127.0.0.1:{port}"
        slow = through_service(identity.bundle)
        slow["service"]["path"] = "/slow"
        call = asyncio.create_task(client.post(slow, b"", 5))
        await arrived.wait()
        for _ in range(2):
            with pytest.raises(CallFailed):
                await client.post({"url": url, "caBundle": other.bundle}, b"", 5)
        proceed.set()
        assert await call == b"answer"
        assert await client.post(through_service(identity.bundle), b"", 5) == b"answer"
        assert len(open_now) == 1, "the connection in use was kept"


async def test_a_url_is_called_as_it_stands(tmp_path: Path) -> None:
    identity, seen = Identity(tmp_path, "url"), list[str]()
    async with serving(identity, seen) as port, client_of("", 0) as client:
        url = f"https://127.0.0.1:{port}/hook"
        assert await client.post({"url": url, "caBundle": identity.bundle}, b"x", 3) == b"answer"
    assert seen == [f"127.0.0.1:{port} /hook?timeout=3s x"]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (404, "the server could not find the requested resource"),
        (500, 'an error on the server ("answer") has prevented the request from succeeding'),
        (302, "the server responded with the status code 302"),
    ],
)
async def test_an_answer_other_than_success_is_a_failure(tmp_path: Path, status: int, text: str) -> None:
    identity = Identity(tmp_path, "hook", "hook.ns.svc")
    async with serving(identity, [], status) as port, client_of("127.0.0.1", port) as client:
        with pytest.raises(CallFailed) as caught:
            await client.post(through_service(identity.bundle), b"", 5)
    assert str(caught.value).startswith(f"failed to call webhook: {text}")


async def test_failures_name_the_service(tmp_path: Path) -> None:
    identity = Identity(tmp_path, "hook", "hook.ns.svc")
    async with serving(identity, []) as port:
        pass
    async with client_of("127.0.0.1", port) as client:
        with pytest.raises(CallFailed) as caught:
            await client.post(through_service(identity.bundle), b"", 5)
    assert str(caught.value) == (
        'failed to call webhook: Post "https://hook.ns.svc:9443/check?timeout=5s": '
        f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    )


async def test_plain_http_and_broken_bundles_are_refused() -> None:
    async with client_of("127.0.0.1", 1) as client:
        with pytest.raises(CallFailed, match="'https' is the only allowed URL scheme"):
            await client.post({"url": "http://127.0.0.1/"}, b"", 5)
        with pytest.raises(CallFailed, match="unable to parse bytes as PEM block"):
            await client.post(through_service("bm9uc2Vuc2U="), b"", 5)


# -- services


class Objects:
    def __init__(self, **buckets: list[JsonObject]) -> None:
        self._buckets = buckets

    def get(self, bucket: str, namespace: str, name: str) -> JsonObject | None:
        return next((one for one in self._buckets.get(bucket, []) if one["metadata"]["name"] == name), None)

    def list(self, bucket: str, namespace: str = "") -> list[JsonObject]:
        return self._buckets.get(bucket.partition(".")[0], [])


SERVICE: JsonObject = {
    "metadata": {"name": "hook"},
    "spec": {"ports": [{"name": "https", "port": 443, "targetPort": 9443}]},
}


def slice_of(*endpoints: JsonObject, port: int = 9443) -> JsonObject:
    meta = {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}}
    return {"metadata": meta, "ports": [{"name": "https", "port": port}], "endpoints": list(endpoints)}


def test_a_service_resolves_to_its_first_ready_endpoint() -> None:
    waiting = {"addresses": ["10.0.0.1"], "conditions": {"ready": False}}
    ready = {"addresses": ["10.0.0.2"], "conditions": {"ready": True}}
    resolve = endpoint_resolver(Objects(services=[SERVICE], endpointslices=[slice_of(waiting, ready)]))
    assert resolve("ns", "hook", 443) == ("10.0.0.2", 9443)


@pytest.mark.parametrize(
    ("objects", "port", "reason"),
    [
        (Objects(), 443, 'service "hook" not found'),
        (Objects(services=[SERVICE]), 444, 'no service port 444 found for service "hook"'),
        (Objects(services=[SERVICE], endpointslices=[slice_of()]), 443, 'no endpoints available for service "hook"'),
    ],
)
def test_why_a_service_does_not_resolve(objects: Objects, port: int, reason: str) -> None:
    with pytest.raises(LookupError, match=reason):
        endpoint_resolver(objects)("ns", "hook", port)
