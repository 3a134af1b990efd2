"""What a write keeps of the stored object, whatever the client sent; and how it shows what it keeps."""

from collections.abc import Callable
from typing import Final

import msgspec

from kohort.cluster.apiserver.endpoints.request_context import ResourceRequest
from kohort.cluster.apiserver.endpoints.reset_fields import status_resets
from kohort.cluster.apiserver.kinds.model import Kind
from kohort.cluster.apiserver.representation.encoding import compact
from kohort.objects.json_types import JsonObject

_KEYS: Final = {"services": "services/specs", "endpoints": "services/endpoints", "nodes": "minions"}


def storage_problem(call: ResourceRequest, detail: str) -> str:
    """A failed precondition in the words of the storage layer, key included."""
    resource = call.kind.resource
    place = f"{resource.group}/{resource.plural}" if call.kind.custom else _KEYS.get(resource.plural, resource.plural)
    key = "/".join(part for part in ("/registry", place, call.namespace, call.name) if part)
    return f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {detail}"


def copies_of(body: JsonObject) -> Callable[[], JsonObject]:
    """Copies of a decoded body: the first is the body itself, since hardly any write needs a second."""
    raw = compact(body)
    first = [body]
    return lambda: first.pop() if first else msgspec.json.decode(raw)


def by_name(document: JsonObject) -> JsonObject:
    """With sorted keys at every level: custom resources have no order of fields of their own."""
    ordered: JsonObject = msgspec.json.decode(msgspec.json.encode(document, order="sorted"))
    return ordered


def restore(obj: JsonObject, live: JsonObject, key: str) -> None:
    if key in live:
        obj[key] = live[key]
    else:
        obj.pop(key, None)


def only_status(kind: Kind, obj: JsonObject, live: JsonObject) -> JsonObject:
    """The live object with the status of another, and with what metadata the kind lets through beside it."""
    metadata = obj["metadata"]
    resets = status_resets(kind)
    if "metadata" in resets:
        metadata = {**live["metadata"], "resourceVersion": metadata.get("resourceVersion")}
        _restore_managed(metadata, obj["metadata"])
    for path in resets:
        parent, _, key = path.partition(".")
        if parent == "metadata" and key:
            restore(metadata, live["metadata"], key)
    settled = {**live, "metadata": metadata}
    restore(settled, obj, "status")
    return settled


def _restore_managed(metadata: JsonObject, sent: JsonObject) -> None:
    if sent.get("managedFields"):
        metadata["managedFields"] = sent["managedFields"]
    else:
        metadata.pop("managedFields", None)


def deletion_is_complete(kind: Kind, obj: JsonObject, live: JsonObject) -> bool:
    """Whether the last thing that kept a deleted object was just taken away."""
    metadata = live["metadata"]
    if not metadata.get("deletionTimestamp") or obj["metadata"].get("finalizers"):
        return False
    if metadata.get("deletionGracePeriodSeconds"):
        return False
    return kind.bucket != "namespaces" or not (obj.get("spec") or {}).get("finalizers")
