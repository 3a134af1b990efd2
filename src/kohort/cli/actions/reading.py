"""A set and what belongs to it, read from a cluster."""

import asyncio
from contextlib import suppress

from msgspec.structs import replace

from kohort.cli.connection import Refusal
from kohort.groups import wire
from kohort.groups.api import LeaderWorkerSet
from kohort.groups.revisions import Revision
from kohort.groups.views import GroupService, GroupStatefulSet
from kohort.inspection.snapshot import Snapshot
from kohort.kube.client import Client
from kohort.kube.errors import ApiError, Forbidden, NotFound
from kohort.kube.identity import T
from kohort.kube.resources import (
    CONTROLLER_REVISIONS,
    EVENTS,
    HTTP_ROUTES,
    LEADER_WORKER_SETS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    ROLLOUTS,
    SERVICES,
    STATEFUL_SETS,
    Key,
    Resource,
)
from kohort.objects.core import Event, PersistentVolumeClaim, Pod
from kohort.objects.jsontypes import JsonObject
from kohort.rollouts.api import Rollout
from kohort.rollouts.wire import CANARY_SET


async def snapshot(client: Client, namespace: str, name: str, *, surroundings: bool = False) -> Snapshot:
    """`surroundings` also reads events, claims and the Service, which only explanations need."""
    group_set = await find_set(client, namespace, name)
    found, rollouts, events, claims, service = await asyncio.gather(
        _groups(client, group_set),
        if_known(client, ROLLOUTS, namespace, Rollout),
        if_known(client, EVENTS, namespace, Event, surroundings),
        if_known(client, PERSISTENT_VOLUME_CLAIMS, namespace, PersistentVolumeClaim, surroundings),
        _service(client, namespace, name, surroundings),
    )
    ours = [one for one in rollouts if one.spec.workload_ref.is_group_set and one.spec.workload_ref.name == name]
    found = replace(found, events=events, claims=claims, service=service, rollout=ours[0] if ours else None)
    if not found.releasing:
        return found
    return replace(
        found, canary=await _canary(client, found), routes=await _routes(client, found) if surroundings else ()
    )


async def _routes(client: Client, found: Snapshot) -> list[JsonObject]:
    """Those that the Rollout names."""
    refs = found.rollout.strategy.traffic_routings if found.rollout is not None else ()
    names = {one.gateway.http_route_name for one in refs if one.gateway is not None}
    known = await if_known(client, HTTP_ROUTES, found.group_set.metadata.namespace, JsonObject, bool(names))
    return [one for one in known if one["metadata"]["name"] in names]


async def _groups(client: Client, group_set: LeaderWorkerSet) -> Snapshot:
    """The set and what its groups are made of."""
    namespace, selector = group_set.metadata.namespace, f"{wire.NAME}={group_set.metadata.name}"
    pods, stateful_sets, revisions = await asyncio.gather(
        client.list(PODS, namespace, type=Pod, label_selector=selector),
        client.list(STATEFUL_SETS, namespace, type=GroupStatefulSet, label_selector=selector),
        client.list(CONTROLLER_REVISIONS, namespace, type=Revision, label_selector=selector),
    )
    return Snapshot(
        group_set=group_set,
        pods=pods.items,
        stateful_sets=stateful_sets.items,
        revisions=[one for one in revisions.items if _owned(one, group_set)],
    )


async def _service(client: Client, namespace: str, name: str, wanted: bool) -> GroupService | None:
    if not wanted:
        return None
    try:
        return await client.get(SERVICES, name, namespace, type=GroupService)
    except (NotFound, Forbidden):
        return None


async def _canary(client: Client, stable: Snapshot) -> Snapshot | None:
    """The set beside it that a Rollout has made for the new version. After one that was given up, two may be there for
    a while; the one that goes does not matter any more."""
    selector, namespace = f"{CANARY_SET}={stable.name}", stable.group_set.metadata.namespace
    sets = await client.list(LEADER_WORKER_SETS, namespace, type=LeaderWorkerSet, label_selector=selector)
    living = [one for one in sets.items if not one.metadata.deleting]
    if not living:
        return None
    return replace(await _groups(client, living[-1]), events=stable.events, claims=stable.claims)


def _owned(revision: Revision, group_set: LeaderWorkerSet) -> bool:
    owner = revision.metadata.controller
    return owner is None or owner.uid == group_set.metadata.uid


async def if_known(client: Client, resource: Resource, namespace: str, type: type[T], wanted: bool = True) -> list[T]:
    """What helps but is not needed: kinds that are not installed or not ours to read are left out."""
    if not wanted:
        return []
    try:
        return list((await client.list(resource, namespace, type=type)).items)
    except (NotFound, Forbidden):
        return []


async def find_set(client: Client, namespace: str, name: str) -> LeaderWorkerSet:
    try:
        return await client.get(LEADER_WORKER_SETS, name, namespace, type=LeaderWorkerSet)
    except NotFound as problem:
        if not problem.status.details or not problem.status.details.name:
            raise
    raise Refusal(await _absent(client, namespace, name))


async def _absent(client: Client, namespace: str, name: str) -> str:
    """Says what there is instead, here or under the same name elsewhere."""
    text = f"there is no LeaderWorkerSet {name} in namespace {namespace}"
    try:
        everywhere = (await client.list(LEADER_WORKER_SETS, type=LeaderWorkerSet)).items
    except ApiError:
        return text
    elsewhere = sorted(one.metadata.namespace for one in everywhere if one.metadata.name == name)
    if elsewhere:
        return f"{text}, but in {', '.join(elsewhere)}: -n {elsewhere[0]}"
    here = sorted(one.metadata.name for one in everywhere if one.metadata.namespace == namespace)
    if here:
        return f"{text}; there are: {', '.join(here)}"
    await see_namespace(client, namespace)
    return f"{text}, nor any other; {first_set(namespace)} makes one"


async def see_namespace(client: Client, namespace: str) -> None:
    """Refusal if there is none by that name. Not everybody may ask."""
    with suppress(Forbidden):
        if namespace and await client.find(NAMESPACES, namespace) is None:
            raise Refusal(f"there is no namespace {namespace}; there are: kubectl get namespaces")


def first_set(namespace: str) -> str:
    """What to type to have one; where it should be, if that is not where kubectl puts things anyway."""
    place = f"-n {namespace} " if namespace not in ("", "default") else ""
    return f"kubectl apply {place}-f examples/llm.yaml"


async def keys(client: Client, namespace: str) -> list[Key]:
    """Of all sets but canaries, which are shown with the set that they may replace. Without a namespace, of all."""
    found = await client.list(LEADER_WORKER_SETS, namespace, type=LeaderWorkerSet)
    everybody = {Key(one.metadata.namespace, one.metadata.name): one for one in found.items}
    return sorted(
        key
        for key, one in everybody.items()
        if Key(key.namespace, one.metadata.labels.get(CANARY_SET, "")) not in everybody
    )
