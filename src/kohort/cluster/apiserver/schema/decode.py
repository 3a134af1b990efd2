"""From the bytes of a request to an object that the rest of the server can trust.

`decode_body` reads the text, `conform` makes the object fit its schema. Both refuse with the words of Kubernetes, since
users read them: `Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal ...`.

    obj, duplicates = decode_body(body, content_type, kind="Pod")
    unknown = conform(obj, node)
    ... strict validation: raise strict_error(obj, "Pod", duplicates + unknown)
    ... defaulting ...
    complete(obj, node)
"""

import copy
from contextlib import suppress

from kohort.cluster.apiserver.schema import json_body
from kohort.cluster.apiserver.schema.go_round_trip import conformer
from kohort.cluster.apiserver.schema.go_type_errors import TypeMismatch, first_fault, json_type
from kohort.cluster.apiserver.schema.go_zero_values import complete
from kohort.cluster.apiserver.schema.node import Node
from kohort.cluster.apiserver.schema.pruning import prune
from kohort.kube.errors import ApiError, BadRequest, Status, failure
from kohort.objects.json_types import Json, JsonObject

__all__ = ["DecodingFailed", "complete", "conform", "decode_body", "strict_error", "unrecognized"]

_SNIPPET = 30
_ENVELOPE = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


class DecodingFailed(BadRequest):
    """An object that does not fit its kind. `detail` is the message without the kind, for answers that frame it
    otherwise: a patch whose result does not decode is a 422 with the detail in its cause."""

    def __init__(self, kind: str, version: str, expected: str, detail: str) -> None:
        message = f'{kind} in version "{version}" cannot be handled as a {expected}: {detail}'
        super().__init__(Status(status="Failure", message=message, reason="BadRequest", code=400))
        self.detail = detail


def decode_body(
    body: bytes, content_type: str, *, kind: str = "", duplicates: bool = True, merge_duplicates: bool = True
) -> tuple[JsonObject, list[str]]:
    """The object in a body, and a message for every duplicate key (none are looked for with `duplicates=False`).

    `kind` is the kind that the endpoint expects, for messages. Of a key that occurs twice the last value counts;
    `merge_duplicates` merges objects instead, which is what happens to built-in kinds.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    match media_type:
        case "" | "application/json":
            return _decode_json(body, kind, duplicates, merge_duplicates)
        case "application/yaml" | "application/apply-patch+yaml":
            return _decode_yaml(body, kind)
        case "application/vnd.kubernetes.protobuf":
            from kohort.cluster.apiserver.schema import protobuf_decode

            if not body:
                raise unrecognized(kind, "empty data", body)
            if not body.startswith(protobuf_decode.MAGIC):
                raise unrecognized(kind, protobuf_decode.NOT_PROTOBUF, body)
            return protobuf_decode.decode(body), []
    raise failure(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf",
    )


def _decode_json(body: bytes, kind: str, wanted: bool, merge: bool) -> tuple[JsonObject, list[str]]:
    try:
        value = json_body.decode(body)
        messages: list[str] = []
        if wanted:
            value, messages = json_body.duplicates(body, value, merge=merge)
    except json_body.SyntaxFault as fault:
        raise _not_an_object(kind, str(fault), body) from None
    return _object(value, kind, body), messages


def _decode_yaml(body: bytes, kind: str) -> tuple[JsonObject, list[str]]:
    if body.lstrip()[:1] == b"{":  # most clients send JSON here, which is YAML too, and much faster to read
        with suppress(ApiError):
            obj, messages = _decode_json(body, kind, True, False)
            if not messages:
                return obj, []
    from kohort.cluster.apiserver.schema import yaml_body

    try:
        value, messages = yaml_body.decode(body)
    except yaml_body.YamlFault as fault:
        raise unrecognized(kind, str(fault), body) from None
    return _object(_by_name(value), kind, body), messages


def _by_name(value: Json) -> Json:
    """With sorted keys: YAML is read by way of JSON, and what is unknown in it is reported in that order."""
    if isinstance(value, dict):
        return {key: _by_name(value[key]) for key in sorted(value)}
    return [_by_name(item) for item in value] if isinstance(value, list) else value


def _object(value: Json, kind: str, body: bytes) -> JsonObject:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _not_an_object(kind, no_envelope(value), body)
    for name in ("apiVersion", "kind"):
        found = value.get(name)
        if found is not None and not isinstance(found, str):
            detail = f"json: cannot unmarshal {json_type(found)} into Go struct field .{name} of type string"
            raise _not_an_object(kind, detail, body)
    return value


def no_envelope(value: Json) -> str:
    """What is wrong with a value that should be an object."""
    return f"json: cannot unmarshal {json_type(value)} into Go value of type {_ENVELOPE}"


def _not_an_object(kind: str, detail: str, body: bytes) -> ApiError:
    return unrecognized(kind, f"couldn't get version/kind; json parse error: {detail}", body)


def unrecognized(kind: str, detail: str, body: bytes) -> ApiError:
    """A body that is not even an object with a kind."""
    expected = f" (must be of type {kind})" if kind else ""
    message = f"the object provided is unrecognized{expected}: {detail} ({_summary(body)})"
    return failure(400, "BadRequest", message)


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    more = " ..." if len(body) > _SNIPPET else ""
    head = body[:_SNIPPET]
    return (head.decode("utf-8", "replace") if body.startswith(b"{") else head.hex()) + more


def conform(obj: JsonObject, node: Node, *, prune: bool = True) -> list[str]:
    """Make an object fit its schema, in place; returns `unknown field "spec.x"` for every field that had no place.

    Built-in kinds (see `conforming`): unknown fields, nulls and empty optional values vanish, scalars become canonical,
    a value of the wrong type raises Undecodable. Custom resources (see `pruning`): `metadata` is treated like that,
    the rest is only pruned; wrong types are left to validation. With `prune=False` nothing is changed or removed,
    only reported.
    """
    subject = obj if prune else copy.deepcopy(obj)
    try:
        unknown = _conform_to(subject, node)
    except TypeMismatch as mismatch:
        raise undecodable(obj, str(first_fault(mismatch, lambda: _conform_to(subject, node)))) from None
    except ValueError as error:
        raise undecodable(obj, str(error)) from None
    return [f'unknown field "{path}"' for path in unknown]


def _conform_to(obj: JsonObject, node: Node) -> list[str]:
    if node.name:
        return conformer(node.name)(obj) or []
    return prune(obj, node)


def undecodable(obj: JsonObject, detail: str, expected: str = "") -> DecodingFailed:
    """The refusal of an object that cannot be decoded as the kind it says it is."""
    kind = obj.get("kind") or ""
    version = (obj.get("apiVersion") or "").rpartition("/")[2]
    return DecodingFailed(kind, version, expected or kind, detail)


def strict_error(obj: JsonObject, kind: str, messages: list[str]) -> DecodingFailed:
    """The refusal under strict field validation, for what `decode_body` and `conform` reported."""
    return undecodable(obj, strict_detail(messages), kind)


def strict_detail(messages: list[str]) -> str:
    yaml_lines = [message for message in messages if message.startswith("line ")]
    rest = [message for message in messages if not message.startswith("line ")]
    if yaml_lines:
        rest.insert(0, "yaml: unmarshal errors:\n" + "\n".join(f"  {line}" for line in yaml_lines))
    return "strict decoding error: " + ", ".join(rest)
