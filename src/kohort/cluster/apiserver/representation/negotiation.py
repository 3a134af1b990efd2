"""Which representation a client gets, and which ones it may send.

An Accept header is a list of clauses in the client's order of preference; the first clause that we can serve wins.
Protobuf is for those who read nothing else: objects are kept as JSON, and every client that prefers protobuf reads that
too. CBOR is not offered.
`as=Table` and `as=PartialObjectMetadata` are transformations of the answer, not formats.
"""

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from kohort.kube import errors
from kohort.kube.http import Request
from kohort.objects.bounded_cache import remember_short

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

Format = Literal["json", "yaml", "protobuf"]
Transform = Literal["", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"]

_FORMATS: Final[dict[str, Format]] = {JSON: "json", YAML: "yaml"}
_TYPES: Final[dict[Format, str]] = {"json": JSON, "yaml": YAML, "protobuf": PROTOBUF}
_NAMED: Final = frozenset({"*/*", JSON, YAML, PROTOBUF})


class Media(msgspec.Struct, frozen=True):
    format: Format = "json"
    transform: Transform = ""
    version: str = "v1"
    """Version of the transformed kind: v1 or v1beta1."""
    pretty: bool = False

    @property
    def content_type(self) -> str:
        return _TYPES[self.format]

    @property
    def is_stored_form(self) -> bool:
        """Whether answers are the stored bytes, or nearly; everything else is made from decoded objects."""
        return self.format == "json" and self.transform != "Table"


class Clause(msgspec.Struct, frozen=True):
    type: str
    quality: float
    params: dict[str, str]


@remember_short(512)
def clauses(header: str) -> tuple[Clause, ...]:
    """The clauses of an Accept header, best first: by quality, then the more specific, then as written."""
    found = []
    for text in header.split(","):
        media_type, *parts = (part.strip() for part in text.split(";"))
        if not media_type:
            continue
        params: dict[str, str] = {}
        quality = 1.0
        for part in parts:
            key, _, value = part.partition("=")
            key, value = key.strip(), value.strip().strip('"')
            if key == "q":
                quality = _quality(value)
            elif key:
                params[key] = value
        found.append(Clause(media_type, quality, params))
    return tuple(sorted(found, key=lambda clause: (-clause.quality, _generality(clause.type))))


def _quality(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 1.0)
    except ValueError:
        return 1.0


def _generality(media_type: str) -> int:
    major, _, minor = media_type.partition("/")
    return (major == "*") + (minor == "*")


def negotiate(request: Request, *, custom: bool = False, of_list: bool = False, tables: bool = True) -> Media:
    """The representation for an answer about resources. `custom`: of a custom resource, which has no protobuf form;
    `tables`: whether it can be shown as a table, which things that are not stored cannot."""
    header = request.headers.get("accept", "")
    media = _accepted(header) if tables else _accepted_untabled(header)
    if media is None and (only := _protobuf(header)) is not None and (only.transform or not custom):
        return only
    if media is None or (not custom and not _is_named(header)):
        raise not_acceptable(request, custom=custom, of_list=of_list)
    return msgspec.structs.replace(media, pretty=True) if media.pretty or wants_pretty(request) else media


def negotiate_plain(request: Request) -> Media:
    """For documents that are not resources and have no other forms."""
    header = request.headers.get("accept", "")
    if not header:
        return Media(pretty=wants_pretty(request))
    if _accepted(header) is None and _is_protobuf(header):
        return Media("protobuf")
    for clause in clauses(header):
        if not any(clause.params.get(key) for key in ("as", "g", "v")):
            media = _accepted(clause.type)
            if media is not None:
                return Media(media.format, pretty=wants_pretty(request))
    raise not_acceptable(request)


def negotiate_or_json(request: Request) -> Media:
    """The same for errors, which must be answered somehow."""
    header = request.headers.get("accept", "")
    media = _accepted(header) or Media("protobuf" if _is_protobuf(header) else "json")
    return Media(media.format, pretty=media.pretty or wants_pretty(request))


@remember_short(512)
def _protobuf(header: str) -> Media | None:
    """What a client that reads protobuf wants in it. There are no tables in protobuf."""
    offers = (_with_params("protobuf", clause.params) for clause in clauses(header) if clause.type == PROTOBUF)
    return next((media for media in offers if media is not None and media.transform != "Table"), None)


def _is_protobuf(header: str) -> bool:
    """Whether a client reads protobuf, untransformed."""
    media = _protobuf(header)
    return media is not None and not media.transform


@remember_short(512)
def _accepted(header: str) -> Media | None:
    return next(_offers(header), None)


def _accepted_untabled(header: str) -> Media | None:
    return next((media for media in _offers(header) if media.transform != "Table"), None)


def _offers(header: str) -> Iterator[Media]:
    """All representations that a client accepts, best first."""
    if not header:
        yield Media()
    for clause in clauses(header):
        for offered, format in _FORMATS.items():
            if _covers(clause.type, offered):
                media = _with_params(format, clause.params)
                if media is not None:
                    yield media


@remember_short(512)
def _is_named(header: str) -> bool:
    """Whether some clause names a known type or any type at all; `application/*` alone is not enough."""
    return not header or any(clause.type in _NAMED for clause in clauses(header))


def _covers(wanted: str, offered: str) -> bool:
    if wanted in ("*/*", offered):
        return True
    return wanted.endswith("/*") and offered.startswith(wanted[:-1])


def _with_params(format: Format, params: dict[str, str]) -> Media | None:
    if params.get("stream", "watch") not in ("", "watch") or params.get("sv"):
        return None
    pretty = params.get("pretty") == "1"
    if not any(params.get(key) for key in ("as", "g", "v")):
        return Media(format, pretty=pretty)
    transform, group, version = params.get("as", ""), params.get("g", ""), params.get("v", "")
    if group != "meta.k8s.io" or version not in ("v1", "v1beta1"):
        return None
    if transform == "Table":
        return Media(format, "Table", version, pretty)
    if transform == "PartialObjectMetadata":
        return Media(format, "PartialObjectMetadata", version, pretty)
    if transform == "PartialObjectMetadataList":
        return Media(format, "PartialObjectMetadataList", version, pretty)
    return None


def wants_pretty(request: Request) -> bool:
    asked = request.param("pretty")
    if asked:
        return asked in ("1", "t", "T", "true", "TRUE", "True")
    return request.headers.get("user-agent", "").startswith(("curl", "Wget", "Mozilla/5.0"))


def not_acceptable(request: Request, *, custom: bool = False, of_list: bool = False) -> errors.ApiError:
    """Two wordings: one when no media type is known at all, one when only its parameters are in the way."""
    offered = f"{JSON}, {YAML}, {PROTOBUF}"
    if custom or _is_named(request.headers.get("accept", "")):
        return errors.failure(406, "NotAcceptable", f"only the following media types are accepted: {offered}")
    streams = f", {JSON};stream=watch, {PROTOBUF};stream=watch" if of_list else ""
    message = f"406: Not Acceptable\n\nAvailable representations: {offered}{streams}"
    return errors.generic(406, "NotAcceptable", message)


def media_type_of(content_type: str) -> str:
    """The bare media type of a Content-Type header."""
    return content_type.partition(";")[0].strip().lower()


def check_content_type(request: Request, *, custom: bool = False) -> str:
    """The media type of a request body that holds an object; 415 when we cannot read it."""
    media_type = media_type_of(request.headers.get("content-type", "")) or JSON
    accepted = (JSON, YAML) if custom else (JSON, YAML, PROTOBUF)
    if media_type not in accepted:
        raise unsupported_media_type(accepted)
    return media_type


def unsupported_media_type(accepted: tuple[str, ...]) -> errors.ApiError:
    listed = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
    return errors.failure(415, "UnsupportedMediaType", message)
