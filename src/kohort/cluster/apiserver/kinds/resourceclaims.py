"""Devices: classes, slices, claims and templates of claims. They are stored for drivers: no component of kohort
allocates devices."""

from kohort.cluster.apiserver.kinds.metadata import reset_for_status
from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.schema.field_checks import Errors, immutable, same
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import JsonObject


class DeviceStrategy(Strategy):
    """Classes and slices: no rules beyond the schema, no status, generation by content."""

    has_status = False
    deletion_returns_object = True

    def generation_moves(self, obj: JsonObject, old: JsonObject) -> bool:
        return not same(obj.get("spec"), old.get("spec"))


class DeviceClaimStrategy(Strategy):
    """ResourceClaims: their spec never changes."""

    has_generation = False
    deletion_returns_object = True

    def default(self, obj: JsonObject) -> None:
        for request in _requests(obj.get("spec") or {}):
            _default_request(request)

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj["status"] = {}

    def prepare_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        reset_for_status(obj["metadata"], old["metadata"])

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

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        immutable(errors, "spec", obj.get("spec"), old.get("spec"))
        return errors


def _requests(spec: JsonObject) -> list[JsonObject]:
    return (spec.get("devices") or {}).get("requests") or []


def _default_request(request: JsonObject) -> None:
    for exact in (request.get("exactly"), *(request.get("firstAvailable") or ())):
        if exact is not None:
            if not exact.get("allocationMode"):
                exact["allocationMode"] = "ExactCount"
            if exact["allocationMode"] == "ExactCount" and not exact.get("count"):
                exact["count"] = 1
