"""The types of expressions, and when one fits another.

Unification follows the language definition: `dyn` fits everything in both directions, a type variable takes the first
type it meets and later widens to the more general one, `null` fits whatever may be absent. Variables are bound in
place; `Bindings` records what was bound so that an overload that does not fit after all leaves no trace.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final


class Type:
    """`kind` is the constructor (`int`, `list`, `object`, `opaque`, ...), `name` what messages call it."""

    __slots__ = ("kind", "name", "params")

    def __init__(self, kind: str, name: str = "", params: "tuple[Type, ...]" = ()) -> None:
        self.kind = kind
        self.name = name or kind
        self.params = params

    def __str__(self) -> str:
        if self.kind == "optional":
            return f"optional_type({self.params[0]})"
        if self.params:
            return f"{self.name}({', '.join(map(str, self.params))})"
        return self.name

    def __repr__(self) -> str:
        return f"Type({self})"

    def with_params(self, params: "tuple[Type, ...]") -> "Type":
        return Type(self.kind, self.name, params)


class ObjectType(Type):
    """A type with declared fields. Subclasses say where the fields come from."""

    __slots__ = ()

    def field(self, name: str) -> Type | None:
        raise NotImplementedError


class StructType(ObjectType):
    """An object type whose fields are given outright; None as the only answer means that any field is allowed."""

    __slots__ = ("_fields",)

    def __init__(self, name: str, fields: Mapping[str, Type] | None) -> None:
        super().__init__("object", name)
        self._fields = fields

    def field(self, name: str) -> Type | None:
        return DYN if self._fields is None else self._fields.get(name)


class Variable(Type):
    """A type to be found out."""

    __slots__ = ("bound",)

    def __init__(self) -> None:
        super().__init__("variable", "_")
        self.bound: Type | None = None

    def __str__(self) -> str:
        return str(self.bound) if self.bound else "dyn"


DYN: Final = Type("dyn")
ERROR: Final = Type("error", "!error!")
NULL: Final = Type("null")
BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
TIMESTAMP: Final = Type("timestamp")
DURATION: Final = Type("duration")


def list_of(element: Type) -> Type:
    return Type("list", "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", "map", (key, value))


def optional_of(inner: Type) -> Type:
    return Type("optional", "optional_type", (inner,))


def type_of_type(inner: Type) -> Type:
    return Type("type", "type", (inner,))


def opaque(name: str) -> Type:
    return Type("opaque", name)


_NULLABLE = frozenset({"object", "opaque", "optional", "timestamp", "duration"})
_COMPOSITE = frozenset({"list", "map", "optional", "opaque"})


def resolved(type: Type) -> Type:
    """Follow bound variables, only at the top."""
    while isinstance(type, Variable) and type.bound is not None:
        type = type.bound
    return type


def final(type: Type) -> Type:
    """No variables left: what is still unknown is dyn."""
    type = resolved(type)
    if isinstance(type, Variable):
        return DYN
    if not type.params:
        return type
    params = tuple(final(param) for param in type.params)
    return type if params == type.params else type.with_params(params)


def is_dynamic(type: Type) -> bool:
    return type.kind in ("dyn", "error")


class Bindings:
    """Unification with undo."""

    def __init__(self) -> None:
        self._trail: list[tuple[Variable, Type | None]] = []

    @contextmanager
    def attempt(self) -> Iterator[list[bool]]:
        """Bindings made inside are kept only if the caller appends True to the given list."""
        mark = len(self._trail)
        verdict: list[bool] = []
        yield verdict
        if not verdict:
            while len(self._trail) > mark:
                variable, before = self._trail.pop()
                variable.bound = before

    def assignable(self, source: Type, target: Type) -> bool:
        with self.attempt() as verdict:
            fits = self._fits(source, target)
            if fits:
                verdict.append(True)
        return fits

    def all_assignable(self, sources: Sequence[Type], targets: Sequence[Type]) -> bool:
        if len(sources) != len(targets):
            return False
        with self.attempt() as verdict:
            fits = all(self._fits(source, target) for source, target in zip(sources, targets, strict=True))
            if fits:
                verdict.append(True)
        return fits

    def joined(self, first: Type, second: Type) -> Type | None:
        """The more general of two types that fit each other."""
        if not self.assignable(first, second):
            return None
        return first if _less_specific(resolved(first), resolved(second)) else second

    def _bind(self, variable: Variable, type: Type) -> None:
        self._trail.append((variable, variable.bound))
        variable.bound = type

    def _fits(self, source: Type, target: Type) -> bool:
        if isinstance(target, Variable):
            return self._fits_variable(source, target)
        if isinstance(source, Variable):
            return self._fits_variable(target, source)
        one, two = source.kind, target.kind
        if one in ("dyn", "error") or two in ("dyn", "error"):
            return True
        if one == "null" and two != "null":
            return two in _NULLABLE
        if two == "null" and one != "null":
            return one in _NULLABLE
        if one != two:
            return False
        if one == "type":
            return True
        if one == "object":
            return source.name == target.name
        if one in _COMPOSITE:
            return (
                source.name == target.name
                and len(source.params) == len(target.params)
                and all(self._fits(a, b) for a, b in zip(source.params, target.params, strict=True))
            )
        return True

    def _fits_variable(self, other: Type, variable: Variable) -> bool:
        if other is variable:
            return True
        if variable.bound is None:
            if _mentions(other, variable):
                return False
            self._bind(variable, other)
            return True
        if isinstance(other, Variable) and other.bound is None:
            if _mentions(variable, other):
                return False
            self._bind(other, variable)
            return True
        if not self._fits(other, variable.bound):
            return False
        wider = other if _less_specific(resolved(other), resolved(variable.bound)) else variable.bound
        if wider is not variable.bound and not _mentions(wider, variable):
            self._bind(variable, wider)
        return True


def _mentions(type: Type, variable: Variable) -> bool:
    type = resolved(type)
    return type is variable or any(_mentions(param, variable) for param in type.params)


def _less_specific(one: Type, two: Type) -> bool:
    if one.kind == "dyn" or isinstance(one, Variable):
        return True
    if two.kind == "dyn" or isinstance(two, Variable):
        return False
    if one.kind != two.kind:
        return False
    if one.kind == "type":
        return True
    if one.params:
        return len(one.params) == len(two.params) and all(
            _less_specific(resolved(a), resolved(b)) for a, b in zip(one.params, two.params, strict=True)
        )
    return one.name == two.name


def same_type(one: Type, two: Type) -> bool:
    """Whether two types are the same, as far as they are known."""
    one, two = resolved(one), resolved(two)
    if isinstance(one, Variable) or isinstance(two, Variable):
        return one is two
    return (
        one.kind == two.kind
        and one.name == two.name
        and len(one.params) == len(two.params)
        and all(map(same_type, one.params, two.params))
    )
