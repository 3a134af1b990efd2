"""OpenAPI documents of everything that is served: `/openapi/v3`, one document per group version, and `/openapi/v2`.

kubectl reads them before it writes: whether a kind supports dry run and server-side validation follows from the query
parameters of its PATCH operation, `kubectl explain` prints the schemas. Documents are built when they are asked for and
kept, encoded, under a hash of what they are made of, which is also their ETag. Computing that hash does not build the
document: the index is cheap even with hundreds of custom resources.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from kohort.cluster.apiserver.kinds.model import Kind
from kohort.cluster.apiserver.openapi.operations import JSON, camel, paths_of, responses
from kohort.cluster.apiserver.openapi.types import VERSION, Components
from kohort.cluster.apiserver.schema import descriptions_index
from kohort.cluster.apiserver.schema.builtin_types import data_digest
from kohort.objects.json_types import JsonObject

INFO: Final = {"title": "Kubernetes", "version": "1.36"}
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_SECURITY: Final = {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}}

_PLAIN: Final = {
    ".well-known/openid-configuration": "getServiceAccountIssuerOpenIDConfiguration",
    "openid/v1/jwks": "getServiceAccountIssuerOpenIDKeyset",
    "version": "getCodeVersion",
}
"""Endpoints that are not resources, with the operations that they are listed under."""


class EncodedDocument(msgspec.Struct, frozen=True):
    """An encoded document and its hash."""

    body: bytes
    hash: str


class OpenApi:
    """The documents for one set of kinds, as they are served. Make a new one when the kinds change: what has not
    changed is taken from the old one."""

    def __init__(self, kinds: Iterable[Kind], previous: "OpenApi | None" = None) -> None:
        self._kinds = _by_group_version(kinds)
        self._built: dict[str, EncodedDocument] = dict(previous._built) if previous is not None else {}
        self._hashes: dict[str, str] = {}

    def index(self) -> JsonObject:
        """The answer to `/openapi/v3`."""
        return {"paths": {path: {"serverRelativeURL": self._url(path)} for path in sorted(self.paths())}}

    def paths(self) -> set[str]:
        """Every path below `/openapi/v3/` that has a document."""
        groups = {f"apis/{group}" for group, _ in self._kinds if group}
        versions = {group_version_path(group, version) for group, version in self._kinds}
        return {"api", "apis", *groups, *versions, *_PLAIN}

    def document(self, path: str) -> EncodedDocument | None:
        """The document at a path below `/openapi/v3/`, None when there is none."""
        if path not in self.paths():
            return None
        return self._published(path, lambda: self._document(path))

    def swagger(self) -> EncodedDocument:
        """The answer to `/openapi/v2`."""
        return self._published("v2", lambda: swagger([kind for kinds in self._kinds.values() for kind in kinds]))

    def _published(self, path: str, build: Callable[[], JsonObject]) -> EncodedDocument:
        digest = self._hash(path)
        found = self._built.get(path)
        if found is None or found.hash != digest:
            found = self._built[path] = EncodedDocument(msgspec.json.encode(build()), digest)
        return found

    def _url(self, path: str) -> str:
        return f"/openapi/v3/{path}?hash={self._hash(path)}"

    def _hash(self, path: str) -> str:
        if path not in self._hashes:
            self._hashes[path] = _digest(path, self._kinds_at(path))
        return self._hashes[path]

    def _kinds_at(self, path: str) -> list[Kind]:
        if path == "v2":
            return [kind for kinds in self._kinds.values() for kind in kinds]
        for (group, version), kinds in self._kinds.items():
            if group_version_path(group, version) == path:
                return kinds
        return []

    def _document(self, path: str) -> JsonObject:
        for (group, version), kinds in self._kinds.items():
            if group_version_path(group, version) == path:
                return document(group, version, kinds)
        return _plain_document(path)


def group_version_path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def document(group: str, version: str, kinds: Sequence[Kind]) -> JsonObject:
    """The OpenAPI 3 document of one group version; kinds of other versions are left out."""
    components = Components()
    paths: JsonObject = {}
    for kind in kinds:
        if kind.resource.group == group and kind.resource.version == version:
            paths |= paths_of(kind, components)
    if not all(kind.custom for kind in kinds):
        paths |= _resource_list(group, version, components)
    return _framed(paths, components)


def _resource_list(group: str, version: str, components: Components) -> JsonObject:
    answer = components.reference(f"{_META}.APIResourceList")
    name = f"get{camel(group or 'core', version)}APIResources"
    return {f"/{group_version_path(group, version)}/": {"get": _read(name, answer, swagger=components.swagger)}}


def _plain_document(path: str) -> JsonObject:
    components = Components()
    return _framed(_plain_path(path, components), components)


def _plain_path(path: str, components: Components) -> JsonObject:
    if path in _PLAIN:
        answer = {"type": "string"} if path != "version" else components.reference(VERSION)
        operation = _PLAIN[path]
    else:
        kind = {"api": "APIVersions", "apis": "APIGroupList"}.get(path, "APIGroup")
        answer = components.reference(f"{_META}.{kind}")
        operation = f"get{camel(path.partition('/')[2] or 'core', '')}{kind}"
    url = f"/{path}" if path.startswith((".", "openid")) and not components.swagger else f"/{path}/"
    return {url: {"get": _read(operation, answer, swagger=components.swagger)}}


def _framed(paths: JsonObject, components: Components) -> JsonObject:
    return {
        "openapi": "3.0.0",
        "info": INFO,
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": dict(sorted(components.schemas.items())), "securitySchemes": _SECURITY},
    }


def _read(operation: str, schema: JsonObject, *, swagger: bool) -> JsonObject:
    return {"operationId": operation, "responses": responses(schema, (JSON,), swagger=swagger)}


def swagger(kinds: Iterable[Kind]) -> JsonObject:
    """The Swagger 2 document of all kinds."""
    components = Components(swagger=True)
    paths: JsonObject = {}
    served: dict[tuple[str, str], bool] = {}
    for kind in kinds:
        paths |= paths_of(kind, components)
        served[kind.resource.group, kind.resource.version] = kind.custom
    for (group, version), custom in served.items():
        if not custom:
            paths |= _resource_list(group, version, components)
            paths |= _plain_path(f"apis/{group}", components) if group else {}
    for path in ("api", "apis", *_PLAIN):
        paths |= _plain_path(path, components)
    return {
        "swagger": "2.0",
        "info": {"title": INFO["title"], "version": INFO["version"]},
        "paths": dict(sorted(paths.items())),
        "definitions": dict(sorted(components.schemas.items())),
        "securityDefinitions": _SECURITY,
        "security": [{"BearerToken": []}],
    }


def _by_group_version(kinds: Iterable[Kind]) -> dict[tuple[str, str], list[Kind]]:
    found: dict[tuple[str, str], list[Kind]] = {}
    for kind in kinds:
        found.setdefault((kind.resource.group, kind.resource.version), []).append(kind)
    return found


def _digest(path: str, kinds: Iterable[Kind]) -> str:
    """A hash of everything that the document at a path is made of, without building it."""
    whole = hashlib.sha256(path.encode())
    for kind in kinds:
        resource = kind.resource
        names = (resource.group, resource.version, resource.plural, resource.kind)
        facts = (*names, resource.namespaced, kind.verbs, sorted(kind.subresources))
        whole.update(repr(facts).encode())
        if kind.custom:
            whole.update(msgspec.json.encode(kind.schema().source))
        else:
            whole.update(data_digest())
            whole.update(descriptions_index.digest())
    return whole.hexdigest().upper()
