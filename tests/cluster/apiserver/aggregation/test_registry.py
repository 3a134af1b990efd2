"""An aggregated API server behind the API server: over TLS on the loopback interface, as a Service leads to it."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web
from tests.cluster.apiserver.caller import Answer

from kohort.cluster.apiserver.auth.certificates import Pki
from kohort.cluster.apiserver.auth.model import ADMIN, User
from kohort.cluster.apiserver.outgoing.remote_servers import RemoteServers
from kohort.cluster.apiserver.server import ApiServer, OutgoingClients
from kohort.cluster.apiserver.server_setup import ClientAuthorities, assemble
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube.certificate_issuing import Authority, new_authority
from kohort.kube.http import Request
from kohort.objects.json_types import Json, JsonObject

GROUP, VERSION = "wardle.example.com", "v1alpha1"
PATH = f"/apis/{GROUP}/{VERSION}"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
NAME = f"{VERSION}.{GROUP}"
BOB = User("bob", ("system:authenticated", "dev"), "u-1", {"scopes": ("a", "b")})
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Wardle:
    """A small API server: it remembers who asked, and lets only the front proxy say so."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, list[str]]] = []
        self.headers: dict[str, str] = {}
        self.subjects: set[str] = set()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        certificate = request.get_extra_info("peercert") or {}
        self.subjects |= {value for part in certificate.get("subject", ()) for _, value in part}
        user = request.headers.get("x-remote-user", "")
        self.asked.append((f"{request.method} {request.path_qs}", user, request.headers.getall("x-remote-group", [])))
        self.headers = dict(request.headers)
        resource = {"name": "flunders", "singularName": "flunder", "namespaced": True, "kind": "Flunder"}
        listed = [{**resource, "verbs": ["get", "list"]}, {**resource, "name": "flunders/status", "verbs": ["get"]}]
        documents: dict[str, Json] = {
            PATH: {"kind": "APIResourceList", "groupVersion": f"{GROUP}/{VERSION}", "resources": listed},
            "/openapi/v3": {"paths": {PATH.strip("/"): {"serverRelativeURL": f"/openapi/v3{PATH}?hash=ABC"}}},
            f"/openapi/v3{PATH}": {"openapi": "3.0.0"},
            "/openapi/v2": {
                "paths": {f"{PATH}/flunders": {"get": {}}, "/version/": {"get": {}}},
                "definitions": {"com.example.Flunder": {"type": "object"}},
            },
        }
        if request.path.endswith("/watched"):
            stream = web.StreamResponse(headers={"content-type": "application/json"})
            await stream.prepare(request)
            for number in range(3):
                await stream.write(b"event %d\n" % number)
            return stream
        if request.method == "POST":
            return web.json_response(await request.json(), status=201)
        if request.path not in documents and "flunders" not in request.path:
            return web.json_response({"kind": "Status"}, status=404)
        return web.json_response(documents.get(request.path, {"kind": "FlunderList", "items": []}))


