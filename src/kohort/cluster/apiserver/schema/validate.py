"""Values of custom resources, checked against the constraints of their schema.

The wording, the paths and even the odd corners are those of Kubernetes, because tools match on them:

- a type error shows the type of what was found, not its value;
- errors about alternatives and number formats have no field (`<nil>`);
- when none of several alternatives fits, the errors of the best fitting one are added, which is the one with most
  successful checks; `Findings.matches` exists only for that.

On updates, a subtree that did not change is not held against the user: schemas may become stricter while invalid
objects exist (`old`). Items of a list can be identified only when the list is a map.

A node's constraints are compiled once into a `_Validator` which hangs on the node. Most values are scalars that are
fine: for them a `quick` test decides before anything else is set up.
"""

from collections.abc import Callable, Iterator
from typing import Final

from kohort.cluster.apiserver.schema.builtin import OBJECT_META, type_node
from kohort.cluster.apiserver.schema.constraints import (
    INT32,
    INT64,
    NOWHERE,
    Check,
    Path,
    ValidationResult,
    checks_of,
    enum_check,
    text_test,
    wrong_type,
)
from kohort.cluster.apiserver.schema.list_uniqueness import shape_errors
from kohort.cluster.apiserver.schema.node import Node
from kohort.cluster.apiserver.schema.structural import compile_schema
from kohort.objects import field_errors
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import Json, JsonObject, identical


class _Unset:
    """The old value where there is none to compare with."""


_UNSET: Final = _Unset()
_ROOT: Final = Path(None, "")


def validate(obj: JsonObject, node: Node, *, old: JsonObject | None = None) -> list[FieldError]:
    """What is wrong with an object: values, then embedded resources, then lists that must not repeat themselves.

    `old` is the stored object of an update; errors in unchanged parts are then forgiven.
    """
    findings = ValidationResult()
    _validator(node).run(obj, _ROOT, _UNSET if old is None else old, findings)
    return findings.errors + shape_errors(obj, node)


def validate_default(value: Json, node: Node, field: str) -> list[FieldError]:
    """What is wrong with the default of a schema, reported below `field`."""
    return validate_part(value, node, field)


def validate_part(value: Json, node: Node, field: str, *, old: Json = None) -> list[FieldError]:
    """What is wrong with the values of a part of an object, reported below `field`; texts name places in the part."""
    findings = ValidationResult()
    _validator(node).run(value, _ROOT, _UNSET if old is None else old, findings)
    return [FieldError(error.reason, _below(field, error.field), error.message) for error in findings.errors]


def _below(base: str, field: str) -> str:
    return base if field in ("", NOWHERE) else f"{base}.{field}"


