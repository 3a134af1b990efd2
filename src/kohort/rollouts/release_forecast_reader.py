"""Looks at nodes and pods before the first step of a release: is there room, and how long will it take?

A release with the annotation `rollouts.kruise.io/require-capacity: "true"` does not begin without room. Any other one
begins, and its status says what is to be expected. A release in place adds no pod, and is left out.
"""

from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.resources import NODES, PODS, Key
from kohort.objects.core import Node, Pod
from kohort.rollouts.caches import RolloutCache
from kohort.rollouts.forecast_types import ForecastUnknown, ReleaseForecast
from kohort.rollouts.release_forecast import ClusterRoom, GroupPlanner, Released, forecast_release
from kohort.rollouts.release_state import Observation
from kohort.rules import rollout_labels


def needs_forecast(observation: Observation) -> bool:
    """Shortly before the first step; of a release that waits for room, from the beginning on."""
    workload, state = observation.workload, observation.state
    begins = (state.phase, state.reason) == (rollout_labels.PROGRESSING, rollout_labels.INITIALIZING)
    if not begins or workload is None or workload.in_rollback or observation.in_place or not observation.steps:
        return False
    return observation.requires_capacity or observation.settle_left == 0


async def release_forecast(
    observation: Observation, cache: RolloutCache, client: Client, plan_group: GroupPlanner
) -> ReleaseForecast | ForecastUnknown | None:
    """None if the workload is gone."""
    rollout = observation.rollout
    subject = _subject(observation, cache)
    if subject is None:
        return None
    try:
        if rollout.partitioned:
            # No pod is added, so only the pods of the workload matter.
            own = await client.list(PODS, rollout.metadata.namespace, type=Pod)
            return forecast_release(rollout, subject, None, own.items)
        nodes = (await client.list(NODES, type=Node)).items
        pods = (await client.list(PODS, type=Pod)).items
    except ApiError as problem:
        return ForecastUnknown(str(problem))
    return forecast_release(rollout, subject, ClusterRoom(nodes, plan_group), pods)


def _subject(observation: Observation, cache: RolloutCache) -> Released | None:
    ref = observation.rollout.spec.workload_ref
    key = Key(observation.rollout.metadata.namespace, ref.name)
    if ref.is_group_set:
        return cache.sets.get(key)
    return cache.stateful_sets.get(key) if ref.is_stateful_set else cache.deployments.get(key)
