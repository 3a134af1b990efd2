"""FlowSchemas and PriorityLevelConfigurations.

This server has no queues of its own; the objects are kept for the tools that write them, by the rules of Kubernetes.
"""

import math
from typing import Final

from kohort.cluster.apiserver.kinds.metadata import reset_for_status
from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.schema.field_checks import Errors, choice, named
from kohort.objects.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1123_label, dns1123_subdomain

EXEMPT: Final = "exempt"
_METHODS: Final = ("ByNamespace", "ByUser")
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_SUBJECTS: Final = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}
_NAMESPACES: Final = "each member of this list must be '*' or a DNS-1123 label; "
_MOST_QUEUES: Final = 10_000_000
_HASH_BITS: Final = 60


class _Flow(Strategy):
    rechecks_metadata = 1
    checks_metadata_change = False

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj["status"] = {}

    def prepare_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        reset_for_status(obj["metadata"], old["metadata"])

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return self.validate(context, obj)

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        seen: set[str] = set()
        for index, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
            path, kind = f"status.conditions[{index}].type", condition.get("type") or ""
            if kind in seen:
                errors.append(duplicate(path, kind))
            seen.add(kind)
            if not kind:
                errors.append(required(path))
        return errors


class FlowSchemaStrategy(_Flow):
    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("matchingPrecedence"):
            spec["matchingPrecedence"] = 1000

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        spec = obj["spec"]
        _check_precedence(errors, spec["matchingPrecedence"], obj["metadata"].get("name") or "")
        method = spec.get("distinguisherMethod")
        if method is not None and method.get("type") not in _METHODS:
            shown = {"Type": method.get("type") or ""}
            errors.append(not_supported("spec.distinguisherMethod.type", shown, _METHODS))
        path = "spec.priorityLevelConfiguration.name"
        level = (spec.get("priorityLevelConfiguration") or {}).get("name")
        if level:
            named(errors, path, level, dns1123_subdomain)
        else:
            errors.append(required(path, "must reference a priority level"))
        for index, rule in enumerate(spec.get("rules") or ()):
            _check_rule(errors, f"spec.rules[{index}]", rule)
        return errors


def _check_precedence(errors: Errors, precedence: int, name: str) -> None:
    path = "spec.matchingPrecedence"
    if precedence <= 0:
        errors.append(invalid(path, precedence, "must be a positive value"))
    if precedence > 10_000:
        errors.append(invalid(path, precedence, "must not be greater than 10000"))
    if precedence == 1 and name != EXEMPT:
        errors.append(invalid(path, precedence, "only the schema named 'exempt' may have matchingPrecedence 1"))


def _check_rule(errors: Errors, path: str, rule: JsonObject) -> None:
    subjects = rule.get("subjects") or ()
    for index, subject in enumerate(subjects):
        _check_subject(errors, f"{path}.subjects[{index}]", subject)
    if not subjects:
        errors.append(required(f"{path}.subjects", "subjects must contain at least one value"))
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        detail = "at least one of resourceRules and nonResourceRules has to be non-empty"
        errors.append(required(path, detail))
    for index, resources in enumerate(rule.get("resourceRules") or ()):
        _check_resources(errors, f"{path}.resourceRules[{index}]", resources)
    for index, urls in enumerate(rule.get("nonResourceRules") or ()):
        here = f"{path}.nonResourceRules[{index}]"
        _check_verbs(errors, here, urls)
        _check_urls(errors, f"{here}.nonResourceURLs", urls.get("nonResourceURLs") or [])


def _check_subject(errors: Errors, path: str, subject: JsonObject) -> None:
    kind = subject.get("kind") or ""
    if kind not in _SUBJECTS:
        errors.append(not_supported(f"{path}.kind", kind, sorted(_SUBJECTS)))
        return
    field = _SUBJECTS[kind]
    named_by = subject.get(field)
    here = f"{path}.{field}"
    if named_by is None:
        errors.append(required(here, f"{field} is required when subject kind is '{kind}'"))
    elif not named_by.get("name"):
        errors.append(required(f"{here}.name"))
    elif kind == "ServiceAccount" and named_by["name"] != "*":
        named(errors, f"{here}.name", named_by["name"], dns1123_subdomain)
    if kind == "ServiceAccount" and named_by is not None:
        if named_by.get("namespace"):
            named(errors, f"{here}.namespace", named_by["namespace"], dns1123_label)
        else:
            errors.append(required(f"{here}.namespace", "must specify namespace for service account"))
    for other, other_field in (("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")):
        if other != kind and subject.get(other_field) is not None:
            detail = f"{other_field} is forbidden when subject kind is not '{other}'"
            errors.append(forbidden(f"{path}.{other_field}", detail))


def _check_verbs(errors: Errors, path: str, rule: JsonObject) -> None:
    verbs = rule.get("verbs") or []
    if not verbs:
        errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    elif "*" in verbs:
        _check_alone(errors, f"{path}.verbs", verbs, "verbs")
    elif not set(verbs) <= set(_VERBS):
        errors.append(not_supported(f"{path}.verbs", verbs, _VERBS))


def _check_alone(errors: Errors, path: str, values: list[str], what: str) -> None:
    if "*" in values and len(values) > 1:
        errors.append(invalid(path, values, f"if '*' is present, must not specify other {what}"))


