"""Macros: calls that stand for syntax.

They are recognised by name, number of arguments and whether there is a target; a call that fits none of them stays an
ordinary call. Expansion works on the unexpanded arguments, so a bound variable is just a name here.
"""

from collections.abc import Callable

from kohort.cluster.apiserver.cel.errors import Issue
from kohort.cluster.apiserver.cel.syntax import (
    Call,
    Comprehension,
    ComprehensionKind,
    Expr,
    Ident,
    MapLiteral,
    OptionalMap,
    Select,
)


class MacroError(Exception):
    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.issue = Issue(offset, message)


_NOT_SIMPLE = "argument must be a simple name"
_NOT_A_NAME = "argument is not an identifier"

Expansion = Callable[[int, Expr, list[Expr]], Expr]


def expand(call: Call) -> Expr:
    """What the call stands for, or the call itself."""
    arity = len(call.args)
    if call.target is None:
        return _has(call.offset, call.args) if call.function == "has" and arity == 1 else call
    expansion = _MEMBER.get((call.function, arity))
    return expansion(call.offset, call.target, call.args) if expansion else call


def _has(offset: int, args: list[Expr]) -> Expr:
    subject = args[0]
    if not isinstance(subject, Select) or subject.test or subject.optional:
        raise MacroError(subject.offset, "invalid argument to has() macro")
    return Select(offset, subject.operand, subject.field, test=True)


def _variable(expr: Expr, otherwise: str = _NOT_SIMPLE) -> str:
    if not isinstance(expr, Ident) or expr.absolute:
        raise MacroError(expr.offset, otherwise)
    if expr.name in ("@result", "__result__"):
        raise MacroError(expr.offset, "iteration variable overwrites accumulator variable")
    return expr.name


def _two_variables(args: list[Expr]) -> tuple[str, str]:
    first, second = _variable(args[0]), _variable(args[1])
    if first == second:
        raise MacroError(args[1].offset, f"duplicate variable name: {first}")
    return first, second


def _one_variable_loop(kind: ComprehensionKind) -> Expansion:
    def expansion(offset: int, target: Expr, args: list[Expr]) -> Expr:
        otherwise = _NOT_A_NAME if kind in ("map", "filter", "sortBy") else _NOT_SIMPLE
        return Comprehension(offset, kind, target, _variable(args[0], otherwise), "", None, args[1])

    return expansion


def _filtered_map(offset: int, target: Expr, args: list[Expr]) -> Expr:
    return Comprehension(offset, "map", target, _variable(args[0], _NOT_A_NAME), "", args[1], args[2])


def _two_variable_loop(kind: ComprehensionKind) -> Expansion:
    def expansion(offset: int, target: Expr, args: list[Expr]) -> Expr:
        first, second = _two_variables(args)
        condition = args[2] if len(args) == 4 else None
        body = args[-1]
        if kind == "transformMapEntry" and not (isinstance(body, MapLiteral) and len(body.entries) == 1):
            raise MacroError(body.offset, "transformMapEntry() expects a map literal with one entry")
        return Comprehension(offset, kind, target, first, second, condition, body)

    return expansion


def _optional_map(rewrap: bool) -> Expansion:
    def expansion(offset: int, target: Expr, args: list[Expr]) -> Expr:
        return OptionalMap(offset, _variable(args[0]), target, args[1], rewrap=rewrap)

    return expansion


_MEMBER: dict[tuple[str, int], Expansion] = {
    ("all", 2): _one_variable_loop("all"),
    ("exists", 2): _one_variable_loop("exists"),
    ("exists_one", 2): _one_variable_loop("exists_one"),
    ("existsOne", 2): _one_variable_loop("exists_one"),
    ("map", 2): _one_variable_loop("map"),
    ("map", 3): _filtered_map,
    ("filter", 2): _one_variable_loop("filter"),
    ("all", 3): _two_variable_loop("all"),
    ("exists", 3): _two_variable_loop("exists"),
    ("exists_one", 3): _two_variable_loop("exists_one"),
    ("existsOne", 3): _two_variable_loop("exists_one"),
    ("transformList", 3): _two_variable_loop("transformList"),
    ("transformList", 4): _two_variable_loop("transformList"),
    ("transformMap", 3): _two_variable_loop("transformMap"),
    ("transformMap", 4): _two_variable_loop("transformMap"),
    ("transformMapEntry", 3): _two_variable_loop("transformMapEntry"),
    ("transformMapEntry", 4): _two_variable_loop("transformMapEntry"),
    ("sortBy", 2): _one_variable_loop("sortBy"),
    ("optMap", 2): _optional_map(rewrap=True),
    ("optFlatMap", 2): _optional_map(rewrap=False),
}
