"""Watch frames: from bytes on the wire to typed events, with one decode per event.

A frame is one line `{"type":"MODIFIED","object":{...}}`. Its object is the watched kind, except in an ERROR frame,
where it is a Status, and in a BOOKMARK, where nearly everything is missing; neither would decode as the view. Looking
at the type first by decoding an envelope would scan every object twice, so the type is read from the frame's first
bytes: API servers write the two members in this order. A frame that looks different takes the slow way.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Generic, Literal, TypeVar, cast

import msgspec

from kohort.kube import errors
from kohort.kube.object_identity import T
from kohort.objects import well_known_names
from kohort.objects.json_types import Json
from kohort.objects.view import without_nulls

V = TypeVar("V")
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

INITIAL_EVENTS_END = well_known_names.INITIAL_EVENTS_END


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    type: ChangeType
    object: T


class Bookmark(msgspec.Struct, frozen=True):
    """Everything up to this version was sent."""

    resource_version: str
    initial_events_end: bool = False


class Unreadable(msgspec.Struct, frozen=True):
    """An event whose object does not fit the view. The watch goes on; the cache drops the object."""

    namespace: str
    name: str
    resource_version: str
    problem: str


class _BareMetadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Bare(msgspec.Struct):
    metadata: _BareMetadata


class _Envelope(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Framed(msgspec.Struct, Generic[T]):
    object: T


_BARE = msgspec.json.Decoder(_Bare)
_ENVELOPE = msgspec.json.Decoder(_Envelope)
_STATUS = msgspec.json.Decoder(errors.Status)
_PREFIXES: tuple[tuple[bytes, ChangeType], ...] = (
    (b'{"type":"MODIFIED","object":', "MODIFIED"),
    (b'{"type":"ADDED","object":', "ADDED"),
    (b'{"type":"DELETED","object":', "DELETED"),
)


@lru_cache(maxsize=256)
def _framed_decoder(view: Json) -> "msgspec.json.Decoder[_Framed[Json]]":
    return msgspec.json.Decoder(_Framed[view])


class FrameDecoder(Generic[T]):
    """Decodes the frames of watches on one kind."""

    __slots__ = ("_decoder",)

    def __init__(self, view: type[T]) -> None:
        self._decoder: msgspec.json.Decoder[_Framed[T]] = _framed_decoder(cast(Json, view))

    def decode(self, frame: bytes) -> WatchEvent[T] | Bookmark | Unreadable:
        """One frame. An ERROR frame is raised as the ApiError that it carries."""
        for prefix, change in _PREFIXES:
            if frame.startswith(prefix):
                return self._change(change, frame)
        return self._unusual(frame)

    def _change(self, change: ChangeType, frame: bytes) -> "WatchEvent[T] | Unreadable":
        try:
            return WatchEvent(change, tolerant_decode(self._decoder, frame).object)
        except msgspec.ValidationError as problem:
            return unreadable(_ENVELOPE.decode(frame).object, problem)

    def _unusual(self, frame: bytes) -> WatchEvent[T] | Bookmark | Unreadable:
        envelope = _ENVELOPE.decode(frame)
        match envelope.type:
            case "BOOKMARK":
                bare = _BARE.decode(envelope.object).metadata
                end = (bare.annotations or {}).get(INITIAL_EVENTS_END) == "true"
                return Bookmark(bare.resource_version, end)
            case "ADDED" | "MODIFIED" | "DELETED":
                return self._change(envelope.type, frame)
            case "ERROR":
                raise errors.from_status(_STATUS.decode(envelope.object))
            case unknown:
                raise errors.failure(500, "InternalError", f"watch event of unknown type {unknown!r}")


def tolerant_decode(decoder: "msgspec.json.Decoder[V]", raw: bytes | msgspec.Raw) -> V:
    """Decode; a null where the view allows none counts as an absent field."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError:
        return decoder.decode(without_nulls(bytes(raw)))


def unreadable(raw: bytes | msgspec.Raw, problem: Exception) -> Unreadable:
    bare = _BARE.decode(raw).metadata
    return Unreadable(bare.namespace, bare.name, bare.resource_version, str(problem))


class LineSplitter:
    """Splits a byte stream into lines, whatever its chunks; an unfinished line waits for its rest."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            self._rest.append(chunk)
            return
        self._rest.append(lines[0])
        lines[0] = b"".join(self._rest)
        self._rest = [last] if (last := lines.pop()) else []
        for line in lines:
            if line:
                yield line
