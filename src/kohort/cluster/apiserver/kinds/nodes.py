"""Nodes."""

import re
from typing import Final

from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.kinds.pod.defaults import round_up
from kohort.cluster.apiserver.kinds.resource_names import check_amount
from kohort.cluster.apiserver.schema.field_checks import (
    Errors,
    cidr,
    named,
    parse_address,
    problems_of,
    quantity,
    repeats,
)
from kohort.objects.field_errors import (
    DUPLICATE,
    INTERNAL,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    shown,
)
from kohort.objects.json_types import JsonObject
from kohort.objects.names import label_value, qualified_name
from kohort.objects.well_known_names import TAINT_EFFECTS

_is_feature = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*").fullmatch
_BAD_FEATURE: Final = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or "
    "MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)


class NodeStrategy(Strategy):
    has_generation = False
    keeps_status_on_create = True
    rechecks_metadata = 1

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        _mirror_ranges(spec)
        status = obj.get("status")
        if status:
            for field in ("capacity", "allocatable"):
                if status.get(field):
                    round_up(status[field])
            if status.get("allocatable") is None and status.get("capacity") is not None:
                status["allocatable"] = dict(status["capacity"])

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj.setdefault("status", {})

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        if (obj.get("spec") or {}).get("externalID"):
            return ["spec.externalID: this field is deprecated, and is unused by Kubernetes"]
        return []

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        check_taints(errors, "metadata.taints", spec.get("taints") or [])
        _check_status(errors, status)
        ranges = spec.get("podCIDRs") or []
        for index, text in enumerate(ranges):
            cidr(errors, f"spec.podCIDRs[{index}]", text)
        if len(ranges) > 1:
            _check_pair(errors, ranges)
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return self.validate(context, obj) + _changes(obj, old)

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return _changes(obj, old)


def _check_pair(errors: Errors, ranges: list[str]) -> None:
    """Several ranges are one for each family of addresses."""
    broken = next((index for index, text in enumerate(ranges) if not _is_network(text)), None)
    if broken is not None:
        detail = f"invalid CIDR[{broken}]: <nil> (invalid CIDR address: {ranges[broken]})"
        detail = f"Internal error: invalid PodCIDRs. failed to check with dual stack with error:{detail}"
        errors.append(FieldError(INTERNAL, "spec.podCIDRs", detail))
    if broken is not None or len(ranges) > 2 or (":" in ranges[0]) == (":" in ranges[1]):
        detail = "may specify no more than one CIDR for each IP family"
        errors.append(invalid("spec.podCIDRs", ranges, detail))


def _is_network(text: str) -> bool:
    address, slash, length = text.partition("/")
    return bool(slash) and parse_address(address) is not None and length.isdigit()


def _mirror_ranges(spec: JsonObject) -> None:
    """The single address range and the list in step; where they differ the single one is what an old client meant."""
    single, listed = spec.get("podCIDR"), spec.get("podCIDRs")
    if single:
        if not listed or listed[0] != single:
            spec["podCIDRs"] = [single]
    elif listed:
        spec["podCIDR"] = listed[0]


def check_taints(errors: Errors, path: str, taints: list[JsonObject]) -> None:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        here, key, effect = f"{path}[{index}]", taint.get("key") or "", taint.get("effect") or ""
        named(errors, f"{here}.key", key, qualified_name)
        value = taint.get("value") or ""
        problems = problems_of(label_value, value)
        if problems:
            errors.append(invalid(f"{here}.value", value, ";".join(problems)))
        if effect not in TAINT_EFFECTS:
            where = f"{here}.effect"
            errors.append(not_supported(where, effect, TAINT_EFFECTS) if effect else required(where))
        if (effect, key) in seen:
            internal = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            detail = f"Duplicate value: {shown(internal)}: taints must be unique by key and effect pair"
            errors.append(FieldError(DUPLICATE, here, detail))
        seen.add((effect, key))


def _check_status(errors: Errors, status: JsonObject) -> None:
    for field in ("capacity", "allocatable"):
        for name, text in (status.get(field) or {}).items():
            check_amount(errors, f"status.{field}.{name}", name, quantity(text))
    features = status.get("declaredFeatures") or []
    for index, feature in enumerate(features):
        path = f"status.declaredFeatures[{index}]"
        if len(feature) > 253 or not _is_feature(feature):
            errors.append(invalid(path, feature, f'invalid feature name "{feature}": {_BAD_FEATURE}'))
        if index and features[index - 1] == feature:
            errors.append(duplicate(path, feature))
        elif index and features[index - 1] > feature:
            errors.append(invalid(path, feature, "list must be sorted alphabetically"))


def _changes(node: JsonObject, old: JsonObject) -> list[FieldError]:
    errors: Errors = []
    spec, before, status = node.get("spec") or {}, old.get("spec") or {}, node.get("status") or {}
    _check_status(errors, status)
    addresses = status.get("addresses") or []
    for index, again in enumerate(repeats(addresses)):
        if again:
            address = addresses[index]
            errors.append(duplicate(f"status.addresses[{index}]", address))
    ranges, known = spec.get("podCIDRs") or [], before.get("podCIDRs") or []
    detail = 'node updates may not change podCIDR except from "" to valid'
    if known and len(ranges) != len(known):
        errors.append(forbidden("spec.podCIDRs", detail))
    elif known:
        pairs = zip(ranges, known, strict=True)
        errors += [forbidden("spec.podCIDRs", detail) for new, was in pairs if new != was]
    if (before.get("externalID") or "") != (spec.get("externalID") or ""):
        errors.append(forbidden("spec.externalID", "may not be updated"))
    if before.get("providerID") and before["providerID"] != spec.get("providerID"):
        detail = 'node updates may not change providerID except from "" to valid'
        errors.append(forbidden("spec.providerID", detail))
    check_taints(errors, "metadata.taints", spec.get("taints") or [])
    return errors
