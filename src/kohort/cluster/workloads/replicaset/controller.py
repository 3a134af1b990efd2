"""The reconciler of ReplicaSets and of ReplicationControllers, their older form."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Final, NamedTuple

from kohort.cluster.workloads import controller_ref
from kohort.cluster.workloads.conditions import merged
from kohort.cluster.workloads.expectations import Expectations
from kohort.cluster.workloads.pod_state import available_in, is_available, ready_since
from kohort.cluster.workloads.replicaset import plan as replicaset_plan
from kohort.cluster.workloads.replicaset.plan import DELETION_COST, Replica
from kohort.cluster.workloads.slow_start import growing_batches
from kohort.kube import clock
from kohort.kube.controller import Requeue
from kohort.kube.errors import NAMESPACE_TERMINATING, ApiError, Conflict, NotFound
from kohort.kube.event_mapping import controller_of, is_controlled_by, map_to_controller_owner
from kohort.kube.manager import Manager
from kohort.kube.resources import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, Key, Resource
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject


class Variant(NamedTuple):
    """What differs between the two kinds. `controller_ref` handles the difference of their selectors."""

    resource: Resource
    controller: str
    component: str
    """The source of its events."""
    reports_terminating: bool


VARIANTS: Final = (
    Variant(REPLICA_SETS, "replicaset", "replicaset-controller", reports_terminating=True),
    Variant(REPLICATION_CONTROLLERS, "replicationcontroller", "replication-controller", reports_terminating=False),
)


def register(manager: Manager) -> None:
    for variant in VARIANTS:
        ReplicaSets(manager, variant)


class ReplicaSets:
    def __init__(self, manager: Manager, variant: Variant) -> None:
        self.variant = variant
        self.resource = variant.resource
        self.client = manager.client
        self.recorder = manager.recorder(variant.component)
        self.sets = manager.informer(variant.resource, JsonObject)
        self.pods = manager.informer(PODS, Pod, indexes={controller_ref.OWNER: controller_ref.index_by_owner})
        self.expectations = Expectations()
        self.pods.on_change(self._observe_pod)
        controller = manager.controller(variant.controller, self.reconcile, workers=4, max_delay=30)
        controller.watches(self.sets)
        controller.watches(self.pods, self._sets_of_pod)

    async def reconcile(self, key: Key) -> Requeue | None:
        replica_set = self.sets.get(key)
        if replica_set is None:
            self.expectations.forget(key)
            return None
        if not self.expectations.met(key):
            return Requeue(after=1.0)
        pods = await self._members(replica_set)
        seconds = replica_set["spec"].get("minReadySeconds") or 0
        replicas = [replica(pod, replica_set, seconds) for pod in pods]
        failure = None
        if "deletionTimestamp" not in replica_set["metadata"]:
            failure = await self._scale(key, replica_set, pods, replicas)
        await self._write_status(replica_set, replicas, failure)
        if failure is not None:
            return Requeue()
        waits = [available_in(pod, seconds) for pod in pods if seconds and pod.ready]
        pending = [wait.total_seconds() for wait in waits if wait > timedelta(0)]
        return Requeue(after=min(pending) + 0.01) if pending else None

    # Observing

    def _observe_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        owner = controller_of(pod) if pod else None
        if pod is not None and owner is not None and owner.kind == self.resource.kind:
            key = Key(pod.metadata.namespace, owner.name)
            self.expectations.seen(key, pod.metadata.uid, leaving=new is None or pod.metadata.deleting)

    def _sets_of_pod(self, pod: Pod) -> Iterable[Key]:
        if controller_of(pod) is not None:
            return map_to_controller_owner(self.resource.kind, self.resource.group)(pod)
        return [
            Key(pod.metadata.namespace, one["metadata"]["name"])
            for one in self.sets.list(pod.metadata.namespace)
            if controller_ref.selector_of(one).matches(pod.metadata.labels)
        ]

    async def _members(self, replica_set: JsonObject) -> list[Pod]:
        """The active pods, and our terminating ones; finished pods do not count."""
        found = [pod for pod in controller_ref.candidates(self.pods, replica_set) if not pod.finished]
        active = [pod for pod in found if not pod.metadata.deleting]
        going = controller_ref.classify(replica_set, (pod for pod in found if pod.metadata.deleting)).kept
        return await controller_ref.claim(self.client, self.resource, replica_set, PODS, active) + going

    def _nodes_of_related_pods(self, replica_set: JsonObject) -> list[str]:
        """The nodes of all pods of the sets that share this one's owner: a node with many of them is crowded. For a
        set without an owner no node is."""
        owner = controller_of(replica_set)
        if owner is None:
            return []
        relatives = [
            one for one in self.sets.list(replica_set["metadata"]["namespace"]) if is_controlled_by(one, owner.uid)
        ]
        return [
            pod.spec.node_name
            for one in relatives
            for pod in self.pods.by_index(controller_ref.OWNER, one["metadata"]["uid"])
            if pod.active
        ]

    # Writing

    async def _scale(
        self, key: Key, replica_set: JsonObject, pods: list[Pod], replicas: list[Replica]
    ) -> ApiError | None:
        wanted = replica_set["spec"].get("replicas")
        plan = replicaset_plan.plan(
            1 if wanted is None else wanted,
            replicas,
            self._nodes_of_related_pods(replica_set) if pods else (),
            clock.now(),
        )
        try:
            for batch in growing_batches(range(plan.create)):
                await asyncio.gather(*(self._create(key, replica_set) for _ in batch))
            by_name = {pod.metadata.name: pod for pod in pods}
            await asyncio.gather(*(self._delete(key, replica_set, by_name[name]) for name in plan.delete))
        except ApiError as problem:
            return problem
        return None

    async def _create(self, key: Key, replica_set: JsonObject) -> None:
        try:
            made = await self.client.create(PODS, build_pod(replica_set))
        except ApiError as problem:
            if problem.caused_by(NAMESPACE_TERMINATING):
                return
            self.recorder.warning(self.resource, replica_set, "FailedCreate", f"Error creating: {problem}")
            raise
        pod = made["metadata"]
        self.expectations.created(key, pod["uid"], self.pods.get(Key(pod["namespace"], pod["name"])))
        self.recorder.normal(self.resource, replica_set, "SuccessfulCreate", f"Created pod: {pod['name']}")

    async def _delete(self, key: Key, replica_set: JsonObject, pod: Pod) -> None:
        try:
            await self.client.delete(PODS, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid)
        except (NotFound, Conflict):
            return
        cached = self.pods.get(Key(pod.metadata.namespace, pod.metadata.name))
        self.expectations.deleted(key, pod.metadata.uid, cached)
        self.recorder.normal(self.resource, replica_set, "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")

    async def _write_status(self, replica_set: JsonObject, replicas: list[Replica], failure: ApiError | None) -> None:
        counts = replicaset_plan.count(replicas)
        before = replica_set.get("status") or {}
        wanted: JsonObject = {
            "observedGeneration": replica_set["metadata"].get("generation"),
            "replicas": counts.replicas,
            "fullyLabeledReplicas": counts.fully_labelled or None,
            "readyReplicas": counts.ready or None,
            "availableReplicas": counts.available or None,
            "conditions": _failure_conditions(before.get("conditions") or [], failure) or None,
        }
        if self.variant.reports_terminating:
            wanted["terminatingReplicas"] = counts.terminating
        if all(before.get(name) == value for name, value in wanted.items()):
            return
        await self.client.patch_status(self.resource, replica_set, wanted)


def _failure_conditions(before: list[JsonObject], failure: ApiError | None) -> list[JsonObject]:
    """A failure is written once: its message names a generated pod name, another one at every attempt, and a status
    that changed at every attempt would trigger the next reconcile at once."""
    if failure is None:
        return [one for one in before if one["type"] != "ReplicaFailure"]
    if any(one["type"] == "ReplicaFailure" and one["status"] == "True" for one in before):
        return before
    return merged(before, "ReplicaFailure", "True", "FailedCreate", failure.message)


def replica(pod: Pod, replica_set: JsonObject, min_ready_seconds: int) -> Replica:
    template_labels = replica_set["spec"]["template"].get("metadata", {}).get("labels") or {}
    cost = pod.metadata.annotations.get(DELETION_COST, "0")
    created = pod.metadata.creation_timestamp
    return Replica(
        name=pod.metadata.name,
        node=pod.spec.node_name,
        phase=pod.status.phase,
        ready=pod.ready,
        ready_since=ready_since(pod),
        available=is_available(pod, min_ready_seconds),
        cost=int(cost) if cost.lstrip("-").isdigit() else 0,
        restarts=max((one.restart_count for one in pod.status.container_statuses), default=0),
        created=clock.parse_time(created) if created else None,
        terminating=pod.metadata.deleting,
        finished=pod.finished,
        fully_labelled=template_labels.items() <= pod.metadata.labels.items(),
    )


def build_pod(replica_set: JsonObject) -> JsonObject:
    template = replica_set["spec"]["template"]
    meta = template.get("metadata") or {}
    metadata: JsonObject = {
        "generateName": f"{replica_set['metadata']['name']}-",
        "namespace": replica_set["metadata"]["namespace"],
        "labels": meta.get("labels") or {},
        "ownerReferences": [controller_ref.controller_reference(replica_set)],
    }
    for key in ("annotations", "finalizers"):
        if meta.get(key):
            metadata[key] = meta[key]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec") or {}}
