"""Which group versions are answered by other servers, and whether those can be asked.

Every committed write of an APIService comes through here. For each that names a Service a task checks its server: when
the APIService, the Service or its endpoints change, and from time to time. What the check finds goes into the condition
`Available`, and what the server says it serves is kept for discovery and OpenAPI. A cluster without such APIServices
pays nothing for this.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import quote

import msgspec

from kohort.cluster.apiserver.admission.webhook_client import ResolveService
from kohort.cluster.apiserver.aggregation import merged_discovery
from kohort.cluster.apiserver.aggregation.availability import (
    AVAILABLE,
    PASSED,
    Availability,
    Reason,
    ServiceReference,
    judge_service,
    with_condition,
)
from kohort.cluster.apiserver.auth.model import User
from kohort.cluster.apiserver.kinds.version_priority import version_priority
from kohort.cluster.apiserver.representation.encoding import compact
from kohort.cluster.apiserver.storage.model import HistoryExpired, SlowWatcher, Store, Stored
from kohort.cluster.apiserver.storage.reader import Reader
from kohort.kube import clock, errors
from kohort.kube.http import Request, Response
from kohort.kube.log import Log
from kohort.kube.tasks import cancel_all
from kohort.objects import well_known_names
from kohort.objects.json_types import Json, JsonObject

if TYPE_CHECKING:
    from kohort.cluster.apiserver.outgoing.remote_servers import Headers, RemoteAddress

BUCKET: Final = "apiservices.apiregistration.k8s.io"
SERVICES: Final = "services"
SLICES: Final = "endpointslices.discovery.k8s.io"
SERVICE_LABEL: Final = well_known_names.SERVICE_NAME
CHECK_SECONDS: Final = 30.0
"""How often a server that answers is asked again."""
FIRST_RETRY: Final = 1.0
CHECK_DEADLINE: Final = 5.0
MAX_DOCUMENT: Final = 16 * 1024 * 1024
AGGREGATOR: Final = User("system:kube-aggregator", ("system:masters",))
OWNER: Final = User("system:apiserver", ("system:masters", "system:authenticated"))

Handle = Callable[[Request, User], Awaitable[Response]]


LocalHandler = Callable[[Request], Awaitable[Response]]
"""Answers for a group version in this process, for callers who may."""


class LocalVersion(msgspec.Struct, frozen=True):
    """A group version that is answered in this process, although it is not in the catalog."""

    handler: LocalHandler
    resources: list[JsonObject]
    """What it serves, as an APIResourceList has it."""


class RemoteClient(Protocol):
    """Carries requests to other servers; an OSError says why it could not."""

    async def send(self, address: "RemoteAddress", request: Request, headers: "Headers") -> Response: ...

    def forget_certificates(self) -> None: ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class RemoteVersion:
    """A group version that another server answers for, or a `handler` in this process."""

    name: str
    uid: str
    group: str
    version: str
    service: ServiceReference
    ca_bundle: str
    insecure: bool
    handler: LocalHandler | None = None
    available: bool = False
    item: JsonObject | None = None
    """What it serves, as an entry of aggregated discovery."""
    openapi_url: str = ""
    """Where its OpenAPI 3 document is, with its hash; empty when it has none."""
    swagger: JsonObject | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    @property
    def path(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


class Aggregation:
    def __init__(
        self, store: Store, reader: Reader, resolve: ResolveService, client: RemoteClient | None, handle: Handle
    ) -> None:
        """`resolve` finds an address that answers for a Service; `handle` is how the status is written."""
        self._store = store
        self._reader = reader
        self._resolve = resolve
        self._client = client
        self._handle = handle
        self.local: dict[tuple[str, str], LocalVersion] = {}
        """Group versions that are answered in this process while their APIService names no Service."""
        self._remotes: dict[tuple[str, str], RemoteVersion] = {}
        self._followers: list[asyncio.Task[None]] = []
        self.revision = 0
        """Grows with every change of what is served by others."""
        self._log = Log(part="aggregation")

    def load(self) -> None:
        for stored in self._store.list(BUCKET):
            self._changed(stored.name)

    async def close(self) -> None:
        tasks = [remote.task for remote in self._remotes.values() if remote.task is not None]
        await cancel_all(*tasks, *self._followers)
        if self._client is not None:
            await self._client.close()

    def forget_certificates(self) -> None:
        """The certificate that is shown to servers was renewed."""
        if self._client is not None:
            self._client.forget_certificates()

    async def committed(self, stored: Stored) -> None:
        self._changed(stored.name)

    # --- what is known ------------------------------------------------------------------------------------------------

    def answering(self, path: str) -> RemoteVersion | None:
        """The server that answers for a path, if it is another one. A path of OpenAPI belongs to what it describes."""
        if not self._remotes:
            return None
        parts = path.removeprefix("/openapi/v3").strip("/").split("/")
        if parts[0] == "apis" and len(parts) >= 3:
            return self._remotes.get((parts[1], parts[2]))
        return self._remotes.get(("", parts[1])) if parts[0] == "api" and len(parts) >= 2 else None

    def groups(self) -> dict[str, list[str]]:
        """Groups and versions that others serve."""
        found: dict[str, list[str]] = {}
        for group, version in sorted(self._remotes):
            found.setdefault(group, []).append(version)
        return {group: sorted(versions, key=version_priority) for group, versions in found.items()}

    def version_item(self, group: str, version: str) -> JsonObject | None:
        """What another server serves of a group version; what it said last, marked as such, if it is not available."""
        remote = self._remotes.get((group, version))
        if remote is None:
            return None
        if remote.item is None:
            return {"version": version, "freshness": "Stale"}
        return remote.item if remote.available else {**remote.item, "freshness": "Stale"}

    def openapi_paths(self) -> dict[str, str]:
        """Paths below `/openapi/v3/` that others have documents for, with their addresses."""
        remotes = self._remotes.values()
        return {remote.path.strip("/"): remote.openapi_url for remote in remotes if remote.openapi_url}

    def swaggers(self) -> list[tuple[str, JsonObject]]:
        return [(remote.path, remote.swagger) for remote in self._remotes.values() if remote.swagger is not None]

    # --- requests -----------------------------------------------------------------------------------------------------

    async def forward(self, remote: RemoteVersion, request: Request, user: User) -> Response:
        """Let the other server answer, for a caller who may ask."""
        if not remote.available:
            raise _unavailable()
        return await self._send(remote, request, user)

    async def _send(self, remote: RemoteVersion, request: Request, user: User) -> Response:
        if remote.handler is not None:
            return await remote.handler(request)
        try:
            address = self._address(remote)
        except LookupError:
            raise _unavailable() from None
        assert self._client is not None
        try:
            return await self._client.send(address, request, identified(request.headers, user))
        except OSError as problem:
            raise errors.failure(503, "ServiceUnavailable", f"error trying to reach service: {problem}") from None

    def _address(self, remote: RemoteVersion) -> "RemoteAddress":
        from kohort.cluster.apiserver.outgoing.remote_servers import RemoteAddress

        service = remote.service
        host, port = self._resolve(service.namespace, service.name, service.port)
        return RemoteAddress(host, port, f"{service.name}.{service.namespace}.svc", remote.ca_bundle, remote.insecure)

    # --- APIServices --------------------------------------------------------------------------------------------------

    def _changed(self, name: str) -> None:
        stored = self._store.get(BUCKET, "", name)
        document = stored.decode() if stored is not None else None
        wanted = self._wanted(document) if document is not None else None
        known = next((one for one in self._remotes.values() if one.name == name), None)
        if known is not None and (wanted is None or not _same(known, wanted)):
            del self._remotes[known.group, known.version]
            if known.task is not None:
                known.task.cancel()
            self.revision += 1
            known = None
        if wanted is not None and known is None:
            assert document is not None
            self._remotes[wanted.group, wanted.version] = wanted
            if wanted.handler is None:
                wanted.available = _is_available(document)
                wanted.task = asyncio.ensure_future(self._keep_checking(wanted))
                self._follow()
            self.revision += 1

    def _wanted(self, document: JsonObject) -> RemoteVersion | None:
        """Who answers for the group version of an APIService, if it is not one of the catalog."""
        remote = _remote(document)
        if remote is not None:
            return remote if self._client is not None else None
        spec, metadata = document.get("spec") or {}, document["metadata"]
        group, version = spec.get("group") or "", spec.get("version") or ""
        local = self.local.get((group, version))
        if local is None:
            return None
        nowhere = ServiceReference("", "", 0)
        item = merged_discovery.version_item_of_list({"resources": local.resources}, version)
        return RemoteVersion(
            metadata["name"], metadata["uid"], group, version, nowhere, "", False, local.handler, True, item
        )

    def _follow(self) -> None:
        if not self._followers:
            self._followers = [asyncio.ensure_future(self._follow_bucket(bucket)) for bucket in (SERVICES, SLICES)]

    async def _follow_bucket(self, bucket: str) -> None:
        """Have servers checked when their Service or its endpoints change."""
        while True:
            try:
                changes = self._store.watch(bucket, self._store.revision)
                async for batch in changes:
                    self._wake({_service_of(change.after, bucket) for change in batch})
            except (HistoryExpired, SlowWatcher):
                self._wake({(remote.service.namespace, remote.service.name) for remote in self._remotes.values()})
            else:
                return

    def _wake(self, services: set[tuple[str, str]]) -> None:
        for remote in self._remotes.values():
            if (remote.service.namespace, remote.service.name) in services:
                remote.changed.set()

    async def _keep_checking(self, remote: RemoteVersion) -> None:
        retry = FIRST_RETRY
        while True:
            remote.changed.clear()
            try:
                found = await self._check(remote)
                await self._record(remote, found)
            except Exception:
                self._log.exception("check of an aggregated server failed", name=remote.name)
                found = Availability(Reason.FAILED_DISCOVERY_CHECK, "")
            pause, retry = (
                (CHECK_SECONDS, FIRST_RETRY) if found.is_available else (retry, min(2 * retry, CHECK_SECONDS))
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await remote.changed.wait()

    async def _check(self, remote: RemoteVersion) -> Availability:
        service = remote.service
        slices = [
            one
            for one in self._reader.list(SLICES, service.namespace)
            if (one["metadata"].get("labels") or {}).get(SERVICE_LABEL) == service.name
        ]
        problem = judge_service(service, self._reader.get(SERVICES, service.namespace, service.name), slices)
        if problem is not None:
            return problem
        try:
            async with asyncio.timeout(CHECK_DEADLINE):
                resources = await self._document(remote, remote.path)
        except (errors.ApiError, OSError, ValueError) as error:
            where = f"https://{service.name}.{service.namespace}.svc:{service.port}{remote.path}"
            words = f"failing or missing response from {where}: {_words(error)}"
            return Availability(Reason.FAILED_DISCOVERY_CHECK, words)
        await self._learn(remote, resources if isinstance(resources, dict) else {})
        return PASSED

    async def _learn(self, remote: RemoteVersion, resources: JsonObject) -> None:
        """Take up what the server serves, as far as it says so."""
        item = merged_discovery.version_item(
            await self._optional(remote, "/apis", merged_discovery.AGGREGATED), remote.group, remote.version
        ) or merged_discovery.version_item_of_list(resources, remote.version)
        index = await self._optional(remote, "/openapi/v3")
        listed = (index.get("paths") or {}) if isinstance(index, dict) else {}
        url = (listed.get(remote.path.strip("/")) or {}).get("serverRelativeURL") or ""
        if url != remote.openapi_url or remote.swagger is None:
            swagger = await self._optional(remote, "/openapi/v2")
            remote.swagger = swagger if isinstance(swagger, dict) else None
            remote.openapi_url = url
            self.revision += 1
        if item != remote.item:
            remote.item = item
            self.revision += 1

    async def _optional(self, remote: RemoteVersion, path: str, accept: str = "application/json") -> Json:
        try:
            async with asyncio.timeout(CHECK_DEADLINE):
                return await self._document(remote, path, accept)
        except (errors.ApiError, OSError, ValueError):
            return None

    async def _document(self, remote: RemoteVersion, path: str, accept: str = "application/json") -> Json:
        """A JSON document of the server. Raises ApiError, OSError or ValueError."""
        headers = {"accept": f"{accept},application/json", "user-agent": "kube-apiserver/kohort"}
        response = await self._send(remote, Request("GET", path, (), headers), AGGREGATOR)
        body = await response.whole_body(MAX_DOCUMENT)
        if not 200 <= response.status < 300:
            raise ValueError(f"bad status from {quote(path)}: {response.status}")
        return msgspec.json.decode(body)

    async def _record(self, remote: RemoteVersion, found: Availability) -> None:
        """Write the condition, unless it is there already."""
        if remote.available != found.is_available:
            remote.available = found.is_available
            self.revision += 1
        while (stored := self._store.get(BUCKET, "", remote.name)) is not None:
            document = stored.decode()
            if document["metadata"]["uid"] != remote.uid:
                return
            before = (document.get("status") or {}).get("conditions") or []
            after = with_condition(before, found, clock.timestamp())
            if after == before:
                return
            document["status"] = {**(document.get("status") or {}), "conditions": after}
            headers = {"content-type": "application/json", "user-agent": "kube-apiserver/kohort"}
            path = f"/apis/apiregistration.k8s.io/v1/apiservices/{remote.name}/status"
            response = await self._handle(Request("PUT", path, (), headers, compact(document)), OWNER)
            if response.status != 409:
                return


def _remote(document: JsonObject) -> RemoteVersion | None:
    """What an APIService says, None when this server answers itself."""
    spec, metadata = document.get("spec") or {}, document["metadata"]
    service = spec.get("service")
    if service is None:
        return None
    reference = ServiceReference(service.get("namespace") or "", service.get("name") or "", service.get("port") or 443)
    bundle, insecure = spec.get("caBundle") or "", bool(spec.get("insecureSkipTLSVerify"))
    group, version = spec.get("group") or "", spec["version"]
    return RemoteVersion(metadata["name"], metadata["uid"], group, version, reference, bundle, insecure)


def _same(one: RemoteVersion, other: RemoteVersion) -> bool:
    return (one.uid, one.service, one.ca_bundle, one.insecure) == (
        other.uid,
        other.service,
        other.ca_bundle,
        other.insecure,
    )


def _is_available(document: JsonObject) -> bool:
    conditions = (document.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == AVAILABLE and one.get("status") == "True" for one in conditions)


def _service_of(stored: Stored, bucket: str) -> tuple[str, str]:
    return stored.namespace, stored.name if bucket == SERVICES else stored.labels.get(SERVICE_LABEL, "")


_WITHHELD: Final = frozenset({
    "authorization", "connection", "content-length", "host", "keep-alive", "transfer-encoding", "upgrade",
})  # fmt: skip


def identified(headers: Mapping[str, str], user: User) -> list[tuple[str, str]]:
    """Headers for another server: what the caller sent, without credentials and without any claim about who it is,
    and who it is."""
    kept = [
        (key, value)
        for key, value in headers.items()
        if key not in _WITHHELD and not key.startswith(("impersonate-", "x-remote-"))
    ]
    identity = [("X-Remote-User", user.name), *(("X-Remote-Group", group) for group in user.groups)]
    if user.uid:
        identity.append(("X-Remote-Uid", user.uid))
    extra: Iterable[tuple[str, str]] = (
        (f"X-Remote-Extra-{quote(key, safe='')}", value) for key, values in user.extra.items() for value in values
    )
    return [*kept, *identity, *extra]


def _unavailable() -> errors.ApiError:
    return errors.failure(503, "ServiceUnavailable", "service unavailable")


def _words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "context deadline exceeded"
    return error.message if isinstance(error, errors.ApiError) else str(error)
