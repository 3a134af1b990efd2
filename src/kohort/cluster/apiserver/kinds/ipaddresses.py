"""IPAddress and ServiceCIDR: the ranges that services get their addresses from, and who holds which."""

from typing import Final

from kohort.cluster.apiserver.kinds.metadata import reset_for_status
from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.schema.field_checks import IMMUTABLE, Errors, address_problem, cidr, immutable, named
from kohort.kube import clock
from kohort.objects.field_errors import FieldError, invalid, required
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1123_subdomain, path_segment

DEFAULT_RANGE: Final = "kubernetes"
SERVER: Final = "system:apiserver"
"""Who makes the range that services get their addresses from, and knows that it does."""


class IPAddressStrategy(Strategy):
    rechecks_metadata = 1
    has_status = False
    has_generation = False

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        problem = address_problem(name)
        return [problem] if problem else []

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        parent = (obj.get("spec") or {}).get("parentRef")
        if parent is None:
            return [required("spec.parentRef")]
        errors: Errors = []
        path = "spec.parentRef"
        if parent.get("group"):
            named(errors, f"{path}.group", parent["group"], dns1123_subdomain)
        for field in ("resource", "name"):
            if parent.get(field):
                named(errors, f"{path}.{field}", parent[field], path_segment)
            else:
                errors.append(required(f"{path}.{field}"))
        if parent.get("namespace"):
            named(errors, f"{path}.namespace", parent["namespace"], path_segment)
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors = self.validate(context, obj)
        new, before = ((side.get("spec") or {}).get("parentRef") for side in (obj, old))
        immutable(errors, "spec.parentRef", new, before)
        return errors


class ServiceCidrStrategy(Strategy):
    has_generation = False

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj["status"] = {}
        if obj["metadata"].get("name") == DEFAULT_RANGE and context.user.name == SERVER:
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": clock.timestamp(), "reason": ""}
            obj["status"]["conditions"] = [{**ready, "message": "Kubernetes default Service CIDR is ready"}]

    def prepare_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        reset_for_status(obj["metadata"], old["metadata"])

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        _check_ranges(errors, (obj.get("spec") or {}).get("cidrs") or [])
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        """A second range may be added, of the other family; nothing else changes."""
        errors: Errors = []
        new, before = ((side.get("spec") or {}).get("cidrs") or [] for side in (obj, old))
        grown = len(before) == 1 and len(new) == 2
        if len(new) != len(before) and not grown:
            return [invalid("spec.cidrs", new, IMMUTABLE)]
        for index, (one, was) in enumerate(zip(new, before, strict=False)):
            if one != was:
                errors.append(invalid(f"spec.cidrs[{index}]", one, IMMUTABLE))
        if grown:
            _check_ranges(errors, new)
        return errors


def _check_ranges(errors: Errors, ranges: list[str]) -> None:
    path = "spec.cidrs"
    if not ranges:
        errors.append(required(path, "at least one CIDR required"))
        return
    if len(ranges) > 2:
        errors.append(invalid(path, ranges, "may only hold up to 2 values"))
        return
    for index, text in enumerate(ranges):
        cidr(errors, f"{path}[{index}]", text)
    if len(ranges) == 2 and not errors and len({":" in text for text in ranges}) == 1:
        detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        errors.append(invalid(path, ranges, detail))
