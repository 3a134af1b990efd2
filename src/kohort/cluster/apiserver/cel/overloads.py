"""Which implementation a call reaches.

When the types leave one overload, it is called directly. When an argument is dynamic, the values decide: the overloads
that the checker left over are tried in order by the kinds of their parameters.
"""

from collections.abc import Callable, Sequence

from kohort.cluster.apiserver.cel.errors import CelError
from kohort.cluster.apiserver.cel.logic import Closure, Frame
from kohort.cluster.apiserver.cel.signatures import Cost, Implementation, Overload
from kohort.cluster.apiserver.cel.syntax import Call, Expr, Literal
from kohort.cluster.apiserver.cel.types import Type
from kohort.cluster.apiserver.cel.values import (
    Duration,
    Extension,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    is_list,
    is_map,
    no_overload,
)
from kohort.objects.json_types import Json

_COMPARISONS: dict[str, Callable[[Closure, Closure], Closure]] = {
    "_<_": lambda a, b: lambda v: a(v) < b(v),
    "_<=_": lambda a, b: lambda v: a(v) <= b(v),
    "_>_": lambda a, b: lambda v: a(v) > b(v),
    "_>=_": lambda a, b: lambda v: a(v) >= b(v),
}
_COMPARED_DIRECTLY = frozenset({"int", "uint", "string", "bytes"})

_FOLDABLE = 1000
"""Calls on literals that cost less than this are made at compile time."""

_KINDS: dict[str, Callable[[Json], bool]] = {
    "bool": lambda value: type(value) is bool,
    "int": lambda value: type(value) is int,
    "uint": lambda value: type(value) is Uint,
    "double": lambda value: type(value) is float,
    "string": lambda value: type(value) is str,
    "bytes": lambda value: type(value) is bytes,
    "null": lambda value: value is None,
    "list": is_list,
    "map": is_map,
    "timestamp": lambda value: isinstance(value, Timestamp),
    "duration": lambda value: isinstance(value, Duration),
    "optional": lambda value: isinstance(value, Optional),
    "type": lambda value: isinstance(value, TypeValue),
}


def call_closure(expr: Call, arguments: Sequence[Expr], closures: list[Closure]) -> Closure:
    if expr.function in _COMPARISONS:
        kinds = {argument.type.kind for argument in arguments}
        if len(kinds) == 1 and kinds <= _COMPARED_DIRECTLY:
            return _COMPARISONS[expr.function](*closures)
    implementation, cost = _implementation(expr.overloads, [argument.type for argument in arguments])
    literals = [argument.value for argument in arguments if isinstance(argument, Literal)]
    if len(literals) == len(arguments) and (cost is None or cost(*literals) < _FOLDABLE):
        return _folded(implementation, literals)
    return _call(implementation, cost, closures)


def _implementation(overloads: list[Overload], arguments: list[Type]) -> tuple[Implementation, Cost | None]:
    if len(overloads) == 1 and not any(argument.kind in ("dyn", "variable") for argument in arguments):
        return overloads[0].implementation, overloads[0].cost
    implementations = {overload.implementation for overload in overloads}
    if len(implementations) == 1 and all(argument.kind == "list" for argument in arguments[:1]):
        return overloads[0].implementation, overloads[0].cost
    guarded = [(_guards(overload), overload.implementation, overload.cost) for overload in overloads]

    def chosen(*values: Json) -> Json:
        for guards, implementation, _ in guarded:
            if all(guard(value) for guard, value in zip(guards, values, strict=True)):
                return implementation(*values)
        raise no_overload()

    def cost(*values: Json) -> int:
        for guards, _, price in guarded:
            if all(guard(value) for guard, value in zip(guards, values, strict=True)):
                return price(*values) if price else 0
        return 0

    return chosen, cost if any(overload.cost for overload in overloads) else None


def _guards(overload: Overload) -> list[Callable[[Json], bool]]:
    return [_guard(param) for param in overload.params]


def _guard(param: Type) -> Callable[[Json], bool]:
    if param.kind == "opaque":
        return lambda value: isinstance(value, Extension) and value.type_name == param.name
    return _KINDS.get(param.kind, lambda value: True)


def _folded(implementation: Implementation, values: list[Json]) -> Closure:
    """A call on literals is made once. Should it fail, it fails again on every evaluation, where it can be absorbed."""
    try:
        result = implementation(*values)
    except CelError as error:
        kind, message = type(error), str(error)

        def failing(v: Frame) -> Json:
            raise kind(message)

        return failing
    return lambda v: result


def _call(implementation: Implementation, cost: Cost | None, closures: list[Closure]) -> Closure:
    match closures:
        case [one]:
            return _unary(implementation, cost, one)
        case [one, two]:
            return _binary(implementation, cost, one, two)
        case _:
            return _nary(implementation, cost, closures)


def _unary(implementation: Implementation, cost: Cost | None, operand: Closure) -> Closure:
    def call(v: Frame) -> Json:
        value = operand(v)
        try:
            if cost is not None:
                v[0].charge(cost(value))
            return implementation(value)
        except (TypeError, AttributeError):
            raise no_overload() from None

    return call


def _binary(implementation: Implementation, cost: Cost | None, left: Closure, right: Closure) -> Closure:
    def call(v: Frame) -> Json:
        one, two = left(v), right(v)
        try:
            if cost is not None:
                v[0].charge(cost(one, two))
            return implementation(one, two)
        except (TypeError, AttributeError):
            raise no_overload() from None

    return call


def _nary(implementation: Implementation, cost: Cost | None, closures: list[Closure]) -> Closure:
    def call(v: Frame) -> Json:
        values = [closure(v) for closure in closures]
        try:
            if cost is not None:
                v[0].charge(cost(*values))
            return implementation(*values)
        except (TypeError, AttributeError):
            raise no_overload() from None

    return call
