"""What the scheduler writes: bindings, conditions, events, evictions, and the binding of volumes."""

import asyncio
from typing import Final

from kohort.cluster.scheduler import pod_conditions
from kohort.kube import errors
from kohort.kube.backoff import Backoff
from kohort.kube.client import Client, PatchType
from kohort.kube.events import EventRecorder, reference_to
from kohort.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import Pod
from kohort.rules.scheduling.pod_and_node_info import PodInfo
from kohort.rules.scheduling.volume_binding import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    ClaimKey,
    Storage,
    VolumePlan,
    is_bound,
)

VOLUME_BINDING_TIMEOUT: Final = 600.0


class VolumesNotBound(Exception):
    """The claims of a pod were not bound in time, or not on the node that was chosen."""


def _outcome_unknown(problem: errors.ApiError) -> bool:
    return isinstance(problem, errors.Unreachable) or problem.code >= 500


class ApiWriter:
    def __init__(self, client: Client, recorder: EventRecorder, storage: Storage, name: str) -> None:
        self._client = client
        self._recorder = recorder
        self._storage = storage
        self._name = name
        self._storage_changed = asyncio.Event()

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        binding: JsonObject = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.key.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"kind": "Node", "name": node_name},
        }
        await self._client.create(PODS, binding, pod.namespace, "binding", pod.key.name)
        message = f"Successfully assigned {pod.namespace}/{pod.key.name} to {node_name}"
        self._recorder.normal(PODS, pod.pod, "Scheduled", message, action="Binding")

    async def was_bound(self, pod: PodInfo, problem: Exception) -> bool:
        """Whether a binding whose answer was lost was made after all. The pod is read to find out; giving its place to
        another pod before that could overcommit the node."""
        if not isinstance(problem, errors.ApiError) or not _outcome_unknown(problem):
            return False
        backoff = Backoff(base=0.2, limit=5.0)
        while True:
            try:
                current = await self._client.get(PODS, pod.key.name, pod.namespace, type=Pod)
            except errors.NotFound:
                return False
            except errors.ApiError:
                await asyncio.sleep(backoff.next())
            else:
                return current.metadata.uid == pod.uid and bool(current.spec.node_name)

    async def write_unscheduled(self, pod: PodInfo, reason: str, message: str, nominated: str | None) -> None:
        """Write to the pod's status why it has no node; `nominated` is the node that preemption frees for it, None to
        leave that field as it is."""
        status: JsonObject = {}
        condition = pod_conditions.unscheduled(pod.pod, reason, message)
        if condition is not None:
            status["conditions"] = [condition]
        if nominated is not None and nominated != pod.pod.status.nominated_node_name:
            status["nominatedNodeName"] = nominated or None
        if status:
            await self._patch_status(pod, status)

    def record_failure(self, pod: PodInfo, message: str) -> None:
        self._recorder.warning(PODS, pod.pod, "FailedScheduling", message, action="Scheduling")

    async def evict(self, victim: PodInfo, by: PodInfo, node_name: str) -> None:
        condition = pod_conditions.preempted(victim.pod, self._name)
        try:
            if condition is not None:
                await self._patch_status(victim, {"conditions": [condition]})
            await self._client.delete(PODS, victim.key.name, victim.namespace, uid=victim.uid)
        except (errors.NotFound, errors.Conflict):
            return
        message = f"Preempted by pod {by.uid} on node {node_name}"
        related = reference_to(PODS, by.pod)
        self._recorder.normal(PODS, victim.pod, "Preempted", message, action="Preempting", related=related)

    async def clear_nomination(self, pod: PodInfo) -> None:
        await self._patch_status(pod, {"nominatedNodeName": None})

    async def bind_volumes(self, plan: VolumePlan, node_name: str) -> None:
        """Write the plan and wait until every claim in it is bound."""
        for claim, volume in plan.take:
            await self._take_volume(claim, volume)
        for claim in plan.make:
            patch: JsonObject = {"metadata": {"annotations": {SELECTED_NODE: node_name}}}
            await self._client.patch(PERSISTENT_VOLUME_CLAIMS, claim[1], claim[0], patch)
        claims = [claim for claim, _ in plan.take] + [*plan.make]
        try:
            async with asyncio.timeout(VOLUME_BINDING_TIMEOUT):
                while not all(self._bound(claim, node_name) for claim in claims):
                    self._storage_changed.clear()
                    await self._storage_changed.wait()
        except TimeoutError:
            raise VolumesNotBound("binding volumes: context deadline exceeded") from None

    def storage_changed(self) -> None:
        self._storage_changed.set()

    def _bound(self, key: ClaimKey, node_name: str) -> bool:
        claim = self._storage.claims.get(key)
        if claim is None:
            raise VolumesNotBound(f'binding volumes: persistentvolumeclaim "{key[1]}" not found')
        selected = claim.metadata.annotations.get(SELECTED_NODE)
        if is_bound(claim):
            return True
        if selected is not None and selected != node_name:
            raise VolumesNotBound(f'binding volumes: selectedNode annotation value "{selected}" not set to scheduled')
        return False

    async def _take_volume(self, key: ClaimKey, volume: str) -> None:
        claim = self._storage.claims[key]
        reference: JsonObject = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": key[0],
            "name": key[1],
            "uid": claim.metadata.uid,
        }
        patch: JsonObject = {
            "metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}},
            "spec": {"claimRef": reference},
        }
        known = self._storage.volumes.get(volume)
        if known is not None:
            patch["metadata"]["resourceVersion"] = known.metadata.resource_version
        await self._client.patch(PERSISTENT_VOLUMES, volume, "", patch)

    async def _patch_status(self, pod: PodInfo, status: JsonObject) -> None:
        """A condition that the pod does not have yet comes last."""
        body: JsonObject = {"metadata": {"uid": pod.uid}, "status": status}
        written = [one["type"] for one in status.get("conditions") or []]
        if written:
            order = dict.fromkeys([*(one.type for one in pod.pod.status.conditions), *written])
            body["status"]["$setElementOrder/conditions"] = [{"type": one} for one in order]
        await self._client.patch(PODS, pod.key.name, pod.namespace, body, PatchType.STRATEGIC, "status")
