"""A schema as a tree of nodes.

Compiled once from the built-in type data or from a CRD, then walked by decoding (unknown fields, pruning), defaulting,
validation, strategic merge, server-side apply, OpenAPI publishing. Nodes of built-in types refer to each other by name
and are resolved when first visited, so that starting the server does not build the trees of a hundred kinds.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal

from kohort.objects.json_types import Json, JsonObject

NodeType = Literal["object", "map", "array", "string", "integer", "number", "boolean", "any"]
"""`object` has declared fields, `map` has arbitrary string keys and one value type, `any` accepts every JSON value."""

ListType = Literal["atomic", "set", "map"]


class Missing:
    """The absence of a default, which `None` (an explicit null) cannot express."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()


class Rule:
    """One entry of `x-kubernetes-validations`."""

    __slots__ = ("field_path", "message", "message_expression", "optional_old_self", "reason", "rule")

    def __init__(
        self,
        rule: str,
        message: str = "",
        message_expression: str = "",
        reason: str = "FieldValueInvalid",
        field_path: str = "",
        optional_old_self: bool = False,
    ) -> None:
        self.rule = rule
        self.message = message
        self.message_expression = message_expression
        self.reason = reason
        self.field_path = field_path
        self.optional_old_self = optional_old_self


class Node:
    """One level of a schema.

    `format` distinguishes strings and integers that are the same in JSON: `quantity`, `int-or-string` (type `any` on
    the wire), `date-time`, `micro-time`, `duration`, `byte`, `int32`, `int64`, `float`, `double`, and the string
    formats of CRDs.
    """

    __slots__ = (
        "_make_fields",
        "_make_items",
        "atomic",
        "constraints",
        "default",
        "defaulted",
        "embedded",
        "fields",
        "format",
        "items",
        "list_keys",
        "list_type",
        "merge_key",
        "name",
        "nullable",
        "patch_strategy",
        "preserve_unknown",
        "required",
        "rules",
        "source",
        "type",
        "validator",
    )

    fields: Mapping[str, "Node"]
    items: "Node"
    """The element of an array, or the value of a map."""

    def __init__(
        self,
        type: NodeType,
        *,
        name: str = "",
        format: str = "",
        fields: Mapping[str, "Node"] | Callable[[], Mapping[str, "Node"]] | None = None,
        items: "Node | Callable[[], Node] | None" = None,
        required: frozenset[str] = frozenset(),
        list_type: ListType = "atomic",
        list_keys: tuple[str, ...] = (),
        atomic: bool = False,
        patch_strategy: frozenset[str] = frozenset(),
        merge_key: str = "",
        preserve_unknown: bool = False,
        embedded: bool = False,
        nullable: bool = False,
        default: Json | Missing = MISSING,
        constraints: Mapping[str, Json] | None = None,
        rules: tuple[Rule, ...] = (),
        source: JsonObject | None = None,
    ) -> None:
        self.type: NodeType = type
        self.name = name
        """The full type name of a built-in (`io.k8s.api.core.v1.PodSpec`), else empty."""
        self.format = format
        if callable(fields):
            self._make_fields = fields
        else:
            self.fields = fields or {}
        if isinstance(items, Node):
            self.items = items
        else:
            self._make_items = items
        self.required = required
        self.list_type: ListType = list_type
        self.list_keys = list_keys
        self.atomic = atomic
        """The whole struct or map has one owner in server-side apply."""
        self.patch_strategy = patch_strategy
        """Strategic merge: any of `merge`, `replace`, `retainKeys`."""
        self.merge_key = merge_key
        self.preserve_unknown = preserve_unknown
        self.embedded = embedded
        self.nullable = nullable
        self.default = default
        self.constraints: Mapping[str, Json] = constraints or {}
        """Value validations of CRD schemas, by their OpenAPI names: enum, minimum, maxLength, pattern, allOf, ..."""
        self.rules = rules
        self.source = source
        """The schema of a CRD from which this node was compiled, for publishing; None for built-in types."""
        self.validator: object = None
        """What `validate` made of the constraints, once it needed to."""
        self.defaulted: tuple[tuple[str, Node], ...] | None = None
        """The fields that have a default, once `defaults` has looked for them."""

    def __getattr__(self, name: str) -> Json:
        """Called for what is not there yet: fields and items that are made when they are first looked at. From then on
        they are plain attributes, which every walk over an object reads many times."""
        if name == "fields":
            self.fields = self._make_fields()
            return self.fields
        if name == "items":
            self.items = self._make_items() if self._make_items is not None else ANY
            return self.items
        raise AttributeError(name)

    def field(self, key: str) -> "Node | None":
        """The node below `key`, whether this is an object or a map; None where the schema says nothing."""
        if self.type == "object":
            return self.fields.get(key)
        if self.type == "map":
            return self.items
        return None


ANY: Final = Node("any", preserve_unknown=True)
