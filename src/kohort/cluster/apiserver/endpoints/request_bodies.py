"""From the bytes of a request to an object that the pipeline can trust.

Decoding answers three questions in this order: is it readable at all, is it the kind that this endpoint takes, and
does it fit the schema. Fields that the schema does not know are dropped; whether that is silent, a warning or an
error is the client's choice (`fieldValidation`). Patches and apply have bodies of their own kind, read here as well.
"""

import re
from typing import Final

import msgspec

from kohort.cluster.apiserver.endpoints.object_responses import go_type
from kohort.cluster.apiserver.endpoints.request_context import ResourceRequest, ServerParts
from kohort.cluster.apiserver.kinds.model import Kind
from kohort.cluster.apiserver.representation.negotiation import check_content_type
from kohort.cluster.apiserver.schema import builtin, decode, json_body
from kohort.cluster.apiserver.schema.go_round_trip import MAX_UNKNOWN
from kohort.cluster.apiserver.schema.go_type_errors import json_type
from kohort.cluster.apiserver.schema.go_zero_values import complete as complete_zero_values
from kohort.cluster.apiserver.schema.node import Node
from kohort.kube import errors
from kohort.objects.json_types import Json, JsonObject

MAX_BODY: Final = 3 * 1024 * 1024
"""Bytes of a body, and of an object that grows by patches."""
DEFAULT_VALIDATION: Final = "Warn"
SCHEME: Final = "pkg/runtime/scheme.go:111"
_OPTIONS_SCHEME: Final = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"


def too_large() -> errors.ApiError:
    message = f"Request entity too large: limit is {MAX_BODY}"
    return errors.failure(413, "RequestEntityTooLarge", message)


def decode_request(call: ResourceRequest, kind: str = "") -> tuple[JsonObject, list[str]]:
    """The document of a request body, and what strict decoding has to say about duplicate fields."""
    media_type = check_content_type(call.request, custom=call.kind.custom)
    wanted = kind or call.kind.resource.kind
    return decode.decode_body(call.request.body, media_type, kind=wanted, merge_duplicates=not call.kind.custom)


def read_object(parts: ServerParts, call: ResourceRequest, field_validation: str) -> JsonObject:
    """The object that a create or update carries: checked, without unknown fields, with defaults."""
    document, duplicates = decode_request(call)
    resource = call.kind.resource
    check_type(parts, call, document, resource.kind, resource.api_version)
    if not call.kind.custom:
        document["kind"], document["apiVersion"] = resource.kind, resource.api_version
    shape(call, document, call.kind.schema(), duplicates, field_validation)
    call.kind.strategy.default(document)
    complete(call.kind, document)
    return document


def complete(kind: Kind, document: JsonObject, *, nulls: bool = False) -> None:
    """Write down the zero values that every answer of a built-in kind shows."""
    if not kind.custom:
        complete_zero_values(document, kind.schema(), nulls=nulls)


_OF_STATUS: Final = ("metadata", "status")


def complete_status(kind: Kind, document: JsonObject, *, nulls: bool = False) -> None:
    """The same for a write of the status, which leaves the rest as it is stored: complete already."""
    part: JsonObject = {key: document[key] for key in _OF_STATUS if key in document}
    complete(kind, part, nulls=nulls)
    document.update((key, part[key]) for key in _OF_STATUS if key in part)


def check_type(parts: ServerParts, call: ResourceRequest, document: JsonObject, kind: str, api_version: str) -> None:
    """Refuse a body that says it is something else. What it does not say is taken from the endpoint."""
    found_kind, found_version = document.get("kind") or "", document.get("apiVersion") or ""
    if call.kind.custom and kind == call.kind.resource.kind:
        _check_custom_type(call, found_kind, found_version)
        return
    if found_kind and found_kind != kind:
        raise errors.bad_request(_wrong_kind(parts, call, found_kind, found_version or api_version, kind))
    if found_version and found_version != api_version:
        group, _, version = found_version.rpartition("/")
        served = parts.catalog.by_kind(group, kind)
        if served is None or all(one.resource.version != version for one in parts.catalog.siblings(served.kind)):
            problem = f'no kind "{kind}" is registered for version "{found_version}" in scheme "{SCHEME}"'
            raise errors.bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {problem}')
        raise _wrong_version(found_version, api_version)


def _wrong_version(found: str, expected: str) -> errors.ApiError:
    return errors.bad_request(
        f"the API version in the data ({found}) does not match the expected API version ({expected})"
    )


def _wrong_kind(parts: ServerParts, call: ResourceRequest, found: str, found_version: str, wanted: str) -> str:
    group, _, version = found_version.rpartition("/")
    known = parts.catalog.by_kind(group, found)
    if known is None or known.kind.custom:
        problem = f'no kind "{found}" is registered for version "{found_version}" in scheme "{SCHEME}"'
    else:
        own = wanted == call.kind.resource.kind
        package = go_type(call.kind)[1:].partition(".")[0] if own else _PACKAGES.get(wanted, "core")
        problem = f"converting ({version}.{found}) to ({package}.{wanted}): unknown conversion"
    return f'{found} in version "{version}" cannot be handled as a {wanted}: {problem}'


_PACKAGES: Final = {"Scale": "autoscaling", "Eviction": "policy", "TokenRequest": "authentication"}


def _check_custom_type(call: ResourceRequest, found_kind: str, found_version: str) -> None:
    """A custom resource must say what it is; whether its kind is right is a matter of validation."""
    body, resource = call.request.body, call.kind.resource
    if not found_kind:
        detail = f"Object 'Kind' is missing in '{body.decode(errors='replace')}'"
        raise decode.unrecognized(resource.kind, detail, body)
    if found_version != resource.api_version:
        raise _wrong_version(found_version, resource.api_version)


