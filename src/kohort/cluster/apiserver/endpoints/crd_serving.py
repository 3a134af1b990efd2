"""Definitions of custom resources at work: what they define is served, and goes when they go.

Every committed write of a definition comes through here before its writer is answered. The status is brought up to date
as a write of its own, like the controllers of a big cluster do it, but the kinds enter the catalogue first: a client
that sees `Established` can use them. A definition that is being deleted stops taking new objects, its objects are
deleted with respect for their finalizers, and when none is left the definition goes and its names are free for others.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from kohort.cluster.apiserver.aggregation.definition_apiservices import DefinitionApiServices
from kohort.cluster.apiserver.auth.model import User
from kohort.cluster.apiserver.catalog.view import KindView
from kohort.cluster.apiserver.crd.conversion import DefinitionVersions
from kohort.cluster.apiserver.endpoints.deletion import CRD_CLEANUP, Deleter
from kohort.cluster.apiserver.endpoints.paths import ResourcePath
from kohort.cluster.apiserver.endpoints.query_options import DeleteOptions, WriteOptions
from kohort.cluster.apiserver.endpoints.request_context import ResourceRequest, ServerParts
from kohort.cluster.apiserver.endpoints.writing import Writer
from kohort.cluster.apiserver.representation.encoding import compact
from kohort.cluster.apiserver.representation.negotiation import Media
from kohort.cluster.apiserver.storage.model import StaleRevision, Stored
from kohort.kube import errors
from kohort.kube.backoff import Backoff
from kohort.kube.http import Request
from kohort.kube.log import Log
from kohort.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from kohort.kube.tasks import cancel_all
from kohort.objects.json_types import JsonObject

BUCKET: Final = CUSTOM_RESOURCE_DEFINITIONS.qualified
OWNER: Final = User("system:apiserver", ("system:masters", "system:authenticated"))
BACKGROUND: Final = DeleteOptions(propagation="Background", document={"kind": "DeleteOptions", "apiVersion": "v1"})


class DefinitionServing:
    """Imports what it needs to know of definitions when the first one comes: a server without any starts faster."""

    def __init__(
        self, parts: ServerParts, writer: Writer, deleter: Deleter, api_services: DefinitionApiServices
    ) -> None:
        self._parts = parts
        self._api_services = api_services
        self._writer = writer
        self._deleter = deleter
        self._served: dict[str, tuple[str, int]] = {}
        """By name of a definition: its uid and the generation that is served."""
        self._cleaning: dict[str, asyncio.Task[None]] = {}
        self._log = Log(part="definitions")

    async def load(self) -> None:
        """Serve what was established before this start, and go on with unfinished deletions."""
        for stored in self._parts.store.list(BUCKET):
            crd = stored.decode()
            self._serve(crd, stored)
        for stored in self._parts.store.list(BUCKET):
            await self.changed(stored.name)

    async def close(self) -> None:
        await cancel_all(*self._cleaning.values())

    async def committed(self, stored: Stored) -> None:
        """A definition was written."""
        await self.changed(stored.name)

    async def changed(self, name: str) -> None:
        stored = self._parts.store.get(BUCKET, "", name)
        if stored is None:
            await self._gone(name)
            return
        from kohort.cluster.apiserver.crd import definitions

        crd = stored.decode()
        await self._api_services.definition_changed(name, crd)
        if crd["metadata"].get("deletionTimestamp"):
            self._begin_cleaning(name, crd)
            return
        status = definitions.status_for(crd, self._others(name))
        established = {**crd, "status": {**(crd.get("status") or {}), **status}}
        self._serve(established, stored)
        if not _same_status(crd, status):
            uid = crd["metadata"]["uid"]
            await self._write_status(name, uid, lambda live: definitions.status_for(live, self._others(name)))

    def _others(self, name: str) -> list[JsonObject]:
        """The other definitions of the same group: only with them can a definition share names."""
        group = _group(name)
        definitions = self._parts.store.list(BUCKET)
        return [stored.decode() for stored in definitions if stored.name != name and _group(stored.name) == group]

    # --- serving ------------------------------------------------------------------------------------------------------

    def _serve(self, crd: JsonObject, stored: Stored) -> None:
        metadata = crd["metadata"]
        version = (metadata["uid"], metadata.get("generation") or 0)
        if self._served.get(stored.name) == version:
            return
        from kohort.cluster.apiserver.crd import definitions

        versions = DefinitionVersions(crd)
        kinds = definitions.kinds_of(crd, versions)
        if not kinds:
            self._withdraw(stored.name)
            return
        self._parts.catalog.serve(kinds, revision=stored.revision, refresh=versions.refreshed)
        self._served[stored.name] = version

    def _withdraw(self, name: str) -> None:
        if self._served.pop(name, None) is not None:
            self._parts.catalog.withdraw(name)

    async def _gone(self, name: str) -> None:
        self._withdraw(name)
        await self._api_services.definition_changed(name, None)
        for stored in self._parts.store.list(BUCKET):
            if _group(stored.name) == _group(name):
                await self.changed(stored.name)

    async def _write_status(self, name: str, uid: str, status_of: Callable[[JsonObject], JsonObject]) -> None:
        """Write what `status_of` says about the definition as it is at that moment."""
        call = self._call(name, "status")

        def produce(live: JsonObject | None) -> JsonObject:
            assert live is not None
            if live["metadata"]["uid"] != uid:
                raise errors.conflict("customresourcedefinitions", name, "it was replaced")
            obj: JsonObject = msgspec.json.decode(compact(live))
            obj["status"] = {**(obj.get("status") or {}), **status_of(live)}
            self._writer.record(call, WriteOptions(manager="kube-apiserver"), live, obj)
            return obj

        try:
            await self._writer.replace(call, WriteOptions(manager="kube-apiserver"), produce)
        except (errors.NotFound, errors.Conflict):
            return

    def _call(self, name: str, subresource: str = "") -> ResourceRequest:
        resource = CUSTOM_RESOURCE_DEFINITIONS
        view = self._parts.catalog.find(resource.group, resource.version, resource.plural)
        assert view is not None
        path = ResourcePath(resource.group, resource.version, resource.plural, name=name, subresource=subresource)
        request = Request("PUT", resource.path("", name, subresource), (), {"user-agent": "kube-apiserver"})
        return ResourceRequest(request, OWNER, view, path, "update", Media())

    # --- deletion -----------------------------------------------------------------------------------------------------

    def _begin_cleaning(self, name: str, crd: JsonObject) -> None:
        self._parts.catalog.close(name)
        if CRD_CLEANUP not in (crd["metadata"].get("finalizers") or ()):
            return
        known = self._cleaning.get(name)
        if known is None or known.done():
            self._cleaning[name] = asyncio.ensure_future(self._clean(name, crd["metadata"]["uid"]))

    async def _clean(self, name: str, uid: str) -> None:
        """Delete the objects of a definition, wait for their finalizers, then let the definition go. What fails is
        tried again."""
        pauses = Backoff()
        try:
            while True:
                if await self._cleaned(name, uid):
                    return
                await asyncio.sleep(pauses.next())
        finally:
            self._cleaning.pop(name, None)

    async def _cleaned(self, name: str, uid: str) -> bool:
        try:
            await self._write_status(name, uid, _in_deletion)
            for view in self._parts.catalog.of_bucket(name)[:1]:
                await self._empty(view)
            await self._finish(name, uid)
        except Exception as problem:
            self._log.exception("cleaning up a definition failed", name=name, problem=repr(problem))
            return False
        return True

    async def _empty(self, view: KindView) -> None:
        bucket, store = view.kind.bucket, self._parts.store
        for stored in store.list(bucket):
            await self._delete(view, stored)
        while True:
            changes = store.watch(bucket, store.revision)
            left = len(store.list(bucket))
            if left == 0:
                return
            # Each object goes by a change of its own. Looking only then keeps the cost linear.
            while left > 0:
                left -= len(await anext(changes))

    async def _delete(self, view: KindView, stored: Stored) -> None:
        """Without admission, as Kubernetes does it: who may delete the definition has decided about its objects."""
        resource = view.kind.resource
        path = ResourcePath(resource.group, resource.version, resource.plural, stored.namespace, stored.name)
        request = Request("DELETE", resource.path(stored.namespace, stored.name))
        try:
            call = ResourceRequest(request, OWNER, view, path, "delete", Media())
            await self._deleter.delete_one(call, BACKGROUND, admitted=True)
        except errors.NotFound:
            return

    async def _finish(self, name: str, uid: str) -> None:
        call = self._call(name)
        while (stored := self._parts.store.get(BUCKET, "", name)) is not None:
            crd = stored.decode()
            if crd["metadata"]["uid"] != uid:
                return
            _release(crd)
            try:
                if crd["metadata"].get("finalizers"):
                    await self._writer.store(call, crd, expected=stored.revision)
                else:
                    await self._parts.store.write(BUCKET, "", name, None, expected=stored.revision)
                    await self._gone(name)
                return
            except StaleRevision:
                continue


def _group(name: str) -> str:
    """The group of a definition. Its name is the plural and the group: validation requires it."""
    return name.partition(".")[2]


def _in_deletion(crd: JsonObject) -> JsonObject:
    """The status of a definition whose objects are being deleted."""
    progress = {"reason": "InstanceDeletionInProgress", "message": "CustomResource deletion is in progress"}
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return {"conditions": [{**one, **progress} if one["type"] == "Terminating" else one for one in conditions]}


def _release(crd: JsonObject) -> None:
    """Nothing holds the definition any longer."""
    metadata, status = crd["metadata"], crd.setdefault("status", {})
    metadata["finalizers"] = [one for one in metadata.get("finalizers") or () if one != CRD_CLEANUP]
    for condition in status.get("conditions") or ():
        if condition["type"] == "Terminating":
            condition.update(status="False", reason="InstanceDeletionCompleted", message="removed all instances")


def _same_status(crd: JsonObject, status: JsonObject) -> bool:
    found = crd.get("status") or {}
    return all(found.get(key) == value for key, value in status.items())
