"""How objects of a custom kind are written.

Everything that a built-in kind has in code comes from the definition here: defaults, constraints, rules. Rules only run
on objects of the right shape, because an expression over a value of the wrong type could say nothing sensible.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kohort.cluster.apiserver.crd.json_path import values_at
from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.schema.defaults import apply_defaults
from kohort.cluster.apiserver.schema.has_rules import has_rules
from kohort.cluster.apiserver.schema.list_uniqueness import list_errors
from kohort.cluster.apiserver.schema.node import Node
from kohort.cluster.apiserver.schema.validate import validate, validate_part
from kohort.kube.resources import Resource
from kohort.objects import field_errors
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import Json, JsonObject, identical
from kohort.objects.names import qualified_name

if TYPE_CHECKING:
    from kohort.cluster.apiserver.crd.validation_rules import RuleTree

_BLOCKING: Final = frozenset(
    {
        field_errors.NOT_SUPPORTED,
        field_errors.REQUIRED,
        field_errors.TOO_LONG,
        field_errors.TOO_MANY,
        field_errors.TYPE_INVALID,
    }
)
"""Errors after which rules are not run."""

_UNCHECKED: Final = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_MAX_INT32: Final = 2**31 - 1
_STANDARD_FINALIZERS: Final = frozenset({"orphan", "foregroundDeletion", "kubernetes"})


class CustomResourceStrategy(Strategy):
    unconditional_update = False

    def __init__(
        self, resource: Resource, schema: Callable[[], Node], *, has_status: bool, scale: JsonObject | None
    ) -> None:
        self.has_status = has_status
        self._resource = resource
        self._schema = schema
        self._scale = scale or {}
        self._rules: RuleTree | bool | None = False

    @property
    def rules(self) -> "RuleTree | None":
        if isinstance(self._rules, bool):
            self._rules = self._compiled_rules()
        return self._rules

    def _compiled_rules(self) -> "RuleTree | None":
        """The expression language is imported for definitions that have rules only."""
        node = self._schema()
        if node.source is None or not has_rules(node.source):
            return None
        from kohort.cluster.apiserver.crd.validation_rules import rule_tree

        return rule_tree(node)

    def default(self, obj: JsonObject) -> None:
        apply_defaults(obj, self._schema())

    def generation_moves(self, obj: JsonObject, old: JsonObject) -> bool:
        return not identical(_content(obj), _content(old))

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        wrong_type = self._type_errors(obj)
        if wrong_type:
            return wrong_type
        found = validate(obj, self._schema()) + self._scale_spec(obj) + self._scale_status(obj)
        return found + self._broken_rules(context, obj, None, found)

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        wrong_type = self._type_errors(obj)
        if wrong_type:
            return wrong_type
        found = self._shape_errors(obj, old) + self._scale_spec(obj) + self._scale_status(obj)
        return found + self._broken_rules(context, obj, old, found)

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        wrong_type = self._type_errors(obj)
        if wrong_type:
            return wrong_type
        found = self._status_errors(obj, old) + self._scale_status(obj)
        return found + self._broken_rules(context, obj, old, found)

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        before = (old or {}).get("metadata", {}).get("finalizers") or ()
        added = set(obj["metadata"].get("finalizers") or ()) - set(before)
        return [warning for name in sorted(added) for warning in _finalizer_warnings(name)]

    def _type_errors(self, obj: JsonObject) -> list[FieldError]:
        expected = {"kind": self._resource.kind, "apiVersion": self._resource.api_version}
        return [
            field_errors.invalid(key, obj.get(key) or "", f"must be {value}")
            for key, value in expected.items()
            if obj.get(key) != value
        ]

    def _shape_errors(self, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        node = self._schema()
        found = validate(obj, node, old=old)
        if any(error.reason == field_errors.DUPLICATE for error in found) and list_errors(old, node, ""):
            # A list that repeated itself before the update may go on doing so.
            return [error for error in found if error.reason != field_errors.DUPLICATE]
        return found

    def _status_errors(self, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        node = self._schema()
        status = node.fields.get("status")
        found: list[FieldError] = []
        if "status" in obj and status is not None:
            found += validate_part(obj["status"], status, "status", old=old.get("status"))
        if not list_errors(old, node, ""):
            found += list_errors(obj, node, "")
        return found

    def _broken_rules(
        self, context: WriteContext, obj: JsonObject, old: JsonObject | None, found: list[FieldError]
    ) -> list[FieldError]:
        tree = self.rules
        if tree is None:
            return []
        if any(error.reason in _BLOCKING for error in found):
            return [FieldError(field_errors.INVALID, "<nil>", f"Invalid value: null: {_UNCHECKED}")]
        from kohort.cluster.apiserver.crd.validation_rules import validate_rules

        return validate_rules(obj, old, tree, warnings=context.warnings)

    def _scale_spec(self, obj: JsonObject) -> list[FieldError]:
        return _count_errors(obj, self._scale.get("specReplicasPath") or "")

    def _scale_status(self, obj: JsonObject) -> list[FieldError]:
        selector_path = self._scale.get("labelSelectorPath") or ""
        found = _count_errors(obj, self._scale.get("statusReplicasPath") or "")
        if selector_path:
            selector, problem = _lookup(obj, selector_path, str, "string")
            if problem:
                found.append(field_errors.invalid(selector_path, selector or "", problem))
        return found


def _content(obj: JsonObject) -> JsonObject:
    return {key: value for key, value in obj.items() if key != "metadata"}


def _count_errors(obj: JsonObject, path: str) -> list[FieldError]:
    if not path:
        return []
    count, problem = _lookup(obj, path, int, "int64")
    if problem:
        return [field_errors.invalid(path, 0, problem)]
    if count is None:
        return []
    if count < 0:
        return [field_errors.invalid(path, count, "should be a non-negative integer")]
    if count > _MAX_INT32:
        return [field_errors.invalid(path, count, f"should be less than or equal to {_MAX_INT32}")]
    return []


def _lookup(obj: JsonObject, path: str, expected: type, shown: str) -> tuple[Json, str]:
    """The value below a path and what is wrong with it; None and nothing when there is none."""
    value: Json = obj
    names = values_at(path)
    for depth, name in enumerate(names):
        if not isinstance(value, dict):
            if value is None:
                return None, ""
            where = "." + ".".join(names[:depth])
            return None, _accessor_error(where, value, "map[string]interface{}")
        if name not in value:
            return None, ""
        value = value[name]
    if isinstance(value, expected) and not (expected is int and isinstance(value, bool)):
        return value, ""
    where = "." + ".".join(names)
    return None, _accessor_error(where, value, shown)


def _accessor_error(where: str, value: Json, expected: str) -> str:
    return f"{where} accessor error: {_go_value(value)} is of the type {_go_type(value)}, expected {expected}"


def _go_type(value: Json) -> str:
    if value is None:
        return "<nil>"
    names = {bool: "bool", int: "int64", float: "float64", str: "string", list: "[]interface {}"}
    return names.get(type(value), "map[string]interface {}")


def _go_value(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)


def _finalizer_warnings(name: str) -> list[str]:
    path = "metadata.finalizers"
    found = [f'{path}: "{name}": {problem}' for problem in qualified_name(name)]
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        including = " including a path (/)" if "." in name else ""
        found.append(
            f'{path}: "{name}": prefer a domain-qualified finalizer name{including} '
            "to avoid accidental conflicts with other finalizer writers"
        )
    return found
