"""What is served here, in the two forms that clients ask for.

The legacy form is a tree of small documents; the aggregated form is two big ones, `/api` and `/apis`, with an ETag.
Both are derived from the catalogue and kept until it changes.
"""

import base64
import hashlib
from collections.abc import Callable
from typing import Final, Protocol

from kohort.cluster.apiserver.catalog.catalog import Catalog
from kohort.cluster.apiserver.kinds.model import Kind, Subresource
from kohort.cluster.apiserver.representation import encoding
from kohort.cluster.apiserver.representation.negotiation import JSON, clauses, negotiate_plain
from kohort.kube import errors
from kohort.kube.http import Request, Response
from kohort.kube.resources import Resource
from kohort.objects.json_types import JsonObject

AGGREGATED_GROUP: Final = "apidiscovery.k8s.io"
AGGREGATED_KIND: Final = "APIGroupDiscoveryList"
_VERSIONS: Final = ("v2",)
CUSTOM_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""The same verbs as everywhere, in the order in which custom resources have always listed them."""


class AggregatedDiscovery(Protocol):
    """What aggregated servers serve."""

    revision: int

    def groups(self) -> dict[str, list[str]]: ...

    def version_item(self, group: str, version: str) -> JsonObject | None: ...


class Discovery:
    def __init__(self, catalog: Catalog, others: AggregatedDiscovery | None = None) -> None:
        self._catalog = catalog
        self._others = others
        self._revision = (-1, -1)
        self._known: dict[str, tuple[bytes, str]] = {}

    def answer(self, request: Request) -> Response | None:
        """The answer for a discovery path; None for all other paths."""
        path = request.path.rstrip("/")
        if path in ("/api", "/apis"):
            version = _aggregated_version(request)
            if version:
                return self._aggregated(request, path, version)
        document = self._legacy(path, request.headers.get("host", ""))
        if document is None:
            return None
        media = negotiate_plain(request)
        return Response(200, {"content-type": media.content_type}, encoding.encode(document, media))

    def _aggregated(self, request: Request, path: str, version: str) -> Response:
        body, etag = self._cached(f"{path} {version}", lambda: self._aggregated_document(path, version))
        content_type = f"{JSON};g={AGGREGATED_GROUP};v={version};as={AGGREGATED_KIND}"
        headers = {"content-type": content_type, "etag": etag, "vary": "Accept", "cache-control": "public"}
        if request.headers.get("if-none-match") == etag:
            del headers["content-type"]
            return Response(304, headers)
        return Response(200, headers, body)

    def _cached(self, key: str, make: Callable[[], JsonObject]) -> tuple[bytes, str]:
        revision = (self._catalog.revision, self._others.revision if self._others is not None else 0)
        if self._revision != revision:
            self._known.clear()
            self._revision = revision
        if key not in self._known:
            body = encoding.compact(make()) + b"\n"
            self._known[key] = (body, f'"{hashlib.sha512(body).hexdigest().upper()}"')
        return self._known[key]

    # --- aggregated ---------------------------------------------------------------------------------------------------

    def _aggregated_document(self, path: str, version: str) -> JsonObject:
        core = path == "/api"
        items = [self._group_item(group, versions) for group, versions in self._groups() if (group == "") is core]
        return {
            "kind": AGGREGATED_KIND,
            "apiVersion": f"{AGGREGATED_GROUP}/{version}",
            "metadata": {},
            "items": items,
        }

    def _groups(self) -> list[tuple[str, list[str]]]:
        """All groups with their versions; those of aggregated servers last."""
        own = self._catalog.groups()
        others = self._others.groups() if self._others is not None else {}
        if not others:
            return own
        merged = [
            (group, [*versions, *(one for one in others.pop(group, ()) if one not in versions)])
            for group, versions in own
        ]
        return [*merged, *others.items()]

    def _group_item(self, group: str, versions: list[str]) -> JsonObject:
        return {
            "metadata": {"name": group} if group else {},
            "versions": [self._version_item(group, version) for version in versions],
        }

    def _version_item(self, group: str, version: str) -> JsonObject:
        elsewhere = self._others.version_item(group, version) if self._others is not None else None
        if elsewhere is not None:
            return elsewhere
        resources = [_resource_item(kind) for kind in self._sorted(group, version)]
        return {"version": version, "resources": resources, "freshness": "Current"}

    def _sorted(self, group: str, version: str) -> list[Kind]:
        return sorted(self._catalog.of_group_version(group, version), key=lambda kind: kind.resource.plural)

    # --- legacy -------------------------------------------------------------------------------------------------------

    def _legacy(self, path: str, host: str) -> JsonObject | None:
        parts = path.strip("/").split("/")
        if parts == ["api"]:
            return self._api_versions(host)
        if parts == ["apis"]:
            groups = [self._api_group(group, versions) for group, versions in self._groups() if group]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        if parts[0] == "api" and len(parts) == 2:
            return self._resource_list("", parts[1])
        if parts[0] == "apis" and len(parts) == 2:
            return self._one_group(parts[1])
        if parts[0] == "apis" and len(parts) == 3:
            return self._resource_list(parts[1], parts[2])
        return None

    def _api_versions(self, host: str) -> JsonObject:
        addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}]
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}

    def _one_group(self, name: str) -> JsonObject | None:
        for group, versions in self._groups():
            if group == name:
                return {"kind": "APIGroup", "apiVersion": "v1", **self._api_group(group, versions)}
        return None

    def _api_group(self, group: str, versions: list[str]) -> JsonObject:
        listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
        return {"name": group, "versions": listed, "preferredVersion": listed[0]}

    def _resource_list(self, group: str, version: str) -> JsonObject | None:
        kinds = self._sorted(group, version)
        if not kinds and not self._catalog.is_built_in(group):
            return None
        if not kinds:
            raise errors.path_not_found()
        resources = []
        for kind in kinds:
            resources.append(_api_resource(kind, self._catalog.siblings(kind)[0].resource))
            resources += [_api_subresource(kind, kind.subresources[name]) for name in _names(kind)]
        document: JsonObject = {"kind": "APIResourceList"}
        if group:
            document["apiVersion"] = "v1"
        document["groupVersion"] = f"{group}/{version}" if group else version
        document["resources"] = resources
        return document


def _aggregated_version(request: Request) -> str:
    """The version of the aggregated form that a client accepts, wherever it says so; empty for the legacy form."""
    for clause in clauses(request.headers.get("accept", "")):
        params = clause.params
        if clause.type not in (JSON, "*/*", "application/*"):
            continue
        aggregated = params.get("g") == AGGREGATED_GROUP and params.get("as") == AGGREGATED_KIND
        if aggregated and params.get("v") in _VERSIONS:
            return params["v"]
    return ""


def _resource_item(kind: Kind) -> JsonObject:
    resource = kind.resource
    item: JsonObject = {
        "resource": resource.plural,
        "responseKind": _response_kind(kind, "", "", resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(_verbs(kind)),
    }
    if kind.short_names:
        item["shortNames"] = list(kind.short_names)
    if kind.categories:
        item["categories"] = list(kind.categories)
    if kind.subresources:
        item["subresources"] = [_subresource_item(kind, kind.subresources[name]) for name in _names(kind)]
    return item


def _names(kind: Kind) -> list[str]:
    """The subresources as they have always been listed: by name, and those of custom resources backwards."""
    return sorted(kind.subresources, reverse=kind.custom)


def _subresource_item(kind: Kind, subresource: Subresource) -> JsonObject:
    return {
        "subresource": subresource.name,
        "responseKind": _response_kind(kind, subresource.group, subresource.version, subresource.kind),
        "verbs": list(subresource.verbs),
    }


def _response_kind(kind: Kind, group: str, version: str, name: str) -> JsonObject:
    """Built-in kinds leave group and version empty where they are those of the endpoint; custom ones name them."""
    if kind.custom and not version:
        group, version = kind.resource.group, kind.resource.version
    return {"group": group, "version": version, "kind": name}


def _verbs(kind: Kind) -> tuple[str, ...]:
    return tuple(verb for verb in CUSTOM_VERBS if verb in kind.verbs) if kind.custom else kind.verbs


def _api_resource(kind: Kind, stored_as: Resource) -> JsonObject:
    resource = kind.resource
    document: JsonObject = {
        "name": resource.plural,
        "singularName": kind.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(_verbs(kind)),
    }
    if kind.short_names:
        document["shortNames"] = list(kind.short_names)
    if kind.categories:
        document["categories"] = list(kind.categories)
    if "create" in kind.verbs and "get" in kind.verbs:
        document["storageVersionHash"] = _storage_hash(stored_as)
    return document


def _storage_hash(stored_as: Resource) -> str:
    """Tells clients whether two versions are stored as one."""
    text = f"{stored_as.group}/{stored_as.version}/{stored_as.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def _api_subresource(kind: Kind, subresource: Subresource) -> JsonObject:
    document: JsonObject = {
        "name": f"{kind.resource.plural}/{subresource.name}",
        "singularName": "",
        "namespaced": kind.resource.namespaced,
    }
    if subresource.version:
        document["group"] = subresource.group
        document["version"] = subresource.version
    document["kind"] = subresource.kind
    document["verbs"] = list(subresource.verbs)
    return document
