"""A JSON value of the wrong type, reported as Go's JSON decoder reports it.

`json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string` names the innermost
struct, then the path of field names from the root without list indexes and map keys.

Go notes the first such value and reads on. It stops at a value that a type reads by itself and refuses (a quantity, a
time, a number or text): of the two, that one is reported. `first_fault` reads on in the same way, a few times: every
reading costs as much as the object is large.
"""

from collections.abc import Callable
from typing import Final

from kohort.objects.json_types import Json

MAX_READINGS: Final = 20
"""Mismatches that are read past in search of one that stops the reading."""


class TypeMismatch(Exception):
    """Raised where the value is found; every struct on the way out adds the name of its field."""

    def __init__(self, found: str, go_type: str, *, stops: bool = False) -> None:
        """`stops`: the type read the value by itself."""
        super().__init__()
        self.found = found
        self.go_type = go_type
        self.stops = stops
        self.struct = ""
        self.path: list[str] = []

    def inside(self, struct: str, field: str) -> None:
        self.struct = self.struct or struct
        self.path.append(field)

    def forget_path(self) -> None:
        """Called where Go decodes with a decoder of its own, which does not know the path that it is at."""
        self.struct = ""
        self.path = []
        self.stops = True

    def __str__(self) -> str:
        if not self.struct:
            return f"json: cannot unmarshal {self.found} into Go value of type {self.go_type}"
        path = ".".join(reversed(self.path))
        return f"json: cannot unmarshal {self.found} into Go struct field {self.struct}.{path} of type {self.go_type}"


def first_fault(mismatch: TypeMismatch, read: Callable[[], object]) -> Exception:
    """What Go reports for an object in which this was the first mismatch. `read` reads the object once more, without
    the values that did not fit: the code that raises a mismatch takes its value out."""
    if mismatch.stops:
        return mismatch
    for _ in range(MAX_READINGS):
        try:
            read()
            return mismatch
        except TypeMismatch as further:
            if further.stops:
                return further
        except ValueError as refused:
            return refused
    return mismatch


def json_type(value: Json) -> str:
    """What Go's JSON decoder calls a value."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
        case dict():
            return "object"
    return "null"
