"""Which keys must be reconciled when an object changes."""

from collections.abc import Callable, Iterable

import msgspec

from kohort.kube.object_identity import View, key_of
from kohort.kube.resources import Key, Resource
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.meta import OwnerReference, controller_reference

Mapper = Callable[[Json], Iterable[Key]]
"""Which keys a change of an object concerns."""


def controller_of(obj: View | JsonObject) -> OwnerReference | None:
    """The owner reference with `controller: true`; there is at most one."""
    if isinstance(obj, dict):
        for owner in obj["metadata"].get("ownerReferences") or ():
            if owner.get("controller"):
                return msgspec.convert(owner, OwnerReference)
        return None
    found: OwnerReference | None = getattr(obj.metadata, "controller", None)
    return found


def is_controlled_by(obj: View | JsonObject, uid: str) -> bool:
    """By the very owner with this uid, not by another of its name."""
    owner = controller_of(obj)
    return owner is not None and owner.uid == uid


def owner_reference(resource: Resource, name: str, uid: str, *, controller: bool = True) -> JsonObject:
    """An entry for `metadata.ownerReferences` of a child; as a controller it also holds up foreground deletion."""
    if controller:
        return controller_reference(resource.api_version, resource.kind, name, uid)
    return {"apiVersion": resource.api_version, "kind": resource.kind, "name": name, "uid": uid}


def own_key(obj: View | JsonObject) -> Iterable[Key]:
    return (key_of(obj),)


def map_to_controller_owner(kind: str, group: str | None = None, *, namespaced: bool = True) -> Mapper:
    """The object's controller, if it is of this kind (and, if given, of this API group)."""

    def owner(obj: View | JsonObject) -> Iterable[Key]:
        reference = controller_of(obj)
        if reference is None or reference.kind != kind:
            return ()
        if group is not None and reference.api_version.rpartition("/")[0] != group:
            return ()
        return (Key(key_of(obj).namespace if namespaced else "", reference.name),)

    return owner


def index_by_controller_uid(obj: View | JsonObject) -> Iterable[str]:
    """For `Informer.add_index`: finds the children of an owner."""
    reference = controller_of(obj)
    return () if reference is None else (reference.uid,)
