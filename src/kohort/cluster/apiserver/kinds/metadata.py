"""When the metadata of an object is checked, and which changes of it are undone.

Clients see a list of causes, and Kubernetes repeats some of them: an update checks the metadata once for every kind,
and once more in the rules of the kind itself, and kinds whose update rules include their creation rules check them a
third time. A tool that counts causes counts these too, so `on_update` repeats what it finds exactly as often
(`Strategy.rechecks_metadata`).
"""

from typing import Final

from kohort.cluster.apiserver.kinds.model import Kind
from kohort.cluster.apiserver.schema.metadata_rules import (
    change_errors,
    managed_field_errors,
    object_errors,
    standard_finalizer_errors,
)
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import JsonObject
from kohort.objects.names import path_segment


def on_create(kind: Kind, obj: JsonObject) -> list[FieldError]:
    """Custom resources are only warned about finalizers that are not fully qualified."""
    meta, rule = obj.get("metadata") or {}, kind.strategy.validate_name
    free = kind.custom or kind.strategy.names_finalizers_freely
    return object_errors(meta, kind.resource.namespaced, rule, standard_finalizers=not free)


def on_update(kind: Kind, obj: JsonObject, old: JsonObject, *, status: bool = False) -> list[FieldError]:
    """Everything wrong with the metadata of an update, with Kubernetes' repetitions. `status`: a write of /status."""
    new_meta, old_meta = obj.get("metadata") or {}, old.get("metadata") or {}
    if _as_stored(new_meta, old_meta):
        return managed_field_errors(new_meta.get("managedFields"), "metadata.managedFields")
    common = object_errors(new_meta, kind.resource.namespaced, path_segment, standard_finalizers=False)
    change = change_errors(new_meta, old_meta)
    errors, strategy = common + change, kind.strategy
    free = kind.custom or strategy.names_finalizers_freely
    if strategy.checks_status_metadata if status else strategy.checks_metadata_change:
        errors += change
        if not free:
            errors += standard_finalizer_errors(new_meta.get("finalizers"), "metadata.finalizers")
    if not status and strategy.rechecks_metadata:
        rule = strategy.validate_name
        repeated = object_errors(new_meta, kind.resource.namespaced, rule, standard_finalizers=not free)
        errors += repeated * strategy.rechecks_metadata
    return errors


def _as_stored(new: JsonObject, old: JsonObject) -> bool:
    """Whether metadata is what is stored, apart from what every write changes: that was found good when it came. Nearly
    all reports of a status are like that."""
    return {**new, **_MOVING} == {**old, **_MOVING}


_MOVING: Final[JsonObject] = {"managedFields": None, "resourceVersion": None}


_NOT_BY_STATUS: Final = ("labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp", "generation")


def put_back(obj: JsonObject, old: JsonObject, *fields: str) -> None:
    """Undo changes of fields that the caller may not change here."""
    for field in fields:
        if field in old:
            obj[field] = old[field]
        else:
            obj.pop(field, None)


def reset_for_status(metadata: JsonObject, old: JsonObject) -> None:
    """Undo all changes of metadata: subresources such as `status` change only their own part of an object."""
    put_back(metadata, old, *_NOT_BY_STATUS)
