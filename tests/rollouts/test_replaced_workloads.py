"""A workload that is deleted during its release and made again under the same name: `kubectl replace --force`.

The new object is not held, and nothing of it is to be released. The operator may or may not have seen that its name
was free in between.
"""

import asyncio

import msgspec
import pytest
from tests.builders import deployment, stateful_set
from tests.rollouts import releases
from tests.rollouts.drained_pods import BusyServers, cluster_with
from tests.rollouts.observations import WORKLOAD
from tests.rollouts.releases import NAME, NAMESPACE, V2
from tests.rollouts.test_draining_matrix import RELEASES, begun, is_settled

from kohort.kube.resources import LEADER_WORKER_SETS, STATEFUL_SETS, Resource
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import Condition
from kohort.rollouts.release_state import State, workload_of_release
from kohort.rollouts.rollout_types import ReleaseProgress
from kohort.rollouts.workloads.model import ReleasedWorkload
from kohort.rules import rollout_labels
from kohort.testing import Cluster


def workload(resource: Resource, image: str) -> JsonObject:
    if resource is LEADER_WORKER_SETS:
        return releases.group_set(image)
    made = stateful_set if resource == STATEFUL_SETS else deployment
    return made(NAME).replicas(5).but("spec.template.spec.containers.0.image", image)


async def replace(cluster: Cluster, resource: Resource, gap: float) -> None:
    await cluster.client.delete(resource, NAME, NAMESPACE)
    await cluster.until(lambda: cluster.find(resource, NAME, NAMESPACE) is None, 60)
    await asyncio.sleep(gap)
    await cluster.client.create(resource, workload(resource, V2), NAMESPACE)


@pytest.mark.parametrize("gap", [0.0, 2.0], ids=["at once", "soon"])
@pytest.mark.parametrize(("resource", "style"), RELEASES, ids=[f"{one.kind} {style}" for one, style in RELEASES])
async def test_a_workload_that_is_made_again_is_not_released(resource: Resource, style: str, gap: float) -> None:
    async with cluster_with(BusyServers()) as cluster:
        await asyncio.sleep(1.0)
        story = await begun(cluster, resource, style)
        await story.change(V2)
        await story.at(1)
        await replace(cluster, resource, gap)
        await story.until(lambda: story.phase == "Healthy" and is_settled(cluster, V2))
        stored = cluster.find(resource, NAME, NAMESPACE) or {}
        ours = [name for name in stored["metadata"].get("annotations", {}) if "rollouts.kruise.io" in name]
        assert not ours, "nothing is left of the release"


@pytest.mark.parametrize(
    ("reason", "recorded", "is_other"),
    [
        (rollout_labels.IN_ROLLING, "new", False),
        (rollout_labels.IN_ROLLING, "old", True),
        (rollout_labels.FINALISING, "old", True),
        (rollout_labels.CANCELLING, "old", True),
        (rollout_labels.REASON_PAUSED, "old", True),
        (rollout_labels.IN_ROLLING, "", False),
        (rollout_labels.INITIALIZING, "old", False),
        (rollout_labels.COMPLETED, "old", False),
    ],
)
def test_which_workload_a_release_is_about(reason: str, recorded: str, is_other: bool) -> None:
    """What a release has recorded counts while it is under way; earlier versions of kohort recorded nothing."""
    condition = Condition(type=rollout_labels.PROGRESSING, status="True", reason=reason)
    state = State(rollout_labels.PROGRESSING, "", (condition,), ReleaseProgress(workload_uid=recorded))
    found: ReleasedWorkload = msgspec.structs.replace(WORKLOAD, uid="new")
    assert workload_of_release(state, found) is (None if is_other else found)
