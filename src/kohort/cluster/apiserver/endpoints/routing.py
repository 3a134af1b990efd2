"""Which endpoint answers a request about a resource.

A table from (verb, subresource) to what does it; the kind decides which of them exist. A path that exists for some
other method is 405, a path that exists for none is 404.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from kohort.cluster.apiserver.endpoints import patching, reading, scale
from kohort.cluster.apiserver.endpoints.binding_and_eviction import PodActions
from kohort.cluster.apiserver.endpoints.deletion import Deleter
from kohort.cluster.apiserver.endpoints.request_context import ResourceRequest, ServerParts
from kohort.cluster.apiserver.endpoints.watching import Watches
from kohort.cluster.apiserver.endpoints.writing import Writer
from kohort.cluster.apiserver.kinds.model import Kind
from kohort.kube import errors
from kohort.kube.http import Response

Endpoint = Callable[[ResourceRequest], Awaitable[Response]]

SAME_OBJECT: Final = frozenset({"status", "resize", "ephemeralcontainers", "finalize", "approval"})
"""Subresources that read and write the whole object."""


class PageNotFound(errors.NotFound):
    """A path that leads nowhere at all, answered as plain web servers do."""

    def __init__(self) -> None:
        super().__init__(errors.Status(status="Failure", message="404 page not found", reason="NotFound", code=404))


def _lacks_namespace(call: ResourceRequest) -> bool:
    return call.kind.resource.namespaced and not call.path.namespace


def not_allowed() -> errors.ApiError:
    message = "the server does not allow this method on the requested resource"
    return errors.generic(405, "MethodNotAllowed", message)


class Router:
    def __init__(self, parts: ServerParts) -> None:
        self.parts = parts
        self.writer = Writer(parts)
        self.deleter = Deleter(parts, self.writer)
        self.watches = Watches(parts)
        self.pods = PodActions(parts, self.writer, self.deleter)
        self.special: dict[tuple[str, str, str], Endpoint] = {
            ("bindings", "", "create"): self.pods.bind,
            ("pods", "binding", "create"): self.pods.bind,
            ("pods", "eviction", "create"): self.pods.evict,
        }
        """By bucket, subresource and verb; other modules register their endpoints here."""
        self._object: dict[str, Endpoint] = {
            "get": self._get,
            "list": self._list,
            "watch": self.watches.start,
            "create": self.writer.create,
            "update": self.writer.update,
            "patch": self._patch,
            "delete": self.deleter.delete,
            "deletecollection": self.deleter.delete_collection,
        }
        self._scale: dict[str, Endpoint] = {
            "get": self._get_scale,
            "update": self._update_scale,
            "patch": self._patch_scale,
        }

    def find(self, call: ResourceRequest) -> Endpoint:
        """The endpoint for a call; raises 404 or 405."""
        kind, subresource = call.kind, call.path.subresource
        check_scope(call)
        if subresource and subresource not in kind.subresources:
            resource = kind.resource
            raise (
                errors.not_found(resource.plural, call.name, resource.group) if kind.custom else errors.path_not_found()
            )
        verbs = kind.subresources[subresource].verbs if subresource else kind.verbs
        if call.verb not in verbs or not _fits_path(call, kind):
            raise PageNotFound() if kind.custom and _lacks_namespace(call) else not_allowed()
        if kind.custom and call.verb == "create" and self.parts.catalog.is_closed(kind):
            raise _terminating(call)
        special = self.special.get((kind.bucket, subresource, call.verb))
        if special is not None:
            return special
        if subresource == "scale":
            return self._scale[call.verb]
        if not subresource or subresource in SAME_OBJECT:
            return self._object[call.verb]
        raise errors.path_not_found()

    async def _get(self, call: ResourceRequest) -> Response:
        return await reading.get(self.parts, call)

    async def _list(self, call: ResourceRequest) -> Response:
        return await reading.list_(self.parts, call)

    async def _patch(self, call: ResourceRequest) -> Response:
        return await patching.patch(self.writer, call)

    async def _get_scale(self, call: ResourceRequest) -> Response:
        return await scale.get(self.parts, call)

    async def _update_scale(self, call: ResourceRequest) -> Response:
        return await scale.update(self.writer, call)

    async def _patch_scale(self, call: ResourceRequest) -> Response:
        return await scale.patch(self.writer, call)


def _terminating(call: ResourceRequest) -> errors.ApiError:
    resource = call.kind.resource
    detail = "create not allowed while custom resource definition is terminating"
    return errors.forbidden(resource.plural, _name_in(call.request.body), detail, resource.group)


def _name_in(body: bytes) -> str:
    """The name of the object in a body, as far as it has one that can be read."""
    try:
        document = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return ""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""


def check_scope(call: ResourceRequest) -> None:
    """A cluster-scoped kind below a namespace, or an object of a namespaced kind without one, has no path."""
    path, resource = call.path, call.kind.resource
    outside = not resource.namespaced and path.namespace and resource.plural != "namespaces"
    if outside or (_lacks_namespace(call) and path.name and not path.watch):
        raise PageNotFound() if call.kind.custom else errors.path_not_found()
    if path.rest and path.subresource != "proxy":
        raise errors.path_not_found()


def _fits_path(call: ResourceRequest, kind: Kind) -> bool:
    """All-namespace paths are for reading; POST goes to collections, the rest to objects."""
    path, verb = call.path, call.verb
    if _lacks_namespace(call) and verb in ("create", "deletecollection"):
        return False
    if verb == "create" and path.name and not path.subresource:
        return False
    return not (verb in ("update", "patch") and not path.name)
