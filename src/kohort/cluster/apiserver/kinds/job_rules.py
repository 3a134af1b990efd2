"""What a Job may ask for: how often its pods run, when it has failed, when it has succeeded."""

from typing import Final

from kohort.cluster.apiserver.kinds.pod.spec import check_template
from kohort.cluster.apiserver.kinds.pod.validation_options import PodRules
from kohort.cluster.apiserver.schema.field_checks import Errors, domain_prefixed_path, nonnegative, qualified, repeats
from kohort.objects.field_errors import (
    duplicate,
    invalid,
    invalid_without_value,
    not_supported,
    required,
    too_long,
    too_many,
)
from kohort.objects.json_types import JsonObject

INDEXED: Final = "Indexed"
_MODES: Final = ("NonIndexed", INDEXED)
_MANY: Final = 100_000
_FEW: Final = 10_000
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_COUNTS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)


def check_job_spec(errors: Errors, path: str, spec: JsonObject, rules: PodRules) -> None:
    """Everything but the selector, which templates of Jobs do not have."""
    for field in _COUNTS:
        nonnegative(errors, f"{path}.{field}", spec.get(field))
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        errors.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if spec.get("managedBy") is not None:
        _check_manager(errors, f"{path}.managedBy", spec["managedBy"])
    mode = spec.get("completionMode")
    if mode is not None and mode not in _MODES:
        errors.append(not_supported(f"{path}.completionMode", mode, _MODES))
    if mode == INDEXED:
        _check_indexed(errors, path, spec)
    if mode in (None, "NonIndexed"):
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(field) is not None:
                errors.append(invalid(f"{path}.{field}", spec[field], "requires indexed completion mode"))
    if spec.get("podFailurePolicy") is not None:
        _check_failure_policy(errors, f"{path}.podFailurePolicy.rules", spec)
    if spec.get("successPolicy") is not None:
        if mode != INDEXED:
            errors.append(invalid(f"{path}.successPolicy", spec["successPolicy"], "requires indexed completion mode"))
        else:
            _check_success_policy(errors, f"{path}.successPolicy.rules", spec)
    _check_replacement(errors, f"{path}.podReplacementPolicy", spec)
    check_template(errors, f"{path}.template", spec.get("template") or {}, rules)
    _check_restart_policy(errors, f"{path}.template.spec.restartPolicy", spec)


def _check_manager(errors: Errors, path: str, name: str) -> None:
    domain_prefixed_path(errors, path, name)
    if len(name) > 63:
        errors.append(too_long(path, 63))


