"""Whether the replicas that a release adds fit on the nodes, before the first of them is created.

Only for Rollouts with the annotation `rollouts.kruise.io/require-capacity: "true"`: nodes and pods of the whole cluster
are read for it. A release in place adds no pod, and blue-green inside one Deployment is left to its own controller.
"""

import msgspec

from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.resources import NODES, PODS, Key
from kohort.objects.core import Node, Pod
from kohort.objects.json_types import JsonObject
from kohort.rollouts import messages, step_arithmetic
from kohort.rollouts.caches import RolloutCache
from kohort.rollouts.release_state import Observation
from kohort.rules import rollout_labels
from kohort.rules.group_capacity import group_capacity


def requires_capacity(observation: Observation) -> bool:
    annotations = observation.rollout.metadata.annotations
    return (
        annotations.get(rollout_labels.REQUIRE_CAPACITY) == "true"
        and observation.state.phase == rollout_labels.PROGRESSING
        and observation.state.reason == rollout_labels.INITIALIZING
        and observation.workload is not None
        and not observation.workload.in_rollback
        and observation.extra_workload
        and not observation.in_place
        and bool(observation.steps)
    )


async def missing_capacity(observation: Observation, cache: RolloutCache, client: Client) -> str:
    """Why the release should not begin yet; empty where its largest step fits."""
    workload = observation.workload
    assert workload is not None
    group = new_group(observation, cache)
    wanted = max(step_arithmetic.planned(step.replicas or 0, workload.replicas) for step in observation.steps)
    try:
        nodes = (await client.list(NODES, type=Node)).items
        pods = (await client.list(PODS, type=Pod)).items
    except ApiError as problem:
        return messages.capacity_unknown(str(problem))
    found = group_capacity(nodes, pods, group, wanted)
    unit = "groups" if observation.rollout.spec.workload_ref.is_group_set else "pods"
    return "" if found.enough else messages.too_little_capacity(found.fitting, wanted, unit, found.lacking)


def new_group(observation: Observation, cache: RolloutCache) -> list[Pod]:
    """The pods of one replica of the new version, as far as their placement is concerned."""
    rollout = observation.rollout
    key = Key(rollout.metadata.namespace, rollout.spec.workload_ref.name)
    if not rollout.spec.workload_ref.is_group_set:
        deployment = cache.deployments.get(key)
        return [_pod(deployment.spec.template)] if deployment is not None else []
    group_set = cache.sets.get(key)
    template: JsonObject = (group_set.spec.get("leaderWorkerTemplate") or {}) if group_set is not None else {}
    worker = template.get("workerTemplate") or {}
    leader = template.get("leaderTemplate") or worker
    return [_pod(leader), *(_pod(worker) for _ in range(int(template.get("size", 1)) - 1))]


def _pod(template: JsonObject) -> Pod:
    return msgspec.convert({"spec": template.get("spec") or {}}, Pod)
