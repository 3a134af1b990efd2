"""Which part of an old object corresponds to which part of a new one.

A rule about a change needs the old value; a rule that an unchanged part violates already is not held against an update
of something else. Fields and map entries correspond by name, elements of associative lists by their keys; elements of
other lists do not correspond to anything, only the list as a whole does.
"""

from typing import Final

from kohort.cluster.apiserver.schema.node import Node
from kohort.objects.json_types import Json, identical

ABSENT: Final = object()


class Correlation:
    """A place in the new object whose old value is known."""

    __slots__ = ("_by_key", "_equal", "new", "node", "old")

    def __init__(self, new: Json, old: Json, node: Node) -> None:
        self.new = new
        self.old = old
        self.node = node
        self._equal: bool | None = None
        self._by_key: dict[Json, Json] | None = None

    @property
    def unchanged(self) -> bool:
        if self._equal is None:
            self._equal = same(self.new, self.old, self.node)
        return self._equal

    def key(self, name: str) -> "Correlation | None":
        """The place below a field or map entry that both objects have."""
        if not isinstance(self.new, dict) or not isinstance(self.old, dict):
            return None
        node = self.node.field(name)
        if node is None or name not in self.new or name not in self.old:
            return None
        return Correlation(self.new[name], self.old[name], node)

    def index(self, position: int) -> "Correlation | None":
        """The place below an element of an associative list whose keys the old list has as well."""
        if self.node.list_type != "map" or not isinstance(self.new, list) or not isinstance(self.old, list):
            return None
        if self._by_key is None:
            self._by_key = {element_key(item, self.node): item for item in self.old}
        element = self.new[position]
        old = self._by_key.get(element_key(element, self.node))
        return None if old is None else Correlation(element, old, self.node.items)


def element_key(element: Json, node: Node) -> Json:
    """The keys that identify an element of an associative list. Keys that are left out have their default."""
    if not isinstance(element, dict):
        return None
    return tuple(_scalar(element.get(key)) for key in node.list_keys)


def _scalar(value: Json) -> Json:
    return repr(value) if isinstance(value, (dict, list)) else (type(value).__name__, value)


def same(new: Json, old: Json, node: Node) -> bool:
    """Equal, where the order of associative lists does not matter."""
    if identical(new, old):
        return True
    if isinstance(new, dict) and isinstance(old, dict):
        return new.keys() == old.keys() and all(_same_below(new[key], old[key], node.field(key)) for key in new)
    if isinstance(new, list) and isinstance(old, list) and node.list_type == "map" and len(new) == len(old):
        by_key = {element_key(item, node): item for item in old}
        pairs = [(item, by_key.get(element_key(item, node), ABSENT)) for item in new]
        return all(other is not ABSENT and same(item, other, node.items) for item, other in pairs)
    return False


def _same_below(new: Json, old: Json, node: Node | None) -> bool:
    return identical(new, old) if node is None else same(new, old, node)
