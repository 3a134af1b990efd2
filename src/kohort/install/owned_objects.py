"""Which objects of a cluster are an installation's, and which are not.

An installation marks what it makes with `LABELS`, and nothing without these labels is ever removed. So a removal needs
no options: it finds also Roles of namespaces that an earlier installation was confined to. It leaves objects of others
with the same names alone: definitions of Kruise Rollouts where kohort does not manage those, or the objects of a
LeaderWorkerSet that was installed over kohort.

A namespace is removed only if an installation made it and it holds no objects of others.
"""

from collections.abc import AsyncIterator
from typing import Final

import msgspec

from kohort.install.install_kinds import KNOWN
from kohort.kube import errors
from kohort.kube.client import Client
from kohort.kube.discovery import served_resources
from kohort.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, LEASES, Resource
from kohort.manager.capabilities import STATUS
from kohort.manager.configuration import LEASE, SECRET
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject
from kohort.operator import LABELS, SELECTOR, is_labelled

_MADE_BY_THE_CLUSTER: Final = {
    ("configmaps", "kube-root-ca.crt"),
    ("configmaps", "openshift-service-ca.crt"),
    ("serviceaccounts", "default"),
}
MADE_BY_THE_OPERATOR: Final = ((LEASES, LEASE), (CONFIG_MAPS, STATUS))
"""While it runs; they carry no labels because LeaderWorkerSet uses the same lease."""
_OWN: Final = {*_MADE_BY_THE_CLUSTER, ("secrets", SECRET), *((one.plural, name) for one, name in MADE_BY_THE_OPERATOR)}
_DERIVED: Final = {"events", "endpoints", "endpointslices"}
"""What clusters make of other objects."""
_FIGURES: Final = {"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"}
_TOKEN_OF: Final = well_known_names.SERVICE_ACCOUNT_NAME


class OwnedObject(msgspec.Struct, frozen=True):
    resource: Resource
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.namespace}/{self.name}" if self.namespace else self.title

    @property
    def title(self) -> str:
        return f"{self.resource.kind} {self.name}"


def is_an_installation(namespace: JsonObject) -> bool:
    """Made for an operator of groups: by us, or by the LeaderWorkerSet that we take over."""
    labels = namespace["metadata"].get("labels") or {}
    return bool(labels.get(well_known_names.APP_NAME) == LABELS[well_known_names.APP_NAME])


async def ours(client: Client) -> list[OwnedObject]:
    """Everything that an installation has made, in all namespaces, of the kinds that one consists of."""
    return [one for resource in KNOWN async for one in _labelled(client, resource)]


async def definitions(client: Client) -> list[OwnedObject]:
    return [one async for one in _labelled(client, CUSTOM_RESOURCE_DEFINITIONS)]


async def _labelled(client: Client, resource: Resource) -> AsyncIterator[OwnedObject]:
    try:
        page = await client.list(resource, label_selector=SELECTOR, metadata_only=True)
    except (errors.NotFound, errors.MethodNotAllowed):  # no cluster has all kinds
        return
    for one in page.items:
        yield OwnedObject(resource, one["metadata"].get("namespace", ""), one["metadata"]["name"])


async def foreign_objects(client: Client, namespace: str) -> list[str]:
    """What is in a namespace and neither ours nor made by the cluster itself; what cannot be looked at may be, too."""
    found: list[str] = []
    for served in await served_resources(client):
        resource = served.resource
        if not resource.namespaced or not served.allows("list") or "/" in resource.plural:
            continue
        if resource.plural in _DERIVED or resource.group in _FIGURES:
            continue
        try:
            page = await client.list(resource, namespace, metadata_only=True)
        except errors.ApiError as problem:
            if not isinstance(problem, (errors.NotFound, errors.MethodNotAllowed)):
                found.append(f"{resource.qualified} that cannot be listed")
            continue
        found += [f"{resource.kind} {one['metadata']['name']}" for one in page.items if _is_foreign(resource, one)]
    return found


def _is_foreign(resource: Resource, obj: JsonObject) -> bool:
    metadata = obj["metadata"]
    if metadata.get("ownerReferences") or is_labelled(obj) or metadata.get("deletionTimestamp"):
        return False
    if resource.plural == "secrets" and _TOKEN_OF in (metadata.get("annotations") or {}):
        return False
    return (resource.plural, metadata["name"]) not in _OWN


async def release_fields(client: Client, owned: OwnedObject, field_manager: str) -> None:
    """Give up the ownership of an object's fields, so that the next client that applies it meets no conflict."""
    found: JsonObject | None = await client.find(owned.resource, owned.name, owned.namespace)
    if found is None:
        return
    fields = found["metadata"].get("managedFields") or []
    kept = [one for one in fields if one.get("manager") != field_manager]
    if len(kept) < len(fields):
        # An empty list would be taken for one that was not sent.
        metadata = {"managedFields": kept or [{}], "resourceVersion": found["metadata"]["resourceVersion"]}
        await client.patch(owned.resource, owned.name, owned.namespace, {"metadata": metadata})
