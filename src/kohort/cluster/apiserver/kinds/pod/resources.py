"""Rules for blocks of requests and limits, of a container and of a whole pod."""

from collections.abc import Callable, Mapping, Set
from typing import Final

from kohort.cluster.apiserver.kinds import resource_names
from kohort.cluster.apiserver.kinds.pod.pod_level_resources import aggregate
from kohort.cluster.apiserver.kinds.pod.validation_options import PodRules
from kohort.cluster.apiserver.schema.field_checks import Errors, dns_label
from kohort.objects.field_errors import NOT_FOUND, FieldError, duplicate, forbidden, invalid, not_supported, required
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import NO_RESTART, RESTART_CONTAINER
from kohort.objects.quantity import Quantity

NameCheck = Callable[[Errors, str, str], None]

_COMPUTE: Final = ("cpu", "memory")
_COMPUTE_NAMES: Final = frozenset(_COMPUTE)
PLAIN: Final = frozenset((*_COMPUTE, "ephemeral-storage"))
"""Names that are right everywhere in a container and may be overcommitted."""


def check_container_block(errors: Errors, path: str, block: JsonObject, claims: Set[str], rules: PodRules) -> None:
    limits, requests = block.get("limits"), block.get("requests")
    if limits or requests:
        check_block(errors, path, requests or {}, limits or {}, resource_names.check_container, PLAIN, rules)
    if block.get("claims"):
        _check_claims(errors, f"{path}.claims", block["claims"], claims)


def check_block(
    errors: Errors,
    path: str,
    requests: Mapping[str, str],
    limits: Mapping[str, str],
    check_name: NameCheck,
    plain: Set[str],
    rules: PodRules,
) -> None:
    """`plain` names need no check but that of their sign."""
    parse = Quantity.parse
    compute = huge_pages = False
    for name, text in limits.items():
        amount = parse(text)
        if name in plain and amount.nano >= 0:
            compute = compute or name in _COMPUTE
            continue
        _check_entry(errors, f"{path}.limits[{name}]", name, amount, check_name, rules)
        compute = compute or name in _COMPUTE
        huge_pages = huge_pages or resource_names.is_huge_pages(name)
    for name, text in requests.items():
        amount = parse(text)
        limit = limits.get(name)
        if name in plain and amount.nano >= 0:
            compute = compute or name in _COMPUTE
            if limit is not None and amount.nano > parse(limit).nano:
                errors.append(_above(path, name, amount, limit))
            continue
        _check_entry(errors, f"{path}.requests[{name}]", name, amount, check_name, rules)
        _check_against_limit(errors, path, name, amount, limit)
        compute = compute or name in _COMPUTE
        huge_pages = huge_pages or resource_names.is_huge_pages(name)
    if huge_pages and not compute:
        errors.append(forbidden(path, "HugePages require cpu or memory"))


def _check_entry(
    errors: Errors, path: str, name: str, amount: Quantity, check_name: NameCheck, rules: PodRules
) -> None:
    check_name(errors, path, name)
    resource_names.check_amount(errors, path, name, amount)
    if (
        resource_names.is_huge_pages(name)
        and not rules.tolerate_huge_page_fractions
        and not resource_names.is_whole_pages(name, amount)
    ):
        errors.append(invalid(path, str(amount), f"{amount} is not positive integer multiple of {name}"))


def _check_against_limit(errors: Errors, path: str, name: str, amount: Quantity, limit: str | None) -> None:
    if limit is None:
        if not resource_names.can_overcommit(name):
            errors.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
        return
    if resource_names.can_overcommit(name):
        if amount > Quantity.parse(limit):
            errors.append(_above(path, name, amount, limit))
    elif amount != Quantity.parse(limit):
        detail = f"must be equal to {name} limit of {limit}"
        errors.append(invalid(f"{path}.requests", str(amount), detail))


def _above(path: str, name: str, amount: Quantity, limit: str) -> FieldError:
    detail = f"must be less than or equal to {name} limit of {limit}"
    return invalid(f"{path}.requests", str(amount), detail)


