"""Kinds with few rules: leases, runtime classes, device kinds."""

from kohort.cluster.apiserver.kinds.checks import Errors, immutable, labels, named, same
from kohort.cluster.apiserver.kinds.metadata import reset_for_status
from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.kinds.pod.defaults import round_up
from kohort.cluster.apiserver.kinds.pod.options import PodRules
from kohort.cluster.apiserver.kinds.pod.resources import PLAIN, check_block
from kohort.cluster.apiserver.kinds.pod.scheduling import check_tolerations
from kohort.cluster.apiserver.kinds.resourcenames import check_container
from kohort.objects.fielderrors import FieldError, duplicate, invalid, required
from kohort.objects.jsontypes import JsonObject
from kohort.objects.names import dns1123_label


class LeaseStrategy(Strategy):
    names_finalizers_freely = True
    create_on_update = True
    unconditional_update = False
    has_status = False
    has_generation = False

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        spec = obj.get("spec") or {}
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if duration is not None and duration <= 0:
            errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            detail = "must be greater than or equal to 0"
            errors.append(invalid("spec.leaseTransitions", transitions, detail))
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return self.validate(context, obj)


class RuntimeClassStrategy(Strategy):
    names_finalizers_freely = True
    rechecks_metadata = 1
    create_on_update = True
    unconditional_update = False
    has_status = False
    has_generation = False

    def default(self, obj: JsonObject) -> None:
        fixed = (obj.get("overhead") or {}).get("podFixed")
        if fixed:
            round_up(fixed)

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        handler = obj.get("handler")
        if not handler:
            errors.append(required("handler"))
        else:
            named(errors, "handler", handler, dns1123_label)
        fixed = (obj.get("overhead") or {}).get("podFixed")
        if fixed:
            check_block(errors, "overhead", {}, fixed, check_container, PLAIN, PodRules())
        scheduling = obj.get("scheduling") or {}
        labels(errors, "scheduling.nodeSelector", scheduling.get("nodeSelector"))
        tolerations: list[JsonObject] = scheduling.get("tolerations") or []
        check_tolerations(errors, "scheduling.tolerations", tolerations, PodRules())
        errors += [
            duplicate(f"scheduling.tolerations[{index}]", toleration)
            for index, toleration in enumerate(tolerations)
            if toleration in tolerations[:index]
        ]
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        immutable(errors, "handler", obj.get("handler"), old.get("handler"))
        return errors + self.validate(context, obj)


class PlainStrategy(Strategy):
    """No rules beyond the schema, no status, generation by content."""

    has_status = False

    def generation_moves(self, obj: JsonObject, old: JsonObject) -> bool:
        return not same(obj.get("spec"), old.get("spec"))


class DeviceStrategy(PlainStrategy):
    deletion_returns_object = True


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