def _check_indexed(errors: Errors, path: str, spec: JsonObject) -> None:
    completions, parallelism, failed = (spec.get(f) for f in ("completions", "parallelism", "maxFailedIndexes"))
    if completions is None:
        errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if parallelism is not None and parallelism > _MANY:
        detail = f"must be less than or equal to {_MANY} when completion mode is Indexed"
        errors.append(invalid(f"{path}.parallelism", parallelism, detail))
    if failed is not None:
        if completions is not None and failed > completions:
            errors.append(invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions"))
        if failed > _MANY:
            errors.append(invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MANY}"))
    if (completions or 0) > _MANY and spec.get("backoffLimitPerIndex") is not None:
        high = f"when completions are above {_MANY} and used with backoff limit per index"
        if failed is None:
            detail = f"must be specified when completions is above {_MANY}"
            errors.append(required(f"{path}.maxFailedIndexes", detail))
        for field, number in (("parallelism", parallelism), ("maxFailedIndexes", failed)):
            if number is not None and number > _FEW:
                detail = f"must be less than or equal to {_FEW} {high}"
                errors.append(invalid(f"{path}.{field}", number, detail))


def _check_replacement(errors: Errors, path: str, spec: JsonObject) -> None:
    policy = spec.get("podReplacementPolicy")
    allowed = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    if policy is not None and policy not in allowed:
        errors.append(not_supported(path, policy, allowed))


def _check_restart_policy(errors: Errors, path: str, spec: JsonObject) -> None:
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
    if policy in (None, "", "Always"):
        errors.append(required(path, 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        errors.append(not_supported(path, policy, ("OnFailure", "Never")))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        errors.append(invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified'))


def _check_failure_policy(errors: Errors, path: str, spec: JsonObject) -> None:
    rules = spec["podFailurePolicy"].get("rules") or []
    if len(rules) > 20:
        errors.append(too_many(path, len(rules), 20))
    pod = (spec.get("template") or {}).get("spec") or {}
    names = {c.get("name") for field in ("containers", "initContainers") for c in pod.get(field) or ()}
    for index, rule in enumerate(rules):
        here, action = f"{path}[{index}]", rule.get("action")
        if not action:
            errors.append(required(f"{here}.action", f"valid values: {_listed(_ACTIONS)}"))
        elif action == "FailIndex":
            if spec.get("backoffLimitPerIndex") is None:
                errors.append(invalid(f"{here}.action", action, "requires the backoffLimitPerIndex to be set"))
        elif action not in _ACTIONS:
            errors.append(not_supported(f"{here}.action", action, _ACTIONS))
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
        if codes is not None:
            _check_exit_codes(errors, f"{here}.onExitCodes", codes, names)
        _check_pod_conditions(errors, f"{here}.onPodConditions", conditions)
        if codes is not None and conditions:
            detail = "specifying both OnExitCodes and OnPodConditions is not supported"
            errors.append(invalid_without_value(here, detail))
        if codes is None and not conditions:
            detail = "specifying one of OnExitCodes and OnPodConditions is required"
            errors.append(invalid_without_value(here, detail))


def _listed(choices: tuple[str, ...]) -> str:
    return "[" + " ".join(f'"{choice}"' for choice in choices) + "]"


def _check_exit_codes(errors: Errors, path: str, codes: JsonObject, names: set[str | None]) -> None:
    operator, values = codes.get("operator"), codes.get("values") or []
    if not operator:
        errors.append(required(f"{path}.operator", 'valid values: ["In" "NotIn"]'))
    elif operator not in ("In", "NotIn"):
        errors.append(not_supported(f"{path}.operator", operator, ("In", "NotIn")))
    name = codes.get("containerName")
    if name is not None and name not in names:
        detail = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{path}.containerName", name, detail))
    if not values:
        errors.append(invalid(f"{path}.values", values, "at least one value is required"))
    elif len(values) > 255:
        errors.append(too_many(f"{path}.values", len(values), 255))
    again = repeats(values)
    for index, code in enumerate(values):
        if operator == "In" and code == 0:
            errors.append(invalid(f"{path}.values[{index}]", code, "must not be 0 for the In operator"))
        if again[index]:
            errors.append(duplicate(f"{path}.values[{index}]", code))
    if values != sorted(values):
        errors.append(invalid(f"{path}.values", values, "must be ordered"))


_STATUSES: Final = ("False", "True", "Unknown")


def _check_pod_conditions(errors: Errors, path: str, conditions: list[JsonObject]) -> None:
    if len(conditions) > 20:
        errors.append(too_many(path, len(conditions), 20))
    for index, condition in enumerate(conditions):
        qualified(errors, f"{path}[{index}].type", condition.get("type") or "")
        status = condition.get("status")
        if not status:
            errors.append(required(f"{path}[{index}].status", f"valid values: {_listed(_STATUSES)}"))
        elif status not in _STATUSES:
            errors.append(not_supported(f"{path}[{index}].status", status, _STATUSES))


def _check_success_policy(errors: Errors, path: str, spec: JsonObject) -> None:
    rules, completions = spec["successPolicy"].get("rules") or [], spec.get("completions") or 0
    if not rules:
        errors.append(required(path, "at least one rules must be specified when the successPolicy is specified"))
    if len(rules) > 20:
        errors.append(too_many(path, len(rules), 20))
    for index, rule in enumerate(rules):
        here, count, indexes = f"{path}[{index}]", rule.get("succeededCount"), rule.get("succeededIndexes")
        if count is None and indexes is None:
            detail = "at least one of succeededCount or succeededIndexes must be specified"
            errors.append(required(here, detail))
        if indexes is not None:
            problem = index_problem(indexes, completions)
            if problem:
                detail = f"error parsing succeededIndexes: {problem}"
                errors.append(invalid(f"{here}.succeededIndexes", indexes, detail))
        if count is not None:
            nonnegative(errors, f"{here}.succeededCount", count)
            if count > completions:
                detail = f"must be less than or equal to {completions} (the number of specified completions)"
                errors.append(invalid(f"{here}.succeededCount", count, detail))
            total = 0 if indexes is None or index_problem(indexes, completions) else len(indexes_in(indexes))
            if indexes is not None and count > total:
                which = "the number of indexes in the specified succeededIndexes field"
                detail = f"must be less than or equal to {total} ({which})"
                errors.append(invalid(f"{here}.succeededCount", count, detail))


def index_problem(text: str, completions: int) -> str:
    """What is wrong with a list of indexes like `1,3-5`, empty if nothing is."""
    last = -1
    for part in text.split(",") if text else ():
        bounds = part.split("-")
        if len(bounds) > 2:
            rule = "an index interval can have at most two parts separated by '-'"
            return f'the fragment "{part}" violates the requirement that {rule}'
        numbers: list[int] = []
        for bound in bounds:
            if not bound.isascii() or not bound.isdigit():
                return f'cannot convert string to integer for index: "{bound}"'
            if int(bound) >= completions:
                return f'too large index: "{bound}"'
            numbers.append(int(bound))
        if len(numbers) == 2 and numbers[0] >= numbers[1]:
            return f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}"
        if last >= numbers[0]:
            return f"non-increasing order, previous: {last}, current: {numbers[0]}"
        last = numbers[-1]
    return ""


def indexes_in(text: str) -> set[int]:
    """The indexes of a list that has no problem."""
    found: set[int] = set()
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def check_no_selector(errors: Errors, path: str, spec: JsonObject) -> None:
    """In a template of Jobs the selector is left to each Job."""
    if spec.get("selector") is not None:
        errors.append(invalid(f"{path}.selector", spec["selector"], "`selector` will be auto-generated"))
    if spec.get("manualSelector"):
        errors.append(not_supported(f"{path}.manualSelector", True, ("nil", "false")))
