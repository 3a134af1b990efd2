"""Installing and removing.

Everything is applied server-side and by force, so an installation can be repeated, changed, or laid over one of
LeaderWorkerSet; what the operator itself owns (the certificate, the bundle in the webhook configurations) stays.

The order of removal matters: webhook configurations go first, because without the operator they would refuse every
write that the rest of the removal needs.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from kohort import operator
from kohort.groups import crd
from kohort.install.manifests import manifests
from kohort.install.options import Options
from kohort.install.resources import resource_of
from kohort.install.workload import DEPLOYMENT
from kohort.kube import errors
from kohort.kube.client import Client
from kohort.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, LEADER_WORKER_SETS, NAMESPACES
from kohort.objects.jsontypes import JsonObject

FIELD_MANAGER: Final = "kohort-install"
_LOOK_SECONDS: Final = 0.25
_FIRST_REMOVED: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")

Tell = Callable[[str], None]


class InstallationFailed(Exception):
    """What went wrong, in words for the one who installs."""


async def install(client: Client, options: Options, tell: Tell, *, wait: float = 0.0) -> None:
    """Apply everything; with `wait`, return when the operator is available."""
    for one in manifests(options):
        await _apply(client, one)
        tell(f"{one['kind']} {one['metadata']['name']} applied")
        if one["kind"] == "CustomResourceDefinition":
            await operator.wait_established(client, one["metadata"]["name"])
    if wait > 0:
        await _wait_available(client, options.namespace, wait)
        tell(f"the operator is available in namespace {options.namespace}")


async def uninstall(client: Client, options: Options, tell: Tell, *, keep_objects: bool, wait: float = 60.0) -> None:
    """Remove everything; the definitions, and with them all sets, only when `keep_objects` is not asked for."""
    everything = manifests(options)
    first = [one for one in everything if one["kind"] in _FIRST_REMOVED]
    rest = [one for one in reversed(everything) if one["kind"] not in _FIRST_REMOVED]
    for one in [*first, *rest]:
        if one["kind"] == "CustomResourceDefinition" and keep_objects:
            tell(f"CustomResourceDefinition {one['metadata']['name']} kept, and all its objects")
            continue
        if await _remove(client, one):
            tell(f"{one['kind']} {one['metadata']['name']} removed")
    await _wait_gone(client, options.namespace, keep_objects, wait)


async def sets_in(client: Client) -> list[str]:
    """The sets that a removal of the definitions would take along."""
    try:
        page = await client.list(LEADER_WORKER_SETS, metadata_only=True)
    except errors.NotFound:
        return []
    return [f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in page.items]


async def _apply(client: Client, obj: JsonObject) -> None:
    resource = resource_of(obj)
    if obj["kind"] in _FIRST_REMOVED:
        await operator.apply_webhooks(client, obj, FIELD_MANAGER)
        return
    if obj["kind"] == "CustomResourceDefinition":
        await operator.apply_definition(client, obj, FIELD_MANAGER)
        return
    try:
        await client.apply(resource, obj, field_manager=FIELD_MANAGER)
    except errors.NotFound as problem:
        raise InstallationFailed(f"{obj['kind']}: this cluster does not have it ({problem.message})") from problem
    except errors.Invalid as problem:
        if obj["kind"] != "Deployment" or "immutable" not in problem.message:
            raise
        # Another operator stands here whose Deployment selects its pods differently: that cannot be changed.
        await _remove(client, obj)
        await client.apply(resource, obj, field_manager=FIELD_MANAGER)


async def _remove(client: Client, obj: JsonObject) -> bool:
    metadata = obj["metadata"]
    try:
        await client.delete(resource_of(obj), metadata["name"], metadata.get("namespace", ""), propagation="Background")
    except errors.NotFound:
        return False
    return True


async def _wait_available(client: Client, namespace: str, seconds: float) -> None:
    problem = "it has not been looked at"
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = await client.get(DEPLOYMENTS, DEPLOYMENT, namespace)
                status, wanted = found.get("status") or {}, found["spec"]["replicas"]
                ready = status.get("availableReplicas", 0)
                if status.get("observedGeneration") == found["metadata"]["generation"] and ready >= min(1, wanted):
                    return
                problem = f"{ready} of {wanted} replicas are available"
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        raise InstallationFailed(
            f"the operator is not available after {seconds:g} s: {problem}; "
            f"see kubectl -n {namespace} describe deployment {DEPLOYMENT}"
        ) from None


async def _wait_gone(client: Client, namespace: str, keep_objects: bool, seconds: float) -> None:
    waiting = [(NAMESPACES, namespace)]
    if not keep_objects:
        waiting.append((CUSTOM_RESOURCE_DEFINITIONS, crd.NAME))
    deadline = asyncio.get_running_loop().time() + seconds
    for resource, name in waiting:
        while await client.find(resource, name) is not None:
            if asyncio.get_running_loop().time() > deadline:
                raise InstallationFailed(f"{resource.kind} {name} is still being removed after {seconds:g} s")
            await asyncio.sleep(_LOOK_SECONDS)
