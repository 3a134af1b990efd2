"""Drains pods of a Deployment in partition style before its ReplicaSets shrink.

Only where the Rollout of the Deployment has `drainTimeoutSeconds`. `workloads.draining_rounds` says which pods leave
next. Everything is written in this order, and taken up from what is written after a crash:

| order | what | where |
|--:|---|---|
| 1 | the round: pods that leave | annotation of the Deployment |
| 2 | a deletion cost, so that the ReplicaSet deletes these pods and no others | the pods |
| 3 | nothing new arrives at them, then requests in flight are waited for | Services (`traffic.withdrawal`) |
| 4 | as many pods fewer | the ReplicaSet (`partition_controller`) |
| 5 | Services and costs as before, then the annotation goes | as above |

A round ends early when its pods are not too many any more: the release was rolled back, the Deployment was scaled, or
another pod has failed, which the ReplicaSet deletes instead. Those that are left get requests again.
"""

from collections.abc import Collection, Sequence

import msgspec

from kohort.kube.client import Client
from kohort.kube.errors import Conflict, NotFound
from kohort.kube.events import EventRecorder
from kohort.kube.merge_patch import locked
from kohort.kube.resources import DEPLOYMENTS, PODS, ROLLOUTS, Key
from kohort.objects.apps import Deployment, ReplicaSet
from kohort.objects.core import Pod
from kohort.rollouts import messages
from kohort.rollouts.action_result import Waiting
from kohort.rollouts.caches import RolloutCache
from kohort.rollouts.rollout_types import Rollout, WorkloadRef
from kohort.rollouts.traffic.model import RouteRef
from kohort.rollouts.traffic.withdrawal import LOOK_SECONDS, PodWithdrawal, workload_name
from kohort.rollouts.workloads.draining_rounds import (
    DrainingRound,
    Leaving,
    SetPods,
    cost_patches,
    is_scaled,
    next_round,
    round_of,
)
from kohort.rules.rollout_labels import DRAINING_PODS, TEMPLATE_HASH


class Allowance(msgspec.Struct, frozen=True):
    """How far ReplicaSets may shrink now."""

    least: tuple[int, ...]
    """In the order of the given ones."""
    look_again: float | None = None
    """Seconds."""
    drains: bool = False
    """Whether pods of the Deployment are drained at all."""


