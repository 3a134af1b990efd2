"""JSON and YAML texts: what they mean, what is doubled in them, and what is wrong with them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.apiserver.schema import json_body, yaml_body
from kohort.cluster.apiserver.schema.decode import decode_body
from kohort.kube.errors import ApiError
from kohort.objects.json_types import Json

# The words of Go's encoding/json for the same texts.
FAULTS = [
    (b"", "unexpected end of JSON input"),
    (b'{"a":', "unexpected end of JSON input"),
    (b'"abc', "unexpected end of JSON input"),
    (b"nul", "unexpected end of JSON input"),
    (b"{a:1}", "invalid character 'a' looking for beginning of object key string"),
    (b"{'a':1}", r"invalid character '\'' looking for beginning of object key string"),
    (b'{"a":1,}', "invalid character '}' looking for beginning of object key string"),
    (b"[1,]", "invalid character ']' looking for beginning of value"),
    (b'{"a":1} x', "invalid character 'x' after top-level value"),
    (b'{"a" 1}', "invalid character '1' after object key"),
    (b'{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
    (b"[1 2]", "invalid character '2' after array element"),
    (b"trux", "invalid character 'x' in literal true (expecting 'e')"),
    (b"-x", "invalid character 'x' in numeric literal"),
    (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
    (b"1ex", "invalid character 'x' in exponent of numeric literal"),
    (b'"\\q"', "invalid character 'q' in string escape code"),
    (b'"\\u12g4"', "invalid character 'g' in \\u hexadecimal character escape"),
    (b'"a\nb"', r"invalid character '\n' in string literal"),
]


@pytest.mark.parametrize(("text", "message"), FAULTS)
def test_broken_json_is_refused_in_the_words_of_go(text: bytes, message: str) -> None:
    with pytest.raises(json_body.SyntaxFault) as fault:
        json_body.decode(text)
    assert str(fault.value) == message


def test_json_that_is_too_deep_is_refused_and_does_not_crash() -> None:
    for text in (b"[" * 100_000, b'{"a":' * 100_000, b"[" * 5000 + b"]" * 5000):
        with pytest.raises(ApiError) as refused:
            decode_body(text, "application/json")
        assert refused.value.code == 400


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    assert json_body.decode(b'{"a":"\xff"}') == {"a": "�"}


DUPLICATES = [
    ('{"a":1,"a":2}', {"a": 2}, ['duplicate field "a"']),
    ('{"a":{"b":1,"b":2}}', {"a": {"b": 2}}, ['duplicate field "a.b"']),
    ('{"l":[{},{"b":1,"b":2}]}', {"l": [{}, {"b": 2}]}, ['duplicate field "l[1].b"']),
    (
        '{"d":{"a":"1","a":"2"},"d":{"b":"3"}}',
        {"d": {"a": "2", "b": "3"}},
        ['duplicate field "d.a"', 'duplicate field "d"'],
    ),
    ('{"a" : 1, "x\\":": 2, "a"  :3}', {"a": 3, 'x":': 2}, ['duplicate field "a"']),
]


@pytest.mark.parametrize(("text", "value", "messages"), DUPLICATES)
def test_duplicate_keys(text: str, value: Json, messages: list[str]) -> None:
    assert decode_body(text.encode(), "application/json") == (value, messages)


def test_of_untyped_objects_the_last_value_counts_alone() -> None:
    body = b'{"d":{"a":"1"},"d":{"b":"3"}}'
    assert decode_body(body, "application/json", merge_duplicates=False) == ({"d": {"b": "3"}}, ['duplicate field "d"'])


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=6), values, max_size=5), st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_objects_without_duplicates_have_none(obj: Json, ascii_only: bool, indent: int | str | None) -> None:
    obj.pop("apiVersion", None)
    body = json.dumps(obj, ensure_ascii=ascii_only, indent=indent).encode()
    value = json_body.decode(body)
    assert json_body.duplicates(body, value, merge=True) == (value, [])
    assert json_body.duplicates(body, value, merge=False) == (value, [])


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=5))
def test_every_doubled_key_is_found(pairs: list[tuple[str, int]]) -> None:
    body = ("{" + ", ".join(f'"{key}": {value}' for key, value in pairs) + "}").encode()
    value, messages = decode_body(body, "application/json")
    assert value == dict(pairs)
    assert len(messages) == len(pairs) - len(dict(pairs))


PLAIN_SCALARS = [
    ("yes", True), ("On", True), ("y", True), ("TRUE", True), ("off", False), ("N", False), ("", None), ("~", None),
    ("017", 15), ("0o17", 15), ("0x1f", 31), ("0b11", 3), ("1_000", 1000), ("-5", -5), ("+7", 7), ("0", 0),
    ("1.0", 1), ("1.5", 1.5), (".5", 0.5), ("1e3", 1000), ("08", 8),
    ("1:30", "1:30"), ("2020-01-01", "2020-01-01"), ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
    ("1.2.3", "1.2.3"), ("-", "-"), ("0xg", "0xg"), ("nope", "nope"), ("yES", "yES"), ("5m", "5m"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), PLAIN_SCALARS)
def test_plain_yaml_scalars(text: str, value: Json) -> None:
    found = yaml_body.plain_scalar(text)
    assert (type(found), found) == (type(value), value)


def test_yaml_documents() -> None:
    text = b"""
a: &anchor {x: 1, "yes": no}
b:
  <<: *anchor
  x: 2
1: one
on: two
c: !!str 5
d: '5'
e: |
  lines
---
second: ignored
"""
    value, duplicates = yaml_body.decode(text)
    assert duplicates == []
    assert value == {
        "a": {"x": 1, "yes": False},
        "b": {"x": 2, "yes": False},
        "1": "one",
        "true": "two",
        "c": "5",
        "d": "5",
        "e": "lines\n",
    }


def test_yaml_that_grows_without_bounds_is_refused() -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    with pytest.raises(ApiError) as refused:
        decode_body("\n".join(lines).encode(), "application/yaml")
    assert "excessive aliasing" in refused.value.message


@pytest.mark.parametrize(
    "text", [b"a: [", b"a: .inf", b"? [x]\n: y", b"a: *nope", b"a: \x01", b"a\n  b: c\n d: e", b"{a: b"]
)
def test_broken_yaml_is_a_bad_request(text: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        decode_body(text, "application/yaml")
    assert refused.value.code == 400


def test_other_media_types_are_refused() -> None:
    with pytest.raises(ApiError) as refused:
        decode_body(b"{}", "text/plain")
    assert (refused.value.code, refused.value.reason) == (415, "UnsupportedMediaType")
