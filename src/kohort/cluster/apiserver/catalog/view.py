"""How the objects of a bucket look through one served version of their kind.

Most kinds are stored exactly as they are served, so the stored bytes are the answer. Three things force a rendering:
another version than the stored one, a custom resource whose definition changed after the object was written (new
defaults of the version that it was written in apply on read), and the list form of built-in kinds, whose items do not
repeat kind and apiVersion. The last is cut off the front of the bytes: everything is stored with these two keys first.
"""

from collections.abc import Callable, Iterable

import msgspec

from kohort.cluster.apiserver.catalog.encoding_cache import EncodingCache
from kohort.cluster.apiserver.kinds.model import Kind
from kohort.cluster.apiserver.representation.encoding import compact
from kohort.cluster.apiserver.storage.model import Stored
from kohort.objects.json_types import Json, JsonObject

RENDERED_LIMIT = 32 << 20


class _MetadataOnly(msgspec.Struct):
    metadata: msgspec.Raw


_metadata_decoder = msgspec.json.Decoder(_MetadataOnly)


class KindView:
    """One served version of a kind."""

    __slots__ = ("_head", "_rendered", "fresh_since", "kind", "refresh", "served_since")

    def __init__(
        self,
        kind: Kind,
        *,
        fresh_since: int = 0,
        served_since: int = 0,
        refresh: Callable[[JsonObject], JsonObject] | None = None,
    ) -> None:
        self.kind = kind
        self.served_since = served_since
        """The revision from which on there is a history to watch."""
        self.fresh_since = fresh_since
        """Objects written at or before this revision were shaped by an older schema."""
        self.refresh = refresh
        """Shows such an object by the present schema; may change what it is given."""
        resource = kind.resource
        self._head = compact({"kind": resource.kind, "apiVersion": resource.api_version})[:-1] + b","
        self._rendered: EncodingCache[int] = EncodingCache(RENDERED_LIMIT)
        """By revision, which no two objects share."""

    def raw(self, stored: Stored) -> bytes:
        """The object as JSON, ready to be sent."""
        if self._is_direct(stored):
            return stored.raw
        known = self._rendered.get(stored.revision)
        return known if known is not None else self._rendered.put(stored.revision, compact(self.document(stored)))

    def document(self, stored: Stored) -> JsonObject:
        """The object decoded; the caller owns it."""
        document = stored.decode()
        if self.refresh is not None and stored.revision <= self.fresh_since:
            document = self.refresh(document)
        elif self.kind.from_storage is not None:
            document = self.kind.from_storage(document)
        return with_type_first(document, self.kind)

    def metadata(self, stored: Stored) -> bytes:
        """Only the metadata, as JSON."""
        return bytes(metadata_of(self.raw(stored)))

    def collection(self, items: Iterable[Stored], metadata: JsonObject, end: bytes = b"") -> bytes:
        """A list as JSON. The bytes of every object are copied exactly once, into the result."""
        resource = self.kind.resource
        head = {"kind": self.kind.list_kind, "apiVersion": resource.api_version, "metadata": metadata}
        parts: list[bytes | memoryview] = [compact(head)[:-1], b',"items":[']
        cut = 0 if self.kind.custom else len(self._head)
        lead = b"" if self.kind.custom else b"{"
        comma = b""
        for stored in items:
            raw = self.raw(stored)
            if cut and not raw.startswith(self._head):
                raw = self._head + _without_type(raw)[1:]
            parts += (comma, lead, memoryview(raw)[cut:])
            comma = b","
        parts += (b"]}", end)
        return b"".join(parts)

    def with_revision(self, stored: Stored, revision: int) -> bytes:
        """The object with another resourceVersion: what a watcher sees when an object leaves its selection."""
        document = self.document(stored)
        document["metadata"]["resourceVersion"] = str(revision)
        return compact(document)

    @property
    def is_direct(self) -> bool:
        """Whether all objects are served as they are stored."""
        return self.kind.from_storage is None and self.refresh is None

    def _is_direct(self, stored: Stored) -> bool:
        if self.kind.from_storage is not None:
            return False
        return self.refresh is None or stored.revision > self.fresh_since


def metadata_of(raw: bytes) -> msgspec.Raw:
    """The metadata of an encoded object, still encoded; the rest is skipped."""
    return _metadata_decoder.decode(raw).metadata


def _without_type(raw: bytes) -> bytes:
    document = msgspec.json.decode(raw)
    document.pop("kind", None)
    document.pop("apiVersion", None)
    return compact(document)


def with_type_first(document: JsonObject, kind: Kind) -> JsonObject:
    """The same object with kind and apiVersion of `kind` in front, then metadata."""
    resource = kind.resource
    ordered: JsonObject = {"kind": resource.kind, "apiVersion": resource.api_version}
    ordered["metadata"] = document.get("metadata") or {}
    for key, value in document.items():
        if key not in ordered:
            ordered[key] = value
    return ordered


def selectable_fields(kinds: Iterable[Kind], stored_document: JsonObject) -> dict[str, str]:
    """The values that field selectors of any version of a kind may ask for, of an object in its storage form."""
    values: dict[str, str] = {}
    for kind in kinds:
        if kind.selectable_names:
            served: Json = kind.from_storage(stored_document) if kind.from_storage else stored_document
            values.update(kind.selectable(served))
    return values
