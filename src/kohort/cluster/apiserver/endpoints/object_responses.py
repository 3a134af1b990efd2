"""Answers about objects, in the representation that was negotiated."""

from kohort.cluster.apiserver.catalog.view import KindView, metadata_of
from kohort.cluster.apiserver.endpoints.request_context import ResourceRequest, ServerParts
from kohort.cluster.apiserver.kinds.model import Kind
from kohort.cluster.apiserver.representation import encoding
from kohort.cluster.apiserver.representation.negotiation import JSON, Media
from kohort.cluster.apiserver.storage.model import Stored
from kohort.kube import errors
from kohort.kube.http import Response
from kohort.objects import field_errors
from kohort.objects.json_types import JsonObject


def of_bytes(status: int, body: bytes, content_type: str) -> Response:
    return Response(status, {"content-type": content_type}, body)


def of_document(status: int, document: JsonObject, media: Media) -> Response:
    """A document that is never transformed: a Status, a Scale, a review."""
    return of_bytes(status, encoding.encode(document, media), media.content_type)


async def of_stored(parts: ServerParts, call: ResourceRequest, stored: Stored, status: int = 200) -> Response:
    media = call.media
    if media.format == "json" and not media.transform and not media.pretty:
        return Response(status, {"content-type": JSON}, call.view.raw(stored) + b"\n")
    if media.is_stored_form:
        return _render_stored(call, stored, status)
    return await parts.large.run(call.user.name, len(stored.raw), lambda: _render_stored(call, stored, status))


def _render_stored(call: ResourceRequest, stored: Stored, status: int) -> Response:
    if call.media.transform:
        return render_object(call, call.view.document(stored), status)
    return of_bytes(status, encoding.encode_raw(call.view.raw(stored), call.media), call.media.content_type)


async def of_object(parts: ServerParts, call: ResourceRequest, document: JsonObject, status: int = 200) -> Response:
    if call.media.is_stored_form:
        return render_object(call, document, status)
    size = len(encoding.compact(document))
    return await parts.large.run(call.user.name, size, lambda: render_object(call, document, status))


def render_object(call: ResourceRequest, document: JsonObject, status: int = 200) -> Response:
    if call.media.transform and document.get("kind") != "Status":
        document = transformed(call, document)
    return of_document(status, document, call.media)


def transformed(call: ResourceRequest, document: JsonObject) -> JsonObject:
    media = call.media
    if media.transform == "Table":
        from kohort.cluster.apiserver.representation import tables

        return tables.table(call.kind, [document], include_object=include_object(call), version=media.version)
    if media.transform == "PartialObjectMetadata":
        return partial_metadata(document, media.version)
    shown = go_type(call.kind)
    message = f"you requested PartialObjectMetadataList, but the requested object is not a list ({shown})"
    raise errors.failure(406, "NotAcceptable", message)


def partial_metadata(document: JsonObject, version: str) -> JsonObject:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": document.get("metadata") or {},
    }


def partial_metadata_of(raw: bytes, version: str) -> bytes:
    """The same of an encoded object: nothing but its metadata is looked at."""
    head = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/%b","metadata":' % version.encode()
    return b"".join((head, metadata_of(raw), b"}"))


def include_object(call: ResourceRequest) -> str:
    """How much of the object a table row carries."""
    asked = call.request.param("includeObject") or "Metadata"
    if asked not in ("None", "Metadata", "Object"):
        wrong = field_errors.invalid("includeObject", asked, "must be 'Metadata', 'Object', 'None', or empty")
        raise errors.bad_request(f"Unable to convert to Table as requested: {wrong}")
    return asked


def go_type(kind: Kind, *, of_list: bool = False) -> str:
    """The type name that negotiation errors show."""
    if kind.custom:
        return "*unstructured.UnstructuredList" if of_list else "*unstructured.Unstructured"
    package = kind.resource.group.partition(".")[0] or "core"
    return f"*{package}.{kind.list_kind if of_list else kind.resource.kind}"


def status_success(view: KindView, name: str, uid: str) -> JsonObject:
    """What a deletion is answered with when the object is gone."""
    resource = view.kind.resource
    details: JsonObject = {"name": name}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    if uid:
        details["uid"] = uid
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
