"""Which keywords a CRD schema may use, and whether its list types, map types and rules make sense."""

import re
from collections.abc import Iterator
from typing import Final

from kohort.objects.field_errors import FieldError, forbidden, invalid, not_supported, required, too_many
from kohort.objects.json_types import Json, JsonObject

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_RESOURCE_FIELDS: Final = frozenset({"metadata", "kind", "apiVersion"})
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")

_UNSUPPORTED: Final = (
    ("id", "id is not supported"),
    ("additionalItems", "additionalItems is not supported"),
    ("patternProperties", "patternProperties is not supported"),
    ("definitions", "definitions is not supported"),
    ("dependencies", "dependencies is not supported"),
    ("$ref", "$ref is not supported"),
)


_OUTSIDERS: Final = frozenset(("$schema", *(key for key, _ in _UNSUPPORTED)))
_WITH_SCHEMAS: Final = frozenset(("properties", "allOf", "oneOf", "anyOf", "not", "items", "additionalProperties"))


def outside_errors(schema: JsonObject, path: str) -> list[FieldError]:
    """Errors of a schema with keywords that have no place in a structural one; empty when there are none such. Nothing
    else is known about such a schema than how it is spelt."""
    if not _has_outsider(schema):
        return []
    detail = "OpenAPIV3Schema 'schema' is not supported"
    return list(vocabulary_errors(schema, path)) or [invalid(path, "", detail)]


def _has_outsider(schema: JsonObject) -> bool:
    if not _OUTSIDERS.isdisjoint(schema) and any(_uses(schema, key) for key in _OUTSIDERS):
        return True
    return not _WITH_SCHEMAS.isdisjoint(schema) and any(_has_outsider(inner) for inner in _schemas_below(schema))