class World:
    def __init__(self, server: ApiServer, wardle: Wardle, port: int, bundle: str) -> None:
        self.server, self.wardle, self.port, self.bundle = server, wardle, port, bundle

    async def call(
        self, method: str, path: str, body: Json = None, user: User = ADMIN, accept: str = "", **headers: str
    ) -> Answer:
        sent = {"content-type": "application/json", **({"accept": accept} if accept else {}), **headers}
        content = json.dumps(body).encode() if body is not None else b""
        target, _, query = path.partition("?")
        pairs = tuple((key, value) for key, _, value in (one.partition("=") for one in query.split("&")) if key)
        response = await self.server.handle(Request(method, target, pairs, sent, content), user)
        if not isinstance(response.body, bytes):
            response.body = b"".join([chunk async for chunk in response.body])
        return Answer(response)

    async def register(self, **spec: Json) -> None:
        wanted: JsonObject = {
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": 2000,
            "versionPriority": 200,
            "service": {"namespace": "default", "name": "wardle", "port": 7443},
            "caBundle": self.bundle,
            **spec,
        }
        created = await self.call("POST", API_SERVICES, {"metadata": {"name": NAME}, "spec": wanted})
        assert created.code == 201, created.raw

    async def lead(self) -> None:
        """Make the Service, and let it lead to the server."""
        service = {"ports": [{"name": "https", "port": 7443}], "clusterIP": "None"}
        made = await self.call(
            "POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "wardle"}, "spec": service}
        )
        assert made.code == 201, made.raw
        labels = {"kubernetes.io/service-name": "wardle"}
        endpoints = {
            "metadata": {"name": "wardle-1", "labels": labels},
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": self.port, "protocol": "TCP"}],
            "endpoints": [{"addresses": ["10.1.2.3"], "conditions": {"ready": True}}],
        }
        path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
        made = await self.call("POST", path, endpoints)
        assert made.code == 201, made.raw

    async def until(self, status: str, reason: str) -> JsonObject:
        """The condition, once it says this."""
        changes = self.server.store.watch("apiservices.apiregistration.k8s.io", self.server.store.revision)
        async with asyncio.timeout(20):
            while True:
                found = (await self.call("GET", f"{API_SERVICES}/{NAME}/status")).json
                conditions = (found.get("status") or {}).get("conditions") or [{}]
                condition: JsonObject = conditions[0]
                if (condition.get("status"), condition.get("reason")) == (status, reason):
                    return condition
                await anext(changes)


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    pki = Pki(tmp_path / "pki")
    pki.ensure()
    own_authority = new_authority("wardle-ca", timedelta(days=1))
    certificate, key = Authority(*own_authority).issue(
        name="wardle", addresses=("wardle.default.svc",), life=timedelta(days=1), server=True
    )
    (tmp_path / "wardle.pem").write_bytes(key + certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "wardle.pem")
    context.load_verify_locations(pki.front_proxy_authority)
    context.verify_mode = ssl.CERT_REQUIRED
    wardle = Wardle()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", wardle.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    remotes = RemoteServers(str(pki.front_proxy_certificate), str(pki.front_proxy_key))
    server, _ = await assemble(
        open_store(None),
        outgoing=OutgoingClients(remotes=remotes),
        authorities=ClientAuthorities(pki.ca_certificate.read_text(), pki.front_proxy_authority.read_text()),
    )
    resolve = server.aggregation._resolve
    # Endpoints cannot name loopback addresses, on which alone a test may listen.
    monkeypatch.setattr(server.aggregation, "_resolve", lambda *wanted: ("127.0.0.1", resolve(*wanted)[1]))
    yield World(server, wardle, runner.addresses[0][1], base64.b64encode(own_authority[0]).decode())
    await server.close()
    await runner.cleanup()


async def test_a_server_becomes_available_and_answers_with_the_identity_of_the_caller(world: World) -> None:
    await world.register()
    assert (await world.until("False", "ServiceNotFound"))["message"] == 'service/wardle in "default" is not present'
    assert (await world.call("GET", f"{PATH}/flunders")).code == 503
    await world.lead()
    assert (await world.until("True", "Passed"))["message"] == "all checks passed"
    assert world.wardle.subjects == {"front-proxy-client"}
    assert ("GET " + PATH, "system:kube-aggregator", ["system:masters"]) in world.wardle.asked
    answer = await world.call("GET", f"{PATH}/namespaces/default/flunders?limit=5")
    assert (answer.code, answer.json["kind"]) == (200, "FlunderList")
    made = await world.call("POST", f"{PATH}/namespaces/default/flunders", {"metadata": {"name": "f"}})
    assert (made.code, made.json) == (201, {"metadata": {"name": "f"}})
    assert world.wardle.asked[-2:] == [
        (f"GET {PATH}/namespaces/default/flunders?limit=5", ADMIN.name, list(ADMIN.groups)),
        (f"POST {PATH}/namespaces/default/flunders", ADMIN.name, list(ADMIN.groups)),
    ]
    streamed = await world.call("GET", f"{PATH}/flunders/watched?watch=true")
    assert streamed.raw == b"event 0\nevent 1\nevent 2\n"


