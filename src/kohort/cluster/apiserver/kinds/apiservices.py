"""APIServices: which group versions are served, and which of them by other servers (see `aggregation`)."""

from typing import Final

from kohort.cluster.apiserver.kinds.metadata import reset_for_status
from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.schema.field_checks import Errors, named
from kohort.kube import clock
from kohort.objects.field_errors import FieldError, invalid, not_supported, required
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1035_label, dns1123_subdomain, path_segment

_PRIORITIES: Final = (("groupPriorityMinimum", 20_000), ("versionPriority", 1_000))
_STATUSES: Final = ("True", "False", "Unknown")


class ApiServiceStrategy(Strategy):
    has_generation = False
    unconditional_update = False

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        return path_segment(name, prefix=prefix)

    def default(self, obj: JsonObject) -> None:
        service = obj.setdefault("spec", {}).get("service")
        if service is not None and service.get("port") is None:
            service["port"] = 443

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj["status"] = {}
        if obj["spec"].get("service") is None:
            local = {"type": "Available", "status": "True", "lastTransitionTime": clock.timestamp(), "reason": "Local"}
            obj["status"]["conditions"] = [{**local, "message": "Local APIServices are always available"}]

    def prepare_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        reset_for_status(obj["metadata"], old["metadata"])

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        spec, name = obj["spec"], obj["metadata"].get("name") or ""
        group, version = spec.get("group") or "", spec.get("version") or ""
        if name and not path_segment(name) and name != f"{version}.{group}":
            detail = f'must be `spec.version+"."+spec.group`: "{version}.{group}"'
            errors.append(invalid("metadata.name", name, detail))
        if group:
            named(errors, "spec.group", group, dns1123_subdomain)
        elif version != "v1":
            detail = "only v1 may have an empty group and it better be legacy kube"
            errors.append(required("spec.group", detail))
        named(errors, "spec.version", version, dns1035_label)
        for field, limit in _PRIORITIES:
            number = spec.get(field) or 0
            if not 0 < number <= limit:
                errors.append(invalid(f"spec.{field}", number, f"must be positive and less than {limit}"))
        _check_service(errors, spec)
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return self.validate(context, obj)

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return [
            not_supported(f"status.conditions[{index}].status", condition.get("status") or "", _STATUSES)
            for index, condition in enumerate((obj.get("status") or {}).get("conditions") or ())
            if condition.get("status") not in _STATUSES
        ]


def _check_service(errors: Errors, spec: JsonObject) -> None:
    service, bundle, insecure = spec.get("service"), spec.get("caBundle"), spec.get("insecureSkipTLSVerify")
    if service is None:
        if bundle:
            errors.append(invalid("spec.caBundle", f"{len(bundle)} bytes", "local APIServices may not have a caBundle"))
        if insecure:
            detail = "local APIServices may not have insecureSkipTLSVerify"
            errors.append(invalid("spec.insecureSkipTLSVerify", insecure, detail))
        return
    errors += [required(f"spec.service.{field}") for field in ("namespace", "name") if not service.get(field)]
    if not 0 < service["port"] <= 65535:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(invalid("spec.service.port", service["port"], detail))
    if insecure and bundle:
        errors.append(invalid("spec.insecureSkipTLSVerify", insecure, "may not be true if caBundle is present"))
