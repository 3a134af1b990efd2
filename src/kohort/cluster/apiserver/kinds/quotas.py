"""ResourceQuotas and LimitRanges."""

import uuid
from itertools import islice
from typing import Final

import msgspec

from kohort.cluster.apiserver.kinds import resource_names
from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.kinds.pod.defaults import round_up
from kohort.cluster.apiserver.schema.field_checks import Errors, quantity
from kohort.objects.field_errors import FieldError, duplicate, forbidden, invalid, required, too_many
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.names import qualified_name
from kohort.objects.quantity import Quantity

_POD_SCOPES: Final = ("Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity")
SCOPES: Final = (*_POD_SCOPES, "BestEffort", "VolumeAttributesClass")
_POD_RESOURCES: Final = frozenset(
    ("pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory")
)
_CONFLICTS: Final = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_MOST: Final = 32
"""Scopes of a quota, of which there are seven; and resources that a scope does not allow and that are reported."""
_LONGEST_SHOWN: Final = 4096
_MUST_EXIST: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


class ResourceQuotaStrategy(Strategy):
    has_generation = False
    deletion_returns_object = True

    def default(self, obj: JsonObject) -> None:
        for holder in (obj.get("spec") or {}, obj.get("status") or {}):
            for field in ("hard", "used"):
                if holder.get(field):
                    round_up(holder[field])

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj.setdefault("spec", {})
        obj["status"] = {}

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        _check_quota(errors, obj.get("spec") or {})
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors = self.validate(context, obj)
        new, before = (side.get("spec", {}).get("scopes") or [] for side in (obj, old))
        if set(new) != set(before):
            errors.append(invalid("spec.scopes", new, "field is immutable"))
        return errors

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        status = obj.get("status") or {}
        for field in ("hard", "used"):
            _check_amounts(errors, f"status.{field}", status.get(field) or {})
        return errors


def _check_amounts(errors: Errors, path: str, amounts: JsonObject) -> None:
    for name, text in amounts.items():
        resource_names.check_quota(errors, f"{path}[{name}]", name)
        resource_names.check_amount(errors, f"{path}[{name}]", name, quantity(text))


def _check_quota(errors: Errors, spec: JsonObject) -> None:
    hard = spec.get("hard") or {}
    _check_amounts(errors, "spec.hard", hard)
    scopes = spec.get("scopes") or []
    if len(scopes) > _MOST:
        errors.append(too_many("spec.scopes", len(scopes), _MOST))
        return
    brief = _brief(scopes)
    for scope in scopes:
        if scope not in SCOPES:
            errors.append(invalid("spec.scopes", brief, "unsupported scope"))
        _check_scope_resources(errors, "spec.scopes", scope, hard, brief)
    _check_conflicts(errors, "spec.scopes", scopes, brief)
    selector = spec.get("scopeSelector")
    if selector is not None:
        _check_scope_selector(errors, "spec.scopeSelector.matchExpressions", selector, hard, scopes)


def _check_scope_resources(errors: Errors, path: str, scope: str, hard: JsonObject, shown: Json) -> None:
    denied = (name for name in sorted(hard) if resource_names.is_quota(name) and not _scope_allows(scope, name))
    errors.extend(invalid(path, shown, "unsupported scope applied to resource") for _ in islice(denied, _MOST))


def _brief(value: Json) -> Json:
    """A value that is repeated in many errors."""
    return value if len(msgspec.json.encode(value)) <= _LONGEST_SHOWN else "too long to be shown"


def _scope_allows(scope: str, name: str) -> bool:
    if scope in _POD_SCOPES:
        return name in _POD_RESOURCES
    if scope == "BestEffort":
        return name == "pods"
    if scope == "VolumeAttributesClass":
        return name in ("persistentvolumeclaims", "requests.storage")
    return True


def _check_conflicts(errors: Errors, path: str, scopes: list[str], shown: Json) -> None:
    for first, second in _CONFLICTS:
        if first in scopes and second in scopes:
            errors.append(invalid(path, shown, "conflicting scopes"))


def _check_scope_selector(errors: Errors, path: str, selector: JsonObject, hard: JsonObject, listed: list[str]) -> None:
    found: list[str] = []
    requirements = selector.get("matchExpressions") or []
    if len(requirements) > _MOST:
        errors.append(too_many(path, len(requirements), _MOST))
        return
    brief = _brief(selector)
    for requirement in requirements:
        scope, operator = requirement.get("scopeName") or "", requirement.get("operator") or ""
        values = requirement.get("values") or []
        if scope not in SCOPES:
            errors.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        _check_scope_resources(errors, path, scope, hard, brief)
        valued = scope in ("PriorityClass", "VolumeAttributesClass")
        if scope in SCOPES and not valued and operator != "Exists":
            errors.append(invalid(f"{path}.operator", operator, _MUST_EXIST))
        if operator in ("In", "NotIn"):
            if not values:
                detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                errors.append(required(f"{path}.values", detail))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                errors.append(invalid(f"{path}.values", values, detail))
        else:
            errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
        found.append(scope)
    _check_conflicts(errors, path, found, _brief(listed))


