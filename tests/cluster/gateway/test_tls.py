"""TLS ends at the gateway: certificates come from Secrets that an Ingress or a listener names."""

import base64
import json
import ssl
from datetime import timedelta

import pytest
from aiohttp import ClientConnectorError
from tests.cluster.gateway.http2_client import http2
from tests.cluster.gateway.plane import GATEWAY, Stage, backend, http_route, ingress, stage

from kohort.cluster.gateway.certificates import ANY_HOST, Certificates, Pair
from kohort.cluster.gateway.views import GATEWAYS
from kohort.kube.certificate_issuing import Authority, new_authority
from kohort.kube.resources import HTTP_ROUTES, INGRESSES, SECRETS
from kohort.objects.json_types import JsonObject

HOST = "llm.example"
LIFE = timedelta(days=1)


@pytest.fixture(scope="module")
def authority() -> "Signer":
    return Signer("gateway-tests")


class Signer:
    def __init__(self, name: str) -> None:
        self.certificate, key = new_authority(name, LIFE)
        self._authority = Authority(self.certificate, key)

    def pair(self, *hosts: str) -> Pair:
        return Pair(*self._authority.issue(name=hosts[0], addresses=hosts, life=LIFE, server=True))


def secret(authority: Signer, name: str, *hosts: str) -> JsonObject:
    pair = authority.pair(*hosts)
    data = {"tls.crt": base64.b64encode(pair.chain).decode(), "tls.key": base64.b64encode(pair.key).decode()}
    return {"metadata": {"name": name, "namespace": "default"}, "type": "kubernetes.io/tls", "data": data}


def trusting(authority: Signer) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.certificate.decode())


async def asked(scene: Stage, trust: ssl.SSLContext, path: str = "/", host: str = HOST) -> tuple[int, str]:
    assert scene.plane.proxy is not None
    url = f"https://127.0.0.1:{scene.plane.proxy.tls_port}{path}"
    async with scene.http.get(url, ssl=trust, server_hostname=host, headers={"host": host}) as answer:
        return answer.status, await answer.text()


def with_tls(name: str, *hosts: str) -> JsonObject:
    document = ingress("llm", "llm", host=HOST)
    document["spec"]["tls"] = [{"hosts": list(hosts), "secretName": name}]
    return document


async def test_an_ingress_with_tls_is_served_both_ways(authority: Signer) -> None:
    async with stage("stable") as scene:
        client, trust = scene.cluster.client, trusting(authority)
        await client.create(SECRETS, secret(authority, "llm", HOST))
        await client.create(INGRESSES, with_tls("llm", HOST))
        await scene.open()
        await scene.cluster.until(lambda: scene.plane.proxy.tls_port > 0)  # type: ignore[union-attr]
        assert await asked(scene, trust) == (200, "stable")
        assert '["x-forwarded-proto", "https"]' in (await asked(scene, trust, "/headers"))[1]
        assert await scene.get(headers={"host": HOST}) == (200, "stable")
        proxy = scene.plane.proxy
        assert proxy is not None
        (entry,) = (await client.get(INGRESSES, "llm", "default"))["status"]["loadBalancer"]["ingress"]
        assert [port["port"] for port in entry["ports"]] == [proxy.port, proxy.tls_port]
        with pytest.raises(ClientConnectorError):
            await asked(scene, trust, host="another.example")

        # Another certificate for the same name, by another authority: the next connection sees it.
        other = Signer("another")
        await client.update(SECRETS, secret(other, "llm", HOST))
        shown = proxy.certificates.choose(HOST)
        await scene.cluster.until(lambda: proxy.certificates.choose(HOST) is not shown)
        assert await asked(scene, trusting(other)) == (200, "stable")


async def test_a_listener_with_tls_serves_its_routes_over_tls_only(authority: Signer) -> None:
    async with stage("stable") as scene:
        client = scene.cluster.client
        listener: JsonObject = {"name": "https", "port": 443, "protocol": "HTTPS", "hostname": HOST}
        listener["tls"] = {"certificateRefs": [{"name": "llm"}]}
        gateway: JsonObject = {**GATEWAY, "spec": {"gatewayClassName": "kohort", "listeners": [listener]}}
        await client.create(GATEWAYS, gateway)
        await client.create(HTTP_ROUTES, http_route({"backendRefs": [backend("llm")]}))

        def conditions() -> dict[str, tuple[str, str]]:
            found = (scene.cluster.find(GATEWAYS, "front", "default") or {}).get("status", {}).get("listeners") or [{}]
            return {one["type"]: (one["status"], one["reason"]) for one in found[0].get("conditions", [])}

        await scene.cluster.until(lambda: conditions().get("ResolvedRefs") == ("False", "InvalidCertificateRef"))
        assert conditions()["Programmed"][0] == "False"
        await client.create(SECRETS, secret(authority, "llm", HOST))
        await scene.cluster.until(lambda: conditions().get("Programmed") == ("True", "Programmed"))
        assert await asked(scene, trusting(authority)) == (200, "stable")
        assert (await scene.get(headers={"host": HOST}))[0] == 404


def test_names_find_their_certificate(authority: Signer) -> None:
    certificates = Certificates()
    assert certificates.choose("a.example") is None
    hosts = ("a.example", "*.example", "*.b.example")
    certificates.use({host: authority.pair(host) for host in hosts})
    chosen = [certificates.choose(name) for name in ("a.example", "c.example", "x.b.example")]
    by_host = dict(zip(hosts, chosen, strict=True))
    assert len({*map(id, by_host.values())}) == 3
    assert certificates.choose("A.EXAMPLE") is by_host["a.example"]
    assert certificates.choose("example") is None
    assert certificates.choose(None) is by_host["*.b.example"], "without a name, the first"
    certificates.use({ANY_HOST: authority.pair("any.example")})
    assert certificates.choose("whoever.example") is certificates.choose(None) is not None


async def test_http2_is_negotiated_by_tls(authority: Signer) -> None:
    async with stage("stable") as scene:
        client, trust = scene.cluster.client, trusting(authority)
        await client.create(SECRETS, secret(authority, "own", HOST))
        await client.create(INGRESSES, with_tls("own", HOST))
        await scene.open()
        await scene.cluster.until(lambda: scene.plane.proxy is not None and scene.plane.proxy.tls_port > 0)
        trust.set_alpn_protocols(["h2", "http/1.1"])
        assert scene.plane.proxy is not None
        async with http2(scene.plane.proxy.tls_port, trust, HOST) as connection:
            tls = connection.writer.get_extra_info("ssl_object")
            assert tls.selected_alpn_protocol() == "h2"
            stream = connection.send("/headers")
            assert await connection.status(stream) == 200
            headers = dict(tuple(pair) for pair in json.loads(await connection.body(stream)))
            assert (headers["x-forwarded-proto"], headers["host"]) == ("https", HOST)
