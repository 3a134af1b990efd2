"""Adds the data plane to a manager."""

import asyncio
import os
from ipaddress import ip_network
from typing import TYPE_CHECKING, Final

import msgspec

from kohort.cluster.gateway.crd import definitions, gateway_class
from kohort.cluster.gateway.data_plane import DataPlane
from kohort.cluster.gateway.status_writer import class_status
from kohort.cluster.gateway.views import (
    GATEWAY_CLASSES,
    GROUP,
    REFERENCE_GRANTS,
    REFERENCE_GRANTS_V1BETA1,
    GatewayClass,
)
from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.errors import AlreadyExists
from kohort.kube.log import Log
from kohort.kube.manager import Manager
from kohort.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from kohort.objects.json_types import JsonObject

if TYPE_CHECKING:
    from kohort.cluster.gateway.backends import Dial
    from kohort.cluster.gateway.forwarded_headers import Network
    from kohort.cluster.gateway.proxy import Settings

_log = Log(module="kohort.cluster.gateway")

TRUSTED_PROXIES: Final = "KOHORT_GATEWAY_TRUSTED_PROXIES"
MERGE_SLASHES: Final = "KOHORT_GATEWAY_MERGE_SLASHES"
CONNECTIONS: Final = "KOHORT_GATEWAY_CONNECTIONS_PER_CLIENT"
_CONNECTIONS: Final = 2048
_ESTABLISHED_SECONDS: Final = 10.0
_GRANTS: Final = f"referencegrants.{GROUP}"


def register(
    manager: Manager,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    dial: "Dial | None" = None,
    trusted_proxies: str | None = None,
    merge_slashes: bool | None = None,
    connections_per_client: int | None = None,
) -> DataPlane:
    """Serve Ingresses and HTTPRoutes on one port; any free one if it is 0. On loopback by default.

    `dial` says where an address of a pod is reached from here; without it, at that address.

    `trusted_proxies` are addresses and networks, separated by commas, whose X-Forwarded headers are believed; none by
    default. `merge_slashes` makes `//` in paths one slash, as it does by default. `connections_per_client` is how many
    connections an address that is not a trusted proxy may have at a time. What is not given is read from
    `KOHORT_GATEWAY_TRUSTED_PROXIES`, `KOHORT_GATEWAY_MERGE_SLASHES` (true or false) and
    `KOHORT_GATEWAY_CONNECTIONS_PER_CLIENT`. Raises ValueError.
    """
    trusted = os.environ.get(TRUSTED_PROXIES, "") if trusted_proxies is None else trusted_proxies
    merge = _boolean(MERGE_SLASHES, default=True) if merge_slashes is None else merge_slashes
    networks = _networks(trusted)
    connections = _number(CONNECTIONS, _CONNECTIONS) if connections_per_client is None else connections_per_client

    def settings() -> "Settings":
        from kohort.cluster.gateway.proxy import Settings

        return Settings(networks, merge, connections)

    plane = DataPlane(manager, host=host, port=port, dial=dial, settings=settings)

    async def prepare() -> None:
        if await install_definitions(manager.client):
            plane.serve_gateway_api(await _served_grants(manager.client))
        else:
            _log.warning("the Gateway API of this cluster has no version v1; only Ingresses are served")

    manager.prepare(prepare)
    return plane


def _networks(text: str) -> "tuple[Network, ...]":
    try:
        return tuple(ip_network(each.strip(), strict=False) for each in text.split(",") if each.strip())
    except ValueError as problem:
        raise ValueError(
            f"{TRUSTED_PROXIES}: {problem}; write addresses and networks, separated by commas: 10.0.0.0/8,192.0.2.7"
        ) from None


def _boolean(name: str, *, default: bool) -> bool:
    found = os.environ.get(name, "").lower()
    if found not in ("", "true", "false"):
        raise ValueError(f"{name} is {found!r}; write true or false")
    return default if not found else found == "true"


def _number(name: str, default: int) -> int:
    found = os.environ.get(name, "")
    if found and not (found.isdigit() and int(found) > 0):
        raise ValueError(f"{name} is {found!r}; write a number above 0")
    return int(found) if found else default


async def install_definitions(client: Client) -> bool:
    """Install the definitions that are missing; existing ones stay. Returns whether version v1 is served."""
    created = []
    for definition in definitions():
        name = definition["metadata"]["name"]
        existing = await client.find(CUSTOM_RESOURCE_DEFINITIONS, name)
        if existing is not None:
            if name != _GRANTS and not _serves(existing, "v1"):
                return False
            continue
        await _create(client, CUSTOM_RESOURCE_DEFINITIONS, definition)
        created.append(name)
    async with asyncio.timeout(_ESTABLISHED_SECONDS):
        for name in created:
            await _wait_established(client, name)
    if created:
        await _create_class(client)
    return True


async def _create_class(client: Client) -> None:
    """The class is accepted from the beginning: the gateway itself is started by the first object that needs it."""
    try:
        made = await client.create(GATEWAY_CLASSES, gateway_class())
    except AlreadyExists:
        return
    status = class_status(msgspec.convert(made, GatewayClass), clock.timestamp())
    await client.patch(GATEWAY_CLASSES, made["metadata"]["name"], "", {"status": status}, subresource="status")


def _serves(definition: JsonObject, name: str) -> bool:
    return any(version["name"] == name and version["served"] for version in definition["spec"]["versions"])


async def _served_grants(client: Client) -> Resource:
    """ReferenceGrants in version v1; official definitions before Gateway API 1.5 have v1beta1 only."""
    existing = await client.find(CUSTOM_RESOURCE_DEFINITIONS, _GRANTS)
    return REFERENCE_GRANTS if existing is None or _serves(existing, "v1") else REFERENCE_GRANTS_V1BETA1


async def _create(client: Client, resource: Resource, obj: dict[str, object]) -> None:
    try:
        await client.create(resource, obj)
    except AlreadyExists:
        return


async def _wait_established(client: Client, name: str) -> None:
    async for event in client.watch(CUSTOM_RESOURCE_DEFINITIONS, field_selector=f"metadata.name={name}"):
        conditions = (event.object.get("status") or {}).get("conditions") or []
        if any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
            return
