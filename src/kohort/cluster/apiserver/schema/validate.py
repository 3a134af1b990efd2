"""Values of custom resources, checked against the constraints of their schema.

The wording, the paths and even the odd corners are those of Kubernetes, because tools match on them:

- a type error shows the type of what was found, not its value;
- errors about alternatives and number formats have no field (`<nil>`);
- when none of several alternatives fits, the errors of the best fitting one are added, which is the one with most
  successful checks; a few counters below exist only for that.

On updates, a subtree that did not change is not held against the user: schemas may become stricter while invalid
objects exist (`old`). Items of a list can be told apart only when the list is a map.

A node's constraints are compiled once into a `_Validator` which hangs on the node.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from kohort.cluster.apiserver.schema import formats
from kohort.cluster.apiserver.schema.builtin import OBJECT_META, type_node
from kohort.cluster.apiserver.schema.gonumber import as_go_prints
from kohort.cluster.apiserver.schema.node import Node
from kohort.cluster.apiserver.schema.uniqueness import embedded_errors, list_errors
from kohort.objects import fielderrors
from kohort.objects.fielderrors import FieldError
from kohort.objects.jsontypes import Json, JsonObject

NOWHERE: Final = "<nil>"
"""The field of errors that have none."""

_INT64: Final = 2**63
_INT32: Final = 2**31
_MAX_FLOAT: Final = 3.4028234663852886e38


class _Unset:
    """The old value where there is none to compare with."""


_UNSET: Final = _Unset()


def validate(obj: JsonObject, node: Node, *, old: JsonObject | None = None) -> list[FieldError]:
    """What is wrong with an object: values, then embedded resources, then lists that must not repeat themselves.

    `old` is the stored object of an update; errors in unchanged parts are then forgiven.
    """
    findings = _Findings()
    _validator(node).run(obj, "", _UNSET if old is None else old, findings)
    errors = [_field_error(path, error, "") for path, error in findings.errors]
    return errors + embedded_errors(obj, node, "") + list_errors(obj, node, "")


def validate_default(value: Json, node: Node, field: str) -> list[FieldError]:
    """What is wrong with the default of a schema, reported below `field`."""
    findings = _Findings()
    _validator(node).run(value, "", _UNSET, findings)
    return [_field_error(path, error, field) for path, error in findings.errors]


def _field_error(path: str, error: FieldError, base: str) -> FieldError:
    if error.field == NOWHERE:
        return FieldError(error.reason, base or NOWHERE, error.message)
    if base:
        return FieldError(error.reason, f"{base}.{path}" if path else base, error.message)
    return error


class _Findings:
    """Errors with their relative paths, and how many checks were made: the measure of how well a schema fits."""

    __slots__ = ("errors", "matches")

    def __init__(self) -> None:
        self.errors: list[tuple[str, FieldError]] = []
        self.matches = 0

    def add(self, path: str, error: FieldError) -> None:
        self.errors.append((path, error))

    def nowhere(self, message: str) -> None:
        self.errors.append(("", FieldError(fielderrors.INVALID, NOWHERE, f'Invalid value: "": {message}')))

    def merge(self, other: "_Findings") -> None:
        self.errors += other.errors
        self.matches += other.matches


_Run = Callable[[Json, str, _Findings], None]


class _Validator:
    __slots__ = ("checks", "every", "fields", "format", "items", "node", "required", "types")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.types = _types(node)
        self.format = node.format if node.format != "int-or-string" else ""
        self.required = list((node.source or {}).get("required") or node.required)
        self.checks = list(_checks(node, self.types))
        self.fields = dict(_checked_fields(node))
        self.every = node.items if node.type == "map" else None
        self.items = node.items if node.type == "array" or "items" in (node.source or {}) else None

    def run(self, value: Json, path: str, old: Json | _Unset, findings: _Findings) -> None:
        before = len(findings.errors)
        self._run(value, path, old, findings)
        if len(findings.errors) > before and not isinstance(old, _Unset) and _same(value, old):
            del findings.errors[before:]

    def _run(self, value: Json, path: str, old: Json | _Unset, findings: _Findings) -> None:
        if self.types or self.format:
            self._check_type(value, path, findings)
        if value is None:
            _check_enum(self.node, value, path, findings)
            return
        for check in self.checks:
            check(value, path, findings)
        if type(value) is dict:
            self._run_object(value, path, old, findings)
        elif type(value) is list and self.items is not None:
            self._run_list(value, path, old, findings)
        findings.matches += 1

    def _run_object(self, obj: JsonObject, path: str, old: Json | _Unset, findings: _Findings) -> None:
        prefix = f"{path}." if path else ""
        previous = old if type(old) is dict else {}
        for name, value in obj.items():
            child = self.fields.get(name, self.every)
            if child is not None:
                before = previous.get(name, _UNSET)
                _validator(child).run(value, prefix + name, before, findings)
        for name in self.required:
            if name not in obj:
                findings.add(prefix + name, fielderrors.required(prefix + name))

    def _run_list(self, items: list[Json], path: str, old: Json | _Unset, findings: _Findings) -> None:
        assert self.items is not None
        validator = _validator(self.items)
        if not validator.does_something():
            return
        previous = _by_keys(old, self.node) if type(old) is list and self.node.list_type == "map" else {}
        for index, item in enumerate(items):
            before = previous.get(_keys_of(item, self.node), _UNSET) if previous else _UNSET
            validator.run(item, f"{path}[{index}]", before, findings)

    def does_something(self) -> bool:
        return bool(self.types or self.checks or self.fields or self.required or self.every or self.items)

    def _check_type(self, value: Json, path: str, findings: _Findings) -> None:
        findings.matches += 1
        found = json_type(value)
        if value is None:
            if self.types and not self.node.nullable:
                findings.add(path, _wrong_type(path, ",".join(self.types), found))
            else:
                findings.matches += 1
            return
        if found in self.types or (found == "integer" and "number" in self.types):
            findings.matches += 1
            return
        if found == "string" and self.format and not {"integer", "number"} & set(self.types):
            return
        if not self.types:
            return
        if self.format and found == "number" and "integer" in self.types:
            findings.add(path, _wrong_type(path, self.format, "float64"))
        elif self.format and found in ("boolean", "object"):
            findings.add(path, _wrong_type(path, self.format, ""))
        else:
            findings.add(path, _wrong_type(path, ",".join(self.types), found))


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
            return "integer" if -_INT64 <= value < _INT64 else "number"
        case float():
            return "number"
        case list():
            return "array"
    return "object"


def _wrong_type(path: str, expected: str, found: str) -> FieldError:
    return fielderrors.type_invalid(path, found, f'{path} in body must be of type {expected}: "{found}"')


def _checked_fields(node: Node) -> Iterator[tuple[str, Node]]:
    """The fields that need a look: all of a custom resource, of its metadata only those that the schema restricts."""
    for name, field in node.fields.items():
        if node.name == OBJECT_META:
            if type_node(OBJECT_META).fields.get(name) is not field:
                yield name, field
        elif field is not type_node(OBJECT_META):
            yield name, field


def _same(value: Json, old: Json) -> bool:
    return type(value) is type(old) and bool(value == old)


def _keys_of(item: Json, node: Node) -> tuple[Json, ...] | None:
    if type(item) is not dict:
        return None
    keys = tuple(item.get(key) for key in node.list_keys)
    return None if any(type(key) in (dict, list) for key in keys) else keys


def _by_keys(items: list[Json], node: Node) -> dict[tuple[Json, ...] | None, Json]:
    return {keys: item for item in items if (keys := _keys_of(item, node)) is not None}


def _checks(node: Node, types: tuple[str, ...]) -> Iterator[_Run]:
    """The checks of a node's own constraints, in the order in which Kubernetes reports them."""
    constraints = node.constraints
    if constraints.keys() & {"allOf", "anyOf", "oneOf", "not"}:
        yield from _combinators(node)
    if constraints.keys() & {"maxLength", "minLength", "pattern"}:
        yield _string_check(constraints)
    known = formats.check_for(node.format) if node.format and node.format != "int-or-string" else None
    if known is not None:
        yield _format_check(node.format, known)
    if constraints.keys() & {"multipleOf", "minimum", "maximum"} or {"integer", "number"} & set(types):
        yield _number_check(node, types)
    if constraints.keys() & {"minItems", "maxItems"}:
        yield _list_check(constraints)
    if "enum" in constraints:
        yield lambda value, path, findings: _check_enum(node, value, path, findings)
    if constraints.keys() & {"minProperties", "maxProperties"}:
        yield _object_check(constraints)