class DeploymentDraining:
    def __init__(self, client: Client, cache: RolloutCache, withdrawal: PodWithdrawal, recorder: EventRecorder) -> None:
        self.client = client
        self.cache = cache
        self.withdrawal = withdrawal
        self.recorder = recorder
        self._open: dict[Key, DrainingRound] = {}
        """Rounds by Deployment: it may be deleted while pods leave, or lose its annotations to an edit."""
        self._reported: dict[Key, str] = {}
        """What was last said about a Deployment, so that it is said once."""

    async def least_sizes(self, deployment: Deployment, wanted: Sequence[tuple[ReplicaSet | None, int]]) -> Allowance:
        """`wanted` are ReplicaSets with the sizes that they shall have."""
        known = self._round_of(deployment)
        at_once = Allowance(tuple(0 for _ in wanted))
        rollout, refs = self._routes(deployment)
        shrinks = any(one is not None and size < (one.spec.replicas or 0) for one, size in wanted)
        if rollout is None or not refs:
            await self.end(deployment)
            return at_once
        at_once = Allowance(at_once.least, drains=True)
        if known is None and not shrinks:
            await self._put_back(_key(deployment))
            return at_once
        pods = await self._pods(deployment)
        sets = [_set_pods(one, size, pods) for one, size in wanted]
        leaving = next_round(sets, known.pods if known is not None else ())
        if not any(leaving):
            await self.end(deployment)
            return at_once
        if not await self._begin(deployment, _round(leaving)):
            return Allowance(tuple(one.least_size(0) for one in sets), LOOK_SECONDS, drains=True)
        return await self._drain(deployment, rollout, refs, sets, leaving, pods)

    async def end(self, deployment: Deployment) -> None:
        """No pod leaves any more, or they are gone."""
        metadata, key, known = deployment.metadata, _key(deployment), self._round_of(deployment)
        self._reported.pop(key, None)
        if known is None and DRAINING_PODS not in metadata.annotations:
            # One of that name may have been deleted while the operator was away.
            if self._routes(deployment)[1]:
                await self._put_back(key)
            return
        await self._put_back(key)
        await self._set_costs(metadata.namespace, await self._pods(deployment), ())
        self._open.pop(key, None)
        body = locked({"metadata": {"annotations": {DRAINING_PODS: None}}}, metadata.resource_version)
        try:
            await self.client.patch(DEPLOYMENTS, metadata.name, metadata.namespace, body)
        except (NotFound, Conflict):
            return  # The cache is behind; the event that it waits for brings us back.

    async def forget(self, key: Key) -> None:
        """The Deployment is gone: a Service that pods of it had left must find those of its successor."""
        self._reported.pop(key, None)
        if key in self._open:
            await self._put_back(key)
            self._open.pop(key, None)

    def _round_of(self, deployment: Deployment) -> DrainingRound | None:
        return round_of(deployment.metadata.annotations) or self._open.get(_key(deployment))

    async def _begin(self, deployment: Deployment, wanted: DrainingRound) -> bool:
        """Whether the round is on record. What the cache does not know yet may be another round."""
        metadata = deployment.metadata
        if wanted == round_of(metadata.annotations):
            self._open[_key(deployment)] = wanted
            return True
        body = {"metadata": {"annotations": {DRAINING_PODS: msgspec.json.encode(wanted).decode()}}}
        try:
            await self.client.patch(
                DEPLOYMENTS, metadata.name, metadata.namespace, locked(body, metadata.resource_version)
            )
        except (NotFound, Conflict):
            return False
        self._open[_key(deployment)] = wanted
        return True

    async def _drain(
        self,
        deployment: Deployment,
        rollout: Rollout,
        refs: tuple[RouteRef, ...],
        sets: Sequence[SetPods],
        leaving: Leaving,
        pods: Sequence[Pod],
    ) -> Allowance:
        namespace = deployment.metadata.namespace
        names = {pod.metadata.uid: pod.metadata.name for gone in leaving for pod in gone}
        await self._set_costs(namespace, pods, names)
        scaled = is_scaled(sets, leaving)
        result = await self.withdrawal.withdraw(namespace, refs, _workload(_key(deployment)), names, drained=scaled)
        for event in result.events:
            self.recorder.warning(ROLLOUTS, rollout, event.reason, event.message)
        if isinstance(result, Waiting):
            self._report(_key(deployment), rollout, messages.draining_pods(names.values(), result.text))
            least = tuple(one.least_size(0) for one in sets)
            return Allowance(least, min(result.seconds or LOOK_SECONDS, LOOK_SECONDS), drains=True)
        least = tuple(one.least_size(len(gone)) for one, gone in zip(sets, leaving, strict=True))
        return Allowance(least, LOOK_SECONDS, drains=True)

    def _routes(self, deployment: Deployment) -> tuple[Rollout | None, tuple[RouteRef, ...]]:
        """The Rollout, and those of its routes that drain."""
        metadata = deployment.metadata
        rollout = self.cache.rollout_for(metadata.namespace, WorkloadRef.to(DEPLOYMENTS, metadata.name))
        refs = rollout.strategy.traffic_routings if rollout is not None else ()
        return rollout, tuple(ref for ref in refs if ref.drain_timeout_seconds > 0)

    async def _pods(self, deployment: Deployment) -> list[Pod]:
        """Pods that count for the ReplicaSets. Never from a cache: one that was made just now is one of them."""
        sets = self.cache.replica_sets_of(deployment.metadata.uid)
        owners = {one.metadata.uid for one in sets}
        hashes = sorted({one.metadata.labels.get(TEMPLATE_HASH, "") for one in sets} - {""})
        if not hashes:
            return []
        selector = f"{TEMPLATE_HASH} in ({','.join(hashes)})"
        listed = await self.client.list(PODS, deployment.metadata.namespace, type=Pod, label_selector=selector)
        return [pod for pod in listed.items if pod.active and _owner(pod) in owners]

    async def _set_costs(self, namespace: str, pods: Sequence[Pod], leaving: Collection[str]) -> None:
        for name, annotations in cost_patches(pods, leaving).items():
            try:
                await self.client.patch(PODS, name, namespace, {"metadata": {"annotations": annotations}})
            except NotFound:
                continue

    async def _put_back(self, key: Key) -> None:
        await self.withdrawal.put_back(key.namespace, _workload(key))

    def _report(self, key: Key, rollout: Rollout, text: str) -> None:
        if self._reported.get(key) == text:
            return
        self._reported[key] = text
        event = messages.pods_draining(text)
        self.recorder.normal(ROLLOUTS, rollout, event.reason, event.message)


def _workload(key: Key) -> str:
    return workload_name(DEPLOYMENTS, key.name)


def _round(leaving: Leaving) -> DrainingRound:
    return DrainingRound(dict(sorted((pod.metadata.uid, pod.metadata.name) for gone in leaving for pod in gone)))


def _set_pods(replica_set: ReplicaSet | None, target: int, pods: Sequence[Pod]) -> SetPods:
    if replica_set is None:
        return SetPods(0, target)
    own = tuple(pod for pod in pods if _owner(pod) == replica_set.metadata.uid)
    return SetPods(replica_set.spec.replicas or 0, target, own)


def _owner(pod: Pod) -> str:
    owner = pod.metadata.controller
    return owner.uid if owner is not None else ""


def _key(deployment: Deployment) -> Key:
    return Key(deployment.metadata.namespace, deployment.metadata.name)
