"""The storage.k8s.io group: classes, drivers, attachments."""

from collections.abc import Hashable
from typing import Final

from kohort.cluster.apiserver.kinds.metadata import reset_for_status
from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.kinds.pod.warnings import DEPRECATED_LABELS, term_warnings
from kohort.cluster.apiserver.kinds.volume_sources import check_driver_name
from kohort.cluster.apiserver.kinds.volume_spec import check_inline_spec
from kohort.cluster.apiserver.schema.field_checks import (
    IMMUTABLE,
    Errors,
    immutable,
    named,
    nonnegative,
    qualified,
    quantity,
    repeats,
    same,
)
from kohort.objects.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required, too_long
from kohort.objects.json_types import JsonObject, hashable
from kohort.objects.names import dns1123_subdomain
from kohort.objects.selectors import selector_errors

_RECLAIM: Final = ("Delete", "Retain")
_BINDING: Final = ("Immediate", "WaitForFirstConsumer")
_SIZE_LIMIT: Final = 256 * 1024


def _check_parameters(errors: Errors, parameters: JsonObject) -> None:
    if len(parameters) > 512:
        errors.append(too_long("parameters", 512))
        return
    if "" in parameters:
        errors.append(invalid("parameters", "", "field can not be empty."))
    if sum(len(key) + len(value) for key, value in parameters.items()) > _SIZE_LIMIT:
        errors.append(too_long("parameters", _SIZE_LIMIT))


class StorageClassStrategy(Strategy):
    rechecks_metadata = 1
    has_status = False
    has_generation = False
    deletion_returns_object = True

    def default(self, obj: JsonObject) -> None:
        if obj.get("reclaimPolicy") is None:
            obj["reclaimPolicy"] = "Delete"
        if obj.get("volumeBindingMode") is None:
            obj["volumeBindingMode"] = "Immediate"

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        provisioner = obj.get("provisioner") or ""
        if not provisioner:
            errors.append(required("provisioner"))
        else:
            qualified(errors, "provisioner", provisioner.lower())
        _check_parameters(errors, obj.get("parameters") or {})
        policy, mode = obj.get("reclaimPolicy"), obj.get("volumeBindingMode")
        if policy and policy not in _RECLAIM:
            errors.append(not_supported("reclaimPolicy", policy, _RECLAIM))
        if mode is None:
            errors.append(required("volumeBindingMode"))
        elif mode not in _BINDING:
            errors.append(not_supported("volumeBindingMode", mode, _BINDING))
        terms: list[JsonObject] = obj.get("allowedTopologies") or []
        known = [_topology({})] * len(terms)  # an empty term is reported once for each term, as in Kubernetes
        for index, term in enumerate(terms):
            path = f"allowedTopologies[{index}].matchLabelExpressions"
            _check_topology(errors, path, term)
            topology = _topology(term)
            errors += [duplicate(path, "")] * known.count(topology)
            known.append(topology)
        return errors

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        return [
            f"allowedTopologies[{index}].matchLabelExpressions[{place}].key: {DEPRECATED_LABELS[key]}"
            for index, term in enumerate(obj.get("allowedTopologies") or ())
            for place, expression in enumerate(term.get("matchLabelExpressions") or ())
            if (key := expression.get("key")) in DEPRECATED_LABELS
        ]

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors = self.validate(context, obj)
        for field in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
            immutable(errors, field, obj.get(field), old.get(field))
        return errors


def _topology(term: JsonObject) -> Hashable:
    """What a term stands for, whatever the order of its expressions and values."""
    expressions = term.get("matchLabelExpressions") or ()
    return hashable({one.get("key") or "": sorted(one.get("values") or ()) for one in expressions})