def _string_check(constraints: Mapping[str, Json]) -> _Run:
    longest, shortest = constraints.get("maxLength"), constraints.get("minLength")
    pattern = constraints.get("pattern") or ""
    matches = _searcher(pattern) if pattern else None

    def check(value: Json, path: str, findings: _Findings) -> None:
        if type(value) is not str:
            return
        if longest is not None and len(value) > longest:
            findings.add(path, fielderrors.too_long(path, longest))
        elif shortest is not None and len(value) < shortest:
            findings.add(path, _invalid(path, value, f"should be at least {shortest} chars long"))
        elif matches is not None and not matches(value):
            findings.add(path, _invalid(path, value, f"should match '{pattern}'"))

    return check


def _searcher(pattern: str) -> Callable[[str], object]:
    import re2

    searcher: Callable[[str], object] = re2.compile(pattern).search
    return searcher


def _invalid(path: str, value: Json, rule: str) -> FieldError:
    detail = f"{path} in body {rule}"
    return FieldError(fielderrors.INVALID, path, f"Invalid value: {_shown(value)}: {detail}")


def _shown(value: Json) -> str:
    return as_go_prints(value) if type(value) is float else fielderrors.shown(value)


def _format_check(name: str, known: formats.Check) -> _Run:
    def check(value: Json, path: str, findings: _Findings) -> None:
        if type(value) is str and not known(value):
            detail = f"{path} in body must be of type {name}: {fielderrors.shown(value)}"
            findings.add(path, fielderrors.type_invalid(path, value, detail))

    return check


