"""Draining with every style, kind of workload and end of a release: in the end every pod that serves is in its Service,
and nothing of the withdrawal is left."""

import asyncio

import pytest
from tests.rollouts import deployments, releases
from tests.rollouts.drained_pods import BusyServers, busy_for, cluster_with
from tests.rollouts.releases import NAME, NAMESPACE, V1, V2, rollout

from kohort.kube.resources import (
    BATCH_RELEASES,
    DEPLOYMENTS,
    INGRESSES,
    LEADER_WORKER_SETS,
    PODS,
    ROLLOUTS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from kohort.objects.json_types import JsonObject
from kohort.objects.well_known_names import DELETION_COST
from kohort.rules import group_labels, rollout_labels
from kohort.testing import Cluster

STEPS: dict[str, list[JsonObject]] = {
    "canary": [{"replicas": "50%", "traffic": "50%", "pause": {}}, {"replicas": "100%", "traffic": "100%"}],
    "blue-green": [{"replicas": "100%", "traffic": "50%", "pause": {}}],
    "partition": [{"replicas": "40%", "traffic": "40%", "pause": {}}, {"replicas": "100%"}],
    "partition, not routed": [{"replicas": "40%", "pause": {}}, {"replicas": "100%"}],
}
RELEASES = [
    (LEADER_WORKER_SETS, "canary"),
    (LEADER_WORKER_SETS, "blue-green"),
    (DEPLOYMENTS, "canary"),
    (DEPLOYMENTS, "blue-green"),
    (DEPLOYMENTS, "partition"),
    (DEPLOYMENTS, "partition, not routed"),
    (STATEFUL_SETS, "partition"),
    (STATEFUL_SETS, "partition, not routed"),
]
"""There is no second set beside a StatefulSet, and a canary of groups is a set of its own."""
Story = deployments.Story | releases.Story


def plan(style: str) -> JsonObject:
    document = rollout(blue_green=style == "blue-green", steps=STEPS[style])
    strategy = document["spec"]["strategy"].get("canary") or document["spec"]["strategy"]["blueGreen"]
    if style.startswith("partition"):
        strategy["enableExtraWorkloadForCanary"] = False
    strategy["trafficRoutings"][0]["drainTimeoutSeconds"] = 60
    return document


async def begun(cluster: Cluster, resource: Resource, style: str) -> Story:
    if resource is LEADER_WORKER_SETS:
        groups = releases.Story(cluster)
        await groups.begin(plan=plan(style))
        return groups
    story = deployments.Story(cluster, resource)
    await story.begin(plan(style))
    return story


def is_settled(cluster: Cluster, image: str, replicas: int | None = None) -> bool:
    """Every pod serves at one version, and everything is as its user wrote it; so many, or as many as there were."""
    service = cluster.find(SERVICES, "llm-leader", NAMESPACE)
    assert service is not None
    selector, pods = service["spec"]["selector"], cluster.objects(PODS, NAMESPACE)
    serving = [one for one in pods if one["metadata"]["labels"].get(group_labels.WORKER_INDEX, "0") == "0"]
    return (
        all(one["spec"]["containers"][0]["image"] == image and _is_ready(one) for one in pods)
        and all(selector.items() <= one["metadata"]["labels"].items() for one in serving)
        and len(serving) in ((2, 5) if replicas is None else (replicas,))
        and set(selector) <= {"app", group_labels.WORKER_INDEX}
        and rollout_labels.WITHDRAWN_PODS not in (service["metadata"].get("annotations") or {})
        and not any(rollout_labels.SERVES in one["metadata"]["labels"] for one in pods)
        and not any(DELETION_COST in (one["metadata"].get("annotations") or {}) for one in pods)
        and not cluster.objects(BATCH_RELEASES, NAMESPACE)
        and cluster.find(SERVICES, "llm-leader-canary", NAMESPACE) is None
        and cluster.find(INGRESSES, "llm-canary", NAMESPACE) is None
    )


def _is_ready(pod: JsonObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


async def end(story: Story, how: str) -> str:
    """The version that is wanted in the end."""
    if how == "abort":
        await story.change(V1)
        return V1
    if how == "delete":
        await story.cluster.client.delete(ROLLOUTS, NAME, NAMESPACE)
        return V2
    await story.approve()
    if how == "crash":
        operator = story.cluster.parts["operator"]
        await asyncio.sleep(6.0)
        await operator.stop()
        await asyncio.sleep(5.0)
        await operator.restart(operator.faults)
    return V2


@pytest.mark.parametrize("how", ["promote", "abort", "delete", "crash"])
@pytest.mark.parametrize(("resource", "style"), RELEASES, ids=[f"{one.kind} {style}" for one, style in RELEASES])
async def test_every_pod_is_served_in_the_end(resource: Resource, style: str, how: str) -> None:
    servers = BusyServers()
    async with cluster_with(servers) as cluster:
        await asyncio.sleep(1.0)
        story = await begun(cluster, resource, style)
        servers.in_flight = busy_for(5.0)
        await story.change(V2)
        await story.at(1)
        image = await end(story, how)
        await story.until(lambda: is_settled(cluster, image))
        assert (cluster.find(ROLLOUTS, NAME, NAMESPACE) is None) == (how == "delete")
