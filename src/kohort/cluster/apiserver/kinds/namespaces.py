"""Namespaces: their life ends in two steps, and their name is a label on themselves."""

from typing import Final

from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.schema.field_checks import Errors
from kohort.cluster.apiserver.schema.metadata_rules import finalizer_errors, standard_finalizer_errors
from kohort.objects import well_known_names
from kohort.objects.field_errors import FieldError, invalid
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1123_label

NAME_LABEL: Final = well_known_names.NAMESPACE_NAME
FINALIZER: Final = "kubernetes"


class NamespaceStrategy(Strategy):
    has_generation = False
    deletion_returns_object = True
    rechecks_metadata = 1

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        return dns1123_label(name, prefix=prefix)

    def default(self, obj: JsonObject) -> None:
        _label(obj)
        status = obj.get("status")
        if status is not None and not status.get("phase"):
            status["phase"] = "Active"

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj["status"] = {"phase": "Active"}
        spec = obj.setdefault("spec", {})
        finalizers = spec.get("finalizers") or []
        if FINALIZER not in finalizers:
            spec["finalizers"] = [*finalizers, FINALIZER]
        _label(obj)

    def prepare_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        _label(obj)
        if context.subresource == "finalize":
            return
        before = (old.get("spec") or {}).get("finalizers")
        spec = obj.setdefault("spec", {})
        if before is None:
            spec.pop("finalizers", None)
        else:
            spec["finalizers"] = before

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        for name in (obj.get("spec") or {}).get("finalizers") or ():
            errors += finalizer_errors([name], "spec.finalizers")
            errors += [
                invalid("spec.finalizers", name, "name is neither a standard finalizer name nor is it fully qualified")
                for _ in standard_finalizer_errors([name], "spec.finalizers")
            ]
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        if context.subresource != "finalize":
            return self.validate(context, obj)
        errors: Errors = []
        finalizers = (obj.get("spec") or {}).get("finalizers") or []
        for index, name in enumerate(finalizers):
            errors += finalizer_errors([name], f"spec.finalizers[{index}]")
        return errors + standard_finalizer_errors(finalizers, "spec.finalizers")

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        phase = (obj.get("status") or {}).get("phase") or ""
        deleting = bool(obj["metadata"].get("deletionTimestamp"))
        allowed, which = ("Terminating", "not empty") if deleting else ("Active", "empty")
        if phase == allowed:
            return []
        return [invalid("status.Phase", phase, f"may only be '{allowed}' if `deletionTimestamp` is {which}")]


def _label(namespace: JsonObject) -> None:
    meta = namespace.setdefault("metadata", {})
    if meta.get("name"):
        meta["labels"] = {**(meta.get("labels") or {}), NAME_LABEL: meta["name"]}
