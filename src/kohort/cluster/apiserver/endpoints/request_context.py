"""One request on its way through the server, and what all requests share."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.auth.model import AccessDecision, AccessRequest, User
from kohort.cluster.apiserver.catalog.catalog import Catalog
from kohort.cluster.apiserver.catalog.view import KindView
from kohort.cluster.apiserver.crd.conversion import Resolve
from kohort.cluster.apiserver.endpoints.large_documents import LargeWork
from kohort.cluster.apiserver.endpoints.paths import ResourcePath
from kohort.cluster.apiserver.endpoints.request_metrics import RequestMetrics
from kohort.cluster.apiserver.kinds.model import Kind, WriteContext
from kohort.cluster.apiserver.representation.negotiation import Media
from kohort.cluster.apiserver.storage.model import Store, Stored
from kohort.cluster.apiserver.storage.reader import Reader
from kohort.kube.http import Request


class Admission(Protocol):
    """The chain of admission steps."""

    async def mutate(self, attributes: Attributes) -> None: ...

    async def validate(self, attributes: Attributes) -> None: ...


class NoAdmission:
    """Admits everything unchanged."""

    async def mutate(self, attributes: Attributes) -> None:
        return

    async def validate(self, attributes: Attributes) -> None:
        return


class Authorizer(Protocol):
    def authorize(self, request: AccessRequest) -> AccessDecision: ...


@dataclass(slots=True)
class ServerParts:
    """The parts of the server that endpoints work with."""

    store: Store
    catalog: Catalog
    reader: Reader
    admission: Admission
    authorizer: Authorizer
    gates: Mapping[str, bool] = field(default_factory=dict)
    resolve: Resolve | None = None
    """Makes a conversion that only a webhook can make."""
    meters: RequestMetrics = field(default_factory=RequestMetrics)
    large: LargeWork = field(default_factory=LargeWork)
    """Does the work on large documents."""
    committed: dict[str, Callable[[Stored], Awaitable[None]]] = field(default_factory=dict)
    """By bucket: called with a committed object before the writer is answered."""


@dataclass(slots=True)
class ResourceRequest:
    request: Request
    user: User
    view: KindView
    path: ResourcePath
    verb: str
    media: Media
    warnings: list[str] = field(default_factory=list)
    kind: Kind = field(init=False)
    namespace: str = field(init=False)
    """The namespace that the object is stored under; empty for cluster-scoped kinds."""
    name: str = field(init=False)

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return len(self.request.body)

    def __post_init__(self) -> None:
        self.kind = self.view.kind
        self.namespace = self.path.namespace if self.kind.resource.namespaced else ""
        self.name = self.path.name


def write_context(parts: ServerParts, call: ResourceRequest, *, dry_run: bool) -> WriteContext:
    subresource, patch = call.path.subresource, call.verb == "patch"
    return WriteContext(call.user, parts.reader, dry_run, subresource, call.warnings, parts.gates, patch)
