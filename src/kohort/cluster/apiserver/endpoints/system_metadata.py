"""The part of metadata that belongs to the server: names, identity, time stamps. Pure functions on one object."""

from typing import Final

import msgspec

from kohort.cluster.apiserver.endpoints.request_context import ResourceRequest
from kohort.cluster.apiserver.kinds.generated_names import random_uid
from kohort.kube import clock, errors
from kohort.objects.json_types import JsonObject

SYSTEM_FIELDS: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


def wipe_system_fields(metadata: JsonObject) -> None:
    for field in SYSTEM_FIELDS:
        metadata.pop(field, None)


def settle_namespace(call: ResourceRequest, metadata: JsonObject) -> None:
    """The namespace of the path is the namespace of the object."""
    wanted, found = call.namespace, metadata.get("namespace") or ""
    if found and wanted and found != wanted:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if wanted:
        metadata["namespace"] = wanted
    else:
        metadata.pop("namespace", None)


def check_name(call: ResourceRequest, metadata: JsonObject) -> None:
    name = metadata.get("name") or ""
    if not name:
        raise errors.bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        )
    if name != call.name:
        raise errors.bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")


_DUPLICATE_OWNERS: Final = (
    ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
)


def drop_duplicate_owners(call: ResourceRequest, metadata: JsonObject, *, after_admission: bool) -> None:
    owners = metadata.get("ownerReferences")
    if not owners or len(owners) < 2:
        return
    kept: list[JsonObject] = []
    duplicates: list[str] = []
    seen: set[bytes] = set()
    for owner in owners:
        content = msgspec.json.encode(owner, order="deterministic")
        if content in seen:
            duplicates.append(owner.get("uid") or "")
        else:
            seen.add(content)
            kept.append(owner)
    if duplicates:
        when = " after mutating admission happens" if after_admission else ""
        call.warnings.append(_DUPLICATE_OWNERS.format(when=when, uids=", ".join(duplicates)))
        metadata["ownerReferences"] = kept


def stamp_new(metadata: JsonObject) -> None:
    metadata["uid"] = random_uid()
    metadata["creationTimestamp"] = clock.timestamp()


def restore_system_fields(metadata: JsonObject, old: JsonObject) -> None:
    """What an update cannot change, whatever it says. A uid that contradicts stays, for validation to refuse."""
    if not metadata.get("uid") and old.get("uid"):
        metadata["uid"] = old["uid"]
    for field in ("creationTimestamp", "deletionTimestamp"):
        if old.get(field):
            metadata[field] = old[field]
    if old.get("deletionGracePeriodSeconds") is not None and metadata.get("deletionGracePeriodSeconds") is None:
        metadata["deletionGracePeriodSeconds"] = old["deletionGracePeriodSeconds"]
    metadata.pop("selfLink", None)
    set_generation(metadata, old.get("generation"))


def set_generation(metadata: JsonObject, generation: int | None) -> None:
    if generation:
        metadata["generation"] = generation
    else:
        metadata.pop("generation", None)
