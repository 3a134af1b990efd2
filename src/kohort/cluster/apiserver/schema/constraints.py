"""The value constraints of one level of a CRD schema, as checks that report what is wrong.

A check gets a value, its path and the findings so far. Wording and order are those of Kubernetes.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from kohort.cluster.apiserver.schema import formats
from kohort.cluster.apiserver.schema.go_number import as_go_prints
from kohort.cluster.apiserver.schema.node import Node
from kohort.objects import field_errors
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import Json

NOWHERE: Final = "<nil>"
"""The field of errors that have none."""

INT64: Final = 2**63
INT32: Final = 2**31
_MAX_FLOAT: Final = 3.4028234663852886e38
_REMEMBERED_TEXTS: Final = 2048
_REMEMBERED_LENGTH: Final = 64
_RANGED: Final = frozenset({"int32", "int64", "float", "double"})


class Path:
    """Where a value is. Most values are fine, so the text is put together only when it is needed."""

    __slots__ = ("above", "step")

    def __init__(self, above: "Path | None", step: str) -> None:
        self.above = above
        self.step = step

    def __str__(self) -> str:
        """`spec.template[0].key`: keys of maps are written like fields."""
        steps = []
        path: Path | None = self
        while path is not None:
            steps.append(path.step)
            path = path.above
        return "".join(reversed(steps)).removeprefix(".")


class ValidationResult:
    """Errors, and how many checks went well: the measure of how well a schema fits."""

    __slots__ = ("errors", "matches")

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self.matches = 0

    def nowhere(self, message: str) -> None:
        self.errors.append(FieldError(field_errors.INVALID, NOWHERE, f'Invalid value: "": {message}'))

    def merge(self, other: "ValidationResult") -> None:
        self.errors += other.errors
        self.matches += other.matches


Check: TypeAlias = Callable[[Json, Path, ValidationResult], None]


def checks_of(node: Node, types: tuple[str, ...]) -> Iterator[Check]:
    """All constraints but the combinations of schemas."""
    constraints = node.constraints
    if constraints.keys() & {"maxLength", "minLength", "pattern"}:
        yield _string_check(constraints)
    known = formats.check_for(node.format) if node.format and node.format != "int-or-string" else None
    if known is not None:
        yield _format_check(node.format, known)
    if constraints.keys() & {"multipleOf", "minimum", "maximum"} or {"integer", "number"} & set(types):
        yield _number_check(node, types)
    if constraints.keys() & {"minItems", "maxItems"}:
        yield _size_check(list, constraints.get("minItems"), constraints.get("maxItems"), "items")
    if constraints.get("enum"):
        yield enum_check(constraints["enum"])
    if constraints.keys() & {"minProperties", "maxProperties"}:
        yield _size_check(dict, constraints.get("minProperties"), constraints.get("maxProperties"), "properties")


def wrong_type(path: Path, expected: str, found: str) -> FieldError:
    where = str(path)
    return field_errors.type_invalid(where, found, f'{where} in body must be of type {expected}: "{found}"')


def _invalid(path: Path, value: Json, rule: str) -> FieldError:
    where = str(path)
    shown = as_go_prints(value) if type(value) is float else field_errors.shown(value)
    return FieldError(field_errors.INVALID, where, f"Invalid value: {shown}: {where} in body {rule}")


def _string_check(constraints: Mapping[str, Json]) -> Check:
    longest, shortest = constraints.get("maxLength"), constraints.get("minLength")
    pattern = constraints.get("pattern") or ""
    matches = _searcher(pattern) if pattern else None

    def check(value: Json, path: Path, findings: ValidationResult) -> None:
        if type(value) is not str:
            return
        if longest is not None and len(value) > longest:
            findings.errors.append(field_errors.too_long(str(path), longest))
        elif shortest is not None and len(value) < shortest:
            findings.errors.append(_invalid(path, value, f"should be at least {shortest} chars long"))
        elif matches is not None and not matches(value):
            findings.errors.append(_invalid(path, value, f"should match '{pattern}'"))

    return check


@lru_cache(maxsize=1024)
def _searcher(pattern: str) -> Callable[[str], bool]:
    """Whether a pattern is found in a text. The same few texts come again and again, and asking RE2 takes long."""
    import re2

    search = re2.compile(pattern).search
    known: dict[str, bool] = {}

    def found(text: str) -> bool:
        answer = known.get(text)
        if answer is None:
            answer = search(text) is not None
            if len(text) <= _REMEMBERED_LENGTH and len(known) < _REMEMBERED_TEXTS:
                known[text] = answer
        return answer

    return found


def text_test(node: Node) -> Callable[[str], bool]:
    """Whether a text satisfies all constraints of a node that concern texts."""
    constraints = node.constraints
    shortest, longest = constraints.get("minLength") or 0, constraints.get("maxLength", INT64)
    pattern = constraints.get("pattern") or ""
    tests: list[Callable[[str], bool]] = [_searcher(pattern)] if pattern else []
    if constraints.get("enum"):
        allowed = frozenset(choice for choice in constraints["enum"] if type(choice) is str)
        tests.append(allowed.__contains__)
    known = formats.check_for(node.format) if node.format and node.format != "int-or-string" else None
    if known is not None:
        tests.append(known)
    if not tests:
        return lambda text: shortest <= len(text) <= longest
    if len(tests) == 1:
        only = tests[0]
        return lambda text: shortest <= len(text) <= longest and only(text)
    return lambda text: shortest <= len(text) <= longest and all(test(text) for test in tests)


def _format_check(name: str, known: formats.Check) -> Check:
    def check(value: Json, path: Path, findings: ValidationResult) -> None:
        if type(value) is str and not known(value):
            detail = f"{path} in body must be of type {name}: {field_errors.shown(value)}"
            findings.errors.append(field_errors.type_invalid(str(path), value, detail))

    return check


def _number_check(node: Node, types: tuple[str, ...]) -> Check:
    constraints = node.constraints
    factor = constraints.get("multipleOf")
    lowest, highest = constraints.get("minimum"), constraints.get("maximum")
    above, below = bool(constraints.get("exclusiveMinimum")), bool(constraints.get("exclusiveMaximum"))
    kind = types[0] if len(types) == 1 else ""
    fitting = _range_check(kind, node.format)

    def check(value: Json, path: Path, findings: ValidationResult) -> None:
        if type(value) is not int and type(value) is not float:
            return
        if fitting is not None and not fitting(value):
            shape = f"with format {node.format}" if node.format in _RANGED else "(default format)"
            findings.nowhere(f"Checked value must be of type {kind} {shape} in {path}")
        if factor is not None:
            findings.errors.extend(_factor_errors(value, factor, path))
        if lowest is not None and (value < lowest or (above and value == lowest)):
            rule = "greater than" if above else "greater than or equal to"
            findings.errors.append(_invalid(path, value, f"should be {rule} {as_go_prints(lowest)}"))
        if highest is not None and (value > highest or (below and value == highest)):
            rule = "less than" if below else "less than or equal to"
            findings.errors.append(_invalid(path, value, f"should be {rule} {as_go_prints(highest)}"))
        findings.matches += 1

    return check


def _range_check(kind: str, format: str) -> Callable[[int | float], bool] | None:
    if kind == "integer":
        limit = INT32 if format == "int32" else INT64
        return lambda value: type(value) is int and -limit <= value < limit
    if kind == "number" and format == "float":
        return lambda value: abs(value) <= _MAX_FLOAT
    return None


def _factor_errors(value: int | float, factor: int | float, path: Path) -> list[FieldError]:
    """For whole numbers the factor is cut to a whole number as well, which may leave nothing of it."""
    if type(value) is int:
        factor = int(factor)
    if factor <= 0:
        detail = f"factor MultipleOf declared for {path} must be positive: {as_go_prints(factor)}"
        return [field_errors.invalid(str(path), factor, detail)]
    fits = value % factor == 0 if type(value) is int else (value / factor).is_integer()
    return [] if fits else [_invalid(path, value, f"should be a multiple of {as_go_prints(factor)}")]


def _size_check(
    kind: type[list[Json]] | type[dict[str, Json]], least: int | None, most: int | None, noun: str
) -> Check:
    def check(value: Json, path: Path, findings: ValidationResult) -> None:
        if type(value) is not kind:
            return
        size = len(value)
        if least is not None and size < least:
            findings.errors.append(_invalid(path, size, f"should have at least {least} {noun}"))
        if most is not None and size > most:
            findings.errors.append(field_errors.too_many(str(path), size, most))

    return check


def enum_check(allowed: list[Json]) -> Check:
    texts = [choice if type(choice) is str else field_errors.shown(choice) for choice in allowed]

    def check(value: Json, path: Path, findings: ValidationResult) -> None:
        if not any(_same(value, choice) for choice in allowed):
            findings.errors.append(field_errors.not_supported(str(path), value, texts))

    return check


def _same(value: Json, choice: Json) -> bool:
    if type(value) is bool or type(choice) is bool:
        return value is choice
    return bool(value == choice)
