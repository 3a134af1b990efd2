"""Revisions of workloads, the older ReplicationController, and pod templates by themselves."""

from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.kinds.pod.defaults import default_template
from kohort.cluster.apiserver.kinds.pod.spec import check_template
from kohort.cluster.apiserver.kinds.pod.warnings import spec_warnings
from kohort.cluster.apiserver.kinds.pod_templates import (
    WorkloadStrategy,
    check_replica_status,
    check_restart_always,
    spec_of,
)
from kohort.cluster.apiserver.schema.field_checks import Errors, immutable, nonnegative, same
from kohort.objects.field_errors import FieldError, invalid, required
from kohort.objects.json_types import JsonObject


class ControllerRevisionStrategy(Strategy):
    has_status = False
    has_generation = False
    rechecks_metadata = 1

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        nonnegative(errors, "revision", obj.get("revision"))
        if obj.get("data") is None:
            errors.append(required("data", "data is mandatory"))
        elif not isinstance(obj["data"], dict):
            errors.append(required("data", "data must be a valid JSON object"))
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        nonnegative(errors, "revision", obj.get("revision"))
        immutable(errors, "data", obj.get("data"), old.get("data"))
        return errors


class ReplicationControllerStrategy(WorkloadStrategy):
    default_propagation = "Orphan"

    def default(self, obj: JsonObject) -> None:
        spec = spec_of(obj)
        template = spec.get("template")
        if template is not None:
            default_template(template)
            of_template = (template.get("metadata") or {}).get("labels")
            if of_template:
                if not spec.get("selector"):
                    spec["selector"] = dict(of_template)
                if not obj.setdefault("metadata", {}).get("labels"):
                    obj["metadata"]["labels"] = dict(of_template)
        if spec.get("replicas") is None:
            spec["replicas"] = 1

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj["status"] = {"replicas": 0}

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        spec = obj["spec"]
        nonnegative(errors, "spec.minReadySeconds", spec.get("minReadySeconds"))
        selector = spec.get("selector") or {}
        if not selector:
            errors.append(required("spec.selector"))
        nonnegative(errors, "spec.replicas", spec.get("replicas"))
        template = spec.get("template")
        if template is None:
            errors.append(required("spec.template"))
            return errors
        of_template = (template.get("metadata") or {}).get("labels") or {}
        if selector and any(of_template.get(key) != value for key, value in selector.items()):
            detail = "`selector` does not match template `labels`"
            errors.append(invalid("spec.template.metadata.labels", dict(sorted(of_template.items())), detail))
        check_template(errors, "spec.template", template, self.rules(context))
        check_restart_always(errors, "spec", spec, "ReplicationController")
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return self.validate(context, obj)

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        check_replica_status(errors, obj.get("status") or {})
        return errors


class PodTemplateStrategy(WorkloadStrategy):
    has_status = False
    deletion_returns_object = True

    def default(self, obj: JsonObject) -> None:
        default_template(obj.setdefault("template", {}))

    def generation_moves(self, obj: JsonObject, old: JsonObject) -> bool:
        return not same(obj.get("template"), old.get("template"))

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        check_template(errors, "template", obj["template"], self.rules(context))
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return self.validate(context, obj)

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        template = obj.get("template") or {}
        return spec_warnings(template.get("metadata") or {}, template.get("spec") or {}, "template")