class _Validator:
    __slots__ = (
        "checks",
        "children",
        "container",
        "every",
        "format",
        "items",
        "node",
        "quick",
        "quick_matches",
        "required",
        "types",
    )

    def __init__(self, node: Node) -> None:
        self.node = node
        self.types = _types(node)
        self.format = node.format if node.format != "int-or-string" else ""
        self.required: tuple[str, ...] = tuple((node.source or {}).get("required") or node.required)
        self.checks: list[Check] = [*_combinators(node), *checks_of(node, self.types)]
        self.children: dict[str, _Validator | None] = {}
        self.every = _validator(node.items) if node.type == "map" else None
        self.items = node.items if node.type == "array" or "items" in (node.source or {}) else None
        self.container = {"object": dict, "map": dict, "array": list}.get(node.type)
        """The type of most values of this node, when they are not scalars."""
        self.quick = _quick_test(node, self.checks)
        self.quick_matches = 4 if node.type in ("integer", "number") else 3

    def run(self, value: Json, path: Path, old: Json | _Unset, findings: ValidationResult) -> None:
        before = len(findings.errors)
        self._run(value, path, old, findings)
        if len(findings.errors) > before and not isinstance(old, _Unset) and identical(value, old):
            del findings.errors[before:]

    def _run(self, value: Json, path: Path, old: Json | _Unset, findings: ValidationResult) -> None:
        if type(value) is self.container:
            findings.matches += 2
        elif self.types or self.format:
            self._check_type(value, path, findings)
        if value is None:
            if self.node.constraints.get("enum"):
                enum_check(self.node.constraints["enum"])(value, path, findings)
            return
        for check in self.checks:
            check(value, path, findings)
        if type(value) is dict:
            self._run_object(value, path, old, findings)
        elif type(value) is list and self.items is not None:
            self._run_list(value, path, old, findings)
        findings.matches += 1

    def _run_object(self, obj: JsonObject, path: Path, old: Json | _Unset, findings: ValidationResult) -> None:
        children = self.children
        previous = old if type(old) is dict else None
        for name, value in obj.items():
            child = children[name] if name in children else self._child(name)
            if child is None:
                continue
            if child.quick is not None and child.quick(value):
                findings.matches += child.quick_matches
                continue
            before = previous.get(name, _UNSET) if previous is not None else _UNSET
            child.run(value, Path(path, f".{name}"), before, findings)
        for name in self.required:
            if name not in obj:
                findings.errors.append(field_errors.required(str(Path(path, f".{name}"))))

    def _child(self, name: str) -> "_Validator | None":
        """The validator of a field, compiled when it first occurs. Keys of maps are not remembered: there is no end
        of them."""
        field = self.node.fields.get(name)
        if field is None:
            return self.every
        found = _validator(field) if _is_checked(self.node, name, field) else None
        self.children[name] = found
        return found

    def _run_list(self, items: list[Json], path: Path, old: Json | _Unset, findings: ValidationResult) -> None:
        assert self.items is not None
        validator = _validator(self.items)
        quick = validator.quick
        previous = _by_keys(old, self.node) if type(old) is list and self.node.list_type == "map" else {}
        for index, item in enumerate(items):
            if quick is not None and quick(item):
                findings.matches += validator.quick_matches
                continue
            before = previous.get(_keys_of(item, self.node), _UNSET) if previous else _UNSET
            validator.run(item, Path(path, f"[{index}]"), before, findings)

    def _check_type(self, value: Json, path: Path, findings: ValidationResult) -> None:
        findings.matches += 1
        found = json_type(value)
        if value is None:
            if self.types and not self.node.nullable:
                findings.errors.append(wrong_type(path, ",".join(self.types), found))
            else:
                findings.matches += 1
        elif found in self.types or (found == "integer" and "number" in self.types):
            findings.matches += 1
        elif self.types and not (found == "string" and self.format and not _NUMERIC & set(self.types)):
            findings.errors.append(self._wrong_type(path, found))

    def _wrong_type(self, path: Path, found: str) -> FieldError:
        """With a format, some mismatches are reported in terms of formats."""
        if self.format and found == "number" and "integer" in self.types:
            return wrong_type(path, self.format, "float64")
        if self.format and found in ("boolean", "object"):
            return wrong_type(path, self.format, "")
        return wrong_type(path, ",".join(self.types), found)


_NUMERIC: Final = frozenset({"integer", "number"})


def _validator(node: Node) -> _Validator:
    if node.validator is None:
        node.validator = _Validator(node)
    assert isinstance(node.validator, _Validator)
    return node.validator


def _types(node: Node) -> tuple[str, ...]:
    if node.format == "int-or-string":
        return ("integer", "string")
    if node.type == "any":
        return ()
    return ("object",) if node.type == "map" else (node.type,)


_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_COMBINED: Final = frozenset({"allOf", "anyOf", "oneOf", "not"})
_ABOUT_NUMBERS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "enum"})


def _quick_test(node: Node, checks: list[Check]) -> Callable[[Json], bool] | None:
    """A test that is true only for values that are fine, for the simple scalars that objects mostly consist of."""
    limits = node.constraints
    if node.format == "int-or-string":
        return _quick_int_or_string(node)
    if limits.keys() & _COMBINED:
        return None
    if node.type == "boolean" and not checks:
        return lambda value: type(value) is bool
    if node.type == "string" and not checks:
        return lambda value: type(value) is str
    if node.type == "string":
        fits = text_test(node)
        return lambda value: type(value) is str and fits(value)
    if node.type == "integer" and limits.keys() <= {"minimum", "maximum"} and node.format in ("", "int32", "int64"):
        bound = INT32 if node.format == "int32" else INT64
        lowest, highest = max(limits.get("minimum", -bound), -bound), min(limits.get("maximum", bound - 1), bound - 1)
        return lambda value: type(value) is int and lowest <= value <= highest
    if node.type == "any" and not node.format and not checks and not node.fields and not node.required:
        return lambda value: value is not None
    return None


