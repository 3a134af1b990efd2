"""Which resources a server serves, from its aggregated discovery."""

import msgspec
import pytest

from kohort.kube.client import Client
from kohort.kube.discovery import ServedResource, served_resources
from kohort.kube.http import Request, Response
from kohort.kube.resources import PODS, Resource
from kohort.kube.transport import InProcessTransport
from kohort.objects.json_types import JsonObject


def served(
    name: str, kind: str, *verbs: str, scope: str = "Namespaced", subresources: tuple[str, ...] = ()
) -> JsonObject:
    return {
        "resource": name,
        "scope": scope,
        "verbs": [*verbs],
        "responseKind": {"group": "", "version": "", "kind": kind},
        "subresources": [{"subresource": one} for one in subresources],
    }


CORE = {
    "items": [
        {
            "versions": [
                {
                    "version": "v1",
                    "resources": [
                        served("pods", "Pod", "get", "list", "delete", subresources=("status", "binding")),
                        served("nodes", "Node", "get", scope="Cluster"),
                    ],
                }
            ]
        }
    ]
}
GROUPS = {
    "items": [
        {
            "metadata": {"name": "example.com"},
            "versions": [
                {"version": "v2", "resources": [served("widgets", "Widget", "get", "list")]},
                {"version": "v1", "resources": [served("widgets", "Widget", "get"), served("old", "Old", "get")]},
            ],
        },
        {"metadata": {"name": "empty.example.com"}},
    ]
}


class Server:
    def __init__(self) -> None:
        self.accepted: list[str] = []

    async def handle(self, request: Request) -> Response:
        self.accepted.append(request.headers["accept"])
        body = {"/api": CORE, "/apis": GROUPS}[request.path]
        return Response(200, {"content-type": "application/json"}, msgspec.json.encode(body))


def client(server: Server) -> Client:
    return Client(InProcessTransport(server.handle))


async def test_resources_of_all_groups_in_the_preferred_version() -> None:
    found = await served_resources(client(Server()))
    assert [one.resource for one in found] == [
        PODS,
        Resource("", "v1", "nodes", "Node", namespaced=False),
        Resource("example.com", "v2", "widgets", "Widget"),
        Resource("example.com", "v1", "old", "Old"),
    ]


async def test_all_versions_on_request() -> None:
    found = await served_resources(client(Server()), all_versions=True)
    versions = [one.resource.version for one in found if one.resource.plural == "widgets"]
    assert versions == ["v2", "v1"]


async def test_subresources_and_verbs() -> None:
    pods, nodes, *_ = await served_resources(client(Server()))
    assert pods.subresources == {"status", "binding"} and nodes.subresources == frozenset()
    assert pods.allows("get", "delete") and pods.allows()
    assert not nodes.allows("get", "delete")


async def test_the_aggregated_form_is_requested() -> None:
    server = Server()
    await served_resources(client(server))
    assert len(server.accepted) == 2 and all("as=APIGroupDiscoveryList" in one for one in server.accepted)


@pytest.mark.parametrize("verbs", [(), ("get",), ("get", "list")])
def test_allows_needs_every_verb(verbs: tuple[str, ...]) -> None:
    assert ServedResource(PODS, frozenset(verbs)).allows("get", "list") == (len(verbs) == 2)
