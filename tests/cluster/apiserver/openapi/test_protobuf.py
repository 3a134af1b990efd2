"""OpenAPI 2 documents in binary form."""

from collections.abc import Iterator

import pytest

from kohort.cluster.apiserver.catalog.builtin_kinds import builtin_kinds
from kohort.cluster.apiserver.openapi import protobuf
from kohort.cluster.apiserver.openapi.document import swagger
from kohort.objects.json_types import JsonObject

Read = list[tuple[int, int | bytes]]
SCHEMA = {
    "type": "object",
    "description": "A thing.",
    "required": ["spec"],
    "properties": {
        "spec": {"$ref": "#/definitions/Spec"},
        "sizes": {"type": "array", "items": {"type": "integer", "format": "int32", "minimum": 1.5, "maxLength": 300}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "any": {"type": "object", "additionalProperties": True, "default": {"a": [1]}, "enum": ["x", None]},
    },
    "x-kubernetes-group-version-kind": [{"group": "g", "kind": "Thing", "version": "v1"}],
}


def fields(message: bytes) -> Read:
    """Numbers and contents of the fields of a message, in their order."""

    def varint() -> int:
        shift = value = 0
        while True:
            byte = next(rest)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    rest: Iterator[int] = iter(message)
    found: Read = []
    while (key := next(rest, None)) is not None:
        number, kind = key >> 3, key & 7
        if key >= 0x80:
            more = varint()
            number, kind = (key & 0x7F | more << 7) >> 3, key & 7
        if kind == 0:
            found.append((number, varint()))
        else:
            length = 8 if kind == 1 else varint()
            found.append((number, bytes(next(rest) for _ in range(length))))
    return found


def content(message: bytes, *numbers: int) -> list[bytes | int]:
    """What is at a path of field numbers."""
    found: list[bytes | int] = [message]
    for number in numbers:
        found = [each for one in found if isinstance(one, bytes) for key, each in fields(one) if key == number]
    return found


def test_a_definition() -> None:
    document = protobuf.encoded({"swagger": "2.0", "definitions": {"Thing": SCHEMA}})
    assert content(document, 1) == [b"2.0"] and content(document, 9, 1, 1) == [b"Thing"]
    (schema,) = content(document, 9, 1, 2)
    assert isinstance(schema, bytes)
    assert content(schema, 22, 1) == [b"object"] and content(schema, 4) == [b"A thing."]
    assert content(schema, 19) == [b"spec"]
    assert content(schema, 31, 1) == [b"x-kubernetes-group-version-kind"]
    assert content(schema, 31, 2, 2) == [b'[{"group":"g","kind":"Thing","version":"v1"}]']
    assert content(schema, 25, 1, 1) == [b"spec", b"sizes", b"labels", b"any"]
    assert content(schema, 25, 1, 2, 1) == [b"#/definitions/Spec"]
    assert content(schema, 25, 1, 2, 23, 1, 2) == [b"int32"], "items are a list of schemas"
    assert content(schema, 25, 1, 2, 23, 1, 11) == [300]
    assert content(schema, 25, 1, 2, 23, 1, 9) == [b"\x00\x00\x00\x00\x00\x00\xf8?"]
    assert content(schema, 25, 1, 2, 21, 1, 22, 1) == [b"string"], "additional properties have a schema"
    assert content(schema, 25, 1, 2, 21, 2) == [1], "or are allowed"
    assert content(schema, 25, 1, 2, 5, 2) == [b'{"a":[1]}'] and content(schema, 25, 1, 2, 20, 2) == [b'"x"', b"null"]


@pytest.mark.parametrize(
    ("parameter", "path"),
    [
        ({"in": "body", "name": "body", "schema": {}}, (1, 1, 2)),
        ({"in": "header", "name": "body"}, (1, 2, 1, 4)),
        ({"in": "query", "name": "body", "uniqueItems": True}, (1, 2, 3, 4)),
        ({"in": "path", "name": "body"}, (1, 2, 4, 4)),
        ({"$ref": "body"}, (2, 1)),
    ],
)
def test_parameters_by_their_place(parameter: JsonObject, path: tuple[int, ...]) -> None:
    operation = {"operationId": "x", "parameters": [parameter], "responses": {"200": {"description": "OK"}}}
    document = protobuf.encoded({"paths": {"/a": {"patch": operation, "parameters": [parameter]}}})
    assert content(document, 8, 2, 2, 8, 8, *path) == [b"body"] == content(document, 8, 2, 2, 9, *path)
    assert content(document, 8, 2, 2, 8, 9, 1, 1) == [b"200"]
    assert content(document, 8, 2, 2, 8, 9, 1, 2, 1, 1) == [b"OK"]


def test_everything_that_is_served_is_there() -> None:
    document = swagger(list(builtin_kinds()))
    binary = protobuf.encoded(document)
    names = [str(name, "utf-8") for name in content(binary, 9, 1, 1) if isinstance(name, bytes)]
    assert names == list(document["definitions"])
    assert len(content(binary, 8, 2, 1)) == len(document["paths"])
    assert content(binary, 13, 1, 2, 2, 2) == [b"authorization"]


def test_every_field_of_the_document_is_in_a_table() -> None:
    """A field that documents gain must be added to the binary form."""

    def walk(value: object, table: str) -> None:
        assert isinstance(value, dict)
        known = protobuf._TABLES[table]
        for name, each in value.items():
            assert name.startswith("x-") or name in known, (table, name)
            kind = known.get(name, (0, ""))[1]
            if kind == "schemas by name":
                for schema in each.values():
                    walk(schema, "schema")
            elif kind == "paths":
                for path in each.values():
                    walk(path, "path")
            elif kind in ("operation", "info", "schema"):
                walk(each, kind)

    walk(swagger(list(builtin_kinds())), "document")
