"""Which fields an endpoint lets its callers own.

Every endpoint resets some fields: the main one the status, `/status` the rest. What is reset cannot be owned through
it, so it is left out when managedFields are recorded.
"""

from typing import Final

from kohort.cluster.apiserver.apply import managed
from kohort.cluster.apiserver.endpoints.request_context import ResourceRequest, ServerParts
from kohort.cluster.apiserver.kinds.model import Kind
from kohort.cluster.apiserver.schema.node import Node
from kohort.objects import field_errors
from kohort.objects.json_types import JsonObject

_STATUS_RESETS: Final[dict[str, tuple[str, ...]]] = {
    "deployments.apps": ("spec", "metadata.labels"),
    "pods": ("spec", "metadata.deletionTimestamp", "metadata.ownerReferences"),
    "certificatesigningrequests.certificates.k8s.io": ("spec", "status.conditions"),
    "resourceclaims.resource.k8s.io": ("metadata", "spec"),
    "volumeattachments.storage.k8s.io": ("metadata", "spec"),
    "servicecidrs.networking.k8s.io": ("metadata", "spec"),
    "flowschemas.flowcontrol.apiserver.k8s.io": ("metadata", "spec"),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": ("metadata", "spec"),
    "customresourcedefinitions.apiextensions.k8s.io": ("metadata", "spec"),
}
"""What writing the status of a kind resets, where it is more than the spec."""

_TRACKED: Final[dict[str, tuple[str, ...]]] = {
    "resize": (
        "spec.containers.*.resources",
        "spec.containers.*.resizePolicy",
        "spec.initContainers.*.resources",
        "spec.initContainers.*.resizePolicy",
        "spec.resources",
    ),
    "ephemeralcontainers": ("spec.ephemeralContainers",),
}
"""Subresources through which only these fields can be owned."""


def ignored_fields(call: ResourceRequest) -> tuple[str, ...]:
    """The fields that this endpoint resets, so that writing them through it owns nothing."""
    kind = call.kind
    if call.path.subresource == "status":
        return status_resets(kind)
    if call.path.subresource == "approval":
        return ("spec", "status.certificate")
    if kind.bucket == "certificatesigningrequests.certificates.k8s.io":
        return ("spec", "status")
    return ("status",) if kind.strategy.has_status else ()


def status_resets(kind: Kind) -> tuple[str, ...]:
    return _STATUS_RESETS.get(kind.bucket, ("metadata", "spec") if kind.custom else ("spec",))


def tracked_fields(call: ResourceRequest) -> tuple[str, ...]:
    return _TRACKED.get(call.path.subresource, ())


def at_version(parts: ServerParts, call: ResourceRequest) -> managed.AtVersion | None:
    """Managed fields are recorded in the version of their writer; this shows the object in another one of its group."""
    if len(parts.catalog.of_bucket(call.kind.bucket)) < 2:
        return None

    group = call.kind.resource.group
    siblings = parts.catalog.siblings(call.kind)
    versions = {one.resource.api_version: one for one in siblings if one.resource.group == group}

    def convert(obj: JsonObject, api_version: str) -> tuple[JsonObject, Node] | None:
        target = versions.get(api_version)
        if target is None:
            return None
        source = versions.get(obj.get("apiVersion", ""), call.kind)
        stored = source.to_storage(obj) if source.to_storage is not None else obj
        served = target.from_storage(stored) if target.from_storage is not None else stored
        return served, target.schema()

    return convert


def violates_current_schema(call: ResourceRequest, live: JsonObject) -> bool:
    """Whether a custom resource has values of types that the definition, which changed since, does not allow."""
    revision = live["metadata"].get("resourceVersion") or "0"
    if not call.kind.custom or int(revision) > call.view.fresh_since:
        return False
    from kohort.cluster.apiserver.schema.validate import validate

    return any(error.reason == field_errors.TYPE_INVALID for error in validate(live, call.kind.schema()))
