"""The small closures that larger ones are made of."""

from collections.abc import Callable

from kohort.cluster.apiserver.cel.equality import contains, equal
from kohort.cluster.apiserver.cel.errors import CelError
from kohort.cluster.apiserver.cel.logic import Closure, Frame, settle
from kohort.cluster.apiserver.cel.schema_types import wrapper
from kohort.cluster.apiserver.cel.types import Type
from kohort.cluster.apiserver.cel.values import NONE, Optional, find, lookup, no_overload
from kohort.objects.json_types import Json

_ABSENT = object()


def constant(value: Json) -> Closure:
    return lambda v: value


def wrapped(path: Closure, wrap: Callable[[Json], Json]) -> Closure:
    return lambda v: wrap(path(v))


def declared_field(operand: Closure, raw_name: str, name: str) -> Closure:
    def field(v: Frame) -> Json:
        found = operand(v).get(raw_name)
        if found is None:
            raise CelError(f"no such key: {name}")
        return found

    return field


def map_entry(operand: Closure, name: str) -> Closure:
    def entry(v: Frame) -> Json:
        found = operand(v).get(name, _ABSENT)
        if found is _ABSENT:
            raise CelError(f"no such key: {name}")
        return found

    return entry


def map_lookup(operand: Closure, key: Closure) -> Closure:
    return lambda v: lookup(operand(v), key(v))


def list_entry(operand: Closure, index: Closure) -> Closure:
    def entry(v: Frame) -> Json:
        items, position = operand(v), index(v)
        if not 0 <= position < len(items):
            raise CelError(f"index out of bounds: {position}")
        return items[position]

    return entry


def dynamic_field(container: Json, field: str) -> Json:
    if isinstance(container, Optional):
        return optional_field(container, field)
    return lookup(container, field)


def optional_field(container: Json, field: str) -> Optional:
    if isinstance(container, Optional):
        if not container.present:
            return NONE
        container = container.value
    return find(container, field)


def present(container: Json, field: str) -> bool:
    if isinstance(container, Optional):
        return container.present and find(container.value, field).present
    return find(container, field).present


def conjunction(terms: list[Closure]) -> Closure:
    return lambda v: settle(v, terms, deciding=False)


def disjunction(terms: list[Closure]) -> Closure:
    return lambda v: settle(v, terms, deciding=True)


def negation(operand: Closure) -> Closure:
    def negation(v: Frame) -> bool:
        value = operand(v)
        if value is True:
            return False
        if value is False:
            return True
        raise no_overload()

    return negation


def conditional(condition: Closure, when_true: Closure, when_false: Closure) -> Closure:
    def choice(v: Frame) -> Json:
        value = condition(v)
        if value is True:
            return when_true(v)
        if value is False:
            return when_false(v)
        raise no_overload()

    return choice


def schema_equality(left: Closure, right: Closure, type: Type) -> Closure:
    """Equal JSON is equal whatever the schema says, so values are only made when the JSON differs."""
    wrap = wrapper(type)

    def same(v: Frame) -> bool:
        one, two = left(v), right(v)
        if one == two:
            return True
        return wrap is not None and equal(wrap(one), wrap(two))

    return same


def holds_texts(type: Type) -> bool:
    return type.kind == "list" and type.params[0].kind == "string"


def membership(needle: Closure, holder: Closure, costly: bool) -> Closure:
    def inside(v: Frame) -> bool:
        value, container = needle(v), holder(v)
        if costly and isinstance(container, list):
            v[0].charge(1 + len(container) // 10)
        return contains(container, value)

    return inside
