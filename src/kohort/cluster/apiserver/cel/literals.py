"""Literals that can be judged before anything is evaluated.

Patterns, durations and moments must be ones, and the elements of a list or map must all be of one type. That type check
is stricter than the language: `dyn` among other types is refused as well. Only the arguments of `format` may be mixed;
they must fit their clauses. A conversion of a constant that has no value is found later, without a place in the text.
"""

from collections.abc import Callable, Iterator

from kohort.cluster.apiserver.cel.budget import Budget
from kohort.cluster.apiserver.cel.closures import Compiler
from kohort.cluster.apiserver.cel.errors import CelError, Issue
from kohort.cluster.apiserver.cel.functions.strings import CLAUSES, clauses_of, unknown_clause
from kohort.cluster.apiserver.cel.syntax import (
    Call,
    Comprehension,
    Expr,
    ListLiteral,
    Literal,
    MapLiteral,
    OptionalMap,
    Select,
    StructLiteral,
)
from kohort.cluster.apiserver.cel.times import parse_duration, parse_timestamp
from kohort.cluster.apiserver.cel.types import Type, same_type
from kohort.cluster.apiserver.schema.patterns import pattern
from kohort.objects.json_types import Json

_PARSERS: dict[str, Callable[[str], Json]] = {
    "duration": parse_duration,
    "timestamp": parse_timestamp,
    "matches": pattern,
}
_CONVERSIONS = frozenset({"bool", "bytes", "double", "int", "string", "uint"})
_SEARCHES = frozenset({"find", "findAll"})


def literal_issues(root: Expr) -> list[Issue]:
    issues: list[Issue] = []
    for expr, formatted in _walk(root):
        if isinstance(expr, Call):
            issues += _format_issues(expr) if expr.function == "format" else _call_issues(expr)
        elif isinstance(expr, ListLiteral) and not formatted:
            issues += _list_issues(expr)
        elif isinstance(expr, MapLiteral) and not formatted:
            issues += _map_issues(expr)
    return issues


def _list_issues(expr: ListLiteral) -> Iterator[Issue]:
    types = [_element_type(item, place in expr.optional) for place, item in enumerate(expr.items)]
    for item, type in zip(expr.items[1:], types[1:], strict=True):
        if not same_type(types[0], type):
            yield _mismatch(item, types[0], type)
            return


def _map_issues(expr: MapLiteral) -> Iterator[Issue]:
    for entry in expr.entries[1:]:
        first = expr.entries[0]
        if not same_type(first.key.type, entry.key.type):
            yield _mismatch(entry.key, first.key.type, entry.key.type)
        wanted, found = _element_type(first.value, first.optional), _element_type(entry.value, entry.optional)
        if not same_type(wanted, found):
            yield _mismatch(entry.value, wanted, found)


def _element_type(expr: Expr, optional: bool) -> Type:
    return expr.type.params[0] if optional and expr.type.params else expr.type


def _mismatch(expr: Expr, wanted: Type, found: Type) -> Issue:
    return Issue(expr.offset, f"expected type '{wanted}' but found '{found}'")


def _call_issues(call: Call) -> Iterator[Issue]:
    if not call.args or not isinstance(call.args[-1], Literal) or not isinstance(call.args[-1].value, str):
        return
    argument = call.args[-1]
    parser = _PARSERS.get(call.function)
    if parser is None or (call.function != "matches" and call.target is not None):
        return
    try:
        parser(argument.value)
    except ValueError:
        yield Issue(argument.offset, f"invalid {call.function} argument")


def _format_issues(call: Call) -> Iterator[Issue]:
    """A template must have clauses that exist, as many as there are arguments, which are of the types they take."""
    if not isinstance(call.target, Literal) or not isinstance(call.args[0], ListLiteral):
        return
    arguments = call.args[0].items
    verbs = clauses_of(call.target.value)
    for place, verb in enumerate(verbs):
        if place >= len(arguments):
            yield Issue(call.offset, f"index {place} out of range")
            return
        if verb not in CLAUSES:
            yield Issue(call.offset, unknown_clause(verb))
            return
        kinds, problem = CLAUSES[verb]
        type = arguments[place].type
        if type.kind not in (*kinds, "dyn"):
            yield Issue(arguments[place].offset, f"error during formatting: {problem}, was given {type.name}")
            return
    if len(arguments) > len(verbs):
        counts = f"(expected {len(verbs)}, got {len(arguments)})"
        yield Issue(call.offset, f"too many arguments supplied to string.format {counts}")


def constant_problem(root: Expr) -> str:
    """Why a constant part of a checked expression has no value; empty when each has one."""
    for expr, _ in _walk(root):
        if not isinstance(expr, Call) or not expr.args or not isinstance(expr.args[0], Literal):
            continue
        converted = expr.target is None and expr.function in _CONVERSIONS and len(expr.args) == 1
        searched = expr.target is not None and expr.function in _SEARCHES
        try:
            if converted:
                Compiler({}, {}).value(expr)([Budget()])
            elif searched:
                pattern(expr.args[0].value)
        except CelError as error:
            return str(error)
        except ValueError as error:
            return f"error parsing regexp: {error}"
    return ""


def _walk(root: Expr) -> Iterator[tuple[Expr, bool]]:
    """Every expression, and whether it stands in a call of `format`."""
    stack = [(root, False)]
    while stack:
        expr, formatted = stack.pop()
        yield expr, formatted
        inside = formatted or (isinstance(expr, Call) and expr.function == "format")
        stack += [(child, inside) for child in _children(expr)]


def _children(expr: Expr) -> list[Expr]:
    match expr:
        case Select():
            return [expr.operand]
        case Call():
            return [*expr.args, expr.target] if expr.target is not None else expr.args
        case Comprehension():
            return [expr.range, expr.body, *([expr.condition] if expr.condition is not None else [])]
        case OptionalMap():
            return [expr.value, expr.body]
        case ListLiteral():
            return expr.items
        case MapLiteral():
            return [part for entry in expr.entries for part in (entry.key, entry.value)]
        case StructLiteral():
            return [field.value for field in expr.fields]
        case _:
            return []
