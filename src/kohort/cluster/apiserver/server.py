"""The API server without sockets: a `Request` and the identity of its sender in, a `Response` out.

Everything that speaks to it goes through `ApiServer.handle`: the HTTPS front, controllers in the same process, tests.
It decides who the caller acts as, what the path means and whether that is allowed, and leaves the rest to the
endpoints. Any failure leaves here as a Status object.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from kohort.cluster.apiserver.admission.service_resolver import endpoint_resolver
from kohort.cluster.apiserver.admission.webhook_client import WebhookClient
from kohort.cluster.apiserver.aggregation.definition_apiservices import DefinitionApiServices
from kohort.cluster.apiserver.aggregation.registry import BUCKET as API_SERVICES
from kohort.cluster.apiserver.aggregation.registry import Aggregation, LocalVersion, RemoteClient, RemoteVersion
from kohort.cluster.apiserver.auth.impersonation import impersonated
from kohort.cluster.apiserver.auth.model import AccessRequest, User
from kohort.cluster.apiserver.catalog.catalog import Catalog
from kohort.cluster.apiserver.crd.conversion import ConversionNeeded, with_conversions
from kohort.cluster.apiserver.endpoints import authorization, paths, resource_metrics
from kohort.cluster.apiserver.endpoints.crd_serving import BUCKET as DEFINITIONS
from kohort.cluster.apiserver.endpoints.crd_serving import DefinitionServing
from kohort.cluster.apiserver.endpoints.discovery import Discovery
from kohort.cluster.apiserver.endpoints.node_connections import NodeClient, NodeEndpoints, NodeLocation
from kohort.cluster.apiserver.endpoints.nonresource_paths import PLAIN, Health, metrics, version
from kohort.cluster.apiserver.endpoints.openapi import OpenApiEndpoints
from kohort.cluster.apiserver.endpoints.proxy import Forwarder, ProxyEndpoints
from kohort.cluster.apiserver.endpoints.query_options import boolean, check_timeout
from kohort.cluster.apiserver.endpoints.request_bodies import MAX_BODY, too_large
from kohort.cluster.apiserver.endpoints.request_context import (
    Admission,
    Authorizer,
    NoAdmission,
    ResourceRequest,
    ServerParts,
)
from kohort.cluster.apiserver.endpoints.resource_metrics import ResourceMetrics
from kohort.cluster.apiserver.endpoints.review_requests import Identities, IdentityEndpoints, Reviews
from kohort.cluster.apiserver.endpoints.routing import PageNotFound, Router, not_allowed
from kohort.cluster.apiserver.endpoints.write_deadlines import WriteDeadlines
from kohort.cluster.apiserver.kinds.generated_names import random_uid
from kohort.cluster.apiserver.kinds.model import Kind
from kohort.cluster.apiserver.representation import encoding
from kohort.cluster.apiserver.representation.negotiation import JSON, Media, negotiate, negotiate_or_json
from kohort.cluster.apiserver.storage.errors import StorageError
from kohort.cluster.apiserver.storage.event_expiry import BUCKET as EVENTS
from kohort.cluster.apiserver.storage.event_expiry import EventExpiry
from kohort.cluster.apiserver.storage.model import Store, Stored
from kohort.cluster.apiserver.storage.reader import Reader, StoreReader
from kohort.kube import errors
from kohort.kube.http import Request, Response
from kohort.kube.log import Log
from kohort.objects.json_types import Json

WARNING_LIMIT: Final = 4096
LONG_WARNING: Final = 256
WRITE_DEADLINE: Final = 34.0
READING: Final = frozenset({"get", "list", "watch"})
CONNECTIONS: Final = frozenset({"log", "exec", "attach", "portforward", "proxy"})
"""Subresources whose answers are not objects."""
OIDC_CONFIGURATION: Final = "/.well-known/openid-configuration"
OIDC_KEYS: Final = "/openid/v1/jwks"
ROOT_PATHS: Final = (
    OIDC_CONFIGURATION,
    OIDC_KEYS,
    "/api",
    "/api/v1",
    "/apis",
    "/apis/",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/version",
)


@dataclass(frozen=True, slots=True)
class OutgoingClients:
    """What carries requests that the API server passes on. A path that needs a client that is None is refused."""

    nodes: NodeClient | None = None
    """To node agents: logs and metrics."""
    forwarder: Forwarder | None = None
    """To the ports of pods, Services and nodes, for the subresource `proxy`."""
    remotes: RemoteClient | None = None
    """To aggregated API servers."""


NO_CLIENTS: Final = OutgoingClients()


class ApiServer:
    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        authorizer: Authorizer,
        *,
        admission: Admission | None = None,
        webhooks: WebhookClient | None = None,
        gates: Mapping[str, bool] | None = None,
        outgoing: OutgoingClients = NO_CLIENTS,
        identities: Identities | None = None,
    ) -> None:
        self.catalog = catalog
        self.reader: Reader = StoreReader(store)
        self.parts = ServerParts(
            store, catalog, self.reader, admission or NoAdmission(), authorizer, gates or {}, self._resolve
        )
        self.router = Router(self.parts)
        self.nodes = NodeEndpoints(self.parts, outgoing.nodes)
        self._route_to_nodes(ProxyEndpoints(self.parts, outgoing.forwarder))
        self._identities = identities
        if identities is not None:
            self._route_identities(identities)
        self.webhooks = webhooks
        """Calls webhooks; parts of this process register theirs here, to be called without a socket."""
        self.part_metrics: dict[str, Callable[[], bytes]] = {}
        """What other parts of this process count, by name, as text."""
        self.part_paths: dict[str, Callable[[Request], Awaitable[Response]]] = {}
        """Paths that other parts of this process answer, for users who may get them."""
        self._api_services = DefinitionApiServices(store, self.handle)
        self.definitions = DefinitionServing(self.parts, self.router.writer, self.router.deleter, self._api_services)
        self.parts.committed[DEFINITIONS] = self.definitions.committed
        self.aggregation = Aggregation(
            store, self.reader, endpoint_resolver(self.reader), outgoing.remotes, self.handle
        )
        metrics = LocalVersion(ResourceMetrics(self.reader, outgoing.nodes).answer, resource_metrics.RESOURCES)
        self.aggregation.local[resource_metrics.GROUP, resource_metrics.VERSION] = metrics
        self.parts.committed[API_SERVICES] = self._api_service_committed
        self.openapi = OpenApiEndpoints(self.catalog, self.aggregation)
        self.events = EventExpiry(store)
        self.parts.committed[EVENTS] = self.events.committed
        self.discovery = Discovery(self.catalog, self.aggregation)
        self._deadlines = WriteDeadlines(WRITE_DEADLINE)
        self.ready = False
        self.health = Health(lambda: self.ready, lambda: store.problem or True)
        self._log = Log(part="apiserver")

    def _route_to_nodes(self, proxies: ProxyEndpoints) -> None:
        special = self.router.special
        special["pods", "log", "get"] = self.nodes.log
        for action in ("exec", "attach", "portforward"):
            for verb in ("get", "create"):
                special["pods", action, verb] = self.nodes.refuse_plain
        for bucket, endpoint in (("pods", proxies.pod), ("services", proxies.service), ("nodes", proxies.node)):
            for verb in ("create", "delete", "get", "patch", "update"):
                special[bucket, "proxy", verb] = endpoint

    def _route_identities(self, identities: Identities) -> None:
        endpoints = IdentityEndpoints(self.parts, identities)
        for kind in kinds_handled(self.catalog, identities.reviews):
            self.router.special[kind.bucket, "", "create"] = endpoints.review
        self.router.special["serviceaccounts", "token", "create"] = endpoints.token

    @property
    def store(self) -> Store:
        return self.parts.store

    async def load(self) -> None:
        """Take up what a former run left in the store."""
        await self.definitions.load()
        self.aggregation.load()
        self.events.load()

    async def _api_service_committed(self, stored: Stored) -> None:
        await self.aggregation.committed(stored)
        await self._api_services.api_service_changed(stored.name)

    async def close(self) -> None:
        await self.events.close()
        await self.definitions.close()
        self.parts.large.close()
        await self.aggregation.close()
        if self.webhooks is not None:
            await self.webhooks.close()
        await self.parts.store.close()

    async def handle(self, request: Request, user: User) -> Response:
        """Answer one request. Never raises, except when the caller is cancelled."""
        warnings: list[str] = []
        try:
            response = await self._converted_answer(request, user, warnings)
        except errors.ApiError as error:
            response = failure_response(request, error)
        except StorageError as problem:
            self._log.error(
                "failed to write to the storage", method=request.method, path=request.path, problem=str(problem)
            )
            reason = f": {problem.PUBLIC}" if problem.PUBLIC else ""
            response = failure_response(request, errors.internal(f"the write could not be made durable{reason}"))
        except RecursionError:
            # Bodies are bounded when they are read (schema/document_limits), but a merge of several may be deeper.
            response = failure_response(request, errors.bad_request("the request is nested too deeply"))
        except Exception as problem:
            self._log.exception("request failed", method=request.method, path=request.path)
            response = failure_response(request, errors.internal(str(problem) or type(problem).__name__))
        headers = response.headers
        headers.setdefault("cache-control", "no-cache, private")
        headers["audit-id"] = request.headers.get("audit-id") or random_uid()
        if warnings:
            headers["warning"] = "\n".join(warning_headers(warnings))
        return response

    async def _converted_answer(self, request: Request, user: User, warnings: list[str]) -> Response:
        """The answer, begun again for every conversion by a webhook that turns out to be needed."""
        try:
            return await self._answer(request, user, warnings)
        except ConversionNeeded as need:
            await self._resolve(need)

        async def attempt() -> Response:
            warnings.clear()
            return await self._answer(request, user, warnings)

        return await with_conversions(attempt, self._resolve)

    async def _resolve(self, need: ConversionNeeded) -> None:
        if self.webhooks is None:
            raise errors.internal(f"conversion webhooks cannot be called: {need}")
        await need.resolve(self.reader, self.webhooks)

    async def _answer(self, request: Request, user: User, warnings: list[str]) -> Response:
        if request.path.startswith("//"):
            raise PageNotFound()
        paths.check_segments(request.path)
        path = paths.parse(request.path)
        user = self._acting_as(request, user, path)
        check_timeout(request)
        remote = self.aggregation.answering(request.path)
        if remote is not None:
            return await self._remote_answer(remote, request, user, path)
        if path is None:
            return await self._non_resource(request, user)
        return await self._resource(request, user, path, warnings)

    async def _remote_answer(
        self, remote: RemoteVersion, request: Request, user: User, path: paths.ResourcePath | None
    ) -> Response:
        """The answer of an aggregated server, which also decides for itself what the caller may."""
        verb = request.method.lower()
        if path is None:
            wanted = AccessRequest(user, verb, path=request.path)
        else:
            watch = bool(boolean(request, "watch"))
            wanted = access_request(user, paths.verb_of(request.method, path, watch=watch) or verb, path, request)
        authorization.check(self.parts.authorizer, wanted)
        return await self.aggregation.forward(remote, request, user)

    # --- resources ----------------------------------------------------------------------------------------------------

    def check_access(self, request: Request, user: User) -> None:
        """Raise the ApiError that `handle` answers to a sender who may not make a request, whatever its body says.
        Bodies are read only after that."""
        if request.path.startswith("//"):
            raise PageNotFound()
        paths.check_segments(request.path)
        path = paths.parse(request.path)
        user = self._acting_as(request, user, path)
        if path is None:
            authorization.check(self.parts.authorizer, AccessRequest(user, request.method.lower(), path=request.path))
        else:
            self.router.find(self._call(request, user, path, []))

    async def connect(self, request: Request, user: User) -> NodeLocation:
        """Where an exec, attach or port-forward request leads. Raises ApiError, unlike `handle`."""
        paths.check_segments(request.path)
        path = paths.parse(request.path)
        if path is None or path.subresource not in ("exec", "attach", "portforward"):
            raise errors.bad_request("unable to upgrade: this path has no connections")
        call = self._call(request, self._acting_as(request, user, path), path, [])
        self.router.find(call)
        return await self.nodes.connect(call)

    async def _resource(self, request: Request, user: User, path: paths.ResourcePath, warnings: list[str]) -> Response:
        """Answer and count."""
        meters, begun = self.parts.meters, perf_counter()
        in_flight = meters.read_only if request.method == "GET" else meters.mutating
        in_flight.value += 1.0
        code = 0
        try:
            response = await self._resource_answer(request, user, path, warnings)
            code = response.status
        except ConversionNeeded:
            raise  # It will be tried again, and counted then.
        except errors.ApiError as error:
            code = error.code or 500
            raise
        except Exception:
            code = 500
            raise
        finally:
            in_flight.value -= 1.0
            if code and self.catalog.find(path.group, path.version, path.plural) is not None:
                meters.finished(request, path, code, perf_counter() - begun)
        return response

    async def _resource_answer(
        self, request: Request, user: User, path: paths.ResourcePath, warnings: list[str]
    ) -> Response:
        call = self._call(request, user, path, warnings)
        endpoint = self.router.find(call)
        if len(request.body) > MAX_BODY:
            raise too_large()
        if path.subresource not in CONNECTIONS:
            of_list = call.verb in ("list", "watch")
            call.media = negotiate(request, custom=call.kind.custom, of_list=of_list, tables=has_tables(call))
        if call.kind.deprecation_warning:
            warnings.append(call.kind.deprecation_warning)
        if call.verb in READING:
            return await endpoint(call)
        try:
            return await self._deadlines.within(endpoint(call))
        except TimeoutError:
            message = "Timeout: request did not complete within the allotted timeout"
            raise errors.failure(504, "Timeout", message, retry_after=1) from None

    def _call(self, request: Request, user: User, path: paths.ResourcePath, warnings: list[str]) -> ResourceRequest:
        """What a request is about, once it is known that its sender may."""
        verb = paths.verb_of(request.method, path, watch=bool(boolean(request, "watch")))
        authorization.check(self.parts.authorizer, access_request(user, verb or request.method.lower(), path, request))
        view = self.catalog.find(path.group, path.version, path.plural)
        if view is None:
            raise errors.path_not_found() if self.catalog.is_built_in(path.group) else PageNotFound()
        if not verb:
            raise not_allowed()
        return ResourceRequest(request, user, view, path, verb, Media(), warnings)

    def _acting_as(self, request: Request, user: User, path: paths.ResourcePath | None) -> User:
        def wanted() -> AccessRequest:
            if path is None:
                return AccessRequest(user, request.method.lower(), path=request.path)
            verb = paths.verb_of(request.method, path, watch=bool(boolean(request, "watch")))
            return access_request(user, verb or request.method.lower(), path, request)

        return impersonated(
            user, request.headers, lambda asked: authorization.check(self.parts.authorizer, asked), wanted
        )

    # --- everything else ----------------------------------------------------------------------------------------------

    async def _non_resource(self, request: Request, user: User) -> Response:
        verb = request.method.lower()
        authorization.check(self.parts.authorizer, AccessRequest(user, verb, path=request.path))
        health = self.health.answer(request)
        if health is not None:
            return health
        for source in (version, self.discovery.answer, self.openapi.answer, self._issuer, self._metrics, self._root):
            answer = source(request)
            if answer is not None:
                if request.method != "GET" and is_read_only(request.path):
                    raise not_allowed()
                return answer
        if request.method == "GET" and (part := self.part_paths.get(request.path)) is not None:
            return await part(request)
        raise PageNotFound()

    def _metrics(self, request: Request) -> Response | None:
        return metrics(request, lambda: self.parts.meters.text(self.parts.store), self.part_metrics)

    def _root(self, request: Request) -> Response | None:
        """The paths that lead somewhere."""
        if request.path != "/":
            return None
        versions = [f"/apis/{group}/{one}" for group, all_ in self.catalog.groups() if group for one in all_]
        groups = [f"/apis/{group}" for group, _ in self.catalog.groups() if group]
        counted = [f"/metrics/{name}" for name in self.part_metrics]
        listed = sorted([*ROOT_PATHS, *groups, *versions, *self.health.paths(), *counted])
        return Response(200, {"content-type": JSON}, encoding.encode({"paths": listed}, Media(pretty=True)))

    def _issuer(self, request: Request) -> Response | None:
        """What others need to check our tokens by themselves."""
        if self._identities is None or request.path not in (OIDC_CONFIGURATION, OIDC_KEYS):
            return None
        tokens = self._identities.tokens
        if request.path == OIDC_KEYS:
            return Response(200, {"content-type": "application/jwk-set+json"}, encoding.compact(tokens.jwks()))
        document = tokens.discovery(f"https://{request.headers.get('host', '')}")
        return Response(200, {"content-type": JSON}, encoding.compact(document))


def is_read_only(path: str) -> bool:
    """Whether a path that is not a resource has one method only. The index of groups and OpenAPI answer to any."""
    first, *rest = path.strip("/").split("/")
    return first in ("api", "version") or (first == "apis" and len(rest) == 2)


def has_tables(call: ResourceRequest) -> bool:
    """What is answered but not stored cannot be shown as a table: reviews, tokens, bindings and evictions."""
    if call.path.subresource:
        return call.path.subresource not in ("binding", "eviction", "token", "finalize")
    return "get" in call.kind.verbs or "list" in call.kind.verbs


def kinds_handled(catalog: Catalog, reviews: Reviews) -> list[Kind]:
    return [kind for kind in catalog.kinds() if reviews.handles(kind.resource.kind)]


def access_request(user: User, verb: str, path: paths.ResourcePath, request: Request) -> AccessRequest:
    name = path.name
    if verb in ("list", "watch", "deletecollection") and not name:
        name = _selected_name(request)
    return AccessRequest(
        user=user,
        verb=verb,
        group=path.group,
        version=path.version,
        plural=path.plural,
        subresource=path.subresource,
        namespace=path.namespace,
        name=name,
    )


def _selected_name(request: Request) -> str:
    """A list that can only select one name is authorised like a request for that name."""
    for term in request.param("fieldSelector").split(","):
        field, mark, value = term.partition("=")
        if field == "metadata.name" and mark and "/" not in value:
            return value.removeprefix("=")
    return ""


def failure_response(request: Request, error: errors.ApiError) -> Response:
    if isinstance(error, PageNotFound):
        return Response(404, {"content-type": PLAIN, "x-content-type-options": "nosniff"}, b"404 page not found\n")
    media = negotiate_or_json(request)
    headers = {"content-type": media.content_type}
    if error.retry_after:
        headers["retry-after"] = str(error.retry_after)
    code = error.code or 500
    return Response(code, headers, encoding.encode(status_document(error), media))


def status_document(error: errors.ApiError) -> dict[str, Json]:
    document = error.to_json()
    ordered: dict[str, Json] = {"kind": "Status", "apiVersion": "v1", "metadata": document.get("metadata") or {}}
    ordered.update({key: value for key, value in document.items() if key not in ordered})
    ordered.setdefault("status", "Failure")
    return ordered


def warning_headers(texts: list[str]) -> list[str]:
    """`299 - "text"` for every distinct warning; when they are too much together, the long ones are cut."""
    distinct = list(dict.fromkeys(texts))
    if sum(map(len, distinct)) > WARNING_LIMIT:
        distinct = [text[:LONG_WARNING] for text in distinct]
    headers, total = [], 0
    for text in distinct:
        total += len(text)
        if total > WARNING_LIMIT:
            break
        clean = text if text.isprintable() else "".join(one if one.isprintable() else " " for one in text)
        escaped = clean.replace("\\", "\\\\").replace('"', '\\"')
        headers.append(f'299 - "{escaped}"')
    return headers