def _number_check(node: Node, types: tuple[str, ...]) -> _Run:
    constraints = node.constraints
    factor = constraints.get("multipleOf")
    lowest, highest = constraints.get("minimum"), constraints.get("maximum")
    above, below = bool(constraints.get("exclusiveMinimum")), bool(constraints.get("exclusiveMaximum"))
    kind = types[0] if len(types) == 1 else ""
    fitting = _range_check(kind, node.format)

    def check(value: Json, path: str, findings: _Findings) -> None:
        if type(value) is not int and type(value) is not float:
            return
        if fitting is not None and not fitting(value):
            shape = f"with format {node.format}" if node.format in _RANGED else "(default format)"
            findings.nowhere(f"Checked value must be of type {kind} {shape} in {path}")
        if factor is not None and not _is_multiple(value, factor):
            findings.add(path, _invalid(path, value, f"should be a multiple of {as_go_prints(factor)}"))
        if lowest is not None and (value < lowest or (above and value == lowest)):
            rule = "greater than" if above else "greater than or equal to"
            findings.add(path, _invalid(path, value, f"should be {rule} {as_go_prints(lowest)}"))
        if highest is not None and (value > highest or (below and value == highest)):
            rule = "less than" if below else "less than or equal to"
            findings.add(path, _invalid(path, value, f"should be {rule} {as_go_prints(highest)}"))
        findings.matches += 1

    return check