def _quick_int_or_string(node: Node) -> Callable[[Json], bool] | None:
    """The alternatives of int-or-string fields say what their type says already."""
    limits = node.constraints
    if limits.keys() & (_COMBINED - {"anyOf"}) or limits.get("anyOf", _INT_OR_STRING) != _INT_OR_STRING:
        return None
    fits = text_test(node)
    whole = not limits.keys() & _ABOUT_NUMBERS
    return lambda value: fits(value) if type(value) is str else whole and type(value) is int and abs(value) < INT64


def json_type(value: Json) -> str:
    """The OpenAPI type of a value. Integers that need more than 64 bits were floats on the wire."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer" if -INT64 <= value < INT64 else "number"
        case float():
            return "number"
        case list():
            return "array"
    return "object"


def _is_checked(node: Node, name: str, field: Node) -> bool:
    """Whether a field needs a look: of a resource's metadata only what the schema restricts does."""
    if node.name == OBJECT_META:
        return type_node(OBJECT_META).fields.get(name) is not field
    return field is not type_node(OBJECT_META)


def _keys_of(item: Json, node: Node) -> tuple[Json, ...] | None:
    if type(item) is not dict:
        return None
    keys = tuple(item.get(key) for key in node.list_keys)
    return None if any(type(key) in (dict, list) for key in keys) else keys


def _by_keys(items: list[Json], node: Node) -> dict[tuple[Json, ...] | None, Json]:
    return {keys: item for item in items if (keys := _keys_of(item, node)) is not None}


def _combinators(node: Node) -> Iterator[Check]:
    constraints = node.constraints
    if not constraints.keys() & {"allOf", "anyOf", "oneOf", "not"}:
        return
    if constraints.get("anyOf"):
        yield _any_of([compile_schema(schema) for schema in constraints["anyOf"]])
    if constraints.get("oneOf"):
        yield _one_of([compile_schema(schema) for schema in constraints["oneOf"]])
    if constraints.get("allOf"):
        yield _all_of([compile_schema(schema) for schema in constraints["allOf"]])
    if constraints.get("not") is not None:
        yield _not(compile_schema(constraints["not"]))


def _try(node: Node, value: Json, path: Path) -> ValidationResult:
    findings = ValidationResult()
    _validator(node).run(value, path, _UNSET, findings)
    return findings


def _best(failures: list[ValidationResult]) -> ValidationResult:
    return max(failures, key=lambda findings: findings.matches)


def _any_of(alternatives: list[Node]) -> Check:
    def check(value: Json, path: Path, findings: ValidationResult) -> None:
        failures = []
        for alternative in alternatives:
            attempt = _try(alternative, value, path)
            if not attempt.errors:
                findings.merge(attempt)
                return
            failures.append(attempt)
        findings.nowhere(f'"{path}" must validate at least one schema (anyOf)')
        findings.merge(_best(failures))

    return check


def _one_of(alternatives: list[Node]) -> Check:
    def check(value: Json, path: Path, findings: ValidationResult) -> None:
        attempts = [_try(alternative, value, path) for alternative in alternatives]
        good = [attempt for attempt in attempts if not attempt.errors]
        if len(good) == 1:
            findings.merge(good[0])
            return
        found = f"Found {len(good)} valid alternatives" if good else "Found none valid"
        findings.nowhere(f'"{path}" must validate one and only one schema (oneOf). {found}')
        if not good:
            findings.merge(_best(attempts))

    return check


def _all_of(parts: list[Node]) -> Check:
    def check(value: Json, path: Path, findings: ValidationResult) -> None:
        failed = 0
        for part in parts:
            attempt = _try(part, value, path)
            failed += bool(attempt.errors)
            findings.merge(attempt)
        if failed:
            none = ". None validated" if failed == len(parts) else ""
            findings.nowhere(f'"{path}" must validate all the schemas (allOf){none}')

    return check


def _not(excluded: Node) -> Check:
    def check(value: Json, path: Path, findings: ValidationResult) -> None:
        if not _try(excluded, value, path).errors:
            findings.nowhere(f'"{path}" must not validate the schema (not)')

    return check
