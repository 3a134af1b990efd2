"""Reviews of access and identity, and token requests: kinds that are answered and never stored."""

from dataclasses import dataclass
from typing import Protocol

from kohort.cluster.apiserver.apply import managed
from kohort.cluster.apiserver.auth.model import User
from kohort.cluster.apiserver.auth.tokens import DEFAULT_SECONDS
from kohort.cluster.apiserver.endpoints import object_responses, request_bodies, system_metadata, unstored_admission
from kohort.cluster.apiserver.endpoints.query_options import WriteOptions, manager_of, write_options
from kohort.cluster.apiserver.endpoints.request_context import ResourceRequest, ServerParts
from kohort.cluster.apiserver.schema import builtin
from kohort.cluster.apiserver.schema.node import Node
from kohort.kube import clock
from kohort.kube.http import Response
from kohort.objects.json_types import JsonObject

TOKEN_REQUEST = ("authentication.k8s.io", "v1", "TokenRequest")


class Reviews(Protocol):
    def handles(self, kind: str) -> bool: ...

    def answer(self, kind: str, document: JsonObject, user: User, namespace: str = "") -> JsonObject: ...


class Tokens(Protocol):
    def request(self, namespace: str, name: str, document: JsonObject) -> JsonObject: ...

    def jwks(self) -> JsonObject: ...

    def discovery(self, server: str) -> JsonObject: ...


@dataclass(frozen=True, slots=True)
class Identities:
    """Who users are and what they may do: answers about that, and the tokens that say who a service account is."""

    reviews: Reviews
    tokens: Tokens


class IdentityEndpoints:
    def __init__(self, parts: ServerParts, identities: Identities) -> None:
        self._parts = parts
        self._reviews = identities.reviews
        self._tokens = identities.tokens

    async def review(self, call: ResourceRequest) -> Response:
        options = write_options(call.request, "CreateOptions")
        validation = options.field_validation or request_bodies.DEFAULT_VALIDATION
        document = await self._parts.large.run(
            call.user.name, call.size, lambda: request_bodies.read_object(self._parts, call, validation)
        )
        system_metadata.settle_namespace(call, document.setdefault("metadata", {}))
        await unstored_admission.admit(self._parts, call, options, document, call.name)
        _record(call, options, document, call.kind.schema())
        answer = self._reviews.answer(call.kind.resource.kind, document, call.user, call.path.namespace)
        return await object_responses.of_object(self._parts, call, answer, 201)

    async def token(self, call: ResourceRequest) -> Response:
        options = write_options(call.request, "CreateOptions")
        group, version, kind = TOKEN_REQUEST
        document, duplicates = await self._parts.large.run(
            call.user.name, call.size, lambda: request_bodies.decode_request(call, kind)
        )
        request_bodies.check_type(self._parts, call, document, kind, f"{group}/{version}")
        document["kind"], document["apiVersion"] = kind, f"{group}/{version}"
        validation = options.field_validation or request_bodies.DEFAULT_VALIDATION
        node = builtin.kind_node(group, version, kind)
        request_bodies.shape(call, document, node, duplicates, validation)
        document.setdefault("spec", {}).setdefault("expirationSeconds", DEFAULT_SECONDS)
        system_metadata.settle_namespace(call, document.setdefault("metadata", {}))
        await unstored_admission.admit(self._parts, call, options, document, call.name)
        _record(call, options, document, node)
        issued = self._tokens.request(call.namespace, call.name, document)
        return await object_responses.of_object(self._parts, call, issued, 201)


def _record(call: ResourceRequest, options: WriteOptions, document: JsonObject, node: Node) -> None:
    """Record the writer in managedFields: answers that repeat a request show it, although nothing is stored."""
    managed.record_update(
        None,
        document,
        node,
        manager=manager_of(options, call.request),
        api_version=document["apiVersion"],
        time=clock.timestamp(),
        subresource=call.path.subresource,
    )
