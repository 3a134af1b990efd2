"""Traffic of a release, and the data plane, on a real API server: what is written is accepted, and comes back."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import ClientSession
from tests.builders import service
from tests.cluster.gateway.plane import GATEWAY, Server, backend, http_route, ingress, slice_of
from tests.kubernetes.controlplane import ControlPlane

from kohort.cluster.gateway.crd import definitions
from kohort.cluster.gateway.registration import register
from kohort.cluster.gateway.views import GATEWAYS
from kohort.kube.client import Client
from kohort.kube.kubeconfig import load
from kohort.kube.manager import Manager
from kohort.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    ENDPOINT_SLICES,
    HTTP_ROUTES,
    INGRESSES,
    NAMESPACES,
    SERVICES,
)
from kohort.objects.json_types import JsonObject
from kohort.rollouts.action_result import Done, Problem, Waiting
from kohort.rollouts.traffic.model import (
    GatewayRef,
    Header,
    HeaderMatch,
    HeaderModifier,
    IngressRef,
    Match,
    RouteRef,
    Selectors,
    TrafficRequest,
    TrafficStep,
)
from kohort.rollouts.traffic.routing import ClusterTraffic

NAMESPACE = "traffic"
OWNER = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "name": NAMESPACE,
    "controller": True,
    "blockOwnerDeletion": True,
}
BOTH = RouteRef("llm", 1, IngressRef("llm"), GatewayRef("llm"))


def moved(obj: JsonObject) -> JsonObject:
    return {**obj, "metadata": {**obj["metadata"], "namespace": NAMESPACE}}


@asynccontextmanager
async def connected(kubernetes: ControlPlane, name: str) -> AsyncIterator[Client]:
    client = Client(load(kubernetes.kubeconfig), field_manager=name)
    try:
        yield client
    finally:
        await client.close()


@pytest.mark.timeout(300)
async def test_a_release_on_a_real_api_server(kubernetes: ControlPlane) -> None:
    servers = [Server("stable"), Server("canary")]
    for server in servers:
        await server.start()
    async with connected(kubernetes, "gateway") as own, connected(kubernetes, "test") as client:
        manager = Manager(own, name="gateway")
        plane = register(manager, dial=lambda address, _: ("127.0.0.1", servers[int(address[-1])].port))
        async with manager.running(), ClientSession() as http:
            namespace = await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
            await client.create(SERVICES, moved(service("llm").selecting(app="llm").port(80, "http", 8000)))
            await client.create(ENDPOINT_SLICES, moved(slice_of("llm", 0)))
            await client.create(ENDPOINT_SLICES, moved(slice_of("llm-canary", 1)))
            await client.create(INGRESSES, moved(ingress("llm", "llm", host="ingress.example.com")))
            await client.create(GATEWAYS, moved(GATEWAY))
            route = http_route({"backendRefs": [backend("llm", 7)]}, hostnames=("route.example.com",))
            await client.create(HTTP_ROUTES, moved(route))
            before = await specs(client)
            owner = {**OWNER, "uid": namespace["metadata"]["uid"]}
            request = TrafficRequest(NAMESPACE, owner, (BOTH,), selectors=Selectors("rev", "v1", "v2"))
            traffic = ClusterTraffic(client)

            async def served(host: str, **headers: str) -> str:
                async with http.get(plane.address, headers={"host": host, **headers}) as answer:
                    return await answer.text()

            await finish(traffic, "pin_stable", request)
            modifier = HeaderModifier(set=(Header("x-version", "new"),))
            match = TrafficStep(matches=(Match(headers=(HeaderMatch("user", "demo"),)),), header_modifier=modifier)
            await finish(traffic, "route", msgspec.structs.replace(request, step=match))
            for host in ("ingress.example.com", "route.example.com"):
                assert await served(host) == "stable"
                assert await served(host, user="demo") == "canary"
            await finish(traffic, "route", msgspec.structs.replace(request, step=TrafficStep(100)))
            for host in ("ingress.example.com", "route.example.com"):
                assert await served(host) == "canary"
            for operation in ("route_all_to_stable", "unpin_stable", "remove_canary_service"):
                await finish(traffic, operation, request)
            assert await specs(client) == before
            for host in ("ingress.example.com", "route.example.com"):
                assert await served(host) == "stable"
            await traffic.close()
            await client.delete(NAMESPACES, NAMESPACE)
        for definition in definitions():
            await client.delete(CUSTOM_RESOURCE_DEFINITIONS, definition["metadata"]["name"])
    for server in servers:
        await server.stop()


async def specs(client: Client) -> list[JsonObject]:
    """Everything but what the server itself counts."""
    found = []
    for resource in (SERVICES, INGRESSES, HTTP_ROUTES):
        for obj in (await client.list(resource, NAMESPACE)).items:
            metadata = obj["metadata"]
            found.append(
                {"name": metadata["name"], "spec": obj["spec"], "annotations": metadata.get("annotations") or {}}
            )
    return found


async def finish(traffic: ClusterTraffic, operation: str, request: TrafficRequest) -> None:
    stored: Mapping[str, str] = {}
    async with asyncio.timeout(60):
        while True:
            match await getattr(traffic, operation)(msgspec.structs.replace(request, grace_times=stored)):
                case Done():
                    return
                case Waiting(seconds=seconds, grace_times=times):
                    stored = stored if times is None else times
                    await asyncio.sleep(seconds)
                case Problem(text=text):
                    raise AssertionError(text)