_RANGED: Final = frozenset({"int32", "int64", "float", "double"})


def _range_check(kind: str, format: str) -> Callable[[int | float], bool] | None:
    if kind == "integer":
        limit = _INT32 if format == "int32" else _INT64
        return lambda value: type(value) is int and -limit <= value < limit
    if kind == "number" and format == "float":
        return lambda value: abs(value) <= _MAX_FLOAT
    return None


def _is_multiple(value: int | float, factor: int | float) -> bool:
    if type(value) is int and type(factor) is int:
        return factor == 0 or value % factor == 0
    return factor == 0 or (value / factor).is_integer()


def _list_check(constraints: Mapping[str, Json]) -> _Run:
    least, most = constraints.get("minItems"), constraints.get("maxItems")

    def check(value: Json, path: str, findings: _Findings) -> None:
        if type(value) is not list:
            return
        if least is not None and len(value) < least:
            findings.add(path, _invalid(path, len(value), f"should have at least {least} items"))
        if most is not None and len(value) > most:
            findings.add(path, fielderrors.too_many(path, len(value), most))

    return check


def _object_check(constraints: Mapping[str, Json]) -> _Run:
    least, most = constraints.get("minProperties"), constraints.get("maxProperties")

    def check(value: Json, path: str, findings: _Findings) -> None:
        if type(value) is not dict:
            return
        if least is not None and len(value) < least:
            findings.add(path, _invalid(path, len(value), f"should have at least {least} properties"))
        if most is not None and len(value) > most:
            findings.add(path, fielderrors.too_many(path, len(value), most))

    return check


def _check_enum(node: Node, value: Json, path: str, findings: _Findings) -> None:
    allowed = node.constraints.get("enum")
    if allowed and not any(_same_number_or(value, choice) for choice in allowed):
        texts = [choice if type(choice) is str else fielderrors.shown(choice) for choice in allowed]
        findings.add(path, fielderrors.not_supported(path, value, texts))


def _same_number_or(value: Json, choice: Json) -> bool:
    if type(value) is bool or type(choice) is bool:
        return value is choice
    return bool(value == choice)


def _combinators(node: Node) -> Iterator[_Run]:
    from kohort.cluster.apiserver.schema.structural import compile_schema

    constraints = node.constraints
    if constraints.get("anyOf"):
        yield _any_of([compile_schema(schema) for schema in constraints["anyOf"]])
    if constraints.get("oneOf"):
        yield _one_of([compile_schema(schema) for schema in constraints["oneOf"]])
    if constraints.get("allOf"):
        yield _all_of([compile_schema(schema) for schema in constraints["allOf"]])
    if constraints.get("not") is not None:
        yield _not(compile_schema(constraints["not"]))


def _try(node: Node, value: Json, path: str) -> _Findings:
    findings = _Findings()
    _validator(node).run(value, path, _UNSET, findings)
    return findings


def _best(failures: list[_Findings]) -> _Findings:
    return max(failures, key=lambda findings: findings.matches)


def _any_of(alternatives: list[Node]) -> _Run:
    def check(value: Json, path: str, findings: _Findings) -> None:
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


def _one_of(alternatives: list[Node]) -> _Run:
    def check(value: Json, path: str, findings: _Findings) -> None:
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


def _all_of(parts: list[Node]) -> _Run:
    def check(value: Json, path: str, findings: _Findings) -> None:
        failed = 0
        for part in parts:
            attempt = _try(part, value, path)
            failed += bool(attempt.errors)
            findings.merge(attempt)
        if failed:
            none = ". None validated" if failed == len(parts) else ""
            findings.nowhere(f'"{path}" must validate all the schemas (allOf){none}')

    return check


def _not(excluded: Node) -> _Run:
    def check(value: Json, path: str, findings: _Findings) -> None:
        if not _try(excluded, value, path).errors:
            findings.nowhere(f'"{path}" must not validate the schema (not)')

    return check