async def test_a_client_cannot_claim_to_be_another_user(world: World) -> None:
    await world.register()
    await world.lead()
    await world.until("True", "Passed")
    role = {"rules": [{"apiGroups": [GROUP], "resources": ["flunders"], "verbs": ["list"]}]}
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    await world.call("POST", f"{rbac}/clusterroles", {"metadata": {"name": "flunders"}, **role})
    binding = {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "flunders"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
    }
    await world.call("POST", f"{rbac}/clusterrolebindings", {"metadata": {"name": "flunders"}, **binding})
    spoofed = {"x-remote-user": "root", "x-remote-group": "system:masters", "authorization": "Bearer secret"}
    sent = {**spoofed, "X-Remote-Extra-A": "b"}
    answer = await world.call("GET", f"{PATH}/flunders", user=BOB, **{key.lower(): sent[key] for key in sent})
    assert answer.code == 200
    headers = {key.lower(): value for key, value in world.wardle.headers.items()}
    assert world.wardle.asked[-1][1:] == ("bob", ["system:authenticated", "dev"])
    assert "authorization" not in headers and "x-remote-extra-a" not in headers
    assert (headers["x-remote-uid"], "x-remote-extra-scopes" in headers) == ("u-1", True)
    refused = await world.call("POST", f"{PATH}/namespaces/default/flunders", {}, user=BOB)
    assert refused.code == 403, "what the cluster does not allow is not even asked"


async def test_discovery_and_openapi_show_what_it_serves(world: World) -> None:
    await world.register()
    await world.lead()
    await world.until("True", "Passed")
    groups = {one["name"]: one for one in (await world.call("GET", "/apis")).json["groups"]}
    assert groups[GROUP]["preferredVersion"]["version"] == VERSION
    assert (await world.call("GET", f"/apis/{GROUP}")).json["name"] == GROUP
    assert (await world.call("GET", PATH)).json["resources"][0]["name"] == "flunders"
    items = (await world.call("GET", "/apis", accept=AGGREGATED)).json["items"]
    [version] = next(one["versions"] for one in items if one["metadata"].get("name") == GROUP)
    [flunders] = version["resources"]
    assert (flunders["resource"], flunders["scope"], version["freshness"]) == ("flunders", "Namespaced", "Current")
    assert flunders["subresources"][0]["subresource"] == "status"
    index = (await world.call("GET", "/openapi/v3")).json["paths"]
    assert index[PATH.strip("/")]["serverRelativeURL"].endswith("?hash=ABC")
    assert (await world.call("GET", f"/openapi/v3{PATH}")).json == {"openapi": "3.0.0"}
    swagger = (await world.call("GET", "/openapi/v2")).json
    assert f"{PATH}/flunders" in swagger["paths"] and "com.example.Flunder" in swagger["definitions"]
    deleted = await world.call("DELETE", f"{API_SERVICES}/{NAME}")
    assert deleted.code == 200
    assert GROUP not in {one["name"] for one in (await world.call("GET", "/apis")).json["groups"]}
    assert (await world.call("GET", f"{PATH}/flunders")).code == 404


async def test_a_server_of_another_authority_is_not_believed(world: World) -> None:
    other, _ = new_authority("other", timedelta(days=1))
    await world.register(caBundle=base64.b64encode(other).decode())
    await world.lead()
    condition = await world.until("False", "FailedDiscoveryCheck")
    assert "failing or missing response from https://wardle.default.svc:7443" in condition["message"]
    assert "failed to verify certificate" in condition["message"]
    assert world.wardle.asked == []
    patch = [{"op": "replace", "path": "/spec/caBundle", "value": world.bundle}]
    headers = {"content-type": "application/json-patch+json"}
    response = await world.server.handle(
        Request("PATCH", f"{API_SERVICES}/{NAME}", (), headers, json.dumps(patch).encode()), ADMIN
    )
    assert response.status == 200
    await world.until("True", "Passed")


async def test_servers_find_out_how_to_verify_callers(world: World) -> None:
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    data = (await world.call("GET", path)).json["data"]
    assert data["client-ca-file"].startswith("-----BEGIN CERTIFICATE")
    assert data["requestheader-client-ca-file"] not in ("", data["client-ca-file"])
    assert data["requestheader-allowed-names"] == '["front-proxy-client"]'
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles"
    assert (await world.call("GET", f"{roles}/extension-apiserver-authentication-reader")).code == 200
    assert (
        await world.call("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:auth-delegator")
    ).code == 200