def _check_topology(errors: Errors, path: str, term: JsonObject) -> None:
    keys: set[str] = set()
    for index, expression in enumerate(term.get("matchLabelExpressions") or ()):
        here, key, values = f"{path}[{index}]", expression.get("key") or "", expression.get("values") or []
        if not values:
            errors.append(required(f"{here}.values"))
        for position, again in enumerate(repeats(values)):
            if again:
                errors.append(duplicate(f"{here}.values[{position}]", values[position]))
        qualified(errors, f"{here}.key", key)
        if key in keys:
            errors.append(duplicate(f"{here}.key", key))
        keys.add(key)


_FS_GROUP: Final = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLE: Final = ("Persistent", "Ephemeral")
_DRIVER_DEFAULTS: Final = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}


class CsiDriverStrategy(Strategy):
    unconditional_update = False
    has_status = False
    deletion_returns_object = True
    has_generation = False

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        for field, value in _DRIVER_DEFAULTS.items():
            if spec.get(field) is None:
                spec[field] = value
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]

    def prepare_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        """A new driver has no generation; its changes are counted nevertheless."""
        if not same(obj["spec"], old["spec"]):
            obj["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        spec = obj["spec"]
        policy = spec.get("fsGroupPolicy")
        if policy is not None and policy not in _FS_GROUP:
            errors.append(not_supported("spec.fsGroupPolicy", policy, _FS_GROUP))
        _check_token_requests(errors, spec.get("tokenRequests") or [])
        in_secrets = spec.get("serviceAccountTokenInSecrets")
        if in_secrets is not None and not spec.get("tokenRequests"):
            detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
            errors.append(invalid("spec.serviceAccountTokenInSecrets", in_secrets, detail))
        for mode in spec.get("volumeLifecycleModes") or ():
            if mode not in _LIFECYCLE:
                errors.append(not_supported("spec.volumeLifecycleModes", mode, _LIFECYCLE))
        period = spec.get("nodeAllocatableUpdatePeriodSeconds")
        if period is not None and period < 10:
            detail = "must be greater than or equal to 10 seconds"
            errors.append(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, detail))
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors = self.validate(context, obj)
        spec, before = obj["spec"], old["spec"]
        immutable(errors, "spec.attachedRequired", spec.get("attachRequired"), before.get("attachRequired"))
        modes = spec.get("volumeLifecycleModes")
        immutable(errors, "spec.volumeLifecycleModes", modes, before.get("volumeLifecycleModes"))
        return errors

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        spec = obj["spec"]
        return [_TOKENS_LOGGED] if spec.get("tokenRequests") and "serviceAccountTokenInSecrets" not in spec else []


_TOKENS_LOGGED: Final = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)


def _check_token_requests(errors: Errors, requests: list[JsonObject]) -> None:
    audiences: set[str] = set()
    for index, request in enumerate(requests):
        path, audience = f"spec.tokenRequests[{index}]", request.get("audience") or ""
        if audience in audiences:
            errors.append(duplicate(f"{path}.audience", audience))
            continue
        audiences.add(audience)
        seconds = request.get("expirationSeconds")
        if seconds is not None and seconds < 600:
            detail = "may not specify a duration less than 10 minutes"
            errors.append(invalid(f"{path}.expirationSeconds", seconds, detail))
        if seconds is not None and seconds > 1 << 32:
            detail = "may not specify a duration larger than 2^32 seconds"
            errors.append(invalid(f"{path}.expirationSeconds", seconds, detail))