def shape(
    call: ResourceRequest, document: JsonObject, node: Node, duplicates: list[str], field_validation: str
) -> None:
    """Fit a document to a schema, in place, and report what did not fit."""
    as_sent: JsonObject | None = None
    if duplicates and not call.kind.custom:
        as_sent = msgspec.json.decode(msgspec.json.encode(document))
    problems = _as_read(duplicates, fitted(document, node), as_sent)
    if not problems or field_validation == "Ignore":
        return
    if field_validation == "Strict":
        raise decode.strict_error(document, document.get("kind") or "", problems)
    call.warnings.extend(problems)


def _as_read(duplicates: list[str], unknown: list[str], as_sent: JsonObject | None) -> list[str]:
    """What is wrong with the fields of an object, in the order in which a reader comes across it. A reader who skips a
    field that he does not know sees nothing of what is in it, nor that it comes again."""
    if as_sent is None or not unknown:
        return duplicates + unknown
    skipped = [_path_in(one) for one in unknown]
    seen = [one for one in duplicates if not any(_lies_in(_path_in(one), path) for path in skipped)]
    problems = [*seen, *unknown]
    ends = _ends(as_sent, set(map(_path_in, problems)))
    return sorted(problems, key=lambda one: ends.get(_path_in(one), 0))[:MAX_UNKNOWN]


def _path_in(problem: str) -> str:
    return problem.partition('"')[2].removesuffix('"')


def _lies_in(path: str, other: str) -> bool:
    return path == other or path.startswith((f"{other}.", f"{other}["))


def _ends(document: JsonObject, wanted: set[str]) -> dict[str, int]:
    """Where the wanted fields of an object end, as numbers in the order of reading. Paths are written out only on the
    way to wanted fields."""
    found: dict[str, int] = {}
    count = 0

    def walk(value: Json, path: str, rest: set[str]) -> None:
        """`rest`: what follows the path in the wanted ones."""
        nonlocal count
        below = _next_parts(rest) if rest else {}
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, f"{path}.{key}" if key in below else "", below.get(key, _NOTHING))
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                part = f"[{index}]"
                walk(inner, path + part if part in below else "", below.get(part, _NOTHING))
        if "" in rest:
            found[path[1:]] = count
        count += 1

    walk(document, "", {f".{path}" for path in wanted})
    return found


_NOTHING: Final[set[str]] = set()
_PART_ENDS: Final = re.compile(r"(?=[.\[])|\Z")


def _next_parts(paths: set[str]) -> dict[str, set[str]]:
    """By what may be the first part of a path (keys may contain dots and brackets): what follows it."""
    parts: dict[str, set[str]] = {}
    for path in paths:
        start = 1 if path.startswith(".") else 0
        for end in _PART_ENDS.finditer(path, start + 1):
            parts.setdefault(path[start : end.start()], set()).add(path[end.start() :])
    return parts


def fitted(document: JsonObject, node: Node) -> list[str]:
    """Fit a document to a schema, in place; returns what strict decoding complains about.

    An empty list of managedFields means the same as none to the schema, but is a wish of the client: forget them.
    """
    metadata = document.get("metadata")
    forget = isinstance(metadata, dict) and metadata.get("managedFields") == []
    problems = decode.conform(document, node)
    if forget:
        document.setdefault("metadata", {})["managedFields"] = []
    return problems


def read_delete_options(call: ResourceRequest) -> JsonObject:
    """The DeleteOptions in the body of a DELETE; clients send them in the version of any group."""
    media_type = check_content_type(call.request)
    try:
        document, _ = decode.decode_body(call.request.body, media_type, duplicates=False)
    except errors.BadRequest:
        raise _unreadable_options(call.request.body) from None
    kind, api_version = document.get("kind") or "DeleteOptions", document.get("apiVersion") or "v1"
    if kind != "DeleteOptions":
        message = f'no kind "{kind}" is registered for version "{api_version}" in scheme "{_OPTIONS_SCHEME}"'
        raise errors.bad_request(message)
    try:
        decode.conform(document, builtin.type_node("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"))
    except decode.DecodingFailed as error:
        raise errors.bad_request(error.detail) from None
    return document


def _unreadable_options(body: bytes) -> errors.ApiError:
    try:
        detail = decode.no_envelope(json_body.decode(body))
    except json_body.SyntaxFault as fault:
        detail = str(fault)
    return errors.bad_request(f"couldn't get version/kind; json parse error: {detail}")


def read_patch(body: bytes, prefix: str) -> tuple[Json, list[str]]:
    """The JSON of a patch, and its duplicate fields. `prefix` stands before what is wrong with it."""
    try:
        value = json_body.decode(body)
        return json_body.duplicates(body, value, merge=False)
    except json_body.SyntaxFault as fault:
        raise errors.bad_request(f"{prefix}{fault}") from None


def read_apply(body: bytes) -> tuple[JsonObject, list[str]]:
    """What an apply request wants: YAML, and thereby JSON."""
    value: Json = None
    duplicates: list[str] = []
    try:
        value, duplicates = read_patch(body, "") if body.lstrip()[:1] == b"{" else _read_yaml(body)
    except errors.BadRequest:
        value, duplicates = _read_yaml(body)
    if value is None:
        return {}, duplicates
    if not isinstance(value, dict):
        found = json_type(value)
        detail = f"json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        raise errors.bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {detail}")
    return value, duplicates


def _read_yaml(body: bytes) -> tuple[Json, list[str]]:
    from kohort.cluster.apiserver.schema import yaml_body

    try:
        return yaml_body.decode(body)
    except yaml_body.YamlFault as fault:
        raise errors.bad_request(f"error decoding YAML: error converting YAML to JSON: {fault}") from None
