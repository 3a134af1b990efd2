"""Validation of the expressions in webhook configurations and admission policies when they are written."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kohort.cluster.apiserver.cel import CompileError, Environment
from kohort.cluster.apiserver.cel.admission_environments import condition_environment, policy_environment
from kohort.cluster.apiserver.cel.errors import InstantiationError
from kohort.cluster.apiserver.cel.parser import RESERVED
from kohort.cluster.apiserver.cel.types import DYN, Type
from kohort.objects.field_errors import INTERNAL, FieldError, duplicate, invalid, not_supported, required
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1035_label, dns1123_subdomain, qualified_name

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS: Final = RESERVED | {"true", "false", "null", "in"}
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_MUTATIONS: Final = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
_FULL_NAMES: Final = {
    "null": "null_type",
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
}


def webhook_condition_errors(conditions: Sequence[JsonObject], path: str) -> Iterator[FieldError]:
    """The match conditions of a webhook."""
    yield from _conditions(conditions, path, condition_environment())


def policy_errors(name: str, spec: JsonObject, *, mutating: bool) -> Iterator[FieldError]:
    """Parameters, conditions, variables and the heart of a policy."""
    kind = spec.get("paramKind")
    if kind is not None:
        yield from _param_kind_errors(kind)
    params, variables = kind is not None, spec.get("variables") or ()
    conditions = policy_environment({}, params=params, variables_visible=False, mutating=mutating)
    yield from _conditions(spec.get("matchConditions") or (), "spec.matchConditions", conditions)
    known: dict[str, Type] = {}
    for index, variable in enumerate(variables):
        environment = policy_environment(known, params=params, mutating=mutating)
        yield from _variable_errors(variable, f"spec.variables[{index}]", environment, known)
    visible = bool(variables)
    environment = policy_environment(known, params=params, mutating=mutating, variables_visible=visible)
    if mutating:
        yield from _mutation_errors(spec.get("mutations") or (), environment)
        return
    messages = policy_environment(known, params=params, authorizer=False, variables_visible=visible)
    yield from _validation_errors(spec, environment, messages)
    yield from _annotation_errors(name, spec.get("auditAnnotations") or (), messages)


def _compiled(
    source: str, path: str, environment: Environment, fits: Callable[[Type], bool], wanted: str
) -> Iterator[FieldError]:
    try:
        type = environment.compile(source).result_type
    except CompileError as error:
        yield _uncompiled(path, source, error)
        return
    if not fits(type):
        yield invalid(path, source, f"must evaluate to {wanted} but got {_FULL_NAMES.get(type.kind, type)}")


def _uncompiled(path: str, source: str, error: CompileError) -> FieldError:
    if isinstance(error, InstantiationError):
        return FieldError(INTERNAL, path, f"Internal error: program instantiation failed: {error}")
    return invalid(path, source, f"compilation failed: {error}")


def _is_bool(type: Type) -> bool:
    return type.kind == "bool"


def _is_string(type: Type) -> bool:
    return type.kind == "string"


def _conditions(conditions: Sequence[JsonObject], path: str, environment: Environment) -> Iterator[FieldError]:
    for index, condition in enumerate(conditions):
        source = condition.get("expression") or ""
        if source.strip():
            yield from _compiled(source, f"{path}[{index}].expression", environment, _is_bool, "bool")


def _param_kind_errors(kind: JsonObject) -> Iterator[FieldError]:
    api_version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    if not api_version:
        yield required("spec.paramKind.apiVersion")
    elif api_version.count("/") > 1:
        yield invalid("spec.paramKind.apiVersion", api_version, f"unexpected GroupVersion string: {api_version}")
    else:
        group, _, version = api_version.rpartition("/")
        if group and (problems := dns1123_subdomain(group)):
            yield invalid("spec.paramKind.apiVersion", group, ",".join(problems))
        if not version:
            yield invalid("spec.paramKind.apiVersion", api_version, "version must be specified")
        elif problems := dns1035_label(version):
            yield invalid("spec.paramKind.apiVersion", version, ",".join(problems))
    if not name:
        yield required("spec.paramKind.kind")
    elif problems := dns1035_label(name.lower()):
        detail = "may have mixed case, but should otherwise match: " + ",".join(problems)
        yield invalid("spec.paramKind.kind", name, detail)


def _variable_errors(
    variable: JsonObject, path: str, environment: Environment, known: dict[str, Type]
) -> Iterator[FieldError]:
    name, source = variable.get("name") or "", variable.get("expression") or ""
    if not name.strip():
        yield required(f"{path}.name", "name is not specified")
    elif not _IDENTIFIER.fullmatch(name) or name in _WORDS:
        yield invalid(f"{path}.name", name, "must be a valid CEL identifier")
    if not source.strip():
        yield required(f"{path}.expression", "expression is not specified")
        return
    try:
        known[name] = environment.compile(source).result_type
    except CompileError as error:
        known[name] = DYN
        yield _uncompiled(f"{path}.expression", source, error)


def _validation_errors(spec: JsonObject, environment: Environment, messages: Environment) -> Iterator[FieldError]:
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        detail = "validations or auditAnnotations must contain at least one item"
        yield required("spec.validations", detail)
        yield required("spec.auditAnnotations", detail)
    for index, validation in enumerate(validations):
        path = f"spec.validations[{index}]"
        source = validation.get("expression") or ""
        if source.strip():
            yield from _compiled(source, f"{path}.expression", environment, _is_bool, "bool")
        else:
            yield required(f"{path}.expression", "expression is not specified")
        yield from _message_errors(validation, path, messages)
        reason = validation.get("reason")
        if reason is not None and reason not in _REASONS:
            yield not_supported(f"{path}.reason", reason, _REASONS)


def _message_errors(validation: JsonObject, path: str, messages: Environment) -> Iterator[FieldError]:
    source, message = validation.get("messageExpression") or "", validation.get("message") or ""
    empty = "must be non-empty if specified"
    if source and not source.strip():
        yield invalid(f"{path}.messageExpression", source, empty)
    elif source:
        yield from _compiled(source, f"{path}.messageExpression", messages, _is_string, "string")
    if message and not message.strip():
        yield invalid(f"{path}.message", message, empty)
    elif re.search(r"[\n\r]", message.strip()):
        yield invalid(f"{path}.message", message, "must not contain line breaks")


def _annotation_errors(
    policy: str, annotations: Sequence[JsonObject], environment: Environment
) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, annotation in enumerate(annotations):
        path = f"spec.auditAnnotations[{index}]"
        key, source = annotation.get("key") or "", annotation.get("valueExpression") or ""
        yield from (invalid(f"{path}.key", f"{policy}/{key}", text) for text in qualified_name(f"{policy}/{key}"))
        if not source.strip():
            yield required(f"{path}.valueExpression", "valueExpression is not specified")
        else:
            wanted = "one of [string null_type]"
            yield from _compiled(source, f"{path}.valueExpression", environment, _is_text_or_null, wanted)
        if key in seen:
            yield duplicate(f"{path}.key", key)
        seen.add(key)


def _is_text_or_null(type: Type) -> bool:
    return type.kind in ("string", "null")


def _mutation_errors(mutations: Sequence[JsonObject], environment: Environment) -> Iterator[FieldError]:
    if not mutations:
        yield required("spec.mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(mutations):
        path, kind = f"spec.mutations[{index}]", mutation.get("patchType") or ""
        if not kind:
            yield required(f"{path}.patchType")
            continue
        if kind not in _MUTATIONS:
            yield not_supported(f"{path}.patchType", kind, tuple(_MUTATIONS))
            continue
        own = _MUTATIONS[kind]
        other = next(field for field in _MUTATIONS.values() if field != own)
        if mutation.get(own) is None:
            yield required(f"{path}.{own}", f"must be specified when patchType is {kind}")
        elif not (mutation[own].get("expression") or "").strip():
            yield required(f"{path}.{own}.expression")
        else:
            fits, wanted = (_is_patch, "list(JSONPatch)") if kind == "JSONPatch" else (_is_configuration, "Object")
            yield from _compiled(mutation[own]["expression"], f"{path}.{own}.expression", environment, fits, wanted)
        if mutation.get(other) is not None:
            detail = f"must not be specified when patchType is {kind}"
            yield invalid(f"{path}.{other}", f"{{{other}}}", detail)


def _is_patch(type: Type) -> bool:
    return type.kind == "list" and type.params[0].name == "JSONPatch"


def _is_configuration(type: Type) -> bool:
    return type.kind == "object" and type.name == "Object"
