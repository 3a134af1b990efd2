"""Pods that fail again and again are held ever longer, although a StatefulSet controller replaces them at once."""

import asyncio

import msgspec
import pytest
from tests.builders import pod
from tests.groups.bare import NAME, NAMESPACE, World, bare, leader_image, sample

from kohort.groups.failed_pod_backoff import FailedPods, Hold, held
from kohort.kube import clock
from kohort.kube.resources import PODS, Key
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels

ALONE = sample().replicas(1).size(1).restart("None")
LEADER = f"{NAME}-0"
KEY = Key("default", "llm-0")
REASON = "PodLevelResourcesNotSupported: pod-level resources need cgroup v2"


def failed(uid: str, *, revision: str = "r1", until: str = "", phase: str = "Failed") -> Pod:
    notes = {group_labels.HELD_UNTIL: until} if until else {}
    one = pod("llm-0").namespaced("default").labels({group_labels.REVISION: revision}).annotations(notes)
    reason, _, message = REASON.partition(": ")
    status = {"phase": phase, "reason": reason, "message": message}
    metadata = {**one["metadata"], "uid": uid, "creationTimestamp": clock.timestamp()}
    return one.but("metadata", metadata).but("status", status).as_view(Pod)


def held_for(pods: FailedPods, revision: str = "r1") -> float:
    hold = pods.hold(KEY, revision)
    return hold.seconds if hold is not None else 0.0


async def test_each_failure_in_a_row_doubles_the_time() -> None:
    pods, found = FailedPods(), []
    for number in range(5):
        pods.saw(None, failed(str(number)))
        found.append(held_for(pods))
        await asyncio.sleep(held_for(pods))
    assert found == [0.0, 10.0, 20.0, 40.0, 80.0]


async def test_the_time_counts_from_when_a_pod_was_let_go() -> None:
    pods = FailedPods()
    pods.saw(None, failed("1"))
    gated = failed("2", until=clock.format_time(clock.now()), phase="Pending")
    await asyncio.sleep(4)
    pods.saw(gated, failed("2"))
    assert held_for(pods) == pytest.approx(10, abs=1)


@pytest.mark.parametrize("other", ["r2", ""])
async def test_another_revision_is_not_held(other: str) -> None:
    pods = FailedPods()
    for uid in "123":
        pods.saw(None, failed(uid))
    assert held_for(pods, other) == 0.0
    assert held_for(pods) == pytest.approx(20, abs=1)


async def test_one_failure_counts_once_and_is_forgiven() -> None:
    pods, one = FailedPods(), failed("1")
    pods.saw(None, one)
    for _ in range(3):
        pods.saw(one, one)
    assert held_for(pods) == 0.0
    pods.saw(None, failed("2"))
    assert held_for(pods) > 0
    await asyncio.sleep(601)
    pods.saw(None, failed("3"))
    assert held_for(pods) == 0.0


async def test_pods_that_are_deleted_have_not_failed() -> None:
    pods = FailedPods()
    for uid in "1234":
        going = failed(uid)
        metadata = msgspec.structs.replace(going.metadata, deletion_timestamp=clock.timestamp())
        pods.saw(failed(uid, phase="Running"), msgspec.structs.replace(going, metadata=metadata))
    assert held_for(pods) == 0.0


@pytest.mark.parametrize(
    "spec", [{"nodeName": "node-1"}, {"schedulingGates": [{"name": group_labels.HELD_GATE}]}], ids=["node", "gate"]
)
async def test_a_pod_with_a_node_gets_no_gate_and_none_gets_it_twice(spec: JsonObject) -> None:
    one: JsonObject = {"metadata": {"name": "llm-0"}, "spec": spec}
    assert held(one, Hold(10, REASON)) == one


async def replaced(world: World) -> JsonObject:
    """The node refuses the leader, and the StatefulSet controller makes another one at once."""
    reason, _, message = REASON.partition(": ")
    status = {"phase": "Failed", "reason": reason, "message": message}
    await world.cluster.client.patch(PODS, LEADER, NAMESPACE, {"status": status}, subresource="status")
    await world.cluster.settle(0.2)
    if world.leader(0) is not None:
        await world.remove(LEADER)
    await world.make_leader(0)
    await world.cluster.settle(0.2)
    found = world.leader(0)
    assert found is not None
    return found


def gates(leader: JsonObject | None) -> list[str]:
    assert leader is not None
    return [one["name"] for one in leader["spec"].get("schedulingGates") or ()]


async def test_a_pod_that_replaces_failed_ones_waits_behind_a_gate_until_its_time_has_come() -> None:
    async with bare(ALONE) as world:
        world.by_hand = True
        assert gates(await replaced(world)) == [], "the first time it may be chance"
        second = await replaced(world)
        assert gates(second) == [group_labels.HELD_GATE]
        assert second["metadata"]["annotations"][group_labels.HELD_BECAUSE] == REASON
        await world.cluster.settle(5)
        assert gates(world.leader(0)) == [group_labels.HELD_GATE]
        begun = asyncio.get_running_loop().time()
        await world.cluster.until(lambda: gates(world.leader(0)) == [])
        assert asyncio.get_running_loop().time() - begun < 10


async def test_gates_of_others_stay() -> None:
    gate = [{"name": "example.com/quota"}]
    subject = ALONE.but("spec.leaderWorkerTemplate.leaderTemplate.spec.schedulingGates", gate)
    async with bare(subject) as world:
        world.by_hand = True
        for _ in range(2):
            await replaced(world)
        assert set(gates(world.leader(0))) == {"example.com/quota", group_labels.HELD_GATE}
        await world.cluster.until(lambda: gates(world.leader(0)) == ["example.com/quota"])


async def test_a_new_template_is_not_held() -> None:
    async with bare(ALONE) as world:
        world.by_hand = True
        for _ in range(3):
            await replaced(world)
        assert gates(world.leader(0)) == [group_labels.HELD_GATE]
        await world.edit(leader_image("new:2"))
        if world.leader(0) is not None:
            await world.remove(LEADER)
        await world.make_leader(0)
        assert gates(world.leader(0)) == []
