"""Literal arguments that can be judged before anything is evaluated: patterns, durations, moments."""

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
from kohort.objects.jsontypes import Json

_PARSERS: dict[str, Callable[[str], Json]] = {
    "duration": parse_duration,
    "timestamp": parse_timestamp,
    "matches": pattern,
}


def literal_issues(root: Expr) -> list[Issue]:
    return [issue for expr in _walk(root) if isinstance(expr, Call) for issue in _call_issues(expr)]


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


def _walk(expr: Expr) -> Iterator[Expr]:
    stack = [expr]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(_children(current))


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
