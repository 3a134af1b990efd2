"""How the parts of the API server are put together.

`assemble` takes a store, registers every built-in kind and every established custom one, makes sure that the objects
every cluster starts with exist, and returns a server that is ready to answer. Sockets and certificates are the
caller's: `kohort up` brings a TLS front, tests call `handle` directly.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kohort.cluster.apiserver.admission.chain import Chain, ConfiguredSteps, LazySteps
from kohort.cluster.apiserver.admission.model import Plugin
from kohort.cluster.apiserver.admission.plugins import default_plugins
from kohort.cluster.apiserver.admission.plugins.csr_signers import SignerCheck
from kohort.cluster.apiserver.admission.plugins.role_escalation import EscalationCheck
from kohort.cluster.apiserver.admission.service_resolver import endpoint_resolver
from kohort.cluster.apiserver.admission.webhook_client import WebhookClient
from kohort.cluster.apiserver.aggregation.local_apiservices import local_api_services
from kohort.cluster.apiserver.auth.access_reviews import Reviews
from kohort.cluster.apiserver.auth.authentication import Authenticator
from kohort.cluster.apiserver.auth.default_roles import bootstrap_objects as bootstrap_roles
from kohort.cluster.apiserver.auth.jwt import Signer
from kohort.cluster.apiserver.auth.model import User
from kohort.cluster.apiserver.auth.rbac import Authorizer
from kohort.cluster.apiserver.auth.tokens import TokenIssuer
from kohort.cluster.apiserver.bootstrap import authentication, bootstrap_objects, namespaces, own_endpoints
from kohort.cluster.apiserver.catalog.builtin_kinds import builtin_kinds
from kohort.cluster.apiserver.catalog.catalog import Catalog
from kohort.cluster.apiserver.endpoints.resource_metrics import API_SERVICE, READER_ROLE
from kohort.cluster.apiserver.endpoints.review_requests import Identities
from kohort.cluster.apiserver.flow_control_objects import flow_control_objects
from kohort.cluster.apiserver.kinds.feature_gates import IN_PLACE_RESIZE, enabled
from kohort.cluster.apiserver.kinds.model import Kind
from kohort.cluster.apiserver.representation.encoding import compact
from kohort.cluster.apiserver.server import NO_CLIENTS, ApiServer, OutgoingClients
from kohort.cluster.apiserver.storage.model import Store
from kohort.cluster.apiserver.storage.reader import StoreReader
from kohort.kube import errors
from kohort.kube.http import Request
from kohort.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from kohort.objects.json_types import JsonObject

SYSTEM: Final = User("system:apiserver", ("system:masters", "system:authenticated"))
"""The server itself, when it writes."""


@dataclass(frozen=True, slots=True)
class ClientAuthorities:
    """The certificates, in PEM, by which aggregated API servers verify clients and this server."""

    clients: str = ""
    front_proxy: str = ""


NO_AUTHORITIES: Final = ClientAuthorities()


async def assemble(
    store: Store,
    *,
    tokens: Mapping[str, User] | None = None,
    signer: Signer | None = None,
    outgoing: OutgoingClients = NO_CLIENTS,
    authorities: ClientAuthorities = NO_AUTHORITIES,
    gates: Mapping[str, bool] | None = None,
    controllers: bool = False,
) -> tuple[ApiServer, Authenticator]:
    """`tokens` are static bearer tokens, `signer` holds the key for those of service accounts.

    `controllers` says that those of the cluster run beside the server: only then can a pod be asked for the account
    that every namespace has, and a claim be given a class that a provisioner serves.
    """
    reader = StoreReader(store)
    issuer = TokenIssuer(reader, signer, static=tokens)
    authorizer = Authorizer(store)
    catalog = Catalog(_kinds(gates or {}))
    built_in_groups = catalog.groups()
    webhooks = WebhookClient(endpoint_resolver(reader))
    built_in = default_plugins(store, gates=gates, service_accounts=controllers)
    plugins: list[Plugin] = [EscalationCheck(authorizer), SignerCheck(authorizer), *built_in]
    server = ApiServer(
        store,
        catalog,
        authorizer,
        admission=_admission(store, catalog, authorizer, webhooks, plugins),
        webhooks=webhooks,
        gates=gates,
        outgoing=outgoing,
        identities=Identities(Reviews(authorizer, issuer), issuer),
    )
    await server.load()
    is_new = not store.buckets()
    await create_missing(server, namespaces())
    await create_missing(
        server,
        [
            *bootstrap_objects(provisioner=controllers),
            *bootstrap_roles(),
            *flow_control_objects(),
            *local_api_services(built_in_groups),
            *((API_SERVICE, READER_ROLE) if controllers else ()),
        ],
    )
    await _write_if_changed(server, authentication(authorities.clients, authorities.front_proxy))
    if is_new:
        store.begin_history()
    server.ready = True
    return server, Authenticator(issuer)


def _kinds(gates: Mapping[str, bool]) -> list[Kind]:
    """All built-in kinds; without in-place resizing there is no subresource `resize`."""
    kinds = builtin_kinds()
    if enabled(gates, IN_PLACE_RESIZE):
        return kinds
    return [
        replace(kind, subresources={name: one for name, one in kind.subresources.items() if name != "resize"})
        if kind.resource.qualified == "pods"
        else kind
        for kind in kinds
    ]


def _admission(
    store: Store, catalog: Catalog, authorizer: Authorizer, client: WebhookClient, plugins: Sequence[Plugin]
) -> Chain:
    def kinds_of(resource: Resource) -> list[Kind]:
        view = catalog.find(resource.group, resource.version, resource.plural)
        return catalog.siblings(view.kind) if view is not None else []

    def find_kind(api_version: str, kind: str) -> Kind | None:
        group, _, version = api_version.rpartition("/")
        served = catalog.of_group_version(group, version)
        return next((one for one in served if one.resource.kind == kind), None)

    def webhooks() -> ConfiguredSteps:
        from kohort.cluster.apiserver.admission.webhooks import Webhooks

        return Webhooks(store, client, kinds_of, authorizer.authorize)

    def policies() -> ConfiguredSteps:
        from kohort.cluster.apiserver.admission.policies import Policies

        return Policies(store, kinds_of, find_kind, authorizer.authorize)

    return Chain(plugins, LazySteps(store, _POLICIES, policies), LazySteps(store, _WEBHOOKS, webhooks))


_POLICIES: Final = tuple(f"{side}admissionpolicies.admissionregistration.k8s.io" for side in ("mutating", "validating"))
_WEBHOOKS: Final = (MUTATING_WEBHOOKS.qualified, VALIDATING_WEBHOOKS.qualified)


async def create_missing(server: ApiServer, objects: Iterable[JsonObject]) -> None:
    """Create what does not exist yet, all at once so that they share their commits."""
    await asyncio.gather(*(_write(server, document) for document in objects if not _exists(server, document)))


async def _write_if_changed(server: ApiServer, document: JsonObject) -> None:
    """A ConfigMap with at least this data. Keys that users added stay."""
    metadata = document["metadata"]
    stored = server.store.get("configmaps", metadata["namespace"], metadata["name"])
    if stored is None:
        await _write(server, document)
        return
    live = stored.decode()
    data = {**(live.get("data") or {}), **document["data"]}
    if data != (live.get("data") or {}):
        await _write(server, {**live, "data": data}, replace=True)


async def announce(server: ApiServer, address: str, port: int, *, ready: bool = True) -> None:
    """Let the `kubernetes` service lead to this server, wherever it listens this time."""
    for document in own_endpoints(address, port, ready=ready):
        await _write(server, document, replace=_exists(server, document))


def _exists(server: ApiServer, document: JsonObject) -> bool:
    group, _, _ = document["apiVersion"].rpartition("/")
    view = server.catalog.by_kind(group, document["kind"])
    assert view is not None, document["kind"]
    metadata = document["metadata"]
    return server.store.get(view.kind.bucket, metadata.get("namespace", ""), metadata["name"]) is not None


async def _write(server: ApiServer, document: JsonObject, *, replace: bool = False) -> None:
    group, _, _ = document["apiVersion"].rpartition("/")
    view = server.catalog.by_kind(group, document["kind"])
    assert view is not None
    metadata = document["metadata"]
    path = view.kind.resource.path(metadata.get("namespace", ""), metadata["name"] if replace else "")
    headers = {"content-type": "application/json", "user-agent": "kube-apiserver/kohort"}
    method = "PUT" if replace else "POST"
    response = await server.handle(Request(method, path, (), headers, compact(document)), SYSTEM)
    assert isinstance(response.body, bytes)
    if response.status not in (200, 201, 409):
        raise errors.from_response(response.status, response.body)
