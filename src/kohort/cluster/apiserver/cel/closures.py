"""A typed syntax tree becomes a nest of closures.

Every closure takes the frame: a list with the budget in front, then the variables, then a slot for each loop variable.
Decisions that the types allow are taken here, once: which overload is meant, whether two values can be compared
directly, which property a field name stands for.

Data with a schema is not wrapped on the way through a path. `raw(expr)` is a closure for the JSON below a path from
such a variable, `value(expr)` one for the value it stands for; the two differ only for objects, special lists, dates
and the like. `self.spec.replicas >= 1` therefore costs two dictionary lookups and a comparison.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kohort.cluster.apiserver.cel import loops
from kohort.cluster.apiserver.cel.equality import contains, equal
from kohort.cluster.apiserver.cel.errors import CelError
from kohort.cluster.apiserver.cel.fragments import (
    conditional,
    conjunction,
    constant,
    declared_field,
    disjunction,
    dynamic_field,
    holds_texts,
    list_entry,
    map_entry,
    map_lookup,
    membership,
    negation,
    optional_field,
    present,
    schema_equality,
    wrapped,
)
from kohort.cluster.apiserver.cel.logic import Closure, Frame
from kohort.cluster.apiserver.cel.overloads import call_closure
from kohort.cluster.apiserver.cel.schema_types import SchemaList, SchemaObject, wrapper
from kohort.cluster.apiserver.cel.syntax import (
    Call,
    Comprehension,
    Expr,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    OptionalMap,
    Select,
    StructLiteral,
)
from kohort.cluster.apiserver.cel.values import NONE, Optional, TypeValue, map_key, no_overload
from kohort.objects.json_types import Json

_DIRECT = frozenset({"string", "int", "bool", "uint", "bytes"})
"""Types whose values Python compares as CEL does, when both sides have the type."""


class Slot(NamedTuple):
    position: int
    raw: bool
    """Whether the frame holds JSON that still has to be seen through its schema."""


class Compiler:
    def __init__(self, variables: Mapping[str, Slot], type_names: Mapping[str, str]) -> None:
        self.scope: dict[str, Slot] = dict(variables)
        self.type_names = type_names
        """The name of the type that an identifier stands for, for `type(x) == int`."""
        self.globals = dict(variables)
        self.next_slot = 1 + len(variables)
        self.first_local = self.next_slot

    @property
    def locals_used(self) -> int:
        return self.next_slot - self.first_local

    # -- raw paths

    def raw(self, expr: Expr) -> Closure | None:
        """A closure for the JSON below a path, or None when the expression is not such a path."""
        if isinstance(expr, Ident):
            return self.raw_variable(expr.name, expr.absolute)
        if isinstance(expr, Select) and not expr.optional and not expr.test:
            return self.raw_variable(expr.qualified, True) if expr.qualified else self.raw_selection(expr)
        if isinstance(expr, Call) and expr.function == "_[_]":
            return self.raw_index(expr)
        return None

    def raw_variable(self, name: str, absolute: bool) -> Closure | None:
        slot = (self.globals if absolute else self.scope).get(name)
        if slot is None or not slot.raw:
            return None
        return loops.slot_reader(slot.position)

    def raw_selection(self, expr: Select) -> Closure | None:
        operand = self.raw(expr.operand)
        if operand is None:
            return None
        if isinstance(expr.operand.type, SchemaObject):
            return declared_field(operand, expr.operand.type.raw_names[expr.field], expr.field)
        return map_entry(operand, expr.field) if expr.operand.type.kind == "map" else None

    def raw_index(self, expr: Call) -> Closure | None:
        container, key = expr.args
        operand = self.raw(container)
        if operand is None or container.type.kind not in ("list", "map"):
            return None
        key_closure = self.value(key)
        return list_entry(operand, key_closure) if container.type.kind == "list" else map_lookup(operand, key_closure)

    # -- values

    def value(self, expr: Expr) -> Closure:
        path = self.raw(expr)
        if path is not None:
            wrap = wrapper(expr.type)
            return path if wrap is None else wrapped(path, wrap)
        match expr:
            case Literal():
                return constant(expr.value)
            case Ident():
                return self.variable(expr.name, expr.absolute)
            case Select():
                return self.selection(expr)
            case Call():
                return self.call(expr)
            case Comprehension():
                return self.comprehension(expr)
            case OptionalMap():
                return self.optional_map(expr)
            case ListLiteral():
                return self.list_literal(expr)
            case MapLiteral():
                return self.map_literal(expr)
            case StructLiteral():
                return self.struct_literal(expr)
        raise AssertionError(expr)

    def variable(self, name: str, absolute: bool) -> Closure:
        slot = (self.globals if absolute else self.scope).get(name)
        if slot is not None:
            return loops.slot_reader(slot.position)
        return constant(TypeValue(self.type_names[name]))

    def selection(self, expr: Select) -> Closure:
        if expr.qualified:
            return self.variable(expr.qualified, True)
        if expr.test:
            return self.presence(expr)
        operand, field = self.value(expr.operand), expr.field
        if expr.optional or expr.operand.type.kind == "optional":
            return lambda v: optional_field(operand(v), field)
        return lambda v: dynamic_field(operand(v), field)

    def presence(self, expr: Select) -> Closure:
        """`has(operand.field)`"""
        operand_type, field = expr.operand.type, expr.field
        path = self.raw(expr.operand)
        if path is not None and isinstance(operand_type, SchemaObject):
            name = operand_type.raw_names[field]
            return lambda v: path(v).get(name) is not None
        if path is not None and operand_type.kind == "map":
            return lambda v: field in path(v)
        operand = self.value(expr.operand)
        return lambda v: present(operand(v), field)

    # -- calls

    def call(self, expr: Call) -> Closure:
        match expr.function:
            case "_&&_":
                return conjunction([self.value(arg) for arg in expr.args])
            case "_||_":
                return disjunction([self.value(arg) for arg in expr.args])
            case "!_":
                return negation(self.value(expr.args[0]))
            case "_?_:_":
                return conditional(*(self.value(arg) for arg in expr.args))
            case "_==_":
                return self.equality(expr)
            case "_!=_":
                same = self.equality(expr)
                return lambda v: not same(v)
            case "@in":
                return self.membership(expr)
            case "size":
                return self.size(expr)
            case "or" | "orValue" if expr.target is not None:
                return self.alternative(expr)
        arguments = [expr.target, *expr.args] if expr.target is not None else expr.args
        return call_closure(expr, arguments, [self.value(argument) for argument in arguments])

    def equality(self, expr: Call) -> Closure:
        one, two = expr.args
        kinds = {one.type.kind, two.type.kind}
        if len(kinds) == 1 and kinds <= _DIRECT:
            left, right = self.value(one), self.value(two)
            if isinstance(two, Literal):
                literal = two.value
                return lambda v: left(v) == literal
            return lambda v: left(v) == right(v)
        raw_left, raw_right = self.raw(one), self.raw(two)
        if raw_left is not None and raw_right is not None and isinstance(one.type, (SchemaObject, SchemaList)):
            return schema_equality(raw_left, raw_right, one.type)
        left, right = self.value(one), self.value(two)
        return lambda v: equal(left(v), right(v))

    def membership(self, expr: Call) -> Closure:
        element, container = expr.args
        needle = self.value(element)
        path = self.raw(container)
        if path is not None and container.type.kind == "map":
            return lambda v: map_key(needle(v)) in path(v)
        holder = path if path is not None and holds_texts(container.type) else self.value(container)
        if isinstance(container, ListLiteral) and all(
            isinstance(item, Literal) and isinstance(item.value, str) for item in container.items
        ):
            words = [item.value for item in container.items if isinstance(item, Literal)]
            return lambda v: contains(words, needle(v))
        costly = container.type.kind != "map"
        return membership(needle, holder, costly)

    def size(self, expr: Call) -> Closure:
        subject = expr.target if expr.target is not None else expr.args[0]
        path = self.raw(subject)
        if path is not None and subject.type.kind in ("list", "map", "string"):
            return lambda v: len(path(v))
        return call_closure(expr, [subject], [self.value(subject)])

    def alternative(self, expr: Call) -> Closure:
        """`optional.or(other)`, `optional.orValue(value)`: the argument is evaluated only when needed."""
        assert expr.target is not None
        subject, other, whole = self.value(expr.target), self.value(expr.args[0]), expr.function == "or"

        def alternative(v: Frame) -> Json:
            optional = subject(v)
            if not isinstance(optional, Optional):
                raise no_overload()
            if optional.present:
                return optional if whole else optional.value
            return other(v)

        return alternative

    # -- macros

    def local(self, name: str, raw: bool) -> Slot:
        slot = Slot(self.next_slot, raw)
        self.next_slot += 1
        self.scope[name] = slot
        return slot

    def comprehension(self, expr: Comprehension) -> Closure:
        path = self.raw(expr.range)
        over = path if path is not None else self.value(expr.range)
        outer = dict(self.scope)
        is_map = expr.range.type.kind == "map"
        raw = path is not None
        first = self.local(expr.first, raw=raw and not is_map and not expr.second)
        second = self.local(expr.second, raw=raw) if expr.second else None
        condition = self.value(expr.condition) if expr.condition is not None else None
        weight = _weight(expr.body) + (_weight(expr.condition) if expr.condition is not None else 0)
        if expr.kind == "transformMapEntry":
            assert isinstance(expr.body, MapLiteral)
            entry = expr.body.entries[0]
            key, body = self.value(entry.key), self.value(entry.value)
        else:
            key, body = None, self.value(expr.body)
        self.scope = outer
        keep = wrapper(expr.range.type.params[0]) if first.raw else None
        loop = loops.Loop(
            kind=expr.kind,
            over=over,
            raw=raw,
            weight=weight,
            first=first.position,
            second=second.position if second else 0,
            condition=condition,
            key=key,
            body=body,
            keep=keep,
        )
        return loops.loop_closure(loop)

    def optional_map(self, expr: OptionalMap) -> Closure:
        optional = self.value(expr.value)
        outer = dict(self.scope)
        position = self.local(expr.name, raw=False).position
        body = self.value(expr.body)
        self.scope = outer
        rewrap = expr.rewrap

        def optional_map(v: Frame) -> Json:
            value = optional(v)
            if not isinstance(value, Optional):
                raise no_overload()
            if not value.present:
                return NONE
            v[position] = value.value
            return Optional(body(v)) if rewrap else body(v)

        return optional_map

    # -- literals

    def list_literal(self, expr: ListLiteral) -> Closure:
        items = [self.value(item) for item in expr.items]
        if not expr.optional:
            if all(isinstance(item, Literal) for item in expr.items):
                return constant([item.value for item in expr.items if isinstance(item, Literal)])
            return lambda v: [item(v) for item in items]
        optional = expr.optional

        def build(v: Frame) -> list[Json]:
            built: list[Json] = []
            for place, item in enumerate(items):
                value = item(v)
                if place not in optional:
                    built.append(value)
                elif not isinstance(value, Optional):
                    raise CelError("cannot initialize optional list element from non-optional value")
                elif value.present:
                    built.append(value.value)
            return built

        return build

    def map_literal(self, expr: MapLiteral) -> Closure:
        entries = [(self.value(entry.key), self.value(entry.value), entry.optional) for entry in expr.entries]

        def build(v: Frame) -> dict[Json, Json]:
            built: dict[Json, Json] = {}
            for key_closure, value_closure, optional in entries:
                key, value = map_key(key_closure(v)), value_closure(v)
                if not optional:
                    built[key] = value
                elif not isinstance(value, Optional):
                    raise CelError(f"cannot initialize optional entry '{key}' from non-optional value")
                elif value.present:
                    built[key] = value.value
            return built

        return build

    def struct_literal(self, expr: StructLiteral) -> Closure:
        fields = [(field.name, self.value(field.value), field.optional) for field in expr.fields]

        def build(v: Frame) -> dict[str, Json]:
            built: dict[str, Json] = {}
            for name, closure, optional in fields:
                value = closure(v)
                if not optional:
                    built[name] = value
                elif value.present:
                    built[name] = value.value
            return built

        return build


def _weight(expr: Expr) -> int:
    """About how many operations an evaluation takes, loops inside not counted: they charge for themselves."""
    match expr:
        case Select():
            return 1 + _weight(expr.operand)
        case Call():
            target = _weight(expr.target) if expr.target is not None else 0
            return 1 + target + sum(map(_weight, expr.args))
        case OptionalMap():
            return 1 + _weight(expr.value) + _weight(expr.body)
        case Comprehension():
            return 1 + _weight(expr.range)
        case ListLiteral():
            return 1 + sum(map(_weight, expr.items))
        case MapLiteral():
            return 1 + sum(_weight(entry.key) + _weight(entry.value) for entry in expr.entries)
        case StructLiteral():
            return 1 + sum(_weight(field.value) for field in expr.fields)
        case _:
            return 1
