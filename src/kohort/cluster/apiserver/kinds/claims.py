"""PersistentVolumeClaims."""

from typing import Final

from kohort.cluster.apiserver.kinds.claim_spec import check_claim_spec
from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.kinds.pod.defaults import default_claim_spec
from kohort.cluster.apiserver.kinds.pod.warnings import claim_spec_warnings
from kohort.cluster.apiserver.schema.field_checks import Errors, immutable, qualified, quantity, same
from kohort.objects import well_known_names
from kohort.objects.field_errors import FieldError, forbidden, invalid, not_supported, required
from kohort.objects.json_types import JsonObject
from kohort.objects.quantity import ZERO, Quantity
from kohort.rules.extended_resources import is_native

CLASS_ANNOTATION: Final = well_known_names.BETA_STORAGE_CLASS
_RESIZE_STATES: Final = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)
_FROZEN: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


class PersistentVolumeClaimStrategy(Strategy):
    has_generation = False
    deletion_returns_object = True
    rechecks_metadata = 1

    def default(self, obj: JsonObject) -> None:
        default_claim_spec(obj.setdefault("spec", {}))
        status = obj.setdefault("status", {})
        if not status.get("phase"):
            status["phase"] = "Pending"

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj["status"] = {"phase": "Pending"}
        _settle_sources(obj["spec"], None)

    def prepare_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        _settle_sources(obj["spec"], old["spec"])

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        check_claim_spec(errors, "spec", obj["spec"])
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        before = old["spec"]
        tolerate = any((before.get(f) or {}).get("apiGroup") is not None for f in ("dataSource", "dataSourceRef"))
        check_claim_spec(errors, "spec", obj["spec"], tolerate_groups=tolerate)
        _check_changes(errors, obj, old)
        return errors

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        if not obj["spec"].get("accessModes"):
            errors.append(required("Spec.accessModes"))
        _check_claim_status(errors, obj.get("status") or {})
        return errors

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        found = class_annotation_warnings(obj)
        return [*found, *claim_spec_warnings(obj["spec"], "spec")]


def class_annotation_warnings(obj: JsonObject) -> list[str]:
    """Of a claim or a volume that names its class in the older way."""
    if CLASS_ANNOTATION not in (obj["metadata"].get("annotations") or {}):
        return []
    detail = 'deprecated since v1.8; use "storageClassName" attribute instead'
    return [f"metadata.annotations[{CLASS_ANNOTATION}]: {detail}"]


def _settle_sources(spec: JsonObject, before: JsonObject | None) -> None:
    """`dataSource` and its successor say the same; sources that the old field cannot name are dropped from it."""
    references = [(side or {}).get("dataSourceRef") or {} for side in (spec, before)]
    if references[0].get("namespace") and not references[1].get("namespace"):
        del spec["dataSourceRef"]  # claims across namespaces are not served
    in_use = bool(before) and any((before or {}).get(field) for field in ("dataSource", "dataSourceRef"))
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None and not in_use and not _is_classic(source):
        del spec["dataSource"]
        return
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {key: value for key, value in reference.items() if key != "namespace"}


def _is_classic(source: JsonObject) -> bool:
    kind, group = source.get("kind"), source.get("apiGroup") or ""
    return (kind, group) in (("PersistentVolumeClaim", ""), ("VolumeSnapshot", "snapshot.storage.k8s.io"))


def _size(spec: JsonObject) -> Quantity:
    text = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    return ZERO if text is None else quantity(text)


def _check_changes(errors: Errors, claim: JsonObject, old: JsonObject) -> None:
    spec, before = claim["spec"], old["spec"]
    annotations, stored = (side["metadata"].get("annotations") or {} for side in (claim, old))
    masked, known = dict(spec), dict(before)
    if not before.get("volumeName"):
        known["volumeName"] = spec.get("volumeName")
    by_annotation = stored.get(CLASS_ANNOTATION)
    name = spec.get("storageClassName")
    if before.get("storageClassName") is None and name is not None:
        # a class may be given to a claim that has none yet, or moved from the annotation of old
        if by_annotation is None or name == by_annotation:
            masked["storageClassName"] = None
    elif annotations.get(CLASS_ANNOTATION) != by_annotation:
        where = f"metadata.annotations.{CLASS_ANNOTATION}"
        errors.append(invalid(where, annotations.get(CLASS_ANNOTATION) or "", "field is immutable"))
    bound = (claim.get("status") or {}).get("phase") == "Bound"
    if bound:
        requests = dict((spec.get("resources") or {}).get("requests") or {})
        size = ((before.get("resources") or {}).get("requests") or {}).get("storage")
        if requests and size is not None:
            requests["storage"] = size
        masked["resources"] = {**(spec.get("resources") or {}), "requests": requests}
        masked["volumeAttributesClassName"] = before.get("volumeAttributesClassName")
    if not same(masked, known):
        errors.append(forbidden("spec", _FROZEN))
    if _size(spec) < _size(before):
        capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage")
        if _size(spec) <= (ZERO if capacity is None else quantity(capacity)):
            path = "spec.resources.requests.storage"
            errors.append(forbidden(path, "field can not be less than status.capacity"))
    immutable(errors, "volumeMode", spec.get("volumeMode"), before.get("volumeMode"))
    _check_attributes_class(errors, spec, before, old.get("status") or {})


def _check_attributes_class(errors: Errors, spec: JsonObject, before: JsonObject, status: JsonObject) -> None:
    name = spec.get("volumeAttributesClassName")
    if name == before.get("volumeAttributesClassName") or status.get("currentVolumeAttributesClassName") is None:
        return
    if not name:
        what = "nil" if name is None else "empty string"
        detail = f"update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
        errors.append(forbidden("spec.volumeAttributesClassName", detail))


def _check_claim_status(errors: Errors, status: JsonObject) -> None:
    for name, text in (status.get("capacity") or {}).items():
        if quantity(text).value < 0:
            path = f"status.capacity[{name}]"
            errors.append(invalid(path, quantity(text).value, "must be a valid resource quantity"))
    for name, state in (status.get("allocatedResourceStatuses") or {}).items():
        _check_resource_key(errors, "status.allocatedResourceStatuses", name)
        if state not in _RESIZE_STATES:
            errors.append(not_supported("status.allocatedResourceStatuses", name, _RESIZE_STATES))
    for name, text in (status.get("allocatedResources") or {}).items():
        before = len(errors)
        _check_resource_key(errors, "status.allocatedResources", name)
        if len(errors) == before and quantity(text).value < 0:
            path = f"status.allocatedResources[{name}]"
            errors.append(invalid(path, quantity(text).value, "must be a valid resource quantity"))


def _check_resource_key(errors: Errors, path: str, name: str) -> None:
    before = len(errors)
    qualified(errors, path, name)
    if len(errors) == before and is_native(name) and name != "storage":
        errors.append(not_supported(path, name, ("storage",)))