def _schemas_below(schema: JsonObject) -> Iterator[JsonObject]:
    yield from (schema.get("properties") or {}).values()
    for key in ("allOf", "oneOf", "anyOf"):
        yield from schema.get(key) or ()
    for key in ("not", "items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield schema[key]


def _uses(schema: JsonObject, key: str) -> bool:
    value = schema.get(key)
    return value is not None if key == "additionalItems" else value not in (None, "", {})


def vocabulary_errors(schema: JsonObject, path: str) -> Iterator[FieldError]:
    return _vocabulary(schema, path, _Place(root=True))


class _Place:
    """Where in the schema we are, as far as it matters for defaults and embedded resources."""

    __slots__ = ("no_defaults", "resource_meta", "root")

    def __init__(self, *, root: bool = False, resource_meta: bool = False, no_defaults: str = "") -> None:
        self.root = root
        self.resource_meta = resource_meta
        self.no_defaults = no_defaults
        """Why defaults are not allowed here; empty when they are."""

    def inside(self, *, resource_meta: bool = False, no_defaults: str = "") -> "_Place":
        return _Place(resource_meta=self.resource_meta or resource_meta, no_defaults=no_defaults or self.no_defaults)


def _vocabulary(schema: JsonObject, path: str, place: _Place) -> Iterator[FieldError]:
    yield from _keyword_errors(schema, path, place)
    yield from _vocabulary_below(schema, path, place)
    yield from _map_type_errors(schema, path)
    yield from _list_type_errors(schema, path)
    yield from _list_key_errors(schema, path)
    yield from _rule_errors(schema, path)


def _keyword_errors(schema: JsonObject, path: str, place: _Place) -> Iterator[FieldError]:
    declared = schema.get("type", "")
    if declared and declared not in _TYPES:
        yield not_supported(f"{path}.type", declared, _TYPES)
    if schema.get("default") is not None and place.no_defaults:
        yield forbidden(f"{path}.default", f"must not be set {place.no_defaults}")
    if not _OUTSIDERS.isdisjoint(schema):
        yield from (forbidden(f"{path}.{key}", detail) for key, detail in _UNSUPPORTED if _uses(schema, key))
    if declared == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if place.resource_meta and schema.get("x-kubernetes-embedded-resource"):
        yield forbidden(f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta")
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", detail)
    additional = schema.get("additionalProperties")
    if additional is not None and additional is not True and schema.get("properties"):
        detail = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", detail)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")


def _vocabulary_below(schema: JsonObject, path: str, place: _Place) -> Iterator[FieldError]:
    if _WITH_SCHEMAS.isdisjoint(schema):
        return
    if isinstance(schema.get("additionalProperties"), dict):
        reason = "inside additionalProperties applying to object metadata" if place.resource_meta else ""
        inside = place.inside(no_defaults=reason)
        yield from _vocabulary(schema["additionalProperties"], f"{path}.additionalProperties", inside)
    resource = place.root or bool(schema.get("x-kubernetes-embedded-resource"))
    for name, inner in (schema.get("properties") or {}).items():
        meta = resource and name in _RESOURCE_FIELDS
        reason = f"in top-level {name}" if meta and place.root else ""
        inside = place.inside(resource_meta=meta, no_defaults=reason)
        yield from _vocabulary(inner, f"{path}.properties[{name}]", inside)
    for key in ("allOf", "oneOf", "anyOf"):
        for index, inner in enumerate(schema.get(key) or ()):
            yield from _vocabulary(inner, f"{path}.{key}[{index}]", place.inside())
    if schema.get("not") is not None:
        yield from _vocabulary(schema["not"], f"{path}.not", place.inside())
    if isinstance(schema.get("items"), dict):
        yield from _vocabulary(schema["items"], f"{path}.items", place.inside())


def _map_type_errors(schema: JsonObject, path: str) -> Iterator[FieldError]:
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is None:
        return
    yield from _wanted_type(schema, path, "object", "x-kubernetes-map-type")
    if map_type not in ("atomic", "granular"):
        yield not_supported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular"))


def _wanted_type(schema: JsonObject, path: str, wanted: str, because: str) -> Iterator[FieldError]:
    declared = schema.get("type", "")
    detail = f"must be {wanted} if {because} is specified"
    if not declared:
        yield required(f"{path}.type", detail)
    elif declared != wanted:
        yield invalid(f"{path}.type", declared, detail)


def _list_type_errors(schema: JsonObject, path: str) -> Iterator[FieldError]:
    list_type = schema.get("x-kubernetes-list-type")
    if list_type is None:
        return
    yield from _wanted_type(schema, path, "array", "x-kubernetes-list-type")
    items = schema.get("items")
    if schema.get("type") == "array" and list_type == "set" and isinstance(items, dict):
        detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
        inner = items.get("x-kubernetes-list-type")
        if items.get("type") == "array" and inner not in (None, "atomic"):
            yield invalid(f"{path}.items.x-kubernetes-list-type", inner, detail)
        elif items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
            yield invalid(f"{path}.items.x-kubernetes-map-type", inner, detail)
    if list_type not in ("atomic", "set", "map"):
        yield not_supported(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "set", "map"))


def _list_key_errors(schema: JsonObject, path: str) -> Iterator[FieldError]:
    list_type = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys") or []
    if keys and list_type != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        where = f"{path}.x-kubernetes-list-type"
        yield required(where, detail) if list_type is None else invalid(where, list_type, detail)
    items = schema.get("items")
    if list_type == "map":
        yield from _map_list_errors(keys, items, path)
    if isinstance(items, dict) and list_type in ("set", "map"):
        yield from _item_errors(keys if list_type == "map" else [], items, str(list_type), f"{path}.items")


def _map_list_errors(keys: list[str], items: Json, path: str) -> Iterator[FieldError]:
    if not keys:
        yield required(f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    elif not isinstance(items, dict):
        yield invalid(f"{path}.items", items, "must only have a single schema if x-kubernetes-list-type is map")
    elif items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), detail)
    else:
        yield from _key_names(keys, items, path)