def _check_resources(errors: Errors, path: str, rule: JsonObject) -> None:
    _check_verbs(errors, path, rule)
    for field, one, many in (("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")):
        values = rule.get(field) or []
        if not values:
            errors.append(required(f"{path}.{field}", f"resource rules must supply at least one {one}"))
        _check_alone(errors, f"{path}.{field}", values, many)
    namespaces = rule.get("namespaces") or []
    if not namespaces and not rule.get("clusterScope"):
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        errors.append(required(f"{path}.namespaces", detail))
    elif "*" in namespaces:
        _check_alone(errors, f"{path}.namespaces", namespaces, "namespaces")
    else:
        for index, name in enumerate(namespaces):
            here = f"{path}.namespaces[{index}]"
            errors += [invalid(here, name, _NAMESPACES + problem) for problem in dns1123_label(name)]


def _check_urls(errors: Errors, path: str, urls: list[str]) -> None:
    if not urls:
        errors.append(required(path, "nonResourceURLs must contain at least one value"))
    elif "*" in urls:
        _check_alone(errors, path, urls, "non-resource URLs")
    else:
        problems = ((index, url, _url_problem(url)) for index, url in enumerate(urls))
        errors += [invalid(f"{path}[{index}]", url, problem) for index, url, problem in problems if problem]


def _url_problem(url: str) -> str:
    if not url:
        return "must not be empty"
    if url == "/":
        return ""
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    wildcards = url.count("*")
    misplaced = wildcards > 1 or (wildcards == 1 and not url.endswith("/*"))
    return "wildcard can only do suffix matching" if misplaced else ""


class PriorityLevelStrategy(_Flow):
    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        for field, shares in (("exempt", 0), ("limited", 30)):
            block = spec.get(field)
            if block is not None:
                if block.get("nominalConcurrencyShares") is None:
                    block["nominalConcurrencyShares"] = shares
                if block.get("lendablePercent") is None:
                    block["lendablePercent"] = 0
        queuing = ((spec.get("limited") or {}).get("limitResponse") or {}).get("queuing")
        if queuing is not None:
            for field, number in (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)):
                if not queuing.get(field):
                    queuing[field] = number

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        spec = obj["spec"]
        kind = spec.get("type") or ""
        if (obj["metadata"].get("name") == EXEMPT) != (kind == "Exempt"):
            errors.append(invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'"))
        limited, exempt = spec.get("limited"), spec.get("exempt")
        if kind == "Exempt":
            if limited is not None:
                errors.append(forbidden("spec.limited", "must be nil if the type is not Limited"))
            if exempt is not None:
                _check_shares(errors, "spec.exempt", exempt)
                _check_lendable(errors, "spec.exempt", exempt)
        elif kind == "Limited":
            if exempt is not None:
                errors.append(forbidden("spec.exempt", "must be nil if the type is Limited"))
            if limited is None:
                errors.append(required("spec.limited", "must not be empty when type is Limited"))
            else:
                _check_limited(errors, "spec.limited", limited)
        else:
            choice(errors, "spec.type", kind, ("Exempt", "Limited"))
        return errors


def _check_shares(errors: Errors, path: str, block: JsonObject) -> None:
    shares = block.get("nominalConcurrencyShares") or 0
    if shares < 0:
        errors.append(invalid(f"{path}.nominalConcurrencyShares", shares, "must be a non-negative integer"))


def _check_lendable(errors: Errors, path: str, block: JsonObject) -> None:
    percent = block.get("lendablePercent") or 0
    if not 0 <= percent <= 100:
        errors.append(invalid(f"{path}.lendablePercent", percent, "must be between 0 and 100, inclusive"))


def _check_limited(errors: Errors, path: str, limited: JsonObject) -> None:
    _check_shares(errors, path, limited)
    response = limited.get("limitResponse") or {}
    here, kind, queuing = f"{path}.limitResponse", response.get("type"), response.get("queuing")
    if kind == "Reject":
        if queuing is not None:
            detail = "must be nil if limited.limitResponse.type is not Limited"
            errors.append(forbidden(f"{here}.queuing", detail))
    elif kind != "Queue":
        choice(errors, f"{here}.type", kind, ("Queue", "Reject"))
    elif queuing is None:
        detail = "must not be empty if limited.limitResponse.type is Limited"
        errors.append(required(f"{here}.queuing", detail))
    else:
        _check_queuing(errors, f"{here}.queuing", queuing)
    _check_lendable(errors, path, limited)
    borrowed = limited.get("borrowingLimitPercent")
    if borrowed is not None and borrowed < 0:
        detail = "if specified, must be a non-negative integer"
        errors.append(invalid(f"{path}.borrowingLimitPercent", borrowed, detail))


def _check_queuing(errors: Errors, path: str, queuing: JsonObject) -> None:
    length, queues, hand = queuing["queueLengthLimit"], queuing["queues"], queuing["handSize"]
    if length <= 0:
        errors.append(invalid(f"{path}.queueLengthLimit", length, "must be positive"))
    if queues <= 0:
        errors.append(invalid(f"{path}.queues", queues, "must be positive"))
    elif queues > _MOST_QUEUES:
        errors.append(invalid(f"{path}.queues", queues, f"must not be greater than {_MOST_QUEUES}"))
    if hand <= 0:
        errors.append(invalid(f"{path}.handSize", hand, "must be positive"))
    elif hand > queues:
        errors.append(invalid(f"{path}.handSize", hand, f"should not be greater than queues ({queues})"))
    elif math.ceil(math.log2(queues) * hand) > _HASH_BITS:
        detail = (
            f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_HASH_BITS}"
        )
        errors.append(invalid(f"{path}.handSize", hand, detail))
