"""`/openapi/v3`, its documents, and `/openapi/v2`: built when asked for, kept until what is served changes."""

import hashlib
from datetime import timedelta
from typing import Final, Protocol

import msgspec

from kohort.cluster.apiserver.aggregation.merged_discovery import merged_swagger
from kohort.cluster.apiserver.catalog.catalog import Catalog
from kohort.cluster.apiserver.openapi import protobuf
from kohort.cluster.apiserver.openapi.document import EncodedDocument, OpenApi
from kohort.cluster.apiserver.representation import encoding
from kohort.cluster.apiserver.representation.negotiation import JSON, Media, clauses, wants_pretty
from kohort.kube import clock, errors
from kohort.kube.http import Request, Response
from kohort.objects.json_types import JsonObject

V3: Final = "/openapi/v3"
V2: Final = "/openapi/v2"
IMMUTABLE: Final = "public, immutable"
_BINARY: Final = (
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
)
_DOCUMENTS: Final = (
    JSON,
    "application/*",
    "*/*",
    "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
)
"""Who asks for a document of the third version in one of these forms gets it as JSON."""


class AggregatedOpenApi(Protocol):
    """What aggregated servers publish."""

    revision: int

    def openapi_paths(self) -> dict[str, str]: ...

    def swaggers(self) -> list[tuple[str, JsonObject]]: ...


class OpenApiEndpoints:
    def __init__(self, catalog: Catalog, others: AggregatedOpenApi | None = None) -> None:
        self._catalog = catalog
        self._others = others
        self._revision = -1
        self._current: OpenApi | None = None
        self._merged: tuple[tuple[str, int], EncodedDocument] | None = None
        self._binary: tuple[str, EncodedDocument] | None = None
        """With the hash of the document that it says the same as."""

    def answer(self, request: Request) -> Response | None:
        path = request.path.rstrip("/")
        if path == V3:
            body = encoding.encode(self._index(), Media(pretty=wants_pretty(request)))
            return Response(200, {"content-type": "text/plain; charset=utf-8"}, body)
        if path == V2:
            return self._swagger(request)
        if path.startswith(V3 + "/"):
            return self._document(request, path.removeprefix(V3 + "/"))
        return None

    def _index(self) -> JsonObject:
        index = self._documents().index()
        others = self._others.openapi_paths() if self._others is not None else {}
        if not others:
            return index
        paths = index["paths"] | {path: {"serverRelativeURL": url} for path, url in others.items()}
        return {"paths": dict(sorted(paths.items()))}

    def _whole_swagger(self) -> EncodedDocument:
        own = self._documents().swagger()
        others = self._others.swaggers() if self._others is not None else []
        if self._others is None or not others:
            return own
        state = (own.hash, self._others.revision)
        if self._merged is None or self._merged[0] != state:
            body = encoding.compact(merged_swagger(msgspec.json.decode(own.body), others))
            self._merged = (state, EncodedDocument(body, hashlib.sha256(body).hexdigest().upper()))
        return self._merged[1]

    def _documents(self) -> OpenApi:
        if self._current is None or self._revision != self._catalog.revision:
            self._current = OpenApi(self._catalog.kinds(), self._current)
            self._revision = self._catalog.revision
        return self._current

    def _document(self, request: Request, path: str) -> Response:
        published = self._documents().document(path)
        if published is None:
            return Response(404, {})
        wanted = [clause.type for clause in clauses(request.headers.get("accept", ""))]
        if wanted and not any(one in _DOCUMENTS for one in wanted):
            return Response(406, {})
        known = request.param("hash")
        if known and known != published.hash:
            return Response(301, {"location": f"{V3}/{path}?hash={published.hash}"})
        response = _cached(request, published)
        if known:
            year = timedelta(days=365)
            response.headers["cache-control"] = IMMUTABLE
            response.headers["expires"] = (clock.now() + year).strftime("%a, %d %b %Y %H:%M:%S UTC")
        return response

    def _swagger(self, request: Request) -> Response:
        wanted = [clause.type for clause in clauses(request.headers.get("accept", ""))]
        if wanted and wanted[0] in _BINARY:
            return _cached(request, self._binary_swagger(), _BINARY[0])
        if wanted and not any(one in (JSON, "*/*", "application/*") for one in wanted):
            raise errors.failure(406, "NotAcceptable", f"only the following media types are accepted: {JSON}")
        return _cached(request, self._whole_swagger())

    def _binary_swagger(self) -> EncodedDocument:
        whole = self._whole_swagger()
        if self._binary is None or self._binary[0] != whole.hash:
            body = protobuf.encoded(msgspec.json.decode(whole.body))
            self._binary = (whole.hash, EncodedDocument(body, hashlib.sha256(body).hexdigest().upper()))
        return self._binary[1]


def _cached(request: Request, published: EncodedDocument, media: str = JSON) -> Response:
    etag = f'"{published.hash}"'
    headers = {"content-type": media, "etag": etag, "vary": "Accept", "cache-control": "no-cache, private"}
    if request.headers.get("if-none-match") == etag:
        del headers["content-type"]
        return Response(304, headers)
    return Response(200, headers, published.body)
