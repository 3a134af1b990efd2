"""Admission policies, which validate or change objects by expressions, and their bindings."""

from typing import Final

from kohort.cluster.apiserver.kinds.metadata import reset_for_status
from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.kinds.webhooks import check_conditions, check_operations, check_rule, expression_rules
from kohort.cluster.apiserver.schema.field_checks import Errors, choice, conditions, named, repeats
from kohort.objects.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1123_subdomain, path_segment
from kohort.objects.selectors import selector_errors

_MUTABLE: Final = ("*", "CONNECT", "CREATE", "UPDATE")
_REINVOCATION: Final = ("IfNeeded", "Never")


class AdmissionPolicyStrategy(Strategy):
    names_finalizers_freely = True
    unconditional_update = False
    rechecks_metadata = 1
    checks_metadata_change = False
    validating = True

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("failurePolicy") is None:
            spec["failurePolicy"] = "Fail"
        if spec.get("matchConstraints") is not None:
            default_match(spec["matchConstraints"])

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        if self.validating:
            obj["status"] = {}

    def prepare_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        reset_for_status(obj["metadata"], old["metadata"])

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        spec = obj["spec"]
        if spec.get("failurePolicy") not in ("Fail", "Ignore"):
            errors.append(not_supported("spec.failurePolicy", spec.get("failurePolicy") or "", ("Fail", "Ignore")))
        constraints = spec.get("matchConstraints")
        if constraints is None:
            errors.append(required("spec.matchConstraints"))
        else:
            check_match(errors, "spec.matchConstraints", constraints, with_rules=True)
            if not self.validating:
                check_mutable(errors, "spec.matchConstraints", constraints)
        check_conditions(errors, "spec.matchConditions", spec.get("matchConditions") or [])
        name = obj["metadata"].get("name") or ""
        errors += expression_rules().policy_errors(name, spec, mutating=not self.validating)
        if not self.validating:
            choice(errors, "spec.reinvocationPolicy", spec.get("reinvocationPolicy"), _REINVOCATION)
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return self.validate(context, obj)

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        status = obj.get("status") or {}
        warnings = (status.get("typeChecking") or {}).get("expressionWarnings") or ()
        for index, warning in enumerate(warnings):
            path = f"status.typeChecking.expressionWarnings[{index}]"
            errors += [required(f"{path}.{field}") for field in ("warning", "fieldRef") if not warning.get(field)]
        conditions(errors, "status.conditions", status.get("conditions"))
        return errors


class MutatingAdmissionPolicyStrategy(AdmissionPolicyStrategy):
    has_status = False
    validating = False


def default_match(match: JsonObject) -> None:
    for field, value in (("matchPolicy", "Equivalent"), ("namespaceSelector", {}), ("objectSelector", {})):
        if match.get(field) is None:
            match[field] = value
    for field in ("resourceRules", "excludeResourceRules"):
        for rule in match.get(field) or ():
            if rule.get("scope") is None:
                rule["scope"] = "*"


def check_match(errors: Errors, path: str, match: JsonObject, *, with_rules: bool) -> None:
    if match.get("matchPolicy") not in ("Equivalent", "Exact"):
        allowed = ("Equivalent", "Exact")
        errors.append(not_supported(f"{path}.matchPolicy", match.get("matchPolicy") or "", allowed))
    for field in ("namespaceSelector", "objectSelector"):
        errors += selector_errors(match.get(field), f"{path}.{field}")
    if with_rules and not match.get("resourceRules"):
        errors.append(required(f"{path}.resourceRules"))
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(field) or ()):
            check_resource_names(errors, f"{path}.{field}[{index}].resourceNames", rule.get("resourceNames") or [])
            check_operations(errors, f"{path}.{field}[{index}]", rule)
            check_rule(errors, f"{path}.{field}[{index}]", rule)


def check_resource_names(errors: Errors, path: str, names: list[str]) -> None:
    again = repeats(names)
    for index, name in enumerate(names):
        named(errors, f"{path}[{index}]", name, path_segment)
        if again[index]:
            errors.append(duplicate(f"{path}[{index}]", name))


def check_mutable(errors: Errors, path: str, match: JsonObject) -> None:
    """What is being deleted cannot be changed any more."""
    for rule in match.get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in _MUTABLE:
                errors.append(not_supported(f"{path}.resourceRules.operations", operation, _MUTABLE))


class PolicyBindingStrategy(Strategy):
    names_finalizers_freely = True
    unconditional_update = False
    has_status = False
    rechecks_metadata = 1
    checks_metadata_change = False
    validating = True

    def default(self, obj: JsonObject) -> None:
        match = (obj.get("spec") or {}).get("matchResources")
        if match is not None:
            default_match(match)

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        spec = obj.get("spec") or {}
        if not spec.get("policyName"):
            errors.append(required("spec.policyName"))
        else:
            named(errors, "spec.policyName", spec["policyName"], dns1123_subdomain)
        reference = spec.get("paramRef")
        if reference is not None:
            _check_parameters(errors, "spec.paramRef", reference)
        if spec.get("matchResources") is not None:
            check_match(errors, "spec.matchResources", spec["matchResources"], with_rules=False)
            if not self.validating:
                check_mutable(errors, "spec.matchResources", spec["matchResources"])
        if self.validating:
            _check_actions(errors, spec.get("validationActions") or [])
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return self.validate(context, obj)


class MutatingPolicyBindingStrategy(PolicyBindingStrategy):
    validating = False


def _check_parameters(errors: Errors, path: str, reference: JsonObject) -> None:
    name, selector = reference.get("name"), reference.get("selector")
    if name and selector is not None:
        detail = "name and selector are mutually exclusive"
        errors += [forbidden(f"{path}.{field}", detail) for field in ("name", "selector")]
    elif not name and selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    errors += selector_errors(selector, f"{path}.selector")
    if name:
        named(errors, f"{path}.name", name, path_segment)
    action = reference.get("parameterNotFoundAction")
    if not action:
        errors.append(required(f"{path}.parameterNotFoundAction"))
    elif action not in ("Deny", "Allow"):
        errors.append(not_supported(f"{path}.parameterNotFoundAction", action, ("Deny", "Allow")))


def _check_actions(errors: Errors, actions: list[str]) -> None:
    path, allowed = "spec.validationActions", ("Audit", "Deny", "Warn")
    if not actions:
        errors.append(required(path, "at least one validation action is required"))
    again = repeats(actions)
    for index, action in enumerate(actions):
        if action not in allowed:
            errors.append(not_supported(f"{path}[{index}]", action, allowed))
        if again[index]:
            errors.append(duplicate(f"{path}[{index}]", action))
    if "Deny" in actions and "Warn" in actions:
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the "
            "API response and headers serves no purpose)"
        )
        errors.append(invalid(path, actions, detail))
