"""The scale subresource: any scalable kind through one small object.

A Scale is a view of its parent: reading derives it, writing sets one field of the parent and goes through the parent's
own update. Built-in kinds keep their selector as an object; custom resources name the three fields in their definition.
"""

from typing import Final

import msgspec

from kohort.cluster.apiserver.apply import managed
from kohort.cluster.apiserver.apply.scale_ownership import SCALE_VERSION, parent_entries, scale_entries
from kohort.cluster.apiserver.endpoints import object_responses, patching, request_bodies, system_metadata
from kohort.cluster.apiserver.endpoints.preserved_fields import storage_problem
from kohort.cluster.apiserver.endpoints.query_options import WriteOptions, manager_of, revision_of, write_options
from kohort.cluster.apiserver.endpoints.reading import missing, wait_for_revision
from kohort.cluster.apiserver.endpoints.request_context import ResourceRequest, ServerParts
from kohort.cluster.apiserver.endpoints.scale_document import put_replicas, replicas_of, scale_of, steps
from kohort.cluster.apiserver.endpoints.writing import Writer, WriteResult
from kohort.cluster.apiserver.representation.encoding import compact
from kohort.cluster.apiserver.schema import builtin
from kohort.cluster.apiserver.schema.node import Node
from kohort.kube import clock, errors
from kohort.kube.http import Response
from kohort.objects import field_errors
from kohort.objects.json_types import JsonObject

_UNSET: Final = -(2**31)


def scale_node() -> Node:
    return builtin.kind_node("autoscaling", "v1", "Scale")


async def get(parts: ServerParts, call: ResourceRequest) -> Response:
    await wait_for_revision(parts.store, revision_of(call.request.param("resourceVersion")))
    stored = parts.store.get(call.kind.bucket, call.namespace, call.name)
    if stored is None:
        raise missing(call)
    parent = call.view.document(stored)
    if call.kind.custom and replicas_of(call.kind, parent)[0] is None:
        assert call.kind.scale_paths is not None
        raise errors.internal(f'the spec replicas field "{call.kind.scale_paths[0]}" does not exist')
    return object_responses.render_object(call, scale_of(call.kind, parent))


async def update(writer: Writer, call: ResourceRequest) -> Response:
    options = write_options(call.request, "UpdateOptions")
    document, duplicates = await writer.parts.large.run(
        call.user.name, call.size, lambda: request_bodies.decode_request(call, "Scale")
    )
    request_bodies.check_type(writer.parts, call, document, "Scale", "autoscaling/v1")
    document["kind"], document["apiVersion"] = "Scale", "autoscaling/v1"
    request_bodies.shape(call, document, scale_node(), duplicates, options.field_validation or "Warn")
    metadata = document.setdefault("metadata", {})
    system_metadata.settle_namespace(call, metadata)
    system_metadata.check_name(call, metadata)

    def produce(live: JsonObject | None) -> JsonObject:
        assert live is not None
        problem = _other_uid(live, metadata)
        if problem:
            resource = call.kind.resource
            raise errors.conflict(resource.plural, call.name, storage_problem(call, problem), resource.group)
        return _recorded(writer, call, options, live, document)

    return _answer(call, await writer.replace(call, options, produce))


async def patch(writer: Writer, call: ResourceRequest) -> Response:
    media_type = patching.patch_type(call)
    options = write_options(call.request, "PatchOptions", apply=media_type == patching.APPLY)
    validation = options.field_validation or "Warn"
    if media_type == patching.APPLY:
        return await _apply(writer, call, options)
    change = await writer.parts.large.run(
        call.user.name, call.size, lambda: patching.parse(call, media_type, validation)
    )

    def produce(live: JsonObject | None) -> JsonObject:
        assert live is not None
        scale = _tracked_scale(writer, call, live)
        if replicas_of(call.kind, live)[0] is None:
            scale["spec"]["replicas"] = _UNSET
        scale, _ = patching.fit(writer.parts, call, change, scale, scale_node(), media_type, validation)
        system_metadata.settle_namespace(call, scale.setdefault("metadata", {}))
        system_metadata.check_name(call, scale["metadata"])
        problem = _other_uid(live, scale["metadata"])
        if problem and not call.kind.custom:
            raise errors.conflict(f"{call.kind.resource.plural}/scale", call.name, problem, call.kind.resource.group)
        return _recorded(writer, call, options, live, scale)

    return _answer(call, await writer.replace(call, options, produce))


