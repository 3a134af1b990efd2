"""The endpoints reconciler: one reconcile per Service writes its EndpointSlices and its Endpoints."""

from collections.abc import Iterable
from contextlib import suppress

from kohort.cluster.workloads import controller_ref
from kohort.cluster.workloads.endpoints import plan as endpoints_plan
from kohort.cluster.workloads.endpoints.own_writes import OwnWrites
from kohort.cluster.workloads.endpoints.plan import Backend, Content, ServiceFacts
from kohort.cluster.workloads.endpoints.selected_pods import Backends
from kohort.cluster.workloads.endpoints.trigger_time import LAST_CHANGE, Triggers
from kohort.kube.controller import DEFAULT_PACING, SLOW, Pacing, Requeue
from kohort.kube.errors import AlreadyExists, NotFound
from kohort.kube.informer import Informer
from kohort.kube.manager import Manager
from kohort.kube.resources import ENDPOINT_SLICES, ENDPOINTS, NODES, PODS, SERVICES, Key
from kohort.objects.core import Node, Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.objects.view import View

_MANY = 50
_NODE_RETRY_SECONDS = 5.0
"""Seconds until a Service is reconciled again that has a pod whose node does not exist."""


def register(manager: Manager) -> None:
    ServiceEndpoints(manager)


class Written(View, frozen=True):
    """The part of the answer to a write that is decoded: long lists need not be decoded once more."""

    metadata: ObjectMeta = ObjectMeta()


def _by_service(obj: JsonObject) -> Iterable[str]:
    metadata = obj["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get(endpoints_plan.MANAGED_BY) != endpoints_plan.MANAGER:
        return ()
    return (f"{metadata['namespace']}/{labels.get(endpoints_plan.SERVICE_NAME, '')}",)


class ServiceEndpoints:
    def __init__(self, manager: Manager) -> None:
        self.client = manager.client
        self.services = manager.informer(SERVICES, JsonObject)
        self.pods = manager.informer(PODS, Pod, indexes={controller_ref.OWNER: controller_ref.index_by_owner})
        self.slices = manager.informer(ENDPOINT_SLICES, JsonObject, indexes={"service": _by_service})
        self.endpoints: Informer[JsonObject] = manager.informer(ENDPOINTS, JsonObject)
        self._backends = Backends(self.services, self.pods, manager.informer(NODES, Node))
        self._pending: dict[Key, set[str]] = {}
        self._slice_echoes, self._endpoints_echoes = OwnWrites(), OwnWrites()
        self._triggers = Triggers()
        self._known: set[Key] = set()
        """Services that exist, or were deleted since the last look at them."""
        self._large: set[Key] = set()
        """Services with so many pods that writing their addresses is work."""
        controller = manager.controller("endpoints", self.reconcile, workers=4, max_delay=30, pace=self._pace)
        controller.watches(self.services)
        controller.watches(self.pods, self._backends.services_of, when=_changes_endpoints)
        controller.watches(self.slices, _service_of_slice, when=self._slice_echoes.is_relevant_change)
        controller.watches(self.endpoints, when=self._endpoints_echoes.is_awaited_change)

    def _pace(self, key: Key) -> Pacing:
        return SLOW if key in self._large else DEFAULT_PACING

    async def reconcile(self, key: Key) -> Requeue | None:
        service = self.services.get(key)
        if service is None:
            await self._forget(key)
            return None
        self._known.add(key)
        if not service["spec"].get("selector") or service["spec"].get("type") == "ExternalName":
            return None
        facts = service_facts(service)
        pods, backends = self._backends.pods_of(service), self._backends.listed(service, facts)
        (self._large.add if len(pods) > _MANY else self._large.discard)(key)
        trigger = self._triggers.since_last_time(key, service["metadata"]["creationTimestamp"], pods)
        await self._write_slices(service, facts, backends, trigger)
        await self._write_endpoints(facts, backends, trigger)
        waiting = any(not backend.pod.placed for backend in backends)
        return Requeue(after=_NODE_RETRY_SECONDS) if waiting and not facts.publish_not_ready else None

    async def _write_slices(
        self, service: JsonObject, facts: ServiceFacts, backends: list[Backend], trigger: str
    ) -> None:
        existing = self._existing_slices(facts)
        if existing is None:
            return
        contents = {name: read_slice(one) for name, one in existing.items()}
        plan = endpoints_plan.plan_slices(facts, backends, contents)
        labels = endpoints_plan.slice_labels(facts)
        for content in plan.create:
            await self._create_slice(service, labels, content, trigger)
        for name, one in existing.items():
            if name in plan.delete:
                await self._delete_slice(facts.namespace, name)
                continue
            content = plan.update.get(name, contents[name])
            if name in plan.update or (one["metadata"].get("labels") or {}) != labels:
                await self._update_slice(one, labels, content, trigger)

    def _existing_slices(self, facts: ServiceFacts) -> dict[str, JsonObject] | None:
        """The slices of a Service, or None while the cache does not show all of our writes: deciding now could create a
        slice twice, or take an old one for the current one."""
        key = Key(facts.namespace, facts.name)
        found = {one["metadata"]["name"]: one for one in self.slices.by_index("service", str(key))}
        awaited = self._pending.get(key, set()) - found.keys()
        if awaited or any(self._slice_echoes.is_pending(one) for one in found.values()):
            return None
        self._pending.pop(key, None)
        return found

    async def _create_slice(self, service: JsonObject, labels: dict[str, str], content: Content, trigger: str) -> None:
        metadata = service["metadata"]
        body: JsonObject = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "generateName": f"{metadata['name']}-",
                "namespace": metadata["namespace"],
                "labels": labels,
                "annotations": _annotations({}, trigger),
                "ownerReferences": [controller_ref.controller_reference(service)],
            },
            "addressType": (service["spec"].get("ipFamilies") or ["IPv4"])[0],
            "endpoints": content.endpoints,
            "ports": endpoints_plan.slice_ports(content.ports),
        }
        made: JsonObject = await self.client.create(ENDPOINT_SLICES, body)
        self._pending.setdefault(Key(metadata["namespace"], metadata["name"]), set()).add(made["metadata"]["name"])

    async def _update_slice(self, current: JsonObject, labels: dict[str, str], content: Content, trigger: str) -> None:
        body = {
            **current,
            "metadata": {**current["metadata"], "labels": labels, "annotations": _annotations(current, trigger)},
            "endpoints": content.endpoints,
            "ports": endpoints_plan.slice_ports(content.ports),
        }
        try:
            written: Written = await self.client.update(ENDPOINT_SLICES, body, type=Written)
        except NotFound:
            return  # It was deleted meanwhile; when the cache shows that, the Service is reconciled again.
        self._slice_echoes.record(current, written.metadata.resource_version)

    async def _delete_slice(self, namespace: str, name: str) -> None:
        with suppress(NotFound):
            await self.client.delete(ENDPOINT_SLICES, name, namespace)

    async def _write_endpoints(self, facts: ServiceFacts, backends: list[Backend], trigger: str) -> None:
        current = self.endpoints.get(Key(facts.namespace, facts.name))
        if current is not None and self._endpoints_echoes.is_pending(current):
            return
        plan = endpoints_plan.plan_subsets(facts, backends)
        labels = endpoints_plan.endpoints_labels(facts)
        annotations = _annotations(current or {}, trigger)
        annotations.pop(endpoints_plan.OVER_CAPACITY, None)
        if plan.truncated:
            annotations[endpoints_plan.OVER_CAPACITY] = "truncated"
        metadata: JsonObject = {"name": facts.name, "namespace": facts.namespace, "labels": labels}
        metadata["annotations"] = annotations
        body: JsonObject = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": plan.subsets}
        if current is None:
            try:
                await self.client.create(ENDPOINTS, body)
            except AlreadyExists:
                return
        elif _is_outdated(current, plan, labels):
            metadata["resourceVersion"] = current["metadata"]["resourceVersion"]
            written: Written = await self.client.update(ENDPOINTS, body, type=Written)
            self._endpoints_echoes.record(current, written.metadata.resource_version)

    async def _forget(self, key: Key) -> None:
        """The garbage collector deletes slices; Endpoints have no owner and are deleted here, with their Service.
        Endpoints that never had one stay, unless they were made here."""
        self._pending.pop(key, None)
        self._triggers.forget(key)
        self._large.discard(key)
        current = self.endpoints.get(key)
        made_here = current and endpoints_plan.ENDPOINTS_MANAGED_BY in (current["metadata"].get("labels") or {})
        if made_here or (current and key in self._known):
            with suppress(NotFound):
                await self.client.delete(ENDPOINTS, key.name, key.namespace)
        self._known.discard(key)


