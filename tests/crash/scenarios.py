"""What happens to sets and releases, each as a scenario in which the operator may die at any of its writes.

`make crash-sweep` runs every one with a crash before and after every write.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
from tests.builders import lws
from tests.crash.end_states import deployment_state, end_state, installed_objects
from tests.groups.resize import test_crashes as resizes
from tests.groups.test_crashes import patiently
from tests.groups.test_failures import budgeted, crash, exhausted, uid
from tests.groups.test_features import new_image
from tests.groups.test_lifecycle import NAMESPACE, create, images, patch, pods, settled
from tests.rollouts import drained_pods, releases
from tests.rollouts.releases import V1, V2, Story, rollout
from tests.rollouts.test_crashes import retried

from kohort.install.installation import uninstall
from kohort.install.options import InstallOptions
from kohort.kube.manager import Manager
from kohort.kube.resources import CONTROLLER_REVISIONS, LEADER_WORKER_SETS, NODES, PODS, ROLLOUTS
from kohort.kube.tasks import cancel_all
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.testing import Cluster
from kohort.testing.cluster import Part
from kohort.testing.crashes import EndState, Scenario
from kohort.testing.faults import Faults

QUIET = 10.0
STEPS: list[JsonObject] = [
    {"replicas": 1, "traffic": "20%", "pause": {"duration": 5}},
    {"replicas": "100%", "traffic": "100%", "pause": {"duration": 5}},
]


class Case(msgspec.Struct, frozen=True):
    scenario: Scenario
    new_cluster: Callable[[], Cluster]
    part: str = "operator"
    end_state: EndState = end_state


def groups_cluster() -> Cluster:
    return Cluster(parts=("workloads", "scheduler", "operator"), nodes=4)


def release_cluster() -> Cluster:
    return releases.new_cluster(nodes=6)


async def ready(cluster: Cluster, subject: JsonObject, groups: int) -> None:
    await patiently(lambda: create(cluster, subject))
    await cluster.until(lambda: settled(cluster, groups))


async def created(cluster: Cluster) -> None:
    await ready(cluster, lws("llm").replicas(2).size(3), 2)
    await cluster.settle(quiet=QUIET)


async def rolled(cluster: Cluster) -> None:
    await ready(cluster, lws("llm").replicas(3).size(2), 3)
    await patiently(lambda: patch(cluster, "llm", new_image("new:2")))
    await cluster.until(lambda: settled(cluster, 3) and images(cluster) == {"new:2"})
    await cluster.settle(quiet=QUIET)


async def rolled_with_surge(cluster: Cluster) -> None:
    await ready(cluster, lws("llm").replicas(2).size(2).max_surge(1).max_unavailable(0), 2)
    await patiently(lambda: patch(cluster, "llm", new_image("new:2")))
    await cluster.until(lambda: settled(cluster, 2) and images(cluster) == {"new:2"})
    await cluster.settle(quiet=QUIET)


async def scaled(cluster: Cluster) -> None:
    await ready(cluster, lws("llm").replicas(1).size(2), 1)
    for replicas in (4, 2):
        await scale(cluster, replicas)
    await cluster.settle(quiet=QUIET)


async def scale(cluster: Cluster, replicas: int) -> None:
    await patiently(lambda: patch(cluster, "llm", {"spec": {"replicas": replicas}}))
    await cluster.until(lambda: settled(cluster, replicas) and len(pods(cluster)) == 2 * replicas)


async def other_size(cluster: Cluster) -> None:
    await ready(cluster, lws("llm").replicas(2).size(2), 2)
    change = {"spec": {"leaderWorkerTemplate": {"size": 3, "resizePolicy": "Recreate"}}}
    await patiently(lambda: patch(cluster, "llm", change))
    await cluster.until(lambda: settled(cluster, 2) and len(pods(cluster)) == 6)
    await cluster.settle(quiet=QUIET)


async def restarted(cluster: Cluster) -> None:
    """For a container that fails, without a budget and with one."""
    await ready(cluster, lws("llm").replicas(1).size(2), 1)
    await failed_once(cluster)
    await patiently(lambda: patch(cluster, "llm", {"spec": {"leaderWorkerTemplate": {"restartBudget": {}}}}))
    await failed_once(cluster)
    await cluster.settle(quiet=QUIET)


async def failed_once(cluster: Cluster) -> None:
    before = uid(cluster, "llm-0")
    await crash(cluster, "llm-0-1")
    await cluster.until(lambda: uid(cluster, "llm-0") not in ("", before) and settled(cluster, 1))


async def used_up(cluster: Cluster) -> None:
    await ready(cluster, budgeted(maxRestarts=1, backoffSeconds=0).replicas(1), 1)
    await failed_once(cluster)
    held = uid(cluster, "llm-0")
    await crash(cluster, "llm-0-1")
    await cluster.until(lambda: exhausted(cluster).get("status") == "True")
    await cluster.settle(quiet=QUIET)
    assert uid(cluster, "llm-0") == held


async def drained(cluster: Cluster) -> None:
    """A worker is evicted while a set with a disruption budget rolls."""
    subject = lws("llm").replicas(2).size(2).but("spec.disruptionBudget", {"maxUnavailable": 1})
    await ready(cluster, subject, 2)
    await cluster.settle(quiet=QUIET)
    await cluster.client.delete(PODS, "llm-0-1", NAMESPACE)
    await patiently(lambda: patch(cluster, "llm", new_image("new:2")))
    await cluster.until(lambda: settled(cluster, 2) and images(cluster) == {"new:2"})
    await cluster.settle(quiet=40)


def released(*events: Callable[[Story], Awaitable[None]], blue_green: bool = False) -> Scenario:
    async def scenario(cluster: Cluster) -> None:
        story = Story(cluster)
        await story.begin(releases.group_set(size=1), rollout(steps=STEPS, blue_green=blue_green))
        await retried(story, V2)
        for event in events:
            await event(story)
        await cluster.settle(quiet=QUIET)

    return scenario


async def promoted(story: Story) -> None:
    await story.healthy(V2)


async def aborted(story: Story) -> None:
    await story.until(lambda: story.weight() == "20")
    await retried(story, V1)
    await story.healthy(V1)


def drained_cluster() -> Cluster:
    return drained_pods.cluster_with(drained_pods.BusyServers())


async def drained_promotion(cluster: Cluster) -> None:
    """Pods of a Deployment in partition style are drained in steps, and at the end."""
    async with drained_pods.in_cluster(cluster) as story:
        await _begin_drained(story)
        await story.healthy(V2)
        await cluster.settle(quiet=QUIET)


async def drained_abort(cluster: Cluster) -> None:
    """It goes back while pods leave."""
    async with drained_pods.in_cluster(cluster) as story:
        await _begin_drained(story)
        await story.until(lambda: bool(story.leaving))
        await patiently(lambda: story.change(V1))
        await story.healthy(V1)
        await cluster.settle(quiet=QUIET)


async def _begin_drained(story: drained_pods.DrainingStory) -> None:
    story.servers.in_flight = drained_pods.busy_for(3.0)
    await story.begin(drained_pods.drained([{"replicas": "40%", "traffic": "40%", "pause": {"duration": 5}}]))
    await patiently(lambda: story.change(V2))


async def at_canary(cluster: Cluster) -> None:
    """To the first step, where it waits for approval."""
    story = Story(cluster)
    steps = [{"replicas": 1, "traffic": "20%", "pause": {}}, STEPS[1]]
    await story.begin(releases.group_set(size=1), rollout(steps=steps))
    await retried(story, V2)
    await story.at(1)
    await cluster.settle(quiet=QUIET)


async def taken_over(cluster: Cluster) -> None:
    """A set as another implementation leaves it: without our marks on its revisions, and a status of its own."""
    await ready(cluster, lws("llm").replicas(2).size(2), 2)
    await cluster.settle(quiet=QUIET)
    operator = cluster.parts["operator"]
    await operator.stop()
    for revision in cluster.objects(CONTROLLER_REVISIONS, NAMESPACE):
        if group_labels.REVISION in (revision["metadata"].get("labels") or {}):
            body = {"metadata": {"annotations": None}}
            await cluster.client.patch(CONTROLLER_REVISIONS, revision["metadata"]["name"], NAMESPACE, body)
    ours = {"stableRevision": None, "updateRevision": None, "updatedReadyReplicas": None}
    await cluster.client.patch(LEADER_WORKER_SETS, "llm", NAMESPACE, {"status": ours}, subresource="status")
    before = {name: uid(cluster, name) for name in pods(cluster)}
    await operator.restart(operator.faults)
    await cluster.settle(quiet=QUIET)
    assert {name: uid(cluster, name) for name in pods(cluster)} == before, "taking over recreates no pod"
    await patiently(lambda: patch(cluster, "llm", new_image("new:2")))
    await cluster.until(lambda: settled(cluster, 2) and images(cluster) == {"new:2"})
    await cluster.settle(quiet=QUIET)


async def deleted_midway(cluster: Cluster) -> None:
    """A set and its Rollout are deleted in the middle of a release."""
    await at_canary(cluster)
    await cluster.client.delete(ROLLOUTS, "llm", NAMESPACE, propagation="Foreground")
    await cluster.client.delete(LEADER_WORKER_SETS, "llm", NAMESPACE, propagation="Foreground")
    await cluster.until(lambda: not cluster.objects(PODS, NAMESPACE) and not cluster.objects(ROLLOUTS, NAMESPACE))
    await cluster.settle(quiet=QUIET)
    assert not cluster.objects(LEADER_WORKER_SETS, NAMESPACE)


INSTALLER = "installer"


def cluster_with_installer() -> Cluster:
    """The client of `kohort uninstall` is a part, so that it can crash."""

    def nothing(manager: Manager) -> None:
        """A command has no controllers."""

    return Cluster(parts=("workloads", "scheduler", "operator"), nodes=4, extra={INSTALLER: nothing})


async def uninstalled(cluster: Cluster) -> None:
    """The command dies, and a user types it again."""
    await ready(cluster, lws("llm").replicas(1).size(2), 1)
    part = cluster.parts[INSTALLER]
    while True:
        faults, manager = part.faults, part.manager
        assert manager is not None
        command = asyncio.create_task(uninstall(manager.client, InstallOptions(), lambda _: None, keep_objects=False))
        died = asyncio.create_task(faults.crashed.wait())
        await asyncio.wait((command, died), return_when=asyncio.FIRST_COMPLETED)
        await cancel_all(died)
        if command.done():
            command.result()
            break
        await cancel_all(command)
        await cluster.until(partial(_lives_again, part, faults))
    await cluster.until(lambda: not cluster.objects(PODS, NAMESPACE))
    assert cluster.objects(NODES)


def _lives_again(part: Part, dead: Faults) -> bool:
    return part.faults is not dead and part.running


CASES: dict[str, Case] = {
    "create": Case(created, groups_cluster),
    "roll": Case(rolled, groups_cluster),
    "surge": Case(rolled_with_surge, groups_cluster),
    "scale": Case(scaled, groups_cluster),
    "size change": Case(other_size, groups_cluster),
    "restart": Case(restarted, groups_cluster),
    "exhausted": Case(used_up, groups_cluster),
    "drain and roll": Case(drained, groups_cluster),
    "resize": Case(resizes.transaction, groups_cluster),
    "revert": Case(resizes.reverted, groups_cluster),
    "resize superseded": Case(resizes.superseded, groups_cluster),
    "canary": Case(at_canary, release_cluster),
    "promote": Case(released(promoted), release_cluster),
    "abort": Case(released(aborted), release_cluster),
    "blue-green": Case(released(promoted, blue_green=True), release_cluster),
    "drained pods": Case(drained_promotion, drained_cluster, end_state=deployment_state),
    "drained pods, abort": Case(drained_abort, drained_cluster, end_state=deployment_state),
    "takeover": Case(taken_over, groups_cluster),
    "delete midway": Case(deleted_midway, release_cluster),
    "uninstall": Case(uninstalled, cluster_with_installer, INSTALLER, installed_objects),
}
