"""PATCH: four media types that lead into the same pipeline as PUT.

JSON patch, merge patch and strategic merge patch say what to change; the server applies them to the live object and
then treats the result as if it had been sent. Apply says what the sender wants to own, and may create.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from kohort.cluster.apiserver.endpoints import object_responses, request_bodies, system_metadata
from kohort.cluster.apiserver.endpoints.patch_error_text import as_printed
from kohort.cluster.apiserver.endpoints.query_options import WriteOptions, write_options
from kohort.cluster.apiserver.endpoints.request_context import ResourceRequest, ServerParts
from kohort.cluster.apiserver.endpoints.reset_fields import at_version, ignored_fields, tracked_fields
from kohort.cluster.apiserver.endpoints.writing import Writer
from kohort.cluster.apiserver.kinds.model import Kind
from kohort.cluster.apiserver.patch.go_error_text import go_text
from kohort.cluster.apiserver.representation.encoding import compact
from kohort.cluster.apiserver.representation.negotiation import media_type_of, unsupported_media_type
from kohort.cluster.apiserver.schema import decode, document_limits
from kohort.cluster.apiserver.schema.go_type_errors import json_type
from kohort.cluster.apiserver.schema.integer_overflow import wrapped
from kohort.cluster.apiserver.schema.node import Node
from kohort.kube import clock, errors
from kohort.kube.http import Response
from kohort.objects import field_errors
from kohort.objects.json_types import Json, JsonObject

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"

_BUILT_IN: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC, APPLY)
_CUSTOM: Final = (JSON_PATCH, MERGE_PATCH, APPLY)


def patch_type(call: ResourceRequest) -> str:
    media_type = media_type_of(call.request.headers.get("content-type", ""))
    accepted = _CUSTOM if call.kind.custom else _BUILT_IN
    if media_type not in accepted:
        if accepted is _BUILT_IN:
            raise errors.generic(415, "UnsupportedMediaType", "415: Unsupported Media Type")
        raise unsupported_media_type(accepted)
    return media_type


async def patch(writer: Writer, call: ResourceRequest) -> Response:
    media_type = patch_type(call)
    options = write_options(call.request, "PatchOptions", apply=media_type == APPLY)
    produce = await writer.parts.large.run(
        call.user.name,
        call.size,
        lambda: applier(writer, call, options) if media_type == APPLY else patcher(writer, call, options, media_type),
    )
    written = await writer.replace(call, options, produce, create_allowed=media_type == APPLY)
    return await writer.answer(call, written)


def patcher(
    writer: Writer, call: ResourceRequest, options: WriteOptions, media_type: str
) -> Callable[[JsonObject | None], JsonObject]:
    """A patch that cannot be read is refused only if there is something to patch."""
    change: Change | errors.ApiError
    try:
        change = parse(call, media_type, options.field_validation or "Warn")
    except errors.ApiError as refused:
        change = refused

    def produce(live: JsonObject | None) -> JsonObject:
        assert live is not None
        if isinstance(change, errors.ApiError):
            raise change
        node = call.kind.schema()
        obj, only_status = fit(writer.parts, call, change, live, node, media_type, options.field_validation or "Warn")
        strategy = call.kind.strategy
        (strategy.default_status if only_status else strategy.default)(obj)
        complete = request_bodies.complete_status if call.path.subresource == "status" else request_bodies.complete
        complete(call.kind, obj)
        metadata = obj.setdefault("metadata", {})
        system_metadata.settle_namespace(call, metadata)
        system_metadata.check_name(call, metadata)
        writer.record(call, options, live, obj)
        return obj

    return produce


class Change:
    """A parsed patch."""

    __slots__ = ("apply", "patch", "problems")

    def __init__(self, patch: Json, problems: list[str], apply: Callable[[JsonObject, Node], JsonObject]) -> None:
        self.patch = patch
        self.problems = problems
        self.apply = apply


def parse(call: ResourceRequest, media_type: str, field_validation: str) -> Change:
    strict = field_validation != "Ignore"
    prefix = "" if media_type == STRATEGIC else "error decoding patch: "
    document, duplicates = request_bodies.read_patch(call.request.body, prefix)
    if media_type == JSON_PATCH:
        from kohort.cluster.apiserver.patch import jsonpatch

        problems = [f"json patch {problem}" for problem in duplicates] + jsonpatch.unknown_fields(document)
        return Change(document, problems if strict else [], lambda live, _: jsonpatch.apply(live, document))
    if media_type == MERGE_PATCH:
        from kohort.cluster.apiserver.patch import merge

        return Change(document, duplicates if strict else [], lambda live, _: merge.apply(live, document))
    from kohort.cluster.apiserver.patch import strategic

    if document is not None and not isinstance(document, dict):
        found = json_type(document)
        raise errors.bad_request(f"json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")
    return Change(document, duplicates if strict else [], lambda live, node: strategic.apply(live, document, node))


def fit(
    parts: ServerParts,
    call: ResourceRequest,
    change: Change,
    live: JsonObject,
    node: Node,
    media_type: str,
    field_validation: str,
) -> tuple[JsonObject, bool]:
    """The live object after the patch, fitted to the schema, and whether nothing but its status can be new. What is
    wrong with the result is wrong with the patch."""
    patched = change.apply(live, node)
    if media_type == JSON_PATCH:  # the others cannot make anything that is deeper than the patch or the object
        _check_limits(patched)
    # Encoded first, since what follows may change parts that both objects share.
    shown = compact(patched) if media_type != STRATEGIC else b""
    only_status = _only_status(call, live, patched)
    obj = _with_own_status(patched) if only_status else _copy(patched)

    def unfit(problem: str) -> errors.ApiError:
        if media_type == STRATEGIC:
            return _invalid_patch(go_text(change.patch), problem)
        printed = as_printed(msgspec.json.decode(shown), patched, live, node.name)
        return _invalid_patch(compact(printed).decode(), problem)

    def attempt(obj: JsonObject) -> list[str]:
        _check_type(parts, call, live, obj, media_type)
        return change.problems + (_fitted_status(obj, node) if only_status else request_bodies.fitted(obj, node))

    try:
        problems = attempt(obj)
    except decode.DecodingFailed as error:
        obj = wrapped(_copy(patched), node)
        if media_type != STRATEGIC or obj == patched:
            raise unfit(error.detail) from None
        try:
            problems = attempt(obj)
        except decode.DecodingFailed as further:
            raise unfit(further.detail) from None
    if problems and field_validation == "Strict":
        raise unfit(f"strict decoding error: {', '.join(problems)}")
    if problems and field_validation == "Warn":
        call.warnings.extend(problem for problem in problems if problem not in call.warnings)
    return obj, only_status


def _only_status(call: ResourceRequest, live: JsonObject, patched: JsonObject) -> bool:
    """Whether a patch of the status leaves all the rest as it is stored, as nearly all of them do. What is stored was
    fitted to the schema when it came, and this endpoint could not change it anyway."""
    if call.path.subresource != "status" or call.kind.custom:
        return False
    if not patched.keys() ^ live.keys() <= {"status"}:
        return False
    return all(value is live.get(key) or value == live.get(key) for key, value in patched.items() if key != "status")


def _with_own_status(patched: JsonObject) -> JsonObject:
    """A copy as far as the status goes. Metadata is changed field by field, never below; the rest is not changed."""
    obj = {**patched, "metadata": dict(patched["metadata"])}
    if "status" in patched:
        obj["status"] = _copy(patched["status"])
    return obj


def _fitted_status(obj: JsonObject, node: Node) -> list[str]:
    part: JsonObject = {key: obj[key] for key in ("apiVersion", "kind", "status") if key in obj}
    problems = request_bodies.fitted(part, node)
    obj.pop("status", None)
    obj.update(part)
    return problems


def _check_type(parts: ServerParts, call: ResourceRequest, live: JsonObject, obj: JsonObject, media_type: str) -> None:
    """A patch cannot turn an object into one of another kind. What it would become is decoded first, as upstream does:
    often that fails already."""
    if call.kind.custom and live.get("kind") == call.kind.resource.kind:
        return
    for name in ("apiVersion", "kind"):
        found = obj.get(name)
        if found is not None and type(found) is not str:
            detail = f"json: cannot unmarshal {json_type(found)} into Go struct field .{name} of type string"
            raise decode.DecodingFailed(live["kind"], live["apiVersion"], live["kind"], detail)
    if media_type == STRATEGIC:
        obj["kind"], obj["apiVersion"] = live["kind"], live["apiVersion"]
        return
    kind, api_version = obj.get("kind") or live["kind"], obj.get("apiVersion") or live["apiVersion"]
    if (kind, api_version) == (live["kind"], live["apiVersion"]):
        return
    group, _, version = api_version.rpartition("/")
    other = parts.catalog.by_kind(group, kind)
    if other is None or other.kind.custom or not _is_version_of(parts, other.kind, version):
        detail = f'no kind "{kind}" is registered for version "{api_version}" in scheme "{request_bodies.SCHEME}"'
    else:
        decode.conform(_copy(obj), other.kind.schema())
        package = object_responses.go_type(call.kind)[1:].partition(".")[0]
        detail = f"converting ({version}.{kind}) to ({package}.{live['kind']}): unknown conversion"
    raise decode.DecodingFailed(kind, version, live["kind"], detail)


def _is_version_of(parts: ServerParts, kind: Kind, version: str) -> bool:
    return any(one.resource.version == version for one in parts.catalog.siblings(kind))


def _check_limits(patched: JsonObject) -> None:
    try:
        document_limits.check_value(patched)
    except document_limits.ExcessiveDocument as excess:
        raise errors.invalid("", "", [field_errors.invalid("patch", "", str(excess))]) from None


def _invalid_patch(shown: str, problem: str) -> errors.ApiError:
    return errors.invalid("", "", [field_errors.invalid("patch", shown, problem)])


def applier(writer: Writer, call: ResourceRequest, options: WriteOptions) -> Callable[[JsonObject | None], JsonObject]:
    from kohort.cluster.apiserver.apply import serverside
    from kohort.cluster.apiserver.apply.intent_validation import null_values

    intent, duplicates = read_intent(call, options)

    def produce(live: JsonObject | None) -> JsonObject:
        merged = serverside.apply(
            live,
            intent,
            call.kind.schema(),
            manager=options.manager,
            force=bool(options.force),
            api_version=call.kind.resource.api_version,
            time=clock.timestamp(),
            subresource=call.path.subresource,
            ignored=ignored_fields(call),
            tracked=tracked_fields(call),
            kind=call.kind.resource.kind,
            at_version=at_version(writer.parts, call),
        )
        _report_duplicates(call, duplicates, options.field_validation or "Warn")
        if call.kind.custom and (nulls := null_values(merged, call.kind.schema())):
            raise errors.invalid(call.kind.resource.kind, call.name, nulls, call.kind.resource.group)
        obj = _converted(merged, call.kind)
        call.kind.strategy.default(obj)
        request_bodies.complete(call.kind, obj)
        metadata = obj.setdefault("metadata", {})
        if live is None and metadata.get("uid"):
            resource = call.kind.resource
            detail = (
                f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found"
            )
            raise errors.conflict(resource.plural, call.name, detail, resource.group)
        system_metadata.settle_namespace(call, metadata)
        system_metadata.check_name(call, metadata)
        return obj

    return produce


def _converted(merged: JsonObject, kind: Kind) -> JsonObject:
    """A copy of what was merged that fits the schema."""
    node = kind.schema()
    obj: JsonObject = _copy(merged)
    try:
        decode.conform(obj, node)
    except decode.DecodingFailed:
        if kind.custom:
            raise
        obj = wrapped(_copy(merged), node)
        decode.conform(obj, node)
    return obj


def _copy(document: Json) -> Json:
    """A deep copy: what patches return shares structure with what they were given."""
    copy: Json = msgspec.json.decode(compact(document))
    return copy


def read_intent(call: ResourceRequest, options: WriteOptions) -> tuple[JsonObject, list[str]]:
    """The body of an apply request, and the fields that occur twice in it."""
    return request_bodies.read_apply(call.request.body)


def _report_duplicates(call: ResourceRequest, duplicates: list[str], field_validation: str) -> None:
    if not duplicates or field_validation == "Ignore":
        return
    if field_validation == "Strict":
        raise errors.bad_request(f"error strict decoding YAML: {', '.join(duplicates)}")
    call.warnings.extend(problem for problem in duplicates if problem not in call.warnings)