def service_facts(service: JsonObject) -> ServiceFacts:
    spec = service["spec"]
    return ServiceFacts(
        name=service["metadata"]["name"],
        namespace=service["metadata"]["namespace"],
        headless=spec.get("clusterIP") == "None",
        publish_not_ready=bool(spec.get("publishNotReadyAddresses")),
        ports=spec.get("ports") or [],
        labels=service["metadata"].get("labels") or {},
        traffic=spec.get("trafficDistribution") or "",
    )


def _annotations(current: JsonObject, trigger: str) -> dict[str, str]:
    """Those of the object as it is, with the time of the cause of this write, if that is known."""
    kept = {**((current.get("metadata") or {}).get("annotations") or {})}
    kept.pop(LAST_CHANGE, None)
    return kept | {LAST_CHANGE: trigger} if trigger else kept


def _is_outdated(endpoints: JsonObject, plan: endpoints_plan.Subsets, labels: dict[str, str]) -> bool:
    metadata = endpoints["metadata"]
    return (
        (endpoints.get("subsets") or []) != plan.subsets
        or (metadata.get("labels") or {}) != labels
        or (endpoints_plan.OVER_CAPACITY in (metadata.get("annotations") or {})) != plan.truncated
    )


def read_slice(one: JsonObject) -> Content:
    return Content(endpoints_plan.read_ports(one.get("ports") or []), one.get("endpoints") or [])


def _service_of_slice(one: JsonObject) -> Iterable[Key]:
    return [Key(*value.split("/", 1)) for value in _by_service(one)]


def _changes_endpoints(old: Pod | None, new: Pod | None) -> bool:
    """Whether address, readiness or selection of a pod changed. Most changes of its status change none of them."""
    if old is None or new is None:
        return True
    return _visible(old) != _visible(new)


def _visible(pod: Pod) -> tuple[object, ...]:
    return (
        pod.metadata.labels,
        pod.metadata.deleting,
        pod.spec.node_name,
        pod.status.pod_ips,
        pod.status.pod_ip,
        pod.ready,
        pod.finished,
    )
