"""The schema of a CRD, compiled into nodes.

A structural schema says twice what a value looks like: its skeleton (types, properties, items) decides pruning,
defaulting and merging, and its value validations (everything under `allOf`, `anyOf`, `oneOf`, `not`, and all limits)
only restrict. The skeleton becomes the tree; the validations are carried along as constraints, and alternatives are
compiled by the validator when it first needs them. Levels are compiled when they are visited: the schema of a group
with its pod templates has more than ten thousand of them.
"""

from collections.abc import Mapping
from typing import Final

from kohort.cluster.apiserver.schema.builtin import OBJECT_META, type_node
from kohort.cluster.apiserver.schema.node import ANY, MISSING, Node, NodeType, Rule
from kohort.objects.json_types import Json, JsonObject

_CONSTRAINTS: Final = (
    "enum",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
)

_SCALARS: Final[dict[str, NodeType]] = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
}

_OPAQUE: Final = Node("any")
"""The values of `additionalProperties: true`: of any type, but objects among them are pruned to nothing."""


def compile_crd_schema(schema: JsonObject) -> Node:
    """The root node for `openAPIV3Schema` of one version."""
    return compile_schema(schema, resource=True)


def compile_schema(schema: JsonObject, *, resource: bool = False) -> Node:
    """The node of any level. `resource`: the level is an object with apiVersion, kind and metadata."""
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    kind = _node_type(schema, resource)
    return Node(
        kind,
        format="int-or-string" if schema.get("x-kubernetes-int-or-string") else schema.get("format", ""),
        fields=(lambda: _fields(schema, resource or embedded))
        if schema.get("properties") or resource or embedded
        else None,
        items=(lambda: _items(schema, kind)) if kind in ("array", "map") or "items" in schema else None,
        required=frozenset(schema.get("required") or ()),
        list_type=schema.get("x-kubernetes-list-type") or "atomic",
        list_keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()),
        atomic=schema.get("x-kubernetes-map-type") == "atomic",
        preserve_unknown=bool(schema.get("x-kubernetes-preserve-unknown-fields")),
        embedded=embedded,
        nullable=bool(schema.get("nullable")),
        default=MISSING if schema.get("default") is None else schema["default"],
        constraints={key: schema[key] for key in _CONSTRAINTS if key in schema},
        rules=tuple(_rule(entry) for entry in schema.get("x-kubernetes-validations") or ()),
        source=schema,
    )


def _node_type(schema: JsonObject, resource: bool) -> NodeType:
    declared = schema.get("type", "")
    if schema.get("x-kubernetes-int-or-string"):
        return "any"
    if declared == "object" or resource:
        additional = schema.get("additionalProperties")
        return (
            "map" if additional is not None and additional is not False and not schema.get("properties") else "object"
        )
    if declared == "array":
        return "array"
    return _SCALARS.get(declared, "any")


def _fields(schema: JsonObject, resource: bool) -> Mapping[str, Node]:
    properties = schema.get("properties") or {}
    fields = {name: compile_schema(inner) for name, inner in properties.items()}
    if resource:
        fields.setdefault("apiVersion", Node("string"))
        fields.setdefault("kind", Node("string"))
        fields["metadata"] = _metadata(properties.get("metadata") or {})
    return fields


def _metadata(schema: JsonObject) -> Node:
    """ObjectMeta, whose name the schema may restrict but whose shape it cannot change."""
    plain = type_node(OBJECT_META)
    restricted = schema.get("properties") or {}
    if not restricted:
        return plain
    return Node(
        "object",
        name=OBJECT_META,
        fields=lambda: {**plain.fields, **{name: compile_schema(inner) for name, inner in restricted.items()}},
    )


def _items(schema: JsonObject, kind: NodeType) -> Node:
    if kind == "map":
        additional = schema.get("additionalProperties")
        return compile_schema(additional) if isinstance(additional, dict) else _OPAQUE
    items = schema.get("items")
    return compile_schema(items) if isinstance(items, dict) else ANY


def _rule(entry: Json) -> Rule:
    return Rule(
        rule=entry.get("rule", ""),
        message=entry.get("message", ""),
        message_expression=entry.get("messageExpression", ""),
        reason=entry.get("reason") or "FieldValueInvalid",
        field_path=entry.get("fieldPath", ""),
        optional_old_self=bool(entry.get("optionalOldSelf")),
    )
