"""The garbage collector: metadata watches on everything that can be deleted, one graph, one queue.

Work items are uids. The absence of an owner is never concluded from the cache alone: the cache of the owner's kind may
be behind, so an owner that the graph does not know is read from the API, and counts as absent only when the API has no
object of that name, or one with another uid.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from typing import cast

from kohort.cluster.workloads.garbage.graph import FOREGROUND, ORPHAN, Graph, Node, node_of
from kohort.cluster.workloads.garbage.plan import (
    DropFinalizer,
    DropReferences,
    GarbageAction,
    Presence,
    ReleaseDependents,
    Remove,
    VisitDependents,
    decide,
)
from kohort.kube.client import Client, PatchType
from kohort.kube.controller import Requeue
from kohort.kube.discovery import served_resources
from kohort.kube.errors import ApiError, Conflict, Invalid, NotFound
from kohort.kube.informer import Informer
from kohort.kube.log import Log
from kohort.kube.manager import Manager
from kohort.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, PODS, Key, Resource
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import OwnerReference, PartialObject
from kohort.objects.pods import Pod

_log = Log(logger="kohort.garbage")

_NEVER_OWNED = frozenset({("", "events"), ("events.k8s.io", "events")})
_REMEMBERED_ABSENT = 5000
_RELIST_SECONDS = 30.0
_LATE_SECONDS = 30.0
"""An object that is created for an owner in foreground deletion stays for a moment, or until another dependent of the
owner is deleted: a controller that recreates its objects would otherwise do so in a tight loop."""


Coordinates = tuple[str, str, str, str]
"""apiVersion, kind, name and uid, as in an owner reference."""


def register(manager: Manager) -> None:
    GarbageCollector(manager)


class GarbageCollector:
    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.client: Client = manager.client
        self.recorder = manager.recorder("garbage-collector-controller")
        self.graph = Graph()
        self._absent: OrderedDict[Coordinates, None] = OrderedDict()
        self._kinds: dict[tuple[str, str], Resource] = {}
        self._watched: dict[Resource, Informer[PartialObject]] = {}
        self._rediscover = asyncio.Event()
        self.controller = manager.controller("garbage-collector", self.reconcile, workers=8, max_delay=30)
        definitions = manager.informer(CUSTOM_RESOURCE_DEFINITIONS, PartialObject, metadata_only=True)
        definitions.on_change(lambda _old, _new: self._rediscover.set())
        manager.background("garbage-discovery", self._follow_discovery)

    # Watching all resources

    async def _follow_discovery(self) -> None:
        while True:
            self._rediscover.clear()
            try:
                await self._watch_everything()
            except ApiError as problem:
                _log.warning("discovery failed, will try again", problem=problem.message)
            try:
                await asyncio.wait_for(self._rediscover.wait(), _RELIST_SECONDS)
                # A definition is announced before its endpoints are: give them a moment to appear.
                await asyncio.sleep(0.2)
            except TimeoutError:
                continue

    async def _watch_everything(self) -> None:
        served = await served_resources(self.client, all_versions=True)
        self._kinds = {(one.resource.api_version, one.resource.kind): one.resource for one in served}
        preferred = await served_resources(self.client)
        wanted = [
            one.resource
            for one in preferred
            if one.allows("list", "watch", "delete") and (one.resource.group, one.resource.plural) not in _NEVER_OWNED
        ]
        for gone in [one for one in self._watched if one not in wanted and one != PODS]:
            self._unwatch(gone)
        fresh = [self._watch(resource) for resource in wanted if resource not in self._watched]
        for informer in fresh:
            await informer.wait_synced()

    def _watch(self, resource: Resource) -> Informer[PartialObject]:
        if resource == PODS:
            # Other controllers have all pods in memory, and pods change more than all the rest: one watch is enough.
            informer = cast("Informer[PartialObject]", self.manager.informer(PODS, Pod))
        else:
            informer = self.manager.informer(resource, PartialObject, metadata_only=True)
        self._watched[resource] = informer
        informer.on_change(lambda old, new: self._changed(resource, old, new))
        return informer

    def _unwatch(self, resource: Resource) -> None:
        informer = self._watched.pop(resource)
        self.manager.drop(informer)
        for metadata in informer.list():
            self._vanished(metadata.metadata.uid)

    def _changed(self, resource: Resource, old: PartialObject | None, new: PartialObject | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._vanished(old.metadata.uid)
        if new is not None:
            node = node_of(resource, new.metadata)
            before = self.graph.put(node)
            self._absent.pop(_coordinates(node), None)
            for owner in before.owners if before else ():
                if owner.block_owner_deletion and not node.blocks(owner.uid):
                    self._enqueue(owner.uid)
            if node.owners or node.waits_for_dependents or node.leaves_orphans:
                late = before is None and any(self._waits(owner.uid) for owner in node.owners)
                self.controller.enqueue(Key("", node.uid), after=_LATE_SECONDS if late else 0.0)
            if node.waits_for_dependents and not (before and before.waits_for_dependents):
                self._enqueue_all(self.graph.dependents(node.uid))

    def _waits(self, uid: str) -> bool:
        owner = self.graph.get(uid)
        return owner is not None and owner.waits_for_dependents

    def _vanished(self, uid: str) -> None:
        node = self.graph.remove(uid)
        if node is not None:
            self._remember_absent(_coordinates(node))
        self._enqueue_all(self.graph.dependents(uid))
        for owner in node.owners if node else ():
            self._enqueue(owner.uid)

    def _enqueue_all(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self._enqueue(node.uid)

    def _enqueue(self, uid: str) -> None:
        self.controller.enqueue(Key("", uid))

    # Deciding

    async def reconcile(self, key: Key) -> Requeue | None:
        node = self.graph.get(key.name)
        if node is None:
            return None
        presences = {owner.uid: await self._presence(node, owner) for owner in node.owners}
        node = self.graph.get(key.name)
        if node is None:
            return None
        dependents = list(self.graph.dependents(node.uid))
        action = decide(node, dependents, lambda owner: presences.get(owner.uid, "unknown"))
        try:
            await self._carry_out(node, action)
        except NotFound:
            return None
        except Conflict:
            return Requeue()
        return Requeue(after=_RELIST_SECONDS) if "unknown" in presences.values() else None

    async def _carry_out(self, node: Node, action: GarbageAction) -> None:
        match action:
            case Remove(propagation, unblock):
                if unblock:
                    await self._unblock(node)
                await self.client.delete(
                    node.resource, node.key.name, node.key.namespace, propagation=propagation, uid=node.uid
                )
            case DropReferences(uids):
                await self._drop_references(node, uids)
            case DropFinalizer(finalizer):
                await self._drop_finalizer(node, finalizer)
            case ReleaseDependents(dependents):
                for dependent in dependents:
                    await self._release(dependent, node.uid)
                await self._drop_finalizer(node, ORPHAN)
            case VisitDependents(dependents):
                self._enqueue_all(dependents)

    async def _presence(self, node: Node, owner: OwnerReference) -> Presence:
        """An object with the uid of the reference but of another kind is not the owner."""
        named = (owner.api_version, owner.kind, owner.name, owner.uid)
        resource = self._kinds.get((owner.api_version, owner.kind))
        if resource is not None and resource.namespaced and not node.key.namespace:
            # A namespaced owner of a cluster-scoped object can never be found: the reference names no namespace.
            return "unknown"
        if named in self._absent:
            return "absent"
        if resource is None:
            return "unknown"
        known = self.graph.get(owner.uid)
        if known is not None and _is(known, resource, owner.name):
            return self._known_presence(node, known)
        namespace = node.key.namespace if resource.namespaced else ""
        found = await self.client.find(resource, owner.name, namespace)
        if found is not None and found["metadata"]["uid"] == owner.uid:
            deleting = "deletionTimestamp" in found["metadata"]
            waiting = deleting and FOREGROUND in found["metadata"].get("finalizers", ())
            return "leaving" if waiting else "present"
        self._remember_absent(named)
        return "absent"

    def _known_presence(self, node: Node, owner: Node) -> Presence:
        if owner.key.namespace and owner.key.namespace != node.key.namespace:
            self.recorder.warning(
                node.resource,
                {"metadata": {"name": node.key.name, "namespace": node.key.namespace, "uid": node.uid}},
                "OwnerRefInvalidNamespace",
                f"ownerRef [{owner.resource.api_version}/{owner.resource.kind}, namespace: {node.key.namespace}, "
                f'name: {owner.key.name}, uid: {owner.uid}] does not exist in namespace "{node.key.namespace}"',
            )
            return "absent"
        return "leaving" if owner.waits_for_dependents else "present"

    def _remember_absent(self, named: Coordinates) -> None:
        self._absent[named] = None
        while len(self._absent) > _REMEMBERED_ABSENT:
            self._absent.popitem(last=False)

    # Writes

    async def _drop_references(self, node: Node, uids: tuple[str, ...]) -> None:
        await self._rewrite_owners(node, [owner for owner in node.owners if owner.uid not in uids])

    async def _release(self, node: Node, uid: str) -> None:
        try:
            await self._rewrite_owners(node, [owner for owner in node.owners if owner.uid != uid])
        except NotFound:
            return

    async def _unblock(self, node: Node) -> None:
        await self._rewrite_owners(node, list(node.owners), block=False)

    async def _rewrite_owners(self, node: Node, owners: list[OwnerReference], *, block: bool | None = None) -> None:
        references = [reference_document(owner, block) for owner in owners]
        body = {"metadata": {"resourceVersion": node.resource_version, "uid": node.uid, "ownerReferences": references}}
        await self._patch(node, body)

    async def _drop_finalizer(self, node: Node, finalizer: str) -> None:
        left = [one for one in node.finalizers if one != finalizer]
        body = {"metadata": {"resourceVersion": node.resource_version, "uid": node.uid, "finalizers": left}}
        await self._patch(node, body)

    async def _patch(self, node: Node, body: JsonObject) -> None:
        try:
            await self.client.patch(node.resource, node.key.name, node.key.namespace, body, PatchType.MERGE)
        except Invalid as problem:
            # The uid in the patch guards against an object that was deleted and made again under the same name.
            raise NotFound(problem.status) from problem


def _coordinates(node: Node) -> Coordinates:
    return (node.resource.api_version, node.resource.kind, node.key.name, node.uid)


def _is(node: Node, resource: Resource, name: str) -> bool:
    same_kind = (node.resource.group, node.resource.plural) == (resource.group, resource.plural)
    return same_kind and node.key.name == name


def reference_document(owner: OwnerReference, block: bool | None = None) -> JsonObject:
    document: JsonObject = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
    }
    if owner.controller is not None:
        document["controller"] = owner.controller
    blocking = owner.block_owner_deletion if block is None else block
    if blocking is not None:
        document["blockOwnerDeletion"] = blocking
    return document
