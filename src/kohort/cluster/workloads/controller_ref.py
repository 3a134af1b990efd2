"""Which objects belong to a controller: by owner reference, with adoption of objects without a controller and release
of those that the selector no longer selects.

| object | selected | owner | then |
|---|---|---|---|
| ours | yes | us | kept |
| left | no | us | released: our reference is taken out, unless we are being deleted |
| orphan | yes | no controller | adopted, unless it or we are being deleted |
| foreign | any | another controller | not ours, whatever its labels say |
"""

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

import msgspec

from kohort.kube.client import Client, PatchType
from kohort.kube.errors import Invalid, NotFound
from kohort.kube.event_mapping import controller_of
from kohort.kube.informer import Informer
from kohort.kube.resources import Resource
from kohort.objects import meta
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.objects.selectors import LabelSelector


class Owned(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


O = TypeVar("O", bound=Owned)  # noqa: E741


OWNER = "owner"


def index_by_owner(obj: Owned) -> Iterable[str]:
    """Index an object by the uid of its controller, and orphans by their namespace, so that a controller finds its own
    objects and those it might adopt without reading all others."""
    controller = controller_of(obj)
    return (controller.uid if controller is not None else f"orphan/{obj.metadata.namespace}",)


def candidates(cache: Informer[O], owner: JsonObject) -> list[O]:
    metadata = owner["metadata"]
    return cache.by_index(OWNER, metadata["uid"]) + cache.by_index(OWNER, f"orphan/{metadata['namespace']}")


class Claimed(msgspec.Struct, Generic[O]):
    kept: list[O]
    adopt: list[O]
    release: list[O]


def classify(owner: JsonObject, objects: Iterable[O], member: Callable[[O], bool] = lambda obj: True) -> Claimed[O]:
    """Decide for each object by the table above. An object is selected by its labels, and by being a `member`."""
    selector, uid = selector_of(owner), owner["metadata"]["uid"]
    going = "deletionTimestamp" in owner["metadata"]
    claimed: Claimed[O] = Claimed([], [], [])
    for obj in objects:
        controller = controller_of(obj)
        selected = selector.matches(obj.metadata.labels or {}) and member(obj)
        if controller is None:
            if selected and obj.metadata.deletion_timestamp is None and not going:
                claimed.adopt.append(obj)
        elif controller.uid == uid:
            if selected:
                claimed.kept.append(obj)
            elif not going:
                claimed.release.append(obj)
    return claimed


async def claim(
    client: Client,
    owner_resource: Resource,
    owner: JsonObject,
    resource: Resource,
    found: Iterable[O],
    member: Callable[[O], bool] = lambda obj: True,
    finalizer: str | None = None,
) -> list[O]:
    """The objects that belong to `owner`, after releasing those that left and adopting orphans; with a `finalizer`
    that they have as long as they belong to it."""
    claimed = classify(owner, found, member)
    for obj in claimed.release:
        await release(client, resource, obj.metadata, owner["metadata"]["uid"], finalizer)
    if claimed.adopt and await _may_adopt(client, owner_resource, owner):
        reference = controller_reference(owner)
        for obj in claimed.adopt:
            if await adopt(client, resource, obj.metadata, reference, finalizer):
                claimed.kept.append(obj)
    return claimed.kept


async def _may_adopt(client: Client, resource: Resource, owner: JsonObject) -> bool:
    """Adoption looks at the live owner: the cached one may already be deleted or replaced."""
    metadata = owner["metadata"]
    live = await client.find(resource, metadata["name"], metadata["namespace"])
    if live is None or live["metadata"]["uid"] != metadata["uid"]:
        return False
    return "deletionTimestamp" not in live["metadata"]


async def adopt(
    client: Client, resource: Resource, metadata: ObjectMeta, reference: JsonObject, finalizer: str | None = None
) -> bool:
    """Write our controller reference. False when the object is gone or was replaced by another of the same name."""
    change: JsonObject = {"uid": metadata.uid, "ownerReferences": [reference]}
    if finalizer:
        change["finalizers"] = [finalizer]
    return await _patch_owners(client, resource, metadata, {"metadata": change})


async def release(
    client: Client, resource: Resource, metadata: ObjectMeta, owner_uid: str, finalizer: str | None = None
) -> bool:
    change: JsonObject = {"uid": metadata.uid, "ownerReferences": [{"$patch": "delete", "uid": owner_uid}]}
    if finalizer:
        change["$deleteFromPrimitiveList/finalizers"] = [finalizer]
    return await _patch_owners(client, resource, metadata, {"metadata": change})


async def _patch_owners(client: Client, resource: Resource, metadata: ObjectMeta, body: JsonObject) -> bool:
    try:
        await client.patch(resource, metadata.name, metadata.namespace, body, PatchType.STRATEGIC)
    except (NotFound, Invalid):
        return False
    return True


def controller_reference(owner: JsonObject) -> JsonObject:
    """The owner reference of something that `owner` controls."""
    metadata = owner["metadata"]
    return meta.controller_reference(owner["apiVersion"], owner["kind"], metadata["name"], metadata["uid"])


def selector_of(owner: JsonObject) -> LabelSelector:
    selector: JsonObject | None = owner["spec"].get("selector")
    if owner["kind"] == "ReplicationController":
        return LabelSelector.from_object({"matchLabels": selector or {}})
    return LabelSelector.from_object(selector)
