"""Values at run time.

JSON values are their own representation: str, int, float, bool, None, list and dict. What JSON cannot express has a
class here. Data that came with a schema may be wrapped (`schema_types`) in a `Wrapped` value, which shows the same data
with the schema's meaning: dates as timestamps, set-like lists without an order, undeclared fields hidden.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from kohort.cluster.apiserver.cel.errors import CelError, NoOverload
from kohort.objects.json_types import Json

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1
UINT_MAX: Final = (1 << 64) - 1


class Uint(int):
    """An unsigned number. Arithmetic of `int` forgets the class, so every result is wrapped again after its check."""

    __slots__ = ()


class Duration:
    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        if not INT_MIN <= nanos <= INT_MAX:
            raise CelError("duration overflow")
        self.nanos = nanos

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(("duration", self.nanos))


_FIRST = -62135596800 * 10**9
_LAST = 253402300799 * 10**9 + 999_999_999


class Timestamp:
    """A moment, as nanoseconds since 1970. Python's own datetime stops at microseconds."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        if not _FIRST <= nanos <= _LAST:
            raise CelError("timestamp overflow")
        self.nanos = nanos

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(("timestamp", self.nanos))


class Optional:
    """A value that may be missing; `NONE` is the one without."""

    __slots__ = ("_value", "present")

    def __init__(self, value: Json, present: bool = True) -> None:
        self._value = value
        self.present = present

    @property
    def value(self) -> Json:
        if not self.present:
            raise CelError("optional.none() dereference")
        return self._value


NONE: Final = Optional(None, present=False)


class TypeValue:
    """What `type(x)` yields."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeValue) and self.name == other.name

    def __hash__(self) -> int:
        return hash(("type", self.name))


class Extension:
    """Base of the values of function libraries (quantities, addresses, ...). They define `__eq__`."""

    __slots__ = ()
    type_name = ""


class Wrapped:
    """Base of the views on data with a schema."""

    __slots__ = ()


class WrappedList(Wrapped):
    __slots__ = ("element", "keys", "kind", "raw")

    def __init__(
        self, raw: Sequence[Json], element: Callable[[Json], Json] | None, kind: str, keys: tuple[str, ...]
    ) -> None:
        self.raw = raw
        self.element = element
        self.kind = kind
        self.keys = keys

    def items(self) -> Sequence[Json]:
        return self.raw if self.element is None else [self.element(item) for item in self.raw]

    def key(self, item: Json) -> Json:
        """What identifies an element of an associative list."""
        raw = unwrapped(item)
        return tuple(raw.get(key) for key in self.keys) if isinstance(raw, dict) else None


class WrappedMap(Wrapped):
    """A map, or an object when the names of its fields are declared."""

    __slots__ = ("raw",)

    def __init__(self, raw: Mapping[str, Json]) -> None:
        self.raw = raw

    def find(self, name: Json) -> Optional:
        raise NotImplementedError

    def keys(self) -> Iterator[str]:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.raw)


def unwrapped(value: Json) -> Json:
    return value.raw if isinstance(value, (WrappedList, WrappedMap)) else value


def no_overload() -> CelError:
    return NoOverload()


# -- what a value is

_TYPE_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    tuple: "list",
    dict: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Optional: "optional_type",
    TypeValue: "type",
}


def type_name(value: Json) -> str:
    name = _TYPE_NAMES.get(type(value))
    if name is not None:
        return name
    if isinstance(value, WrappedList):
        return "list"
    if isinstance(value, WrappedMap):
        return "map"
    if isinstance(value, Extension):
        return value.type_name
    return "dyn"


def is_list(value: Json) -> bool:
    return isinstance(value, (list, tuple, WrappedList))


def is_map(value: Json) -> bool:
    return isinstance(value, (dict, WrappedMap))


def items_of(value: Json) -> Sequence[Json]:
    """The elements of a list."""
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, WrappedList):
        return value.items()
    raise no_overload()


def range_of(value: Json) -> Sequence[Json]:
    """What a comprehension runs over: elements of a list, keys of a map."""
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, WrappedList):
        return value.items()
    if isinstance(value, dict):
        return [key.value if isinstance(key, BoolKey) else key for key in value]
    if isinstance(value, WrappedMap):
        return list(value.keys())
    raise no_overload()


def pairs_of(value: Json) -> list[tuple[Json, Json]]:
    """What a two-variable comprehension runs over: index and element, or key and value."""
    if is_map(value):
        return [(key, lookup(value, key)) for key in range_of(value)]
    return list(enumerate(items_of(value)))


def size_of(value: Json) -> int:
    if isinstance(value, WrappedList):
        return len(value.raw)
    if isinstance(value, (str, bytes, list, tuple, dict, WrappedMap)):
        return len(value)
    raise no_overload()


# -- maps


class BoolKey:
    """`true` or `false` as a map key: Python would take them for 1 and 0."""

    __slots__ = ("value",)

    def __init__(self, value: bool) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoolKey) and self.value == other.value

    def __hash__(self) -> int:
        return hash(("bool", self.value))


def map_key(value: Json) -> Json:
    """A value as a key of a dictionary."""
    kind = type(value)
    if kind is str or kind is int or kind is Uint:
        return value
    if kind is bool:
        return BoolKey(value)
    if kind is float:
        return int(value) if value.is_integer() else value
    raise CelError(f"unsupported key type: {type_name(value)}")


_ABSENT: Final = object()


def find(container: Json, key: Json) -> Optional:
    """The value below a key of a map, if there is one."""
    if isinstance(container, dict):
        found = container.get(key if type(key) is str else map_key(key), _ABSENT)
        return NONE if found is _ABSENT else Optional(found)
    if isinstance(container, WrappedMap):
        return container.find(key)
    raise no_overload()


def lookup(container: Json, key: Json) -> Json:
    if type(container) is dict and type(key) is str:
        found = container.get(key, _ABSENT)
        if found is not _ABSENT:
            return found
        raise CelError(f"no such key: {key}")
    found_one = find(container, key)
    if not found_one.present:
        raise CelError(f"no such key: {shown(key)}")
    return found_one.value


def at(items: Json, index: Json) -> Json:
    """An element of a list."""
    position = list_index(index)
    raw = items.raw if isinstance(items, WrappedList) else items
    if not 0 <= position < len(raw):
        raise CelError(f"index out of bounds: {position}")
    if isinstance(items, WrappedList) and items.element is not None:
        return items.element(raw[position])
    return raw[position]


def list_index(index: Json) -> int:
    kind = type(index)
    if kind is int or kind is Uint:
        return int(index)
    if kind is float and index.is_integer():
        return int(index)
    raise CelError(f"unsupported index type '{type_name(index)}' in list")


def index(container: Json, key: Json) -> Json:
    """`container[key]` when the type of the container is only known now."""
    if is_map(container):
        return lookup(container, key)
    if is_list(container):
        return at(container, key)
    raise no_overload()


def shown(value: Json) -> str:
    """A value inside an error message."""
    if value is True or value is False:
        return "true" if value else "false"
    if value is None:
        return "null"
    return str(value)
