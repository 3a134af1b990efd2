"""Whether nodes have the room that a roll needs."""

import msgspec
import pytest
from tests.builders import lws
from tests.inspection.scenes import group_set, leader_set, member, scene, workers

from kohort.inspection.forecast import Forecast, forecast, told
from kohort.objects.core import Node, Pod
from kohort.objects.jsontypes import JsonObject
from kohort.rollouts.api import Rollout

IMAGE = "spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.image"
RESOURCES = "spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.resources"


def asking(cpu: str) -> JsonObject:
    return {"requests": {"cpu": cpu}}


def node(name: str, cpu: str, **spec: object) -> Node:
    document = {
        "metadata": {"name": name, "labels": {"pool": "a"}},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    return msgspec.convert(document, Node)


def bound(group: int, worker: int, cpu: str) -> Pod:
    """A pod of set `llm` on node-<group> that holds so much of it."""
    document: JsonObject = msgspec.to_builtins(member(group, worker))
    document["spec"]["containers"] = [{"name": "main", "image": "pause:3", "resources": asking(cpu)}]
    return msgspec.convert(document, Pod)


def planned(
    nodes: list[Node], *, surge: int = 0, cpu: str = "4", becomes: str = "4", rollout: Rollout | None = None
) -> Forecast:
    """Two groups of two pods, a group on each of node-0 and node-1, get a new image and these requests."""
    built = (
        lws("llm").replicas(2).size(2).max_surge(surge).max_unavailable(0 if surge else 1).but(RESOURCES, asking(cpu))
    )
    pods = [bound(group, worker, cpu) for group in range(2) for worker in range(2)]
    sets = [leader_set(2), workers(0), workers(1)]
    before = scene(built=built, pods=pods, stateful_sets=sets, rollout=rollout)
    after = built.but(IMAGE, "new:2").but(RESOURCES, asking(becomes))
    return forecast(before, group_set(after), nodes, pods)


TWO = [node("node-0", "8"), node("node-1", "8")]


def test_groups_that_are_replaced_use_their_own_room() -> None:
    found = planned(TWO)
    assert found.room is not None
    assert (found.room.fits, found.room.nodes, dict(found.room.free)) == (True, 2, {"cpu": "0"})
    assert "Room: it fits. Free now on 2 nodes: cpu 0." in told(found)


def test_a_surge_needs_a_node_more() -> None:
    found = planned(TWO, surge=1)
    assert found.room is not None
    assert (found.room.fits, found.room.step, found.room.homeless, found.room.lacking) == (False, 1, 2, ("cpu",))
    text = "Room: step 1 does not fit, 2 of its pods find no node (not enough cpu on any). Free now on 2 nodes: cpu 0."
    assert text in told(found)
    assert planned([*TWO, node("node-2", "8")], surge=1).room == msgspec.structs.replace(
        found.room, nodes=3, free={"cpu": "8"}, fits=True, step=0, homeless=0, lacking=()
    )


def test_room_in_pieces_is_no_room() -> None:
    """Four nodes with two cpus each do not take a pod that wants four."""
    found = planned([*TWO, *(node(f"small-{number}", "2") for number in range(4))], surge=1)
    assert found.room is not None
    assert (dict(found.room.free), found.room.fits) == ({"cpu": "8"}, False)


def test_a_group_that_grows_out_of_its_node() -> None:
    found = planned(TWO, becomes="5")
    assert found.room is not None
    assert (found.room.fits, found.room.step, found.room.homeless) == (False, 1, 1)


@pytest.mark.parametrize(
    "closed",
    [
        node("node-2", "8", unschedulable=True),
        node("node-2", "8", taints=[{"key": "dedicated", "effect": "NoSchedule"}]),
        msgspec.structs.replace(node("node-2", "8"), status=msgspec.structs.replace(TWO[0].status, conditions=())),
    ],
    ids=["cordoned", "tainted", "not ready"],
)
def test_nodes_that_take_no_pods_have_no_room(closed: Node) -> None:
    found = planned([*TWO, closed], surge=1)
    assert found.room is not None
    assert (found.room.fits, found.room.nodes) == (False, 2)


def test_a_canary_needs_room_beside_the_set() -> None:
    steps = [{"replicas": 1, "traffic": "20%"}, {"replicas": "100%", "traffic": "100%"}]
    document = {
        "metadata": {"name": "llm"},
        "spec": {"workloadRef": {"kind": "LeaderWorkerSet", "name": "llm"}, "strategy": {"canary": {"steps": steps}}},
    }
    rollout = msgspec.convert(document, Rollout)
    found = planned([*TWO, node("node-2", "8")], rollout=rollout)
    assert (found.extra_groups, found.extra_pods, dict(found.extra_requests)) == (2, 4, {"cpu": "16"})
    assert found.room is not None
    assert (found.room.fits, found.room.homeless) == (False, 2)


def test_nothing_is_said_where_nodes_cannot_be_read() -> None:
    assert planned([]).room is None
