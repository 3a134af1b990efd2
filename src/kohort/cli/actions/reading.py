"""A set and what belongs to it, read from a cluster."""

import asyncio

from kohort.cli.connection import Refusal
from kohort.groups import wire
from kohort.groups.api import LeaderWorkerSet
from kohort.groups.revisions import Revision
from kohort.groups.views import GroupStatefulSet
from kohort.inspection.snapshot import Snapshot
from kohort.kube.client import Client
from kohort.kube.errors import ApiError, Forbidden, NotFound
from kohort.kube.identity import T
from kohort.kube.resources import (
    CONTROLLER_REVISIONS,
    EVENTS,
    LEADER_WORKER_SETS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    ROLLOUTS,
    STATEFUL_SETS,
    Resource,
)
from kohort.objects.core import Event, PersistentVolumeClaim, Pod
from kohort.rollouts.api import Rollout


async def snapshot(client: Client, namespace: str, name: str, *, surroundings: bool = False) -> Snapshot:
    """`surroundings` also reads events and claims, which only explanations need."""
    selector = f"{wire.NAME}={name}"
    group_set = await find_set(client, namespace, name)
    pods, stateful_sets, revisions, rollouts, events, claims = await asyncio.gather(
        client.list(PODS, namespace, type=Pod, label_selector=selector),
        client.list(STATEFUL_SETS, namespace, type=GroupStatefulSet, label_selector=selector),
        client.list(CONTROLLER_REVISIONS, namespace, type=Revision, label_selector=selector),
        _if_known(client, ROLLOUTS, namespace, Rollout),
        _if_known(client, EVENTS, namespace, Event, surroundings),
        _if_known(client, PERSISTENT_VOLUME_CLAIMS, namespace, PersistentVolumeClaim, surroundings),
    )
    ours = [one for one in rollouts if one.spec.workload_ref.is_group_set and one.spec.workload_ref.name == name]
    return Snapshot(
        group_set=group_set,
        pods=pods.items,
        stateful_sets=stateful_sets.items,
        revisions=[one for one in revisions.items if _owned(one, group_set)],
        events=events,
        claims=claims,
        rollout=ours[0] if ours else None,
    )


def _owned(revision: Revision, group_set: LeaderWorkerSet) -> bool:
    owner = revision.metadata.controller
    return owner is None or owner.uid == group_set.metadata.uid


async def _if_known(client: Client, resource: Resource, namespace: str, type: type[T], wanted: bool = True) -> list[T]:
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
    return f"{text}; there are: {', '.join(here)}" if here else f"{text}, nor any other"


async def names(client: Client, namespace: str) -> list[str]:
    found = await client.list(LEADER_WORKER_SETS, namespace, type=LeaderWorkerSet)
    return sorted(one.metadata.name for one in found.items)