def _check_claims(errors: Errors, path: str, claims: list[JsonObject], of_pod: Set[str]) -> None:
    seen: set[str] = set()
    requests_of: dict[str, int] = {}
    for index, claim in enumerate(claims):
        here = f"{path}[{index}]"
        name, request = claim.get("name") or "", claim.get("request") or ""
        if not name:
            errors.append(required(here))
            continue
        if name in seen:
            errors.append(duplicate(here, name))
        else:
            key = f"{name}/{request}" if request else name
            if request:
                dns_label(errors, f"{here}.request", request)
            if key in seen:
                errors.append(duplicate(here, key))
            elif not request:
                errors += [duplicate(here, name)] * requests_of.get(name, 0)
            seen.add(key)
            requests_of[name] = requests_of.get(name, 0) + 1
        if name not in of_pod:
            known = ": " + ", ".join(sorted(of_pod)) if of_pod else " which is empty"
            detail = f'Not found: "{name}": must be one of the names in pod.spec.resourceClaims{known}'
            errors.append(FieldError(NOT_FOUND, here, detail))


def check_pod_block(errors: Errors, path: str, spec: JsonObject, claims: Set[str], rules: PodRules) -> None:
    """Rules for `spec.resources`; `path` is that of the spec."""
    block = spec.get("resources")
    if block is None:
        return
    here = f"{path}.resources"
    if (spec.get("os") or {}).get("name") == "windows":
        errors.append(forbidden(here, "may not be set for a windows pod"))
        return
    if block.get("claims") is not None:
        errors.append(forbidden(f"{here}.claims", "claims may not be set for Resources at pod-level"))
    requests, limits = block.get("requests") or {}, block.get("limits") or {}
    check_block(errors, here, requests, limits, resource_names.check_pod_level, _COMPUTE_NAMES, rules)
    if block.get("claims"):
        _check_claims(errors, f"{here}.claims", block["claims"], claims)
    if requests or limits:
        _check_consistency(errors, here, spec, requests, limits)


def _check_consistency(
    errors: Errors, path: str, spec: JsonObject, requests: Mapping[str, str], limits: Mapping[str, str]
) -> None:
    """The pod must be at least as large as its containers need."""
    for name, needed in aggregate(spec, "requests").items():
        given = requests.get(name)
        if given is not None and needed > Quantity.parse(given):
            detail = f"must be greater than or equal to aggregate container requests of {needed}"
            errors.append(invalid(f"{path}.requests[{name}]", given, detail))
    for name, needed in aggregate(spec, "limits").items():
        given = limits.get(name)
        if given is not None and resource_names.is_huge_pages(name) and needed > Quantity.parse(given):
            detail = f"must be greater than or equal to aggregate container limits of {needed}"
            errors.append(invalid(f"{path}.limits[{name}]", given, detail))
    for field, head in (("containers", "containers"), ("initContainers", "initContainers")):
        for index, container in enumerate(spec.get(field) or ()):
            for name, text in ((container.get("resources") or {}).get("limits") or {}).items():
                given = limits.get(name)
                if given is not None and Quantity.parse(text) > Quantity.parse(given):
                    detail = f"must be less than or equal to pod limits of {given}"
                    errors.append(invalid(f"{path}.{head}[{index}][{name}].limits", text, detail))


RESIZE_POLICIES: Final = (NO_RESTART, RESTART_CONTAINER)


def check_resize_policy(errors: Errors, path: str, policies: list[JsonObject], pod_restart_policy: str) -> None:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        name, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
        if name not in _COMPUTE:
            errors.append(not_supported(path, name, _COMPUTE) if name else required(path))
        if restart not in RESIZE_POLICIES:
            errors.append(not_supported(path, restart, RESIZE_POLICIES) if restart else required(path))
        if pod_restart_policy == "Never" and restart != NO_RESTART:
            detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.append(invalid(path, restart, detail))
