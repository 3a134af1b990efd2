"""Where a pod may run: selectors, affinity, tolerations, spreading, gates."""

from collections.abc import Sequence
from typing import Final

from kohort.cluster.apiserver.kinds.pod.validation_options import PodRules
from kohort.cluster.apiserver.schema.field_checks import (
    NOT_POSITIVE,
    WHOLE_OBJECT,
    Errors,
    dns_label,
    named,
    problems_of,
    qualified,
)
from kohort.objects import well_known_names
from kohort.objects.field_errors import duplicate, forbidden, invalid, not_supported, required
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1123_label, dns1123_subdomain, label_value, qualified_name
from kohort.objects.selectors import selector_errors
from kohort.objects.well_known_names import TAINT_EFFECTS

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def check_affinity(errors: Errors, path: str, affinity: JsonObject, rules: PodRules) -> None:
    node = affinity.get("nodeAffinity")
    if node is not None:
        here = f"{path}.nodeAffinity"
        if node.get(REQUIRED) is not None:
            check_node_selector(errors, f"{here}.{REQUIRED}", node[REQUIRED], rules.tolerate_selector_values)
        for index, term in enumerate(node.get(PREFERRED) or ()):
            _check_weight(errors, f"{here}.{PREFERRED}[{index}]", term)
            _check_node_term(errors, f"{here}.{PREFERRED}[{index}].preference", term.get("preference") or {}, True)
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(kind)
        if pods is None:
            continue
        here = f"{path}.{kind}"
        for index, term in enumerate(pods.get(REQUIRED) or ()):
            _check_pod_term(errors, f"{here}.{REQUIRED}[{index}]", term, rules)
        for index, weighted in enumerate(pods.get(PREFERRED) or ()):
            where = f"{here}.{PREFERRED}[{index}]"
            _check_weight(errors, where, weighted)
            _check_pod_term(errors, f"{where}.podAffinityTerm", weighted.get("podAffinityTerm") or {}, rules)


def _check_weight(errors: Errors, path: str, term: JsonObject) -> None:
    weight = term.get("weight") or 0
    if not 1 <= weight <= 100:
        errors.append(invalid(f"{path}.weight", weight, "must be in the range 1-100"))


def check_node_selector(errors: Errors, path: str, selector: JsonObject, tolerate_values: bool = False) -> None:
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        errors.append(required(f"{path}.nodeSelectorTerms", "must have at least one node selector term"))
        return
    for index, term in enumerate(terms):
        _check_node_term(errors, f"{path}.nodeSelectorTerms[{index}]", term, tolerate_values)


def _check_node_term(errors: Errors, path: str, term: JsonObject, tolerate_values: bool) -> None:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        _check_node_expression(errors, f"{path}.matchExpressions[{index}]", expression, tolerate_values)
    for index, expression in enumerate(term.get("matchFields") or ()):
        _check_node_field(errors, f"{path}.matchFields[{index}]", expression)


def _check_node_expression(errors: Errors, path: str, expression: JsonObject, tolerate_values: bool) -> None:
    operator, values = expression.get("operator") or "", expression.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            errors.append(required(f"{path}.values", detail))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{path}.values", detail))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(required(f"{path}.values", detail))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    qualified(errors, f"{path}.key", expression.get("key") or "")
    if not tolerate_values:
        for index, value in enumerate(values):
            named(errors, f"{path}.values[{index}]", value, label_value)


def _check_node_field(errors: Errors, path: str, expression: JsonObject) -> None:
    operator, values = expression.get("operator") or "", expression.get("values") or ()
    if operator not in ("In", "NotIn"):
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{path}.values", detail))
    if expression.get("key") != "metadata.name":
        errors.append(invalid(f"{path}.key", expression.get("key") or "", "not a valid field selector key"))
        return
    for index, value in enumerate(values):
        named(errors, f"{path}.values[{index}]", value, dns1123_subdomain)


def _check_pod_term(errors: Errors, path: str, term: JsonObject, rules: PodRules) -> None:
    for field in ("labelSelector", "namespaceSelector"):
        errors += selector_errors(
            term.get(field), f"{path}.{field}", allow_invalid_values=rules.tolerate_selector_values
        )
    for namespace in term.get("namespaces") or ():
        named(errors, f"{path}.namespace", namespace, dns1123_label)
    _check_label_keys(
        errors,
        path,
        term.get("matchLabelKeys") or (),
        term.get("mismatchLabelKeys") or (),
        term.get("labelSelector"),
    )
    key = term.get("topologyKey") or ""
    if not key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    named(errors, f"{path}.topologyKey", key, qualified_name)


