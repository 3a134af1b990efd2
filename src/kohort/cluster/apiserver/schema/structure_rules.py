"""What a CRD schema must not contain.

Three sets of rules, in the order in which Kubernetes reports them:

1. The schema is structural: every level has a type, and what stands under `allOf`, `anyOf`, `oneOf` and `not` only
   restricts. The one exception is the pair integer/string of int-or-string fields.
2. Its defaults are values that the schema accepts and would not prune. Looked at only when rule 1 holds.
3. It uses no vocabulary that the API server does not support, and its list and map types make sense.
"""

import copy
from collections.abc import Iterator
from typing import Final

from kohort.cluster.apiserver.schema.patterns import pattern
from kohort.cluster.apiserver.schema.pruning import prune_value
from kohort.cluster.apiserver.schema.structural import compile_schema
from kohort.cluster.apiserver.schema.vocabulary_rules import vocabulary_errors
from kohort.objects.field_errors import FieldError, forbidden, invalid, required
from kohort.objects.json_types import JsonObject

_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]

_NESTED_FORBIDDEN: Final = (
    ("type", "must be empty to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)


def violations(schema: JsonObject, path: str, *, status_subresource: bool = False) -> list[FieldError]:
    """What is wrong with an `openAPIV3Schema` that stands at `path` of its definition."""
    errors: list[FieldError] = []
    if status_subresource:
        errors += _root_errors(schema, path)
    if schema.get("nullable"):
        errors.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    misspelt = list(vocabulary_errors(schema, path))
    if any(error.field.endswith(".$ref") for error in misspelt):
        return errors + misspelt  # what a reference stands for is unknown, so nothing more can be said
    structural = sorted(
        set(_invariants(schema, path, "root")) | set(_completeness(schema, schema, path, path)), key=str
    )
    errors += structural
    if not structural:
        errors += _default_errors(schema, path)
    return errors + misspelt


# --- 1. structural ----------------------------------------------------------------------------------------------------

_MISSING_TYPE: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def _invariants(schema: JsonObject, path: str, level: str) -> Iterator[FieldError]:
    if schema.get("type") == "array" and schema.get("items") is None:
        yield required(f"{path}.items", "must be specified")
    yield from _below(schema, path, level)
    yield from _extension_conflicts(schema, path)
    yield from _restrictions(schema, path, any_of_is_known=schema.get("anyOf") == _INT_OR_STRING)
    yield from _type_errors(schema, path, level)
    yield from _resource_errors(schema, path, level)


def _below(schema: JsonObject, path: str, level: str) -> Iterator[FieldError]:
    if isinstance(schema.get("items"), dict):
        yield from _invariants(schema["items"], f"{path}.items", "item")
    for name, inner in (schema.get("properties") or {}).items():
        yield from _invariants(inner, f"{path}.properties[{name}]", "field")
    additional = schema.get("additionalProperties")
    if additional is not None and level == "root":
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(additional, dict):
        yield from _invariants(additional, f"{path}.additionalProperties", "field")


def _extension_conflicts(schema: JsonObject, path: str) -> Iterator[FieldError]:
    if not schema.get("x-kubernetes-int-or-string"):
        return
    for other in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
        if schema.get(other):
            yield invalid(f"{path}.{other}", True, "must be false if x-kubernetes-int-or-string is true")


def _type_errors(schema: JsonObject, path: str, level: str) -> Iterator[FieldError]:
    declared = schema.get("type", "")
    if schema.get("x-kubernetes-embedded-resource") and declared != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(f"{path}.type", declared, detail) if declared else required(f"{path}.type", detail)
    elif not declared and not (
        schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    ):
        yield required(f"{path}.type", _MISSING_TYPE[level])
    if level == "root" and declared and declared != "object":
        yield invalid(f"{path}.type", declared, "must be object at the root")


def _resource_errors(schema: JsonObject, path: str, level: str) -> Iterator[FieldError]:
    """Rules for objects with apiVersion, kind and metadata: the root, and embedded resources."""
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    properties = schema.get("properties") or {}
    if embedded and schema.get("additionalProperties") is not None:
        detail = "must not be used if x-kubernetes-embedded-resource is set"
        yield forbidden(f"{path}.additionalProperties", detail)
    if embedded and not schema.get("x-kubernetes-preserve-unknown-fields") and not properties:
        detail = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        yield required(f"{path}.properties", detail)
    if level != "root" and not embedded:
        return
    for name in ("kind", "apiVersion"):
        if name in properties and properties[name].get("type") != "string":
            yield invalid(f"{path}.properties[{name}].type", properties[name].get("type", ""), "must be string")
    if "metadata" in properties:
        yield from _metadata_errors(properties["metadata"], f"{path}.properties[metadata]", level)


def _metadata_errors(schema: JsonObject, path: str, level: str) -> Iterator[FieldError]:
    if schema.get("type") != "object":
        yield invalid(f"{path}.type", schema.get("type", ""), "must be object")
    allowed = {"type", "default", "properties"}
    names = set(schema.get("properties") or {})
    if level == "root" and (set(schema) - allowed or names - {"name", "generateName"}):
        detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden(path, detail)


def _restrictions(schema: JsonObject, path: str, *, any_of_is_known: bool) -> Iterator[FieldError]:
    """The value validations of a level. `any_of_is_known`: its anyOf is the pair of int-or-string."""
    if not any_of_is_known:
        for index, inner in enumerate(schema.get("anyOf") or ()):
            yield from _nested(inner, f"{path}.anyOf[{index}]")
    for index, inner in enumerate(schema.get("allOf") or ()):
        known = index == 0 and inner.get("anyOf") == _INT_OR_STRING
        yield from _nested(inner, f"{path}.allOf[{index}]", any_of_is_known=known)
    for index, inner in enumerate(schema.get("oneOf") or ()):
        yield from _nested(inner, f"{path}.oneOf[{index}]")
    if schema.get("not") is not None:
        yield from _nested(schema["not"], f"{path}.not")
    if schema.get("pattern"):
        yield from _pattern_errors(schema["pattern"], f"{path}.pattern")


def _nested(schema: JsonObject, path: str, *, any_of_is_known: bool = False) -> Iterator[FieldError]:
    yield from _restrictions(schema, path, any_of_is_known=any_of_is_known)
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], f"{path}.items")
    for name, inner in (schema.get("properties") or {}).items():
        yield from _nested(inner, f"{path}.properties[{name}]")
    for key, detail in _NESTED_FORBIDDEN:
        if schema.get(key) is not None and schema[key] not in ("", False, []):
            yield forbidden(f"{path}.{key}", detail)
    if schema.get("additionalProperties") not in (None, False):
        yield forbidden(f"{path}.additionalProperties", "must be undefined to be structural")
    if "metadata" in (schema.get("properties") or {}):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _pattern_errors(text: str, path: str) -> Iterator[FieldError]:
    try:
        pattern(text)
    except ValueError as error:
        yield invalid(path, text, f"must be a valid regular expression, but isn't: error parsing regexp: {error}")