class CsiNodeStrategy(Strategy):
    unconditional_update = False
    has_status = False
    has_generation = False
    deletion_returns_object = True
    rechecks_metadata = 1
    checks_metadata_change = False

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        names: set[str] = set()
        for index, driver in enumerate((obj.get("spec") or {}).get("drivers") or ()):
            path, name, node = f"spec.drivers[{index}]", driver.get("name") or "", driver.get("nodeID") or ""
            check_driver_name(errors, f"{path}.name", name)
            if not node:
                errors.append(required(f"{path}.nodeID"))
            if len(node) > 256:
                errors.append(invalid(f"{path}.nodeID", node, "must be 256 characters or less"))
            nonnegative(errors, f"{path}.allocatable.count", (driver.get("allocatable") or {}).get("count"))
            if name in names:
                errors.append(duplicate(f"{path}.name", name))
            names.add(name)
            keys = driver.get("topologyKeys") or []
            for key, again in zip(keys, repeats(keys), strict=True):
                if not key:
                    errors.append(required(path))
                if again:
                    errors.append(duplicate(path, key))
                qualified(errors, path, key)
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors = self.validate(context, obj)
        before = {d.get("name"): d for d in (old.get("spec") or {}).get("drivers") or ()}
        for driver in (obj.get("spec") or {}).get("drivers") or ():
            was = before.get(driver.get("name"))
            if was is not None and not same({**driver, "allocatable": None}, {**was, "allocatable": None}):
                errors.append(invalid("spec.drivers", driver, "field is immutable"))
        return errors


class VolumeAttachmentStrategy(Strategy):
    unconditional_update = False
    has_generation = False
    deletion_returns_object = True
    rechecks_metadata = 1
    checks_metadata_change = False

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj["status"] = {"attached": False}

    def prepare_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        reset_for_status(obj["metadata"], old["metadata"])

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        spec = obj.get("spec") or {}
        check_driver_name(errors, "spec.attacher", spec.get("attacher"))
        source = spec.get("source") or {}
        volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
        detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        if volume is None and inline is None:
            errors.append(required("spec.source", detail))
        elif volume is not None and inline is not None:
            errors.append(forbidden("spec.source", detail))
        elif volume == "":
            path = "spec.source.persistentVolumeName"
            errors.append(required(path, "must specify non empty persistentVolumeName"))
        named(errors, "spec.nodeName", spec.get("nodeName") or "", dns1123_subdomain)
        if volume is not None:
            named(errors, "spec.source.persistentVolumeName", volume, dns1123_subdomain)
        elif inline is not None:
            check_inline_spec(errors, "spec.source.inlineVolumeSpec", inline)
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors = self.validate(context, obj)
        immutable(errors, "spec", obj.get("spec"), old.get("spec"))
        return errors


class CsiStorageCapacityStrategy(Strategy):
    unconditional_update = False
    has_status = False
    has_generation = False
    rechecks_metadata = 1

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors = selector_errors(obj.get("nodeTopology"), "nodeTopology")
        name = obj.get("storageClassName") or ""
        named(errors, "storageClassName", name, dns1123_subdomain)
        capacity = obj.get("capacity")
        if capacity is not None and quantity(capacity).nano < 0:
            errors.append(invalid("capacity", capacity, "must be greater than or equal to 0"))
        return errors

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        topology = obj.get("nodeTopology") or {}
        labels = topology.get("matchLabels") or {}
        found = [
            f"nodeTopology.matchLabels.{key}: {DEPRECATED_LABELS[key]}" for key in labels if key in DEPRECATED_LABELS
        ]
        return [*found, *term_warnings(topology, "nodeTopology")]

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors = self.validate(context, obj)
        topology, before = obj.get("nodeTopology"), old.get("nodeTopology")
        if (topology is None) != (before is None) or not same(topology, before):
            errors.append(invalid("nodeTopology", topology, IMMUTABLE))
        immutable(errors, "storageClassName", obj.get("storageClassName"), old.get("storageClassName"))
        return errors


class VolumeAttributesClassStrategy(Strategy):
    rechecks_metadata = 1
    has_status = False
    has_generation = False
    deletion_returns_object = True

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        driver = obj.get("driverName") or ""
        if not driver:
            errors.append(required("driverName"))
        else:
            qualified(errors, "driverName", driver.lower())
        _check_parameters(errors, obj.get("parameters") or {})
        if not obj.get("parameters"):
            errors.append(required("parameters", "must contain at least one key/value pair"))
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors = self.validate(context, obj)
        for field in ("driverName", "parameters"):
            if not same(obj.get(field), old.get(field)):
                errors.append(forbidden(field, f"updates to {field} are forbidden."))
        return errors
