"""How CustomResourceDefinitions themselves are written.

Names are settled and the definition is established in the write that brings it, so there is no moment at which a
definition is accepted but not served.
"""

from collections.abc import Iterator
from typing import Final

from kohort.cluster.apiserver.crd.definitions import status_for
from kohort.cluster.apiserver.crd.validation import change_errors, definition_errors, status_change_errors
from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from kohort.objects.fielderrors import FieldError
from kohort.objects.jsontypes import JsonObject

BUCKET: Final = CUSTOM_RESOURCE_DEFINITIONS.qualified

_STRING_FORMATS: Final = frozenset(
    {
        "bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3", "uuid4", "uuid5",
        "isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte", "password", "date", "duration",
        "datetime", "k8sshortname", "k8slongname",
    }
)  # fmt: skip
"""Formats of strings that are checked, without their dashes."""

_NUMBER_FORMATS: Final = {"integer": ("int32", "int64"), "number": ("float", "double")}


class DefinitionStrategy(Strategy):
    unconditional_update = False
    deletion_returns_object = True

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        names = spec.setdefault("names", {})
        kind = names.get("kind") or ""
        if not names.get("singular") and kind:
            names["singular"] = kind.lower()
        if not names.get("listKind") and kind:
            names["listKind"] = f"{kind}List"
        conversion = spec.setdefault("conversion", {"strategy": "None"})
        service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj["status"] = _settled(context, obj)

    def prepare_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        obj["status"] = _settled(context, obj)

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        return definition_errors(obj)

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return change_errors(obj, old)

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return status_change_errors(obj)

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        known = set(_unknown_formats(old)) if old is not None else set()
        return [f'unrecognized format "{name}"' for name in _unknown_formats(obj) if name not in known]


def _settled(context: WriteContext, obj: JsonObject) -> JsonObject:
    """The status, as far as the definition is complete enough to have one; validation reports the rest."""
    names = (obj.get("spec") or {}).get("names") or {}
    if names.get("plural") and names.get("kind") and obj["spec"].get("group"):
        return status_for(obj, context.reader.list(BUCKET))
    stored = [version.get("name") for version in obj["spec"].get("versions") or () if version.get("storage")][:1]
    return {"conditions": [], "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}


def _unknown_formats(crd: JsonObject) -> list[str]:
    versions = crd["spec"].get("versions") or ()
    schemas = [(version.get("schema") or {}).get("openAPIV3Schema") for version in versions]
    if schemas and all(schema == schemas[0] for schema in schemas):
        schemas = schemas[:1]
    return [name for schema in schemas if schema for name in _formats(schema)]


def _formats(schema: JsonObject) -> Iterator[str]:
    name = schema.get("format") or ""
    if name and not _is_known(name, schema.get("type") or ""):
        yield name
    inner = [below for key in ("items", "not", "additionalProperties") if isinstance(below := schema.get(key), dict)]
    inner += [below for key in ("allOf", "anyOf", "oneOf") for below in schema.get(key) or ()]
    inner += (schema.get("properties") or {}).values()
    for below in inner:
        yield from _formats(below)


def _is_known(name: str, type: str) -> bool:
    if type in ("", "string"):
        return name.replace("-", "") in _STRING_FORMATS
    return name in _NUMBER_FORMATS.get(type, ())