def _completeness(validation: JsonObject, schema: JsonObject | None, at: str, defined: str) -> Iterator[FieldError]:
    """Whatever the alternatives at the root talk about must exist in the schema proper."""
    if schema is None:
        yield required(at, f"because it is defined in {defined}")
        return
    for key in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(validation.get(key) or ()):
            yield from _nested_completeness(inner, schema, at, f"{defined}.{key}[{index}]")
    if validation.get("not") is not None:
        yield from _nested_completeness(validation["not"], schema, at, f"{defined}.not")


def _nested_completeness(
    validation: JsonObject, schema: JsonObject | None, at: str, defined: str
) -> Iterator[FieldError]:
    if schema is None:
        yield required(at, f"because it is defined in {defined}")
        return
    yield from _completeness(validation, schema, at, defined)
    if isinstance(validation.get("items"), dict):
        items = schema.get("items") if isinstance(schema.get("items"), dict) else None
        yield from _nested_completeness(validation["items"], items, f"{at}.items", f"{defined}.items")
    for name, inner in (validation.get("properties") or {}).items():
        field = (schema.get("properties") or {}).get(name)
        suffix = f"properties[{name}]"
        yield from _nested_completeness(inner, field, f"{at}.{suffix}", f"{defined}.{suffix}")


# --- 2. defaults ------------------------------------------------------------------------------------------------------


def _default_errors(schema: JsonObject, path: str, *, resource: bool = True) -> Iterator[FieldError]:
    if schema.get("default") is not None:
        yield from _one_default(schema, f"{path}.default", resource)
    if isinstance(schema.get("items"), dict):
        yield from _default_errors(schema["items"], f"{path}.items", resource=False)
    for name, inner in (schema.get("properties") or {}).items():
        yield from _default_errors(inner, f"{path}.properties[{name}]", resource=False)


def _one_default(schema: JsonObject, path: str, resource: bool) -> list[FieldError]:
    from kohort.cluster.apiserver.schema.list_uniqueness import embedded_errors
    from kohort.cluster.apiserver.schema.validate import validate_default

    node = compile_schema({**schema, "x-kubernetes-embedded-resource": True} if resource else schema)
    value = copy.deepcopy(schema["default"])
    errors: list[FieldError] = []
    try:
        if prune_value(value, node):
            errors.append(invalid(path, schema["default"], "must not have unknown fields"))
    except ValueError as error:
        where, _, message = str(error).partition(": ")
        return [FieldError("FieldValueInvalid", f"{path}.{where}" if where else path, message)]
    misplaced = embedded_errors(value, node, path)
    return errors + (misplaced or validate_default(schema["default"], node, path))


# --- the root of kinds with a status subresource ----------------------------------------------------------------------

_ROOT_KEYWORDS: Final = {
    "description": "Description", "type": "Type", "format": "Format", "title": "Title", "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum", "minimum": "Minimum", "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength", "minLength": "MinLength", "pattern": "Pattern", "maxItems": "MaxItems",
    "minItems": "MinItems", "uniqueItems": "UniqueItems", "multipleOf": "MultipleOf", "required": "Required",
    "items": "Items", "properties": "Properties", "externalDocs": "ExternalDocs", "example": "Example",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields", "x-kubernetes-validations": "XValidations",
}  # fmt: skip


def _root_errors(schema: JsonObject, path: str) -> Iterator[FieldError]:
    """With a status subresource, status is validated alone; only what does not get lost then is allowed above it."""
    declared = schema.get("type")
    if declared and declared != "object":
        detail = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        yield invalid(f"{path}.type", declared, detail)
        return
    if set(schema) - set(_ROOT_KEYWORDS):
        allowed = " ".join(_ROOT_KEYWORDS.values())
        detail = f"only [{allowed}] fields are allowed at the root of the schema if the status subresource is enabled"
        yield invalid(path, schema, detail)
