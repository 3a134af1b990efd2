"""The expressions of a schema's rules, compiled when the definition is written.

An expression that does not fit its schema is refused here, with the place in the text; so is one that compares with an
old value that cannot be found again, because it lies in a list whose elements have no identity.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from kohort.cluster.apiserver.cel import CompileError, Program
from kohort.cluster.apiserver.cel.errors import InstantiationError
from kohort.cluster.apiserver.cel.schema_types import schema_type
from kohort.cluster.apiserver.cel.sizes import ValueExtent
from kohort.cluster.apiserver.cel.types import Type
from kohort.cluster.apiserver.crd.rule_costs import RuleCosts
from kohort.cluster.apiserver.crd.validation_rules import compile_rule
from kohort.cluster.apiserver.schema.has_rules import has_rules
from kohort.cluster.apiserver.schema.node import Node
from kohort.cluster.apiserver.schema.structural import compile_schema
from kohort.objects import field_errors
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import Json, JsonObject

_HTML: Final = {ord("&"): "\\u0026", ord("<"): "\\u003c", ord(">"): "\\u003e"}


def expression_errors(root: Node, path: str, unclear: Sequence[str] = ()) -> list[FieldError]:
    """What is wrong with the expressions of the rules in a schema that stands at `path` of its definition.

    `unclear` are fields with other errors; expressions about something that contains one are not judged.
    """
    costs = RuleCosts()
    found = list(_level(root, path, unclear, costs, _Place(1, ""), root=True))
    return found + costs.total_errors(path)


class _Place(NamedTuple):
    """What the levels above mean for a level."""

    occurrences: int | None
    """How often it can occur in an object; None when nothing limits that."""
    uncorrelated: str
    """The list above whose elements have no identity, if there is one."""


def _level(
    node: Node, path: str, unclear: Sequence[str], costs: RuleCosts, place: _Place, *, root: bool = False
) -> Iterator[FieldError]:
    source = node.source or {}
    if not has_rules(source):
        return
    inside = _Place(_multiplied(place.occurrences, source), place.uncorrelated)
    additional, items = source.get("additionalProperties"), source.get("items")
    if isinstance(additional, dict):
        yield from _level(node.items, f"{path}.additionalProperties", unclear, costs, inside)
    for name in source.get("properties") or {}:
        if not (root and name == "metadata"):
            yield from _level(node.fields[name], f"{path}.properties[{name}]", unclear, costs, inside)
    if isinstance(items, dict):
        if source.get("x-kubernetes-list-type") != "map" and not inside.uncorrelated:
            inside = _Place(inside.occurrences, path)
        yield from _level(node.items, f"{path}.items", unclear, costs, inside)
    entries = source.get("x-kubernetes-validations") or ()
    if entries and not any(field.startswith((f"{path}.", f"{path}[")) for field in unclear):
        type, extent = schema_type(node, root=root), ValueExtent(node, root=root)
        for index, entry in enumerate(entries):
            where = f"{path}.x-kubernetes-validations[{index}]"
            yield from _rule_errors(entry, type, where, place, costs, extent)


def _multiplied(occurrences: int | None, source: JsonObject) -> int | None:
    """How often what is below a level can occur."""
    limit: int | None = 1
    if source.get("type") == "array":
        limit = source.get("maxItems")
    elif source.get("type") == "object" and source.get("additionalProperties") is not None:
        limit = source.get("maxProperties")
    return None if occurrences is None or limit is None else occurrences * max(0, limit)


def _rule_errors(
    entry: JsonObject, type: Type | None, where: str, place: _Place, costs: RuleCosts, extent: ValueExtent
) -> Iterator[FieldError]:
    rule = entry.get("rule") or ""
    if not rule.strip():
        return
    if type is None:
        reason = (
            "internal error: failed to construct type information for x-kubernetes-validations rules: "
            "unable to convert structural schema to CEL declarations"
        )
        yield FieldError(field_errors.INTERNAL, where.rpartition("[")[0], f"Internal error: {reason}")
        return
    optional_old = bool(entry.get("optionalOldSelf"))
    program = None
    try:
        program = compile_rule(rule, type, optional_old=optional_old)
    except InstantiationError as error:
        yield _invalid(f"{where}.rule", entry, f"program instantiation failed: {error}")
    except CompileError as error:
        yield _invalid(f"{where}.rule", entry, f"compilation failed: {error}")
    if program is not None and program.result_type.kind != "bool":
        yield _invalid(f"{where}.rule", entry, "cel expression must evaluate to a bool")
        program = None
    if program is not None:
        yield from costs.rule(f"{where}.rule", program, extent, place.occurrences)
        yield from _message_errors(entry, type, where, optional_old, costs, extent)
    yield from _old_value_errors(entry, program, where, place.uncorrelated)


def _message_errors(
    entry: JsonObject, type: Type, where: str, optional_old: bool, costs: RuleCosts, extent: ValueExtent
) -> Iterator[FieldError]:
    expression = entry.get("messageExpression") or ""
    if not expression:
        return
    field = f"{where}.messageExpression"
    try:
        program = compile_rule(expression, type, optional_old=optional_old)
    except InstantiationError as error:
        yield _invalid(field, entry, f"messageExpression instantiation failed: {error}")
        return
    except CompileError as error:
        yield _invalid(field, entry, f"messageExpression compilation failed: {error}")
        return
    if program.result_type.kind != "string":
        yield _invalid(field, entry, "messageExpression must evaluate to a string")
        return
    yield from costs.message(field, program, extent)


def _old_value_errors(
    entry: JsonObject, program: Program | None, where: str, uncorrelated: str
) -> Iterator[FieldError]:
    if program is not None and "oldSelf" in program.uses:
        if uncorrelated:
            detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
            yield field_errors.invalid(f"{where}.rule", entry["rule"], detail)
    elif entry.get("optionalOldSelf") is not None:
        detail = "may not be set if oldSelf is not used in rule"
        yield field_errors.invalid(f"{where}.optionalOldSelf", bool(entry["optionalOldSelf"]), detail)


def _invalid(field: str, entry: JsonObject, detail: str) -> FieldError:
    """The rule is shown as the API server prints it: all its fields, with its own names for them."""
    shown: Json = {
        "Rule": entry.get("rule") or "",
        "Message": entry.get("message") or "",
        "MessageExpression": entry.get("messageExpression") or "",
        "Reason": entry.get("reason"),
        "FieldPath": entry.get("fieldPath") or "",
        "OptionalOldSelf": entry.get("optionalOldSelf"),
    }
    text = msgspec.json.encode(shown).decode().translate(_HTML)
    return FieldError(field_errors.INVALID, field, f"Invalid value: {text}: {detail}")


def default_rule_errors(schema: JsonObject, path: str) -> Iterator[FieldError]:
    """Defaults that break the rules of the schema they stand in."""
    if schema.get("default") is not None:
        from kohort.cluster.apiserver.crd.field_paths import ROOT
        from kohort.cluster.apiserver.crd.validation_rules import validate_rules

        for error in validate_rules(schema["default"], None, compile_schema(schema)):
            below = "" if error.field == ROOT else error.field
            dot = "." if below and below[0] != "[" else ""
            yield msgspec.structs.replace(error, field=f"{path}.default{dot}{below}")
    if isinstance(schema.get("items"), dict):
        yield from default_rule_errors(schema["items"], f"{path}.items")
    for name, inner in (schema.get("properties") or {}).items():
        yield from default_rule_errors(inner, f"{path}.properties[{name}]")
