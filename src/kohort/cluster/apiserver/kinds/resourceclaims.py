"""Devices: classes, slices, claims and templates of claims. They are stored for drivers: no component of kohort
allocates devices."""

from typing import Final

from kohort.cluster.apiserver.kinds.device_claim_rules import (
    admin_access,
    claim_errors,
    class_errors,
    device_key,
    status_errors,
    template_errors,
)
from kohort.cluster.apiserver.kinds.device_slice_rules import slice_errors
from kohort.cluster.apiserver.kinds.metadata import reset_for_status
from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.schema.field_checks import Errors, immutable, same
from kohort.kube import clock
from kohort.objects.field_errors import FieldError, forbidden
from kohort.objects.json_types import JsonObject

_ADMIN_ACCESS: Final = "resource.kubernetes.io/admin-access"
"""The label of namespaces whose claims may be for devices that others are using."""


class _DeviceStrategy(Strategy):
    """Classes and slices: no status, generation by content."""

    has_status = False
    deletion_returns_object = True

    def generation_moves(self, obj: JsonObject, old: JsonObject) -> bool:
        return not same(obj.get("spec"), old.get("spec"))


class DeviceClassStrategy(_DeviceStrategy):
    rechecks_metadata = 1

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        return class_errors(obj.get("spec") or {})

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return self.validate(context, obj)


class DeviceSliceStrategy(_DeviceStrategy):
    def default(self, obj: JsonObject) -> None:
        for device in (obj.get("spec") or {}).get("devices") or ():
            for taint in device.get("taints") or ():
                taint.setdefault("timeAdded", clock.timestamp())

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        return slice_errors(obj.get("spec") or {}, None)

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return slice_errors(obj.get("spec") or {}, old.get("spec") or {})


class DeviceClaimStrategy(Strategy):
    """ResourceClaims: their spec never changes."""

    rechecks_metadata = 1
    has_generation = False
    deletion_returns_object = True

    def default(self, obj: JsonObject) -> None:
        for request in _requests(obj.get("spec") or {}):
            _default_request(request)
        for result in _results(obj.get("status") or {}):
            _default_tolerations(result)

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj["status"] = {}

    def prepare_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        reset_for_status(obj["metadata"], old["metadata"])
        _drop_returned_devices(obj.get("status") or {}, old.get("status") or {})

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        spec = obj.get("spec") or {}
        namespace = obj["metadata"].get("namespace") or ""
        return _admin_errors(context, namespace, _requests(spec)) + claim_errors(spec, "spec")

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return status_errors(obj, old)

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        immutable(errors, "spec", obj.get("spec"), old.get("spec"))
        return errors


class DeviceClaimTemplateStrategy(Strategy):
    has_status = False
    has_generation = False
    deletion_returns_object = True

    def default(self, obj: JsonObject) -> None:
        for request in _requests((obj.get("spec") or {}).get("spec") or {}):
            _default_request(request)

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        spec = obj.get("spec") or {}
        namespace = obj["metadata"].get("namespace") or ""
        return _admin_errors(context, namespace, _requests(spec.get("spec") or {})) + template_errors(spec)

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        immutable(errors, "spec", obj.get("spec"), old.get("spec"))
        return errors + self.validate(context, obj)


def _admin_errors(context: WriteContext, namespace: str, requests: list[JsonObject]) -> Errors:
    index = admin_access(requests)
    if index is None:
        return []
    found = context.reader.get("namespaces", "", namespace) or {}
    if ((found.get("metadata") or {}).get("labels") or {}).get(_ADMIN_ACCESS) == "true":
        return []
    detail = f"admin access to devices requires the `{_ADMIN_ACCESS}: true` label on the containing namespace"
    return [forbidden(f"spec.devices.requests[{index}].adminAccess", detail)]


def _drop_returned_devices(status: JsonObject, before: JsonObject) -> None:
    """What drivers report about devices goes with their allocation."""
    returned = _allocated(before) - _allocated(status)
    if status.get("devices"):
        status["devices"] = [one for one in status["devices"] if device_key(one) not in returned]
        if not status["devices"]:
            del status["devices"]


def _allocated(status: JsonObject) -> set[tuple[str, ...]]:
    return {device_key(one) for one in _results(status)}


def _results(status: JsonObject) -> list[JsonObject]:
    return ((status.get("allocation") or {}).get("devices") or {}).get("results") or []


def _requests(spec: JsonObject) -> list[JsonObject]:
    return (spec.get("devices") or {}).get("requests") or []


def _default_request(request: JsonObject) -> None:
    for exact in (request.get("exactly"), *(request.get("firstAvailable") or ())):
        if exact is not None:
            if not exact.get("allocationMode"):
                exact["allocationMode"] = "ExactCount"
            if exact["allocationMode"] == "ExactCount" and not exact.get("count"):
                exact["count"] = 1
            _default_tolerations(exact)


def _default_tolerations(holder: JsonObject) -> None:
    for toleration in holder.get("tolerations") or ():
        if not toleration.get("operator"):
            toleration["operator"] = "Equal"
