"""OpenAPI 2 documents in the binary form that clients ask for with
`application/com.github.proto-openapi.spec.v2.v1.0+protobuf`.

The tables below are the messages of that form: the name of a field in JSON, its number, and what it holds. Where JSON
has a map, the messages have a list of names and values; where it leaves a choice (a reference or the thing itself, a
schema or a boolean), they have a message with one field for each. Extensions (`x-...`) and values of any type are
written as YAML, of which JSON is a part. Fields that are in no table are left out.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from kohort.objects.json_types import Json, JsonObject

Encode = Callable[[Json], bytes]
"""From a value in JSON to the content of a field of length and content."""
Fields = dict[str, tuple[int, str]]

_VALUE: Final = {"default": "any", "example": "any", "enum": "anys"}
_NUMBERS: Final = ("multipleOf", "maximum", "minimum")
_COUNTS: Final = ("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties")
_FLAGS: Final = ("exclusiveMaximum", "exclusiveMinimum", "uniqueItems", "readOnly", "required", "allowEmptyValue")


def _table(*names: str, **kinds: str) -> Fields:
    """Fields by their order, which is that of their numbers; an empty name is a field that is never written."""
    found: Fields = {}
    for number, name in enumerate(names, 1):
        kind = kinds.get(name.lstrip("$")) or _VALUE.get(name, "string")
        if name in _NUMBERS:
            kind = "double"
        elif name in _COUNTS:
            kind = "int"
        elif name in _FLAGS and name not in kinds:
            kind = "bool"
        if name:
            found[name] = (number, kind)
    return found


_LIMITS: Final = (
    *("default", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern"),
    *("maxItems", "minItems", "uniqueItems", "enum", "multipleOf", "x-"),
)
_PARAMETER: Final = ("required", "in", "description", "name")
_TYPED: Final = ("type", "format", "items", "collectionFormat", *_LIMITS)
_TABLES: Final[dict[str, Fields]] = {
    "document": _table(
        *("swagger", "info", "host", "basePath", "schemes", "consumes", "produces", "paths", "definitions"),
        *("parameters", "", "security", "securityDefinitions", "", "", "x-"),
        info="info",
        schemes="strings",
        consumes="strings",
        produces="strings",
        paths="paths",
        definitions="schemas by name",
        parameters="parameters by name",
        security="requirements",
        securityDefinitions="security by name",
    ),
    "info": _table("title", "version", "description", "termsOfService", "", "", "x-"),
    "path": _table(
        *("$ref", "get", "put", "post", "delete", "options", "head", "patch", "parameters", "x-"),
        **dict.fromkeys(("get", "put", "post", "delete", "options", "head", "patch"), "operation"),
        parameters="parameters",
    ),
    "operation": _table(
        *("tags", "summary", "description", "", "operationId", "produces", "consumes", "parameters", "responses"),
        *("schemes", "deprecated", "security", "x-"),
        tags="strings",
        produces="strings",
        consumes="strings",
        parameters="parameters",
        responses="responses",
        schemes="strings",
        deprecated="bool",
        security="requirements",
    ),
    "body parameter": _table("description", "name", "in", "required", "schema", "x-", schema="schema"),
    "header parameter": _table(*_PARAMETER, *_TYPED, items="items"),
    "query parameter": _table(*_PARAMETER, "allowEmptyValue", *_TYPED, items="items"),
    "path parameter": _table(*_PARAMETER, *_TYPED, items="items"),
    "items": _table(*_TYPED, items="items"),
    "response": _table("description", "schema", "", "", "x-", schema="schema of a response"),
    "reference": _table("$ref", "description"),
    "security": _table("type", "name", "in", "description", "x-"),
    "schema": _table(
        *("$ref", "format", "title", "description", "default", "multipleOf", "maximum", "exclusiveMaximum", "minimum"),
        *("exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems"),
        *("maxProperties", "minProperties", "required", "enum", "additionalProperties", "type", "items", "allOf"),
        *("properties", "discriminator", "readOnly", "", "", "example", "x-"),
        required="strings",
        additionalProperties="schema or boolean",
        type="types",
        items="schemas of items",
        allOf="schemas",
        properties="schemas by name",
    ),
}


def encoded(document: JsonObject) -> bytes:
    return _message("document", document)


def _message(table: str, value: JsonObject) -> bytes:
    fields = _TABLES[table]
    parts: list[bytes] = []
    extensions: list[bytes] = []
    for name, each in value.items():
        if name.startswith("x-"):
            extensions.append(_block(fields["x-"][0], _named(name, _any(each))) if "x-" in fields else b"")
        elif name in fields:
            parts += _field(*fields[name], each)
    return b"".join((*parts, *extensions))


def _field(number: int, kind: str, value: Json) -> Iterable[bytes]:
    match kind:
        case "string":
            return (_block(number, str(value).encode()),)
        case "strings":
            return (_block(number, str(each).encode()) for each in value)
        case "bool":
            return (_number(number, 1),) if value else ()
        case "int":
            return (_number(number, int(value)),)
        case "double":
            return (_varint(number << 3 | 1) + struct.pack("<d", float(value)),)
        case "anys":
            return (_block(number, _any(each)) for each in value)
        case "schemas":
            return (_block(number, _message("schema", each)) for each in value)
        case "parameters":
            return (_block(number, _parameter_or_reference(each)) for each in value)
        case "requirements":
            return (_block(number, _requirement(each)) for each in value)
    return (_block(number, _CONTENT[kind](value) if kind in _CONTENT else _message(kind, value)),)


def _any(value: Json) -> bytes:
    return _block(2, msgspec.json.encode(value))


def _named(name: str, value: bytes) -> bytes:
    return _block(1, name.encode()) + _block(2, value)


def _by_name(value: JsonObject, encode: Encode, number: int = 1) -> bytes:
    return b"".join(_block(number, _named(name, encode(each))) for name, each in value.items())


def _schema(value: Json) -> bytes:
    return _message("schema", value)


def _parameter(value: Json) -> bytes:
    place = value.get("in")
    if place == "body":
        return _block(1, _message("body parameter", value))
    number = {"header": 1, "query": 3, "path": 4}.get(str(place))
    return b"" if number is None else _block(2, _block(number, _message(f"{place} parameter", value)))


def _parameter_or_reference(value: Json) -> bytes:
    return _block(2, _message("reference", value)) if "$ref" in value else _block(1, _parameter(value))


def _response(value: Json) -> bytes:
    return _block(2, _message("reference", value)) if "$ref" in value else _block(1, _message("response", value))


def _requirement(value: Json) -> bytes:
    def scopes(names: Json) -> bytes:
        return b"".join(_block(1, str(each).encode()) for each in names)

    return _by_name(value, scopes)


def _types(value: Json) -> bytes:
    names: list[str] = [value] if isinstance(value, str) else value
    return b"".join(_block(1, each.encode()) for each in names)


def _items(value: Json) -> bytes:
    schemas: list[JsonObject] = value if isinstance(value, list) else [value]
    return b"".join(_block(1, _schema(each)) for each in schemas)


_CONTENT: Final[dict[str, Encode]] = {
    "any": _any,
    "paths": lambda value: _by_name(value, lambda each: _message("path", each), 2),
    "schemas by name": lambda value: _by_name(value, _schema),
    "parameters by name": lambda value: _by_name(value, _parameter),
    "security by name": lambda value: _by_name(value, lambda each: _block(2, _message("security", each))),
    "responses": lambda value: _by_name(value, _response),
    "schema of a response": lambda value: _block(1, _schema(value)),
    "schema or boolean": lambda value: (
        _number(2, 1 if value else 0) if isinstance(value, bool) else _block(1, _schema(value))
    ),
    "types": _types,
    "schemas of items": _items,
}


def _block(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value & (1 << 64) - 1)


def _varint(value: int) -> bytes:
    return bytes(_varint_bytes(value))


def _varint_bytes(value: int) -> Iterator[int]:
    while value > 0x7F:
        yield value & 0x7F | 0x80
        value >>= 7
    yield value
