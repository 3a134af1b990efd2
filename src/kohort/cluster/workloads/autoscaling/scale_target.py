"""The scale of the object that an autoscaler names: any kind that has a scale subresource."""

from typing import Final

import msgspec

from kohort.kube.client import Client
from kohort.kube.errors import ApiError, Conflict, NotFound, generic
from kohort.kube.resources import Resource
from kohort.objects.json_types import JsonObject

_ATTEMPTS: Final = 5


class ScaleTarget(msgspec.Struct, frozen=True):
    path: str
    """Of the scale subresource."""
    scale: JsonObject

    @property
    def replicas(self) -> int:
        return (self.scale.get("spec") or {}).get("replicas") or 0

    @property
    def selector(self) -> str:
        return (self.scale.get("status") or {}).get("selector") or ""


async def find_target(client: Client, namespace: str, reference: JsonObject) -> ScaleTarget:
    """Raises ApiError. The version of the reference does not matter, as long as its group has the kind."""
    group = (reference.get("apiVersion") or "").rpartition("/")[0]
    resource = await _resource_of(client, group, reference["kind"])
    path = resource.path(namespace, reference["name"], "scale")
    return ScaleTarget(path, await _get(client, path))


async def write_replicas(client: Client, target: ScaleTarget, replicas: int) -> None:
    """Raises ApiError. Others may write the target at the same time; the number of the autoscaler counts."""
    scale = target.scale
    for attempt in range(1, _ATTEMPTS + 1):
        body = {**scale, "spec": {**(scale.get("spec") or {}), "replicas": replicas}}
        try:
            await client.raw("PUT", target.path, body=msgspec.json.encode(body))
            return
        except Conflict:
            if attempt == _ATTEMPTS:
                raise
            scale = await _get(client, target.path)


async def _resource_of(client: Client, group: str, kind: str) -> Resource:
    try:
        for version in await _versions(client, group):
            root = f"/apis/{group}/{version}" if group else f"/api/{version}"
            for one in (await _get(client, root))["resources"]:
                if one["kind"] == kind and "/" not in one["name"]:
                    return Resource(group, version, one["name"], kind)
    except NotFound:
        pass
    raise _no_such_kind(group, kind)


async def _versions(client: Client, group: str) -> list[str]:
    """Of a group, the preferred one first."""
    if not group:
        return ["v1"]
    found = await _get(client, f"/apis/{group}")
    return list(dict.fromkeys([found["preferredVersion"]["version"], *(one["version"] for one in found["versions"])]))


def _no_such_kind(group: str, kind: str) -> ApiError:
    return generic(404, "NotFound", f'no matches for kind "{kind}" in group "{group}"')


async def _get(client: Client, path: str) -> JsonObject:
    answer: JsonObject = msgspec.json.decode(await client.raw("GET", path))
    return answer
