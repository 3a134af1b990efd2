"""The expressions of a schema's rules, compiled when the definition is written.

An expression that does not fit its schema is refused here, with the place in the text; so is one that compares with an
old value that cannot be found again, because it lies in a list whose elements have no identity.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from kohort.cluster.apiserver.cel import CompileError, Program
from kohort.cluster.apiserver.cel.schema_types import schema_type
from kohort.cluster.apiserver.cel.types import Type
from kohort.cluster.apiserver.crd.rules import compile_rule, has_rules
from kohort.cluster.apiserver.schema.node import Node
from kohort.objects import fielderrors
from kohort.objects.fielderrors import FieldError
from kohort.objects.jsontypes import Json, JsonObject

_HTML: Final = {ord("&"): "\\u0026", ord("<"): "\\u003c", ord(">"): "\\u003e"}


def expression_errors(root: Node, path: str, unclear: Sequence[str] = ()) -> list[FieldError]:
    """What is wrong with the expressions of the rules in a schema that stands at `path` of its definition.

    `unclear` are fields with other errors; expressions about something that contains one are not judged.
    """
    return list(_level(root, path, unclear, uncorrelated="", root=True))


def _level(
    node: Node, path: str, unclear: Sequence[str], *, uncorrelated: str, root: bool = False
) -> Iterator[FieldError]:
    source = node.source or {}
    if not has_rules(source):
        return
    additional, items = source.get("additionalProperties"), source.get("items")
    if isinstance(additional, dict):
        yield from _level(node.items, f"{path}.additionalProperties", unclear, uncorrelated=uncorrelated)
    for name in source.get("properties") or {}:
        if not (root and name == "metadata"):
            yield from _level(node.fields[name], f"{path}.properties[{name}]", unclear, uncorrelated=uncorrelated)
    if isinstance(items, dict):
        loses_identity = source.get("x-kubernetes-list-type") != "map"
        lost = uncorrelated or (path if loses_identity else "")
        yield from _level(node.items, f"{path}.items", unclear, uncorrelated=lost)
    entries = source.get("x-kubernetes-validations") or ()
    if entries and not any(field.startswith((f"{path}.", f"{path}[")) for field in unclear):
        type = schema_type(node, root=root)
        for index, entry in enumerate(entries):
            where = f"{path}.x-kubernetes-validations[{index}]"
            yield from _rule_errors(entry, type, where, uncorrelated)


def _rule_errors(entry: JsonObject, type: Type | None, where: str, uncorrelated: str) -> Iterator[FieldError]:
    rule = entry.get("rule") or ""
    if not rule.strip():
        return
    if type is None:
        reason = (
            "internal error: failed to construct type information for x-kubernetes-validations rules: "
            "unable to convert structural schema to CEL declarations"
        )
        yield FieldError(fielderrors.INTERNAL, where.rpartition("[")[0], f"Internal error: {reason}")
        return
    optional_old = bool(entry.get("optionalOldSelf"))
    program = None
    try:
        program = compile_rule(rule, type, optional_old=optional_old)
    except CompileError as error:
        yield _invalid(f"{where}.rule", entry, f"compilation failed: {error}")
    if program is not None and program.result_type.kind != "bool":
        yield _invalid(f"{where}.rule", entry, "cel expression must evaluate to a bool")
        program = None
    if program is not None:
        yield from _message_errors(entry, type, where, optional_old)
    yield from _old_value_errors(entry, program, where, uncorrelated)


def _message_errors(entry: JsonObject, type: Type, where: str, optional_old: bool) -> Iterator[FieldError]:
    expression = entry.get("messageExpression") or ""
    if not expression:
        return
    field = f"{where}.messageExpression"
    try:
        program = compile_rule(expression, type, optional_old=optional_old)
    except CompileError as error:
        yield _invalid(field, entry, f"messageExpression compilation failed: {error}")
        return
    if program.result_type.kind != "string":
        yield _invalid(field, entry, "messageExpression must evaluate to a string")


def _old_value_errors(
    entry: JsonObject, program: Program | None, where: str, uncorrelated: str
) -> Iterator[FieldError]:
    if program is not None and "oldSelf" in program.uses:
        if uncorrelated:
            detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
            yield fielderrors.invalid(f"{where}.rule", entry["rule"], detail)
    elif entry.get("optionalOldSelf") is not None:
        detail = "may not be set if oldSelf is not used in rule"
        yield fielderrors.invalid(f"{where}.optionalOldSelf", bool(entry["optionalOldSelf"]), detail)


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
    return FieldError(fielderrors.INVALID, field, f"Invalid value: {text}: {detail}")
