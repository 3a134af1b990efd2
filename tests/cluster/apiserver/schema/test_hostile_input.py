"""Whatever a client sends, it gets an object or an error of its own; never a crash."""

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.cluster.apiserver.schema.builtin import kind_node
from kohort.cluster.apiserver.schema.decode import conform, decode_body
from kohort.cluster.apiserver.schema.defaults import apply_defaults
from kohort.cluster.apiserver.schema.node import Node
from kohort.cluster.apiserver.schema.protobuf_decode import MAGIC, decode
from kohort.cluster.apiserver.schema.structural import compile_crd_schema
from kohort.cluster.apiserver.schema.structure_rules import violations
from kohort.cluster.apiserver.schema.validate import validate
from kohort.kube.errors import ApiError
from kohort.objects.json_types import Json, JsonObject

VECTORS = [
    base64.b64decode(vector["protobuf"])
    for vector in json.loads(Path(__file__).with_name("vectors.json").read_text())
    if len(vector["protobuf"]) < 4000
]

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "spec", "containers", "name", "labels", "env", "resources", "limits", "cpu", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@settings(max_examples=300)
@given(st.sampled_from(VECTORS), st.data())
def test_damaged_protobuf(wire: bytes, data: st.DataObject) -> None:
    damaged = bytearray(wire)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(4, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert isinstance(decode(bytes(damaged)), dict)
    except ApiError as refused:
        assert refused.code == 400


@given(st.binary(max_size=60))
def test_random_protobuf(data: bytes) -> None:
    with pytest.raises(ApiError):
        decode(MAGIC + data)


@given(st.binary(max_size=60), st.sampled_from(["application/json", "application/yaml"]))
def test_random_bodies(body: bytes, content_type: str) -> None:
    try:
        value, _ = decode_body(body, content_type)
        assert isinstance(value, dict)
    except ApiError as refused:
        assert refused.code == 400


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status", "kind", "z"]), values))
def test_objects_that_do_not_fit_their_kind(obj: JsonObject) -> None:
    for kind in ("Pod", "Service", "Secret"):
        copied = json.loads(json.dumps({**obj, "kind": kind, "apiVersion": "v1"}))
        try:
            conform(copied, kind_node("", "v1", kind))
        except ApiError as refused:
            assert refused.code == 400


SCALARS = ["string", "integer", "number", "boolean"]
constraints = st.fixed_dictionaries(
    {},
    optional={
        "nullable": st.booleans(),
        "default": st.sampled_from([1, "a", True, [], {}, {"x": 1}]),
        "enum": st.lists(st.sampled_from([1, "a", None, True]), max_size=2),
        "format": st.sampled_from(["int32", "date-time", "uuid", "nope"]),
        "minimum": st.integers(-2, 2),
        "maxLength": st.integers(0, 3),
        "pattern": st.sampled_from(["^a", "(", "[a-z]+$"]),
        "required": st.lists(st.sampled_from("xyz"), max_size=2),
        "maxItems": st.integers(0, 2),
        "minProperties": st.integers(0, 2),
        "x-kubernetes-list-type": st.sampled_from(["set", "map", "atomic"]),
        "x-kubernetes-list-map-keys": st.lists(st.sampled_from("xy"), max_size=2),
        "x-kubernetes-preserve-unknown-fields": st.just(True),
        "x-kubernetes-int-or-string": st.just(True),
        "x-kubernetes-embedded-resource": st.just(True),
        "anyOf": st.lists(st.sampled_from([{"minimum": 1}, {"required": ["x"]}, {"type": "string"}]), max_size=2),
        "not": st.sampled_from([{"enum": [1]}, {"maxLength": 1}]),
    },
)


def schemas() -> st.SearchStrategy[JsonObject]:
    leaf = st.builds(lambda kind, rest: {"type": kind, **rest}, st.sampled_from(SCALARS), constraints)

    def bigger(inner: st.SearchStrategy[JsonObject]) -> st.SearchStrategy[JsonObject]:
        return st.one_of(
            st.builds(lambda items, rest: {"type": "array", "items": items, **rest}, inner, constraints),
            st.builds(
                lambda values, rest: {"type": "object", "additionalProperties": values, **rest}, inner, constraints
            ),
            st.builds(
                lambda fields, rest: {"type": "object", "properties": fields, **rest},
                st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
                constraints,
            ),
        )

    return st.recursive(leaf, bigger, max_leaves=6)


custom_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=4) | st.just(1.5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=300)
@given(schemas(), custom_values)
def test_any_schema_and_any_value(schema: JsonObject, value: Json) -> None:
    root = {"type": "object", "properties": {"spec": schema}}
    if violations(root, "schema"):
        return
    node = compile_crd_schema(root)
    obj = {"apiVersion": "example.com/v1", "kind": "X", "metadata": {"name": "x"}, "spec": value}
    try:
        conform(obj, node)
    except ApiError as refused:
        assert refused.code == 400
        return
    apply_defaults(obj, node)
    before = validate(obj, node)
    assert without_quick_tests(obj, node) == before
    assert [error for error in validate(obj, node, old=obj) if error.reason != "FieldValueDuplicate"] == [
        error for error in before if error.field.endswith((".apiVersion", ".kind"))
    ]


def without_quick_tests(obj: JsonObject, node: Node) -> Json:
    """Validation with every shortcut for scalars taken away."""
    waiting: list[Json] = [node.validator]
    seen: list[Json] = []
    while waiting:
        validator = waiting.pop()
        if validator is None or validator in seen:
            continue
        seen.append(validator)
        validator.quick = None
        waiting += [*validator.children.values(), validator.every]
        waiting += [validator.items.validator] if validator.items is not None else []
    return validate(obj, node)