def _key_names(keys: list[str], items: JsonObject, path: str) -> Iterator[FieldError]:
    properties = items.get("properties") or {}
    seen: set[str] = set()
    for key in keys[:MAX_LIST_KEYS]:
        if key not in properties:
            detail = "entries must all be names of item properties"
            yield invalid(f"{path}.x-kubernetes-list-map-keys", keys[:MAX_LIST_KEYS], detail)
        elif properties[key].get("type") in ("array", "object"):
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{path}.items.properties[{key}].type", items["type"], detail)
        if key in seen:
            shown = keys[:MAX_LIST_KEYS]
            yield invalid(f"{path}.x-kubernetes-list-map-keys", shown, "must not contain duplicate entries")
        seen.add(key)
    if len(keys) > MAX_LIST_KEYS:
        yield too_many(f"{path}.x-kubernetes-list-map-keys", len(keys), MAX_LIST_KEYS)


MAX_LIST_KEYS: Final = 100
"""Keys of a list that are looked at: what is wrong with one of them shows all."""


def _item_errors(keys: list[str], items: JsonObject, list_type: str, path: str) -> Iterator[FieldError]:
    if items.get("nullable"):
        yield forbidden(f"{path}.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}")
    properties = items.get("properties") or {}
    for key in keys:
        if key not in properties:
            continue
        because = "this property is in x-kubernetes-list-map-keys, so it"
        if key not in (items.get("required") or ()) and properties[key].get("default") is None:
            detail = f"{because} must have a default or be a required property"
            yield required(f"{path}.properties[{key}].default", detail)
        if properties[key].get("nullable"):
            yield forbidden(f"{path}.properties[{key}].nullable", f"{because} cannot be nullable")


def _rule_errors(schema: JsonObject, path: str) -> Iterator[FieldError]:
    """The form of `x-kubernetes-validations`; what the expressions mean is checked elsewhere."""
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        where = f"{path}.x-kubernetes-validations[{index}]"
        text, message = rule.get("rule", ""), rule.get("message", "")
        if not text.strip():
            yield required(f"{where}.rule", "rule is not specified")
        elif message and not message.strip():
            yield invalid(f"{where}.message", message, "must be non-empty if specified")
        elif _has_line_break(message.strip()):
            yield invalid(f"{where}.message", message, "must not contain line breaks")
        elif _has_line_break(text.strip()) and not message.strip():
            yield required(f"{where}.message", "message must be specified if rule contains line breaks")
        expression = rule.get("messageExpression", "")
        if expression and not expression.strip():
            yield required(f"{where}.messageExpression", "messageExpression must be non-empty if specified")
        if rule.get("reason") is not None and rule["reason"] not in _REASONS:
            yield not_supported(f"{where}.reason", rule["reason"], _REASONS)
        yield from _field_path_errors(rule.get("fieldPath", ""), schema, f"{where}.fieldPath")


def _has_line_break(text: str) -> bool:
    return any(character in text for character in "\n\r")


def _field_path_errors(text: str, schema: JsonObject, where: str) -> Iterator[FieldError]:
    if not text:
        return
    if not text.strip():
        yield invalid(where, text, "must be non-empty if specified")
    if _has_line_break(text):
        yield invalid(where, text, "must not contain line breaks")
    if not _is_path(text, schema):
        yield invalid(where, text, "must be a valid path")


def _is_path(text: str, schema: JsonObject) -> bool:
    """Whether `.a.b['c.d']` leads through the properties of a schema."""
    steps = re.findall(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)+)'\]", text)
    if "".join(f".{plain}" if plain else f"['{quoted}']" for plain, quoted in steps) != text:
        return False
    for plain, quoted in steps:
        properties = schema.get("properties") or {}
        additional = schema.get("additionalProperties")
        name = plain or quoted.replace("\\'", "'")
        if name in properties:
            schema = properties[name]
        elif isinstance(additional, dict):
            schema = additional
        else:
            return False
    return True
