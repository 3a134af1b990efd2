"""Versions of a custom resource that a webhook converts, through the whole server.

Stored is v1 with `host` and `port`; v2 has one `address`.
"""

from collections.abc import AsyncIterator

import msgspec
import pytest

from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.server_setup import assemble
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube.http import Request
from kohort.objects.json_types import Json, JsonObject

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def version(name: str, properties: JsonObject, *, storage: bool = False) -> JsonObject:
    spec = {"type": "object", "properties": properties}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {"name": name, "served": True, "storage": storage, "schema": schema}


DEFINITION: JsonObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "servers.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "servers", "kind": "Server"},
        "versions": [
            version("v1", {"host": STRING, "port": INTEGER}, storage=True),
            version("v2", {"address": STRING}),
        ],
        "conversion": {
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"service": {"namespace": "hooks", "name": "convert", "path": "/convert"}},
                "conversionReviewVersions": ["v1"],
            },
        },
    },
}


class World:
    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.reviews: list[int] = []
        self.broken = ""
        self.lossy = False
        assert server.webhooks is not None
        server.webhooks.register_local("hooks", "convert", self.convert)

    async def convert(self, path: str, body: bytes) -> bytes:
        request = msgspec.json.decode(body)["request"]
        self.reviews.append(len(request["objects"]))
        response: JsonObject = {"uid": request["uid"], "result": {"status": "Success"}}
        response["convertedObjects"] = [converted(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
        for one in response["convertedObjects"] if self.lossy else ():
            if "port" in one["spec"]:
                one["spec"].update(port=1, unknown=True)
        if self.broken:
            response["result"] = {"status": "Failure", "message": self.broken}
        return msgspec.json.encode({"response": response})

    async def call(self, method: str, path: str, body: Json = None, content: str = "application/json") -> JsonObject:
        raw = b"" if body is None else msgspec.json.encode(body)
        headers = {"content-type": content, "user-agent": "test"}
        answer = await self.server.handle(Request(method, path, (), headers, raw), ADMIN)
        assert isinstance(answer.body, bytes)
        document: JsonObject = msgspec.json.decode(answer.body)
        return {"code": answer.status, **document}


def converted(obj: JsonObject, api_version: str) -> JsonObject:
    spec = obj.get("spec") or {}
    if api_version.endswith("v2"):
        new: JsonObject = {"address": f"{spec['host']}:{spec['port']}"}
    else:
        host, _, port = spec["address"].partition(":")
        new = {"host": host, "port": int(port)}
    return {**obj, "apiVersion": api_version, "spec": new}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    server, _ = await assemble(open_store(None))
    world = World(server)
    await world.call(
        "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
    )
    assert (await world.call("POST", DEFINITIONS, DEFINITION))["code"] == 201
    yield world
    await server.close()


def path(api_version: str, name: str = "") -> str:
    return f"/apis/example.com/{api_version}/namespaces/ns/servers" + (f"/{name}" if name else "")


def server_v2(name: str, address: str) -> JsonObject:
    return {"apiVersion": "example.com/v2", "kind": "Server", "metadata": {"name": name}, "spec": {"address": address}}


async def test_written_in_one_version_and_read_in_both(world: World) -> None:
    made = await world.call("POST", path("v2"), server_v2("a", "h:80"))
    assert (made["code"], made["apiVersion"], made["spec"]) == (201, "example.com/v2", {"address": "h:80"})
    stored = world.server.store.get("servers.example.com", "ns", "a")
    assert stored is not None
    assert stored.decode()["spec"] == {"host": "h", "port": 80}
    old = await world.call("GET", path("v1", "a"))
    assert (old["apiVersion"], old["spec"]) == ("example.com/v1", {"host": "h", "port": 80})
    assert old["metadata"]["uid"] == made["metadata"]["uid"]
    patched = await world.call("PATCH", path("v2", "a"), {"spec": {"address": "h:81"}}, "application/merge-patch+json")
    assert (patched["code"], patched["spec"]) == (200, {"address": "h:81"})
    assert (await world.call("GET", path("v1", "a")))["spec"] == {"host": "h", "port": 81}


async def test_a_list_is_converted_in_one_review(world: World) -> None:
    for number in range(5):
        body = {"apiVersion": "example.com/v1", "kind": "Server", "metadata": {"name": f"s{number}"}}
        await world.call("POST", path("v1"), {**body, "spec": {"host": "h", "port": number}})
    assert world.reviews == []
    listed = await world.call("GET", path("v2"))
    assert [item["spec"]["address"] for item in listed["items"]] == [f"h:{number}" for number in range(5)]
    assert world.reviews == [5]
    await world.call("GET", path("v2"))
    assert world.reviews == [5]


async def test_a_watch_shows_its_version(world: World) -> None:
    await world.call("POST", path("v2"), server_v2("a", "h:80"))
    query = (("watch", "true"), ("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan"))
    answer = await world.server.handle(Request("GET", path("v1"), query, {}), ADMIN)
    assert not isinstance(answer.body, bytes)
    frames = aiter(answer.body)
    first = msgspec.json.decode(await anext(frames))
    assert (first["type"], first["object"]["spec"]) == ("ADDED", {"host": "h", "port": 80})
    await world.call("PATCH", path("v1", "a"), {"spec": {"port": 82}}, "application/merge-patch+json")
    second = msgspec.json.decode(await anext(frames))
    assert (second["type"], second["object"]["spec"]) == ("MODIFIED", {"host": "h", "port": 82})


async def test_a_conversion_that_fails_is_an_internal_error_and_writes_nothing(world: World) -> None:
    world.broken = "cannot do that"
    answer = await world.call("POST", path("v2"), server_v2("a", "h:80"))
    assert answer["code"] == 500
    assert answer["message"] == "conversion webhook for example.com/v2, Kind=Server failed: cannot do that"
    assert world.server.store.get("servers.example.com", "ns", "a") is None
    assert (await world.call("DELETE", path("v1", "a")))["code"] == 404


async def test_what_a_conversion_loses_is_lost_at_once(world: World) -> None:
    """What was stored is shown, not what was sent."""
    world.lossy = True
    made = await world.call("POST", path("v2"), server_v2("a", "h:80"))
    assert (made["code"], made["spec"]) == (201, {"address": "h:1"})
    assert (await world.call("GET", path("v2", "a")))["spec"] == {"address": "h:1"}
    assert (await world.call("GET", path("v1", "a")))["spec"] == {"host": "h", "port": 1}
