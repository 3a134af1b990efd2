"""Reads Services, routes and user scripts from the cluster."""

from collections.abc import Mapping

from kohort.kube.client import Client
from kohort.kube.resources import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    HTTP_ROUTE_VERSIONS,
    INGRESSES,
    PODS,
    SERVICES,
    Key,
    Resource,
)
from kohort.objects.discovery import EndpointSlice
from kohort.objects.json_types import JsonObject
from kohort.objects.selectors import selecting
from kohort.rollouts.traffic import httproute, ingress, services
from kohort.rollouts.traffic.annotations import SERVICE_NAME
from kohort.rollouts.traffic.model import RouteRef, TrafficRequest
from kohort.rollouts.traffic.pending_writes import is_going


class ClusterLookup:
    """Never from a cache: a pin that is seen late would be written twice. What must be there and is not is a problem in
    words."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def find(self, resource: Resource, name: str, request: TrafficRequest) -> JsonObject | None:
        found: JsonObject | None = await self._client.find(resource, name, request.namespace) if name else None
        return found

    async def stable(self, ref: RouteRef, request: TrafficRequest) -> JsonObject:
        return services.check_service(await self.find(SERVICES, ref.service, request), ref, request)

    async def ingress(self, ref: RouteRef, request: TrafficRequest) -> JsonObject:
        assert ref.ingress is not None
        return ingress.check_ingress(await self.find(INGRESSES, ref.ingress.name, request), ref, request)

    async def route(self, ref: RouteRef, request: TrafficRequest) -> JsonObject:
        assert ref.gateway is not None
        found = await self.http_route(ref.gateway.http_route_name or "", request)
        return httproute.check_route(found, ref, request)

    async def http_route(self, name: str, request: TrafficRequest) -> JsonObject | None:
        return await find_http_route(self._client, name, request.namespace) if name else None

    async def selected(self, service: JsonObject) -> list[JsonObject]:
        return await self.selected_by(service["spec"]["selector"], service["metadata"]["namespace"])

    async def selected_by(self, selector: Mapping[str, str], namespace: str) -> list[JsonObject]:
        return (await self._client.list(PODS, namespace, label_selector=selecting(selector))).items

    async def has_ready_endpoint(self, service: str, request: TrafficRequest) -> bool:
        """By the slices; or by pods whose addresses the API refuses in slices, as on a machine without rights."""
        selector = f"{SERVICE_NAME}={service}"
        slices = await self._client.list(
            ENDPOINT_SLICES, request.namespace, type=EndpointSlice, label_selector=selector
        )
        if any(endpoint.conditions.ready is not False for one in slices.items for endpoint in one.endpoints or ()):
            return True
        live = await self.find(SERVICES, service, request)
        if live is None or not live["spec"].get("selector"):
            return False
        return any(_is_ready_on_loopback(pod) for pod in await self.selected(live))


async def find_http_route(client: Client, name: str, namespace: str) -> JsonObject | None:
    """A route in the newest version that the cluster serves; None when there is none in any."""
    for resource in HTTP_ROUTE_VERSIONS:
        found: JsonObject | None = await client.find(resource, name, namespace)
        if found is not None:
            return found
    return None


class UserScripts:
    """Of one ConfigMap."""

    def __init__(self, client: Client, configuration: Key) -> None:
        self._client = client
        self._configuration = configuration

    @property
    def place(self) -> str:
        return f"ConfigMap {self._configuration}"

    async def find(self, key: str) -> str | None:
        found = await self._client.find(CONFIG_MAPS, self._configuration.name, self._configuration.namespace)
        return None if found is None else (found.get("data") or {}).get(key)


def _is_ready_on_loopback(pod: JsonObject) -> bool:
    status = pod.get("status") or {}
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
    return ready and str(status.get("podIP", "")).startswith("127.") and not is_going(pod)
