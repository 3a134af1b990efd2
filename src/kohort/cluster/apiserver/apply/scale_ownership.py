"""Owners of `replicas`, seen through the scale subresource.

A Scale is another view of its parent: its `spec.replicas` is a field of the parent, under whatever path. So the
parent's entries that own that field are shown as entries of the Scale, the write is recorded there, and the outcome is
carried back. Entries made through scale have no time, and Update entries that go through it lose theirs; that is how
Kubernetes does it.
"""

from collections.abc import Mapping

from kohort.cluster.apiserver.apply.fieldset import Path, contains, difference, field, from_paths
from kohort.cluster.apiserver.apply.managed import ManagedFieldsEntry, entries_of, set_entries
from kohort.objects.json_types import Json, JsonObject

SCALE_VERSION = "autoscaling/v1"
_REPLICAS = from_paths(("spec", "replicas"))

ReplicasPaths = Mapping[str, tuple[str, ...] | None]
"""Where replicas are, by apiVersion of the parent; None for a version without scale."""


def scale_entries(parent: Json, replicas: ReplicasPaths) -> list[JsonObject]:
    """managedFields of the Scale of an object with these managedFields."""
    shown = [
        ManagedFieldsEntry(entry.manager, entry.operation, entry.subresource, SCALE_VERSION, entry.time, _REPLICAS)
        for entry in entries_of(parent)
        if _owns(entry, replicas.get(entry.api_version))
    ]
    return _encoded(shown)


def parent_entries(parent: Json, scale: Json, api_version: str, replicas: ReplicasPaths) -> list[JsonObject]:
    """managedFields of the object after its Scale was written and came to have the managedFields `scale`."""
    through_scale = {entry.identity: entry for entry in entries_of(scale)}
    result = []
    for entry in entries_of(parent):
        if entry.api_version not in replicas:
            continue
        path = replicas[entry.api_version]
        if not _owns(entry, path) or through_scale.pop(entry.identity, None) is not None:
            result.append(entry)
            continue
        rest = difference(entry.fields, from_paths(path or ()))
        if rest:
            result.append(entry.owning(rest))
    mine = replicas[api_version]
    if mine is not None:
        result += [
            ManagedFieldsEntry(entry.manager, entry.operation, entry.subresource, api_version, None, from_paths(mine))
            for entry in through_scale.values()
            if contains(entry.fields, (field("spec"), field("replicas")))
        ]
    return _encoded(result)


def _owns(entry: ManagedFieldsEntry, path: tuple[str, ...] | None) -> bool:
    return path is not None and contains(entry.fields, _elements(path))


def _elements(path: tuple[str, ...]) -> Path:
    return tuple(map(field, path))


def _encoded(entries: list[ManagedFieldsEntry]) -> list[JsonObject]:
    holder: JsonObject = {"metadata": {}}
    set_entries(holder, entries)
    encoded: list[JsonObject] = holder["metadata"].get("managedFields", [])
    return encoded