async def _apply(writer: Writer, call: ResourceRequest, options: WriteOptions) -> Response:
    from kohort.cluster.apiserver.apply import serverside

    intent, _ = await writer.parts.large.run(call.user.name, call.size, lambda: patching.read_intent(call, options))

    def produce(live: JsonObject | None) -> JsonObject:
        assert live is not None
        scale = serverside.apply(
            _tracked_scale(writer, call, live),
            intent,
            scale_node(),
            manager=options.manager,
            force=bool(options.force),
            api_version=SCALE_VERSION,
            time=clock.timestamp(),
            subresource="scale",
            ignored=("status",),
            kind="Scale",
        )
        return _rescaled(writer, call, live, scale)

    return _answer(call, await writer.replace(call, options, produce))


def _recorded(
    writer: Writer, call: ResourceRequest, options: WriteOptions, live: JsonObject, scale: JsonObject
) -> JsonObject:
    """The parent with the replicas of a Scale that was put or patched."""
    before = _tracked_scale(writer, call, live)
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    after = {**before, "metadata": dict(scale["metadata"]), "spec": {"replicas": replicas} if replicas else {}}
    managed.record_update(
        before,
        after,
        scale_node(),
        manager=manager_of(options, call.request),
        api_version=SCALE_VERSION,
        time=clock.timestamp(),
        subresource="scale",
        ignored=("status",),
    )
    scale["metadata"]["managedFields"] = after["metadata"].get("managedFields") or []
    return _rescaled(writer, call, live, scale)


def _rescaled(writer: Writer, call: ResourceRequest, live: JsonObject, scale: JsonObject) -> JsonObject:
    """The parent with the replicas of a Scale, and with the owners that they have there."""
    assert call.kind.scale_paths is not None
    path = call.kind.scale_paths[0]
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas == _UNSET:
        raise errors.bad_request(f'the spec replicas field "{path}" cannot be empty')
    _check_replicas(call, replicas)
    obj: JsonObject = msgspec.json.decode(compact(live))
    put_replicas(call.kind, obj, replicas)
    metadata = obj["metadata"]
    if scale["metadata"].get("resourceVersion"):
        metadata["resourceVersion"] = scale["metadata"]["resourceVersion"]
    owners = parent_entries(
        metadata.pop("managedFields", None),
        scale["metadata"].get("managedFields"),
        call.kind.resource.api_version,
        _replicas_paths(writer, call),
    )
    if owners:
        metadata["managedFields"] = owners
    return obj


def _tracked_scale(writer: Writer, call: ResourceRequest, live: JsonObject) -> JsonObject:
    """The Scale of an object, with the owners of its replicas."""
    scale = scale_of(call.kind, live)
    owners = scale_entries(live["metadata"].get("managedFields"), _replicas_paths(writer, call))
    if owners:
        scale["metadata"]["managedFields"] = owners
    return scale


def _replicas_paths(writer: Writer, call: ResourceRequest) -> dict[str, tuple[str, ...] | None]:
    return {
        kind.resource.api_version: tuple(steps(kind.scale_paths[0])) if kind.scale_paths else None
        for kind in writer.parts.catalog.siblings(call.kind)
    }


def _other_uid(live: JsonObject, metadata: JsonObject) -> str:
    """What is wrong with a Scale that means another object than the present one."""
    uid, present = metadata.get("uid") or "", live["metadata"].get("uid")
    if not uid or uid == present:
        return ""
    return f"Precondition failed: UID in precondition: {uid}, UID in object meta: {present}"


def _check_replicas(call: ResourceRequest, replicas: int) -> None:
    if replicas < 0 and not call.kind.custom:
        wrong = field_errors.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise errors.invalid("Scale", call.name, [wrong], "autoscaling")


def _answer(call: ResourceRequest, written: WriteResult) -> Response:
    parent = call.view.document(written.stored) if written.stored is not None else written.document
    assert parent is not None
    return object_responses.render_object(call, scale_of(call.kind, parent))