def _check_label_keys(
    errors: Errors, path: str, match: Sequence[str], mismatch: Sequence[str], selector: JsonObject | None
) -> None:
    """Keys whose values come from the pod's own labels. The selector already contains what they were turned into."""
    for field, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            errors.append(forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set"))
        elif keys:
            for index, key in enumerate(keys):
                named(errors, f"{path}.{field}[{index}]", key, qualified_name)
    if selector is not None and match:
        seen = set(selector.get("matchLabels") or ())
        for expression in selector.get("matchExpressions") or ():
            key = expression.get("key")
            if key in match and key in seen:
                detail = "exists in both matchLabelKeys and labelSelector"
                errors.append(invalid(f"{path}[{list(match).index(key)}]", key, detail))
            seen.add(key)
    for index, key in enumerate(match):
        if key in mismatch:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            errors.append(invalid(f"{path}.matchLabelKeys[{index}]", key, detail))


def check_tolerations(errors: Errors, path: str, tolerations: list[JsonObject], rules: PodRules) -> None:
    for index, toleration in enumerate(tolerations):
        key, operator = toleration.get("key"), toleration.get("operator") or ""
        effect, value = toleration.get("effect") or "", toleration.get("value") or ""
        if key:
            if problems_of(qualified_name, key):
                named(errors, f"{path}[{index}].key", key, qualified_name)
        elif operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid(f"{path}[{index}].operator", operator, detail))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid(f"{path}[{index}].effect", effect, detail))
        if operator == "Exists":
            if value:
                detail = "value must be empty when `operator` is 'Exists'"
                errors.append(invalid(f"{path}[{index}].operator", value, detail))
        else:
            _check_toleration_value(errors, f"{path}[{index}]", operator, value, rules)
        if effect and effect not in TAINT_EFFECTS:
            errors.append(not_supported(f"{path}[{index}].effect", effect, TAINT_EFFECTS))


def _check_toleration_value(errors: Errors, path: str, operator: str, value: str, rules: PodRules) -> None:
    if operator in ("", "Equal"):
        problems = problems_of(label_value, value)
        if problems:
            errors.append(invalid(f"{path}.operator", value, ";".join(problems)))
    elif operator in ("Lt", "Gt"):
        if not rules.toleration_comparison:
            errors.append(not_supported(f"{path}.operator", operator, ("Equal", "Exists", "Lt", "Gt")))
        elif not value.lstrip("-").isdecimal() or str(int(value)) != value:
            errors.append(invalid(f"{path}.value", value, "must be a valid decimal integer in canonical form"))
    else:
        errors.append(not_supported(f"{path}.operator", operator, ("Equal", "Exists")))


_SPREAD_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_NODE_POLICIES: Final = ("Honor", "Ignore")


def check_spreading(errors: Errors, path: str, constraints: list[JsonObject], rules: PodRules) -> None:
    pairs = [(one.get("topologyKey") or "", one.get("whenUnsatisfiable") or "") for one in constraints]
    last = {pair: index for index, pair in enumerate(pairs)}
    for index, constraint in enumerate(constraints):
        here = f"{path}[{index}]"
        action, key = constraint.get("whenUnsatisfiable") or "", constraint.get("topologyKey") or ""
        if (constraint.get("maxSkew") or 0) <= 0:
            errors.append(invalid(f"{here}.maxSkew", constraint.get("maxSkew") or 0, NOT_POSITIVE))
        if not key:
            errors.append(required(f"{here}.topologyKey", "can not be empty"))
        if action not in _SPREAD_ACTIONS:
            errors.append(not_supported(f"{here}.whenUnsatisfiable", action, _SPREAD_ACTIONS))
        if last[key, action] > index:
            errors.append(duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        _check_domains(errors, f"{here}.minDomains", constraint.get("minDomains"), action)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(field)
            if policy is not None and policy not in _NODE_POLICIES:
                errors.append(not_supported(f"{here}.{field}", policy, _NODE_POLICIES))
        selector = constraint.get("labelSelector")
        _check_label_keys(errors, here, constraint.get("matchLabelKeys") or (), (), selector)
        if not rules.tolerate_spread_selectors:
            errors += selector_errors(selector, f"{here}.labelSelector")


def _check_domains(errors: Errors, path: str, number: int | None, action: str) -> None:
    if number is None:
        return
    if number <= 0:
        errors.append(invalid(path, number, NOT_POSITIVE))
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(invalid(path, number, detail))


def check_gates(errors: Errors, path: str, gates: list[JsonObject]) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name") or ""
        qualified(errors, f"{path}[{index}]", name)
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)


def check_claims(errors: Errors, path: str, claims: list[JsonObject], rules: PodRules) -> None:
    """Device claims of the pod."""
    if well_known_names.MIRROR_POD in (rules.metadata.get("annotations") or {}):
        errors += [forbidden(WHOLE_OBJECT, "static pods do not support resource claims")] * len(claims)
        return
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        here, name = f"{path}[{index}]", claim.get("name") or ""
        if not name:
            errors.append(required(f"{here}.name"))
        elif name in seen:
            errors.append(duplicate(f"{here}.name", name))
        else:
            dns_label(errors, f"{here}.name", name)
            seen.add(name)
        given = [f for f in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(f) is not None]
        if len(given) == 2:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(invalid(here, claim, detail))
        if not given:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(invalid(here, claim, detail))
        for field in given:
            named(errors, f"{here}.{field}", claim[field], dns1123_subdomain)
