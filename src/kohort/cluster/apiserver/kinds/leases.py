"""Leases: leader election and the heartbeats of nodes."""

from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.schema.field_checks import Errors
from kohort.objects.field_errors import FieldError, invalid
from kohort.objects.json_types import JsonObject


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
