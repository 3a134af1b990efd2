"""A JSON value of the wrong type, reported as Go's JSON decoder reports it.

`json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string` names the innermost
struct, then the path of field names from the root without list indexes and map keys.
"""

from kohort.objects.jsontypes import Json


class Mismatch(Exception):
    """Raised where the value is found; every struct on the way out adds the name of its field."""

    def __init__(self, found: str, go_type: str) -> None:
        super().__init__()
        self.found = found
        self.go_type = go_type
        self.struct = ""
        self.path: list[str] = []

    def inside(self, struct: str, field: str) -> None:
        self.struct = self.struct or struct
        self.path.append(field)

    def forget_path(self) -> None:
        """Called where Go decodes with a decoder of its own, which does not know the path that it is at."""
        self.struct = ""
        self.path = []

    def __str__(self) -> str:
        if not self.struct:
            return f"json: cannot unmarshal {self.found} into Go value of type {self.go_type}"
        path = ".".join(reversed(self.path))
        return f"json: cannot unmarshal {self.found} into Go struct field {self.struct}.{path} of type {self.go_type}"


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
