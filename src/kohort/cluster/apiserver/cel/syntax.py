"""The syntax tree.

Macros are already expanded in it: what the language defines as a fold over an accumulator is kept as one
`Comprehension` of a named kind, because a loop that knows what it computes is several times faster than a general fold.
The checker writes the type of each node (and the matching overloads of each call) into the tree.
"""

from typing import TYPE_CHECKING, TypeAlias
from typing import Literal as Choice

from kohort.objects.json_types import Json

if TYPE_CHECKING:
    from kohort.cluster.apiserver.cel.signatures import Overload
    from kohort.cluster.apiserver.cel.types import Type


class Expr:
    """`offset` is the place in the text that an error about this node points at."""

    __slots__ = ("offset", "type")
    type: "Type"

    def __init__(self, offset: int) -> None:
        self.offset = offset


class Literal(Expr):
    __slots__ = ("value",)

    def __init__(self, offset: int, value: Json) -> None:
        super().__init__(offset)
        self.value = value


class Ident(Expr):
    __slots__ = ("absolute", "name")

    def __init__(self, offset: int, name: str, absolute: bool = False) -> None:
        super().__init__(offset)
        self.name = name
        self.absolute = absolute


class Select(Expr):
    """`operand.field`; with `test` the presence test of `has()`; with `optional` the form `operand.?field`."""

    __slots__ = ("field", "operand", "optional", "qualified", "test")

    def __init__(self, offset: int, operand: Expr, field: str, *, test: bool = False, optional: bool = False) -> None:
        super().__init__(offset)
        self.operand = operand
        self.field = field
        self.test = test
        self.optional = optional
        self.qualified = ""
        """Set by the checker when the whole chain turned out to be one dotted name."""


class Call(Expr):
    """A function, operator or method call. Operators have the names that the language gives them, such as `_+_`."""

    __slots__ = ("args", "function", "overloads", "target")

    def __init__(self, offset: int, function: str, target: Expr | None, args: list[Expr]) -> None:
        super().__init__(offset)
        self.function = function
        self.target = target
        self.args = args
        self.overloads: list[Overload] = []


class ListLiteral(Expr):
    __slots__ = ("items", "optional")

    def __init__(self, offset: int, items: list[Expr], optional: frozenset[int]) -> None:
        super().__init__(offset)
        self.items = items
        self.optional = optional
        """Positions of the `?element` entries."""


class Entry:
    __slots__ = ("key", "offset", "optional", "value")

    def __init__(self, offset: int, key: Expr, value: Expr, optional: bool) -> None:
        self.offset = offset
        self.key = key
        self.value = value
        self.optional = optional


class MapLiteral(Expr):
    __slots__ = ("entries",)

    def __init__(self, offset: int, entries: list[Entry]) -> None:
        super().__init__(offset)
        self.entries = entries


class FieldInit:
    __slots__ = ("name", "offset", "optional", "value")

    def __init__(self, offset: int, name: str, value: Expr, optional: bool) -> None:
        self.offset = offset
        self.name = name
        self.value = value
        self.optional = optional


class StructLiteral(Expr):
    __slots__ = ("fields", "name")

    def __init__(self, offset: int, name: str, fields: list[FieldInit]) -> None:
        super().__init__(offset)
        self.name = name
        self.fields = fields


ComprehensionKind: TypeAlias = Choice[
    "all", "exists", "exists_one", "map", "filter", "transformList", "transformMap", "transformMapEntry", "sortBy"
]


class Comprehension(Expr):
    """A loop over a list or map. `second` is the value variable of the two-variable forms, else empty."""

    __slots__ = ("body", "condition", "first", "kind", "range", "second")

    def __init__(
        self,
        offset: int,
        kind: ComprehensionKind,
        range: Expr,
        first: str,
        second: str,
        condition: Expr | None,
        body: Expr,
    ) -> None:
        super().__init__(offset)
        self.kind = kind
        self.range = range
        self.first = first
        self.second = second
        self.condition = condition
        self.body = body


class OptionalMap(Expr):
    """`optMap` and `optFlatMap`: inside `body`, `name` is what the optional `value` holds. Nothing yields nothing.

    `rewrap` makes the result optional again (`optMap`; the body of `optFlatMap` is optional already).
    """

    __slots__ = ("body", "name", "rewrap", "value")

    def __init__(self, offset: int, name: str, value: Expr, body: Expr, *, rewrap: bool) -> None:
        super().__init__(offset)
        self.name = name
        self.value = value
        self.body = body
        self.rewrap = rewrap


def qualified_name(expr: Expr) -> str | None:
    """`a.b.c` when the expression is nothing but a dotted name."""
    parts: list[str] = []
    while isinstance(expr, Select):
        if expr.test or expr.optional:
            return None
        parts.append(expr.field)
        expr = expr.operand
    if not isinstance(expr, Ident):
        return None
    parts.append(expr.name)
    return ".".join(reversed(parts))
