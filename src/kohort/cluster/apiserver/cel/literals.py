"""Literals that can be judged before anything is evaluated.

Patterns, durations and moments must be ones, and the elements of a list or map must all be of one type. That type check
is stricter than the language: `dyn` among other types is refused as well. Only the arguments of `format` may be mixed.
"""

from collections.abc import Callable, Iterator

from kohort.cluster.apiserver.cel.errors import Issue
from kohort.cluster.apiserver.cel.functions.regex import pattern
from kohort.cluster.apiserver.cel.syntax import (
    Bind,
    Call,
    Comprehension,
    Expr,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    StructLiteral,
)
from kohort.cluster.apiserver.cel.times import parse_duration, parse_timestamp
from kohort.cluster.apiserver.cel.types import Type, same_type
from kohort.objects.jsontypes import Json

_PARSERS: dict[str, Callable[[str], Json]] = {
    "duration": parse_duration,
    "timestamp": parse_timestamp,
    "matches": pattern,
}


def literal_issues(root: Expr) -> list[Issue]:
    issues: list[Issue] = []
    for expr, formatted in _walk(root):
        if isinstance(expr, Call):
            issues += _call_issues(expr)
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
        case Bind():
            return [expr.value, expr.body]
        case ListLiteral():
            return expr.items
        case MapLiteral():
            return [part for entry in expr.entries for part in (entry.key, entry.value)]
        case StructLiteral():
            return [field.value for field in expr.fields]
        case _:
            return []