class LimitRangeStrategy(Strategy):
    create_on_update = True
    has_status = False
    has_generation = False
    rechecks_metadata = 1
    checks_metadata_change = False

    def default(self, obj: JsonObject) -> None:
        for item in (obj.get("spec") or {}).get("limits") or ():
            _default_item(item)

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        """Alone among all kinds, one without a name gets a random one."""
        metadata = obj["metadata"]
        if not metadata.get("name"):
            metadata["name"] = str(uuid.uuid4())

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        types: set[str] = set()
        for index, item in enumerate((obj.get("spec") or {}).get("limits") or ()):
            _check_item(errors, f"spec.limits[{index}]", item, types)
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return self.validate(context, obj)


_AMOUNT_FIELDS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _default_item(item: JsonObject) -> None:
    """For containers, what is not said follows: the default from the maximum, the default request from either."""
    for field in _AMOUNT_FIELDS:
        if item.get(field):
            round_up(item[field])
    if item.get("type") != "Container":
        return
    default = {**(item.get("max") or {}), **(item.get("default") or {})}
    request = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
    if default:
        item["default"] = default
    if request:
        item["defaultRequest"] = request


def _check_item(errors: Errors, path: str, item: JsonObject, types: set[str]) -> None:
    kind = item.get("type") or ""
    problems = qualified_name(kind)
    errors += [invalid(f"{path}.type", kind, problem) for problem in problems]
    if not problems and "/" not in kind and kind not in ("Pod", "Container", "PersistentVolumeClaim"):
        errors.append(invalid(f"{path}.type", kind, "must be a standard limit type or fully qualified"))
    if kind in types:
        errors.append(duplicate(f"{path}.type", kind))
    types.add(kind)
    check = resource_names.check_container if kind in ("Pod", "Container") else resource_names.check_general
    names: dict[str, None] = {}
    for field in _AMOUNT_FIELDS:
        if kind == "Pod" and field in ("default", "defaultRequest"):
            if item.get(field):
                errors.append(forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'"))
            continue
        for name in item.get(field) or ():
            check(errors, f"{path}.{field}[{name}]", name)
            names[name] = None
    if kind == "PersistentVolumeClaim" and not any("storage" in (item.get(f) or {}) for f in ("min", "max")):
        detail = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required(f"{path}.limits", detail))
    for name in names:
        _check_order(errors, path, item, name)


def _check_order(errors: Errors, path: str, item: JsonObject, name: str) -> None:
    def amount(field: str) -> Quantity | None:
        if item.get("type") == "Pod" and field.startswith("default"):
            return None
        text = (item.get(field) or {}).get(name)
        return None if text is None else quantity(text)

    low, high, default, request = (amount(f) for f in ("min", "max", "default", "defaultRequest"))
    ratio = amount("maxLimitRequestRatio")

    def refuse(field: str, value: Quantity, detail: str) -> None:
        errors.append(invalid(f"{path}.{field}[{name}]", str(value), detail))

    if low is not None and high is not None and low > high:
        refuse("min", low, f"min value {low} is greater than max value {high}")
    if request is not None:
        where = "defaultRequest"
        if low is not None and low > request:
            refuse(where, request, f"min value {low} is greater than default request value {request}")
        if high is not None and request > high:
            refuse(where, request, f"default request value {request} is greater than max value {high}")
        if default is not None and request > default:
            refuse(where, request, f"default request value {request} is greater than default limit value {default}")
    if default is not None:
        if low is not None and low > default:
            refuse("default", low, f"min value {low} is greater than default value {default}")
        if high is not None and default > high:
            refuse("default", high, f"default value {default} is greater than max value {high}")
    if ratio is not None:
        _check_ratio(errors, f"{path}.maxLimitRequestRatio[{name}]", ratio, low, high)
    exact = not resource_names.can_overcommit(name)
    if exact and default is not None and request is not None and default != request:
        detail = f"default value {default} must equal to defaultRequest value {request} in {name}"
        refuse("defaultRequest", request, detail)


def _check_ratio(errors: Errors, path: str, ratio: Quantity, low: Quantity | None, high: Quantity | None) -> None:
    if ratio < Quantity.of(1):
        errors.append(invalid(path, str(ratio), f"ratio {ratio} is less than 1"))
    if low is not None and high is not None and low.nano:
        largest = Quantity(high.nano * 10**9 // low.nano).approximate
        if Quantity.of_milli(ratio.milli).approximate > largest:
            errors.append(invalid(path, str(ratio), f"ratio {ratio} is greater than max/min = {largest:f}"))
