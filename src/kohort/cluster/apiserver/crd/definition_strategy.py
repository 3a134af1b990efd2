"""How CustomResourceDefinitions themselves are written.

Status is not decided here: `endpoints.crd_serving` settles the names of a definition when it is stored, serves what it
defines, and writes down that it does. Rules are imported when a definition is written: the expression language behind
them is a tenth of a start, and most starts find all definitions as they should be.
"""

from collections.abc import Iterator
from typing import Final

from kohort.cluster.apiserver.crd.stored_versions import storage_versions
from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import JsonObject

_STRING_FORMATS: Final = frozenset(
    {
        "bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3", "uuid4", "uuid5",
        "isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte", "password", "date", "duration",
        "datetime", "k8sshortname", "k8slongname",
    }
)  # fmt: skip
"""Formats of strings that are checked, without their dashes."""

_WITH_SCHEMAS: Final = frozenset(("properties", "allOf", "oneOf", "anyOf", "not", "items", "additionalProperties"))
_NUMBER_FORMATS: Final = {"integer": ("int32", "int64"), "number": ("float", "double")}


class DefinitionStrategy(Strategy):
    names_finalizers_freely = True
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
        """Nothing is accepted yet: the names are settled right after the write, when the kinds are served."""
        obj["status"] = {"acceptedNames": {"plural": "", "kind": ""}, "storedVersions": storage_versions(obj)}

    def prepare_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        status = obj.setdefault("status", {})
        if not status.get("storedVersions"):
            status["storedVersions"] = storage_versions(obj)

    def prepare_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        stored = list((old.get("status") or {}).get("storedVersions") or ())
        stored += [name for name in storage_versions(obj) if name not in stored]
        obj["status"] = {**(old.get("status") or {}), "storedVersions": stored}

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        from kohort.cluster.apiserver.crd.validation import definition_errors

        return definition_errors(obj)

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        from kohort.cluster.apiserver.crd.validation import change_errors

        return change_errors(obj, old)

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        from kohort.cluster.apiserver.crd.validation import status_change_errors

        return status_change_errors(obj)

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        known = set(_unknown_formats(old)) if old is not None else set()
        return [f'unrecognized format "{name}"' for name in _unknown_formats(obj) if name not in known]


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
    if _WITH_SCHEMAS.isdisjoint(schema):
        return  # most schemas have none below
    inner = [below for key in ("items", "not", "additionalProperties") if isinstance(below := schema.get(key), dict)]
    inner += [below for key in ("allOf", "anyOf", "oneOf") for below in schema.get(key) or ()]
    inner += (schema.get("properties") or {}).values()
    for below in inner:
        yield from _formats(below)


def _is_known(name: str, type: str) -> bool:
    if type in ("", "string"):
        return name.replace("-", "") in _STRING_FORMATS
    return name in _NUMBER_FORMATS.get(type, ())
