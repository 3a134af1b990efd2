"""Built-in types as trees of nodes, built when first visited.

`kind_node("apps", "v1", "StatefulSet")` costs nothing but one small object; its fields become nodes when they
are first read. All callers share the nodes: they are never changed.
"""

from collections.abc import Mapping
from functools import cache

from kohort.cluster.apiserver.schema.builtin_types import FieldRecord, TypeExpression, has_type, record, type_name
from kohort.cluster.apiserver.schema.node import ANY, MISSING, Node, NodeType

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

_ALIASES = {("policy", "v1beta1", "Eviction"): ("policy", "v1", "Eviction")}
"""Versions that are no longer served but still accepted in bodies."""


@cache
def kind_node(group: str, version: str, kind: str) -> Node:
    """The root node of a built-in kind. KeyError when there is none."""
    group, version, kind = _ALIASES.get((group, version, kind), (group, version, kind))
    name = type_name(group, version, kind)
    if name is None:
        raise KeyError(f"{group}/{version} {kind} is not a built-in kind")
    return type_node(name)


def is_builtin(group: str, version: str, kind: str) -> bool:
    return (group, version, kind) in _ALIASES or type_name(group, version, kind) is not None


@cache
def type_node(name: str) -> Node:
    """The node of a type by its full name, for example `io.k8s.api.core.v1.PodSpec`."""
    if not has_type(name):
        raise KeyError(f"{name} is not a built-in type")
    described = record(name)
    return Node("object", name=name, fields=lambda: _fields(name), required=described.required, atomic=described.atomic)


@cache
def _fields(name: str) -> Mapping[str, Node]:
    return {field.name: _field_node(field) for field in record(name).fields}


def _field_node(field: FieldRecord) -> Node:
    expression = field.type
    if expression.kind == "struct" and not field.strategy and not field.map_type:
        return type_node(expression.word)
    plain = _expression_node(expression)
    if not (field.strategy or field.merge_key or field.map_type or field.enum) and (
        field.default is None and field.list_type == "atomic"
    ):
        return plain
    return _with_merge_rules(plain, field)


def _with_merge_rules(plain: Node, field: FieldRecord) -> Node:
    """The node of a type with what this one field adds to it."""
    return Node(
        plain.type,
        name=plain.name,
        format=plain.format,
        fields=(lambda: plain.fields) if plain.type == "object" else None,
        items=(lambda: plain.items) if plain.type in ("array", "map") else None,
        required=plain.required,
        list_type=field.list_type,
        list_keys=field.list_keys,
        atomic=field.map_type == "atomic" if field.map_type else plain.atomic,
        patch_strategy=frozenset(field.strategy),
        merge_key=field.merge_key,
        preserve_unknown=plain.preserve_unknown,
        default=MISSING if field.default is None else field.default,
        constraints={"enum": list(field.enum)} if field.enum else None,
    )


RAW = Node("any", name="io.k8s.apimachinery.pkg.runtime.RawExtension", preserve_unknown=True, atomic=True)
"""Embedded data without a schema, which has one owner as a whole."""

_SIMPLE: dict[str, tuple[NodeType, str]] = {
    "string": ("string", ""),
    "bool": ("boolean", ""),
    "int32": ("integer", "int32"),
    "int64": ("integer", "int64"),
    "float64": ("number", "double"),
    "bytes": ("string", "byte"),
    "time": ("string", "date-time"),
    "microtime": ("string", "micro-time"),
    "duration": ("string", "duration"),
    "quantity": ("any", "quantity"),
    "intstr": ("any", "int-or-string"),
}


@cache
def _expression_node(expression: TypeExpression) -> Node:
    if expression.kind == "struct":
        return type_node(expression.word)
    if expression.kind in ("list", "wrapped-list"):
        return Node("array", items=lambda: _expression_node(expression.item))
    if expression.kind == "map":
        return Node("map", items=lambda: _expression_node(expression.item))
    if expression.word == "raw":
        return RAW
    simple = _SIMPLE.get(expression.word)
    return Node(simple[0], format=simple[1]) if simple else ANY
