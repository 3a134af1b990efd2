"""How large values under a schema can get, as far as the schema and the size of a request limit them."""

from collections.abc import Mapping
from functools import cached_property
from typing import Final

from kohort.cluster.apiserver.cel.schema_types import escaped
from kohort.cluster.apiserver.schema.node import Missing, Node

MAX_REQUEST: Final = 3 * 1024 * 1024

_ANY_STRING: Final = MAX_REQUEST - 2
_TIMES: Final = {"duration": (32, 3), "date": (12, 12), "date-time": (32, 21), "datetime": (32, 21)}
"""Longest text, and the shortest in JSON."""
_SHORTEST: Final = {"boolean": 4, "number": 1, "integer": 1}


class ValueExtent:
    """The most elements (or bytes of text) that a value can have, and the fewest bytes that it takes in a request."""

    def __init__(self, node: Node, *, root: bool = False) -> None:
        self._node = node
        self._root = root or node.embedded

    @cached_property
    def elements(self) -> int:
        node = self._node
        limits = node.constraints
        match node.type:
            case "array":
                limit = limits.get("maxItems")
                return max(0, limit) if limit is not None else (MAX_REQUEST - 2) // (self._inner_shortest + 1)
            case "map":
                limit = limits.get("maxProperties")
                return max(0, limit) if limit is not None else (MAX_REQUEST - 2) // (self._inner_shortest + 6)
            case "string":
                return self._text_length()
            case "any" if node.format == "int-or-string":
                return max(0, limits["maxLength"]) * 4 if "maxLength" in limits else _ANY_STRING
        return 0

    def _text_length(self) -> int:
        """In bytes, four of which a character may take."""
        node, limit = self._node, self._node.constraints.get("maxLength")
        if node.format in _TIMES:
            return _TIMES[node.format][0]
        if node.format == "byte":
            return max(0, int(limit)) if limit is not None else _ANY_STRING
        if limit is not None:
            return max(0, int(limit)) * 4
        choices = node.constraints.get("enum")
        if choices:
            return max((len(str(choice).encode()) for choice in choices if isinstance(choice, str)), default=0)
        return _ANY_STRING

    @cached_property
    def shortest(self) -> int:
        node = self._node
        if node.type == "string":
            return _TIMES[node.format][1] if node.format in _TIMES else 2
        if node.type == "object":
            return 2 + sum(
                len(name.encode()) + ValueExtent(field).shortest + 4
                for name, field in self._visible.items()
                if name in node.required and isinstance(field.default, Missing)
            )
        return 2 if node.type in ("array", "map") else _SHORTEST.get(node.type, 1)

    @property
    def _inner_shortest(self) -> int:
        return ValueExtent(self._node.items).shortest

    @cached_property
    def _visible(self) -> Mapping[str, Node]:
        return {name: field for name, field in self._node.fields.items() if _is_visible(field)}

    @cached_property
    def _fields(self) -> dict[str, Node]:
        named = {escaped(name): field for name, field in self._visible.items()}
        if self._root:
            text = Node("string")
            named.update(apiVersion=text, kind=text)
            named["metadata"] = Node("object", fields={"name": text, "generateName": text})
        return {name: field for name, field in named.items() if name is not None}

    def step(self, name: str) -> "ValueExtent | None":
        """Below a field, or `@items`, `@values`, `@keys`."""
        if name in ("@items", "@values"):
            return ValueExtent(self._node.items) if self._node.type in ("array", "map") else None
        if name == "@keys":
            return ValueExtent(Node("object")) if self._node.type == "map" else None
        field = self._fields.get(name)
        return ValueExtent(field) if field is not None else None

    @property
    def repetitions(self) -> int:
        """How often a value of this extent fits into a request."""
        return MAX_REQUEST // (self.shortest + 1)


def _is_visible(node: Node) -> bool:
    """Whether expressions can see values under a schema."""
    if node.type == "any":
        return node.format == "int-or-string"
    return _is_visible(node.items) if node.type in ("array", "map") else True
