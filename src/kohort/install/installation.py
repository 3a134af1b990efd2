"""Installs and removes the operator.

Everything is applied server-side and by force, so an installation can be repeated, changed, or laid over one of
LeaderWorkerSet; what the operator itself owns (the certificate, the bundle in the webhook configurations) stays. What
an earlier installation had and this one does not is removed: webhooks without a server would refuse writes, and
unused Roles would stay for ever.

The order of a removal: webhook configurations first, because without the operator they would refuse every write that
the rest needs. Then the definitions with their objects, while the operator still runs: it gives routes and workloads of
releases back. Then the operator, and its namespace if that was made for it and holds nothing else.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Literal

from kohort import operator
from kohort.install import owned_objects
from kohort.install.install_kinds import resource_of
from kohort.install.manifests import manifests
from kohort.install.operator_readiness import LOOK_SECONDS, NotAvailable, wait_available
from kohort.install.options import InstallOptions
from kohort.install.owned_objects import MADE_BY_THE_OPERATOR, OwnedObject
from kohort.kube import errors
from kohort.kube.client import Client
from kohort.kube.resources import (
    BATCH_RELEASES,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    LEADER_WORKER_SETS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    ROLLOUTS,
    SECRETS,
    TRAFFIC_ROUTINGS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from kohort.objects.json_types import JsonObject

FIELD_MANAGER: Final = "kohort-install"
_FINALIZE_SECONDS: Final = 20.0
"""For an operator that runs to end the releases that go with their definitions."""
_HOOKS: Final = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
_NAMED_AT_MOST: Final = 5

PrintLine = Callable[[str], None]


class InstallationFailed(Exception):
    """The message is shown to the user."""


async def install(client: Client, options: InstallOptions, print_line: PrintLine, *, wait: float = 0.0) -> None:
    """Apply everything; with `wait`, return when the operator is available."""
    await _check_places(client, options, wait)
    wanted = manifests(options)
    for one in wanted:
        print_line(f"{one['kind']} {one['metadata']['name']} {await _apply(client, one)}")
        if one["kind"] == "CustomResourceDefinition":
            await operator.wait_established(client, one["metadata"]["name"])
    for left in _surplus(await owned_objects.ours(client), wanted, options.namespace):
        await _remove(client, left)
        print_line(f"{left} removed, which an earlier installation had")
    if wait > 0:
        try:
            await wait_available(client, options.namespace, wait)
        except NotAvailable as problem:
            raise InstallationFailed(str(problem)) from problem
        print_line(f"the operator is available in namespace {options.namespace}")


async def uninstall(
    client: Client, options: InstallOptions, print_line: PrintLine, *, keep_objects: bool, wait: float = 60.0
) -> None:
    """Remove everything; the definitions, and with them all sets, only when `keep_objects` is not asked for."""
    found = await owned_objects.ours(client)
    operators = [one for one in found if one.resource == DEPLOYMENTS]
    await _remove_all(client, [one for one in found if one.resource in _HOOKS], print_line)
    if keep_objects:
        await _keep_definitions(client, print_line)
    else:
        await _remove_definitions(client, print_line, wait)
    await _remove_all(client, [one for one in found if one.resource not in _HOOKS], print_line)
    if not await _gone(client, operators, wait):
        raise InstallationFailed(f"the operator is still ending after {wait:g} s")
    for namespace in sorted({options.namespace, *(one.namespace for one in operators)}):
        await _remove_namespace(client, namespace, print_line, wait)


async def objects_in(client: Client) -> list[str]:
    """What a removal of the definitions would take along."""
    doomed: list[str] = []
    ours = {one.name for one in await owned_objects.definitions(client)}
    for resource in (LEADER_WORKER_SETS, ROLLOUTS):
        if resource.qualified in ours:
            page = await client.list(resource, metadata_only=True)
            doomed += [_title(resource, one["metadata"]) for one in page.items]
    return doomed


def _title(resource: Resource, metadata: JsonObject) -> str:
    kind = "" if resource == LEADER_WORKER_SETS else f"{resource.kind} "
    return f"{kind}{metadata['namespace']}/{metadata['name']}"


async def _check_places(client: Client, options: InstallOptions, wait: float) -> None:
    """Everything that must be there, before anything is changed."""
    for name in options.namespaces:
        if await client.find(NAMESPACES, name) is None:
            raise InstallationFailed(f"there is no namespace {name} to confine the operator to: create it first")
    deadline = asyncio.get_running_loop().time() + wait
    while (found := await client.find(NAMESPACES, options.namespace)) is not None:
        if not found["metadata"].get("deletionTimestamp"):
            return
        if asyncio.get_running_loop().time() > deadline:
            raise InstallationFailed(f"namespace {options.namespace} is still being removed: try again when it is gone")
        await asyncio.sleep(LOOK_SECONDS)


async def _apply(client: Client, obj: JsonObject) -> str:
    """What was done to it."""
    resource = resource_of(obj)
    if resource in _HOOKS:
        await operator.apply_webhooks(client, obj, FIELD_MANAGER)
        return "applied"
    if obj["kind"] == "CustomResourceDefinition":
        await operator.apply_definition(client, obj, FIELD_MANAGER)
        return "applied"
    if obj["kind"] == "Namespace":
        return await _apply_namespace(client, obj)
    try:
        await client.apply(resource, obj, field_manager=FIELD_MANAGER)
    except errors.NotFound as problem:
        raise InstallationFailed(f"{obj['kind']}: this cluster does not have it ({problem.message})") from problem
    except errors.Invalid as problem:
        if obj["kind"] != "Deployment" or not problem.names_field("spec.selector"):
            raise
        # The Deployment is of another operator and selects its pods differently. Selectors cannot be changed.
        await client.delete(resource, obj["metadata"]["name"], obj["metadata"]["namespace"], propagation="Background")
        await client.apply(resource, obj, field_manager=FIELD_MANAGER)
    return "applied"


async def _apply_namespace(client: Client, obj: JsonObject) -> str:
    """A namespace that was made for other things is used as it is: an installation neither changes its labels, which
    decide which pods may run in it, nor removes it."""
    found: JsonObject | None = await client.find(NAMESPACES, obj["metadata"]["name"])
    if found is not None and not owned_objects.is_an_installation(found):
        return "used as it is"
    await client.apply(NAMESPACES, obj, field_manager=FIELD_MANAGER)
    return "applied"


def _surplus(found: Iterable[OwnedObject], wanted: list[JsonObject], namespace: str) -> list[OwnedObject]:
    """What is ours and not wanted any more. A Secret that cert-manager fills from now on is the same Secret."""
    needed = {_owned_object(one) for one in wanted}
    return [one for one in found if one not in needed and not (one.resource == SECRETS and one.namespace == namespace)]


def _owned_object(obj: JsonObject) -> OwnedObject:
    return OwnedObject(resource_of(obj), obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


async def _remove(client: Client, one: OwnedObject) -> bool:
    # Foreground for the Deployment: it is gone when its pods are, which write a lease and a status until their end.
    propagation: Literal["Foreground", "Background"] = "Foreground" if one.resource == DEPLOYMENTS else "Background"
    try:
        await client.delete(one.resource, one.name, one.namespace, propagation=propagation)
    except errors.NotFound:
        return False
    return True


async def _remove_all(client: Client, which: Iterable[OwnedObject], print_line: PrintLine) -> None:
    for one in which:
        if await _remove(client, one):
            print_line(f"{one.title} removed")


async def _keep_definitions(client: Client, print_line: PrintLine) -> None:
    for one in await owned_objects.definitions(client):
        await owned_objects.release_fields(client, one, FIELD_MANAGER)
        print_line(f"{one.title} kept, and all its objects")


async def _remove_definitions(client: Client, print_line: PrintLine, wait: float) -> None:
    """Rollouts first: as long as the rest is there, an operator can end them in order."""
    doomed = await owned_objects.definitions(client)
    rollouts = [one for one in doomed if one.name == ROLLOUTS.qualified]
    for stage in (rollouts, [one for one in doomed if one not in rollouts]):
        for one in stage:
            await _remove(client, one)
        if not await _gone(client, stage, min(wait, _FINALIZE_SECONDS)):
            # No operator runs that would.
            for name in await _without_finalizers(client, {one.name for one in stage}):
                print_line(f"{name} removed without its operator: what it held or routed stays as it is")
        if not await _gone(client, stage, wait):
            raise InstallationFailed(f"the definitions are still being removed after {wait:g} s")
        for one in stage:
            print_line(f"{one.title} removed")


async def _without_finalizers(client: Client, definitions: set[str]) -> list[str]:
    freed: list[str] = []
    for resource in (ROLLOUTS, BATCH_RELEASES, TRAFFIC_ROUTINGS):
        if resource.qualified not in definitions or not await _exists(client, resource):
            continue
        for one in (await client.list(resource, metadata_only=True)).items:
            metadata = one["metadata"]
            if metadata.get("deletionTimestamp") and metadata.get("finalizers"):
                await client.patch(
                    resource, metadata["name"], metadata["namespace"], {"metadata": {"finalizers": None}}
                )
                freed.append(f"{resource.kind} {metadata['namespace']}/{metadata['name']}")
    return freed


async def _exists(client: Client, resource: Resource) -> bool:
    return await client.find(CUSTOM_RESOURCE_DEFINITIONS, resource.qualified) is not None


async def _remove_namespace(client: Client, namespace: str, print_line: PrintLine, wait: float) -> None:
    """Remove what the operator itself has made, and the namespace if an installation made it and it is empty then."""
    for resource, name in MADE_BY_THE_OPERATOR:
        await _remove(client, OwnedObject(resource, namespace, name))
    found: JsonObject | None = await client.find(NAMESPACES, namespace)
    if found is None or not operator.is_labelled(found):
        return
    if others := await owned_objects.foreign_objects(client, namespace):
        more = f" and {len(others) - _NAMED_AT_MOST} more" if len(others) > _NAMED_AT_MOST else ""
        print_line(f"Namespace {namespace} kept: it holds {', '.join(others[:_NAMED_AT_MOST])}{more}")
        return
    place = OwnedObject(NAMESPACES, "", namespace)
    await _remove(client, place)
    if not await _gone(client, [place], wait):
        raise InstallationFailed(f"Namespace {namespace} is still being removed after {wait:g} s")
    print_line(f"{place.title} removed")


async def _gone(client: Client, which: Iterable[OwnedObject], seconds: float) -> bool:
    """Whether all of them are gone, at the latest after so many seconds."""
    deadline = asyncio.get_running_loop().time() + seconds
    for one in which:
        while await client.find(one.resource, one.name, one.namespace) is not None:
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(LOOK_SECONDS)
    return True
