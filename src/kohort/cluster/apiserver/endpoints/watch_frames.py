"""What a watcher receives: one frame per event.

A frame is made of the stored bytes, once per change and representation, and shared by all watches; watches of a
namespace, or of all, without a selector even share the joined bytes of a whole batch.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from kohort.cluster.apiserver.catalog.encoding_cache import EncodingCache
from kohort.cluster.apiserver.catalog.view import KindView
from kohort.cluster.apiserver.endpoints import object_responses
from kohort.cluster.apiserver.endpoints.request_bodies import complete
from kohort.cluster.apiserver.representation.encoding import compact
from kohort.cluster.apiserver.representation.negotiation import JSON, PROTOBUF, Media
from kohort.cluster.apiserver.storage.model import Change, Stored
from kohort.kube import errors
from kohort.kube.resources import Resource
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject

FRAMES_KEPT: Final = 4 << 20
BATCHES_KEPT: Final = 4 << 20
INITIAL_EVENTS_END: Final = well_known_names.INITIAL_EVENTS_END


class Frames:
    """The frames of one representation of one kind, as lines of JSON."""

    content_type: str = JSON

    def __init__(self, view: KindView, media: Media) -> None:
        self.view = view
        self.media = media
        self._known: EncodingCache[tuple[str, int]] = EncodingCache(FRAMES_KEPT)
        self._batches: EncodingCache[tuple[int, int, int, str]] = EncodingCache(BATCHES_KEPT)

    def of(self, type_: str, stored: Stored) -> bytes:
        key = (type_, stored.revision)
        frame = self._known.get(key)
        if frame is None:
            frame = self._known.put(key, self.frame(type_, self.body(stored)))
        return frame

    def of_exit(self, before: Stored, revision: int) -> bytes:
        """An object that is still there but no longer selected."""
        key = ("EXIT", revision)
        frame = self._known.get(key)
        if frame is None:
            frame = self._known.put(key, self.frame("DELETED", self.shape(self.view.with_revision(before, revision))))
        return frame

    def of_batch(self, changes: Sequence[Change], namespace: str) -> bytes:
        """All changes, or those of one namespace: an object never leaves its namespace, so there are no transitions."""
        key = (changes[0].revision, changes[-1].revision, len(changes), namespace)
        joined = self._batches.get(key)
        if joined is None:
            joined = self._batches.put(key, self._joined(changes, namespace))
        return joined

    def _joined(self, changes: Sequence[Change], namespace: str) -> bytes:
        wanted = [change for change in changes if not namespace or change.after.namespace == namespace]
        return b"".join([self.of(change.type, change.after) for change in wanted])

    def once(self, type_: str, stored: Stored) -> bytes:
        """A frame for one watcher alone, which is not kept."""
        return self.frame(type_, self.body(stored))

    def error(self, error: errors.ApiError) -> bytes:
        return self.frame("ERROR", compact(error.to_json()))

    def frame(self, type_: str, body: bytes) -> bytes:
        return b'{"type":"%b","object":%b}\n' % (type_.encode(), body)

    def body(self, stored: Stored) -> bytes:
        return self.shape(self.view.raw(stored))

    def shape(self, raw: bytes) -> bytes:
        return raw if self.media.transform == "" else object_responses.partial_metadata_of(raw, self.media.version)

    def bookmark(self, revision: int, *, end_of_initial: bool) -> bytes:
        resource = self.view.kind.resource
        metadata: JsonObject = {"resourceVersion": str(revision)}
        if end_of_initial:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        document: JsonObject = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        if self.media.transform:
            document = object_responses.partial_metadata(document, self.media.version)
        else:
            complete(self.view.kind, document, nulls=True)
            _add_zero_replicas(resource, document)
        return self.frame("BOOKMARK", compact(document))


class TableFrames(Frames):
    """Rows instead of objects. Only the first table of a stream names its columns, so nothing can be shared."""

    def __init__(self, view: KindView, media: Media, include_object: str) -> None:
        super().__init__(view, media)
        self._include_object = include_object
        self._first = True

    def of(self, type_: str, stored: Stored) -> bytes:
        return self.frame(type_, self.body(stored))

    def of_exit(self, before: Stored, revision: int) -> bytes:
        return self.frame("DELETED", self.shape(self.view.with_revision(before, revision)))

    def of_batch(self, changes: Sequence[Change], namespace: str) -> bytes:
        return self._joined(changes, namespace)

    def shape(self, raw: bytes) -> bytes:
        return self._table(msgspec.json.decode(raw))

    def bookmark(self, revision: int, *, end_of_initial: bool) -> bytes:
        resource = self.view.kind.resource
        metadata: JsonObject = {"resourceVersion": str(revision), "creationTimestamp": None}
        if end_of_initial:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        document: JsonObject = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        # a bookmark is nothing but its metadata, so that is included even when no objects are wanted
        return self.frame("BOOKMARK", self._table(document, "Metadata"))

    def _table(self, document: JsonObject, include_object: str = "") -> bytes:
        from kohort.cluster.apiserver.representation import tables

        revision = (document.get("metadata") or {}).get("resourceVersion", "")
        table = tables.table(
            self.view.kind,
            [document],
            include_object=include_object or self._include_object,
            metadata={"resourceVersion": revision},
            version=self.media.version,
        )
        if not self._first:
            table["columnDefinitions"] = None
        self._first = False
        return compact(table)


class ProtobufFrames(Frames):
    """Frames of protobuf, each with its length before it."""

    content_type = f"{PROTOBUF};stream=watch"

    def frame(self, type_: str, body: bytes) -> bytes:
        from kohort.cluster.apiserver.schema import protobuf_encode

        return protobuf_encode.encode_event(type_, msgspec.json.decode(body))


_COUNTED: Final = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"})


def _add_zero_replicas(resource: Resource, document: JsonObject) -> None:
    """The empty object of a bookmark shows the replicas of these kinds as zero, though no default would be zero."""
    if resource.kind in _COUNTED and resource.group in ("", "apps"):
        document["spec"] = {"replicas": 0, **document["spec"]}
