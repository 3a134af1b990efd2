"""Recounts the usage of ResourceQuotas.

Admission charges a quota when objects are created. This controller lowers the usage again, after deletions and when
pods finish, by counting everything in the namespace. The same function computes the usage of an object in both places.
"""

from collections.abc import Iterable

from kohort.cluster.apiserver.admission.plugins.quota.usage import IGNORED, concerned, in_scope, usage_of
from kohort.kube.controller import Requeue
from kohort.kube.discovery import served_resources
from kohort.kube.errors import ApiError
from kohort.kube.manager import Manager
from kohort.kube.resources import PODS, RESOURCE_QUOTAS, SERVICES, Key, Resource
from kohort.objects.core import Pod, Service
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import PartialObject
from kohort.objects.quantity import ZERO, Quantity
from kohort.resources.effective import ACCOUNTING, limits, requests, resize_infeasible

_RECOUNT_SECONDS = 300.0


def register(manager: Manager) -> None:
    Quotas(manager)


class Quotas:
    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.client = manager.client
        self.quotas = manager.informer(RESOURCE_QUOTAS, JsonObject)
        self._watched: set[Resource] = {PODS}
        self.controller = manager.controller("resourcequota", self.reconcile, workers=2, max_delay=30)
        self.controller.watches(self.quotas, when=_bounds_changed)
        self.controller.watches(manager.informer(PODS, Pod), self._of_namespace, when=_gives_back)

    def _of_namespace(self, obj: Pod | Service | PartialObject) -> Iterable[Key]:
        namespace = obj.metadata.namespace
        return [Key(namespace, one["metadata"]["name"]) for one in self.quotas.list(namespace)]

    async def reconcile(self, key: Key) -> Requeue | None:
        quota = self.quotas.get(key)
        if quota is None:
            return None
        hard: JsonObject = quota["spec"].get("hard") or {}
        used = await self._count(quota, hard)
        status = {"hard": hard, "used": {name: str(used[name]) for name in hard if name in used}}
        if (quota.get("status") or {}) != status:
            await self._write(quota, status)
        return Requeue(after=_RECOUNT_SECONDS)

    async def _count(self, quota: JsonObject, hard: JsonObject) -> dict[str, Quantity]:
        """The usage of every limited resource that the server serves."""
        used: dict[str, Quantity] = {}
        namespace = quota["metadata"]["namespace"]
        for served in await served_resources(self.client):
            resource = served.resource
            if not resource.namespaced or resource.qualified in IGNORED or not served.allows("list"):
                continue
            names = concerned(resource, hard)
            if not names:
                continue
            self._watch(resource)
            used |= {name: ZERO for name in names if name not in used}
            for obj in await self._list(resource, namespace):
                if in_scope(quota, resource, obj):
                    cost = usage_of(resource, obj, ACCOUNTING)
                    for name in names:
                        used[name] += cost.get(name, ZERO)
        return used

    async def _list(self, resource: Resource, namespace: str) -> list[JsonObject]:
        try:
            return (await self.client.list(resource, namespace)).items
        except ApiError:
            return []

    def _watch(self, resource: Resource) -> None:
        """Recount after deletions of counted objects, and when a Service no longer needs node ports."""
        if resource in self._watched:
            return
        self._watched.add(resource)
        if resource == SERVICES:
            services = self.manager.informer(SERVICES, Service)
            self.controller.watches(services, self._of_namespace, when=_changes_type)
            return
        informer = self.manager.informer(resource, PartialObject, metadata_only=True)
        self.controller.watches(informer, self._of_namespace, when=lambda _, new: new is None)

    async def _write(self, quota: JsonObject, status: JsonObject) -> None:
        """Guarded by the version that was read: admission charges the same status meanwhile."""
        before = (quota.get("status") or {}).get("hard") or {}
        gone = {name: None for name in before if name not in status["hard"]}
        changed = {"hard": {**gone, **status["hard"]}, "used": {**gone, **status["used"]}}
        await self.client.patch_status(RESOURCE_QUOTAS, quota, changed, locked=True)


def _bounds_changed(old: JsonObject | None, new: JsonObject | None) -> bool:
    """New bounds need a count. A changed status does not: admission charges before it stores, so counting at that very
    moment would take the charge back."""
    if old is None or new is None:
        return True
    hard = new["spec"].get("hard") or {}
    return bool(old["spec"] != new["spec"] or hard != ((new.get("status") or {}).get("hard") or {}))


def _changes_type(old: Service | None, new: Service | None) -> bool:
    """A service vanished, or is published in another way."""
    return old is not None and (new is None or old.spec.type != new.spec.type)


def _gives_back(old: Pod | None, new: Pod | None) -> bool:
    """A pod vanished, finished or holds other amounts; creations are charged by admission.

    A pod is charged for the greatest of what it asks for, what its node has allocated and what is applied, so a shrink
    gives nothing back before the node has applied it, and only the status says when that is.
    """
    if old is None:
        return False
    if new is None:
        return True
    return old.finished != new.finished or old.spec != new.spec or _holds_other_amounts(old, new)


def _holds_other_amounts(old: Pod, new: Pod) -> bool:
    if _reported_amounts(old) == _reported_amounts(new):
        return False
    return requests(old, ACCOUNTING) != requests(new, ACCOUNTING) or limits(old, ACCOUNTING) != limits(new, ACCOUNTING)


def _reported_amounts(pod: Pod) -> tuple[object, ...]:
    """The parts of a status that decide what a pod holds. Comparing these is cheap, computing the amounts is not."""
    status = pod.status
    containers = [
        (each.name, each.resources, each.allocated_resources)
        for each in (*status.container_statuses, *status.init_container_statuses)
    ]
    return status.resources, status.allocated_resources, resize_infeasible(pod), containers
