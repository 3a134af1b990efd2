"""Whether nodes have the room that a roll needs."""

from collections.abc import Mapping

import msgspec
import pytest
from msgspec.structs import replace
from tests.builders import lws
from tests.inspection.scenes import group_set, leader_set, member, scene, workers

from kohort.inspection.forecast import Forecast, forecast, forecast_lines
from kohort.objects.core import Node, NodeStatus, Pod
from kohort.objects.json_types import JsonObject
from kohort.rollouts.rollout_types import Rollout

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
    assert forecast_lines(found)[-2:] == [
        "Room: it fits. Free now on 2 nodes: cpu 0.",
        "  Not looked at: volumes, quotas and preemption.",
    ]


def test_a_surge_needs_a_node_more() -> None:
    found = planned(TWO, surge=1)
    assert found.room is not None
    assert (found.room.fits, found.room.step, found.room.homeless, found.room.lacking) == (False, 1, 2, ("cpu",))
    text = "Room: step 1 does not fit, 2 of its pods find no node (not enough cpu on any). Free now on 2 nodes: cpu 0."
    assert text in forecast_lines(found)
    assert planned([*TWO, node("node-2", "8")], surge=1).room == msgspec.structs.replace(
        found.room, nodes=3, free={"cpu": "8"}, fits=True, step=0, homeless=0, lacking=(), reason=""
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
    assert (found.room.fits, found.room.step, found.room.homeless) == (False, 2, 2)


def test_nothing_is_said_where_nodes_cannot_be_read() -> None:
    assert planned([]).room is None


# Placement by labels


RACK = "example.com/rack"


def new(built: JsonObject, nodes: list[Node]) -> Forecast:
    return forecast(None, group_set(built), nodes)


def racked(counts: Mapping[str, int], cpu: str = "8") -> list[Node]:
    """So many nodes in each rack."""
    return [
        labelled(node(f"{rack}-{number}", cpu), {RACK: rack})
        for rack, count in counts.items()
        for number in range(count)
    ]


def labelled(found: Node, labels: Mapping[str, str]) -> Node:
    return replace(found, metadata=replace(found.metadata, labels=labels))


def subgrouped(size: int = 4, kind: str = "LeaderWorker") -> JsonObject:
    annotations = {"leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology": RACK}
    policy = {"subGroupSize": 2, "subGroupPolicyType": kind}
    built = lws("llm").replicas(1).size(size).but("spec.leaderWorkerTemplate.subGroupPolicy", policy)
    return built.annotations(annotations).but(RESOURCES, asking("4"))


def pinned() -> JsonObject:
    policy = {
        "replicaUniqueNodeSelector": "example.com/replica",
        "replicaUniqueToleration": {"key": "example.com/replica", "effect": "NoSchedule"},
    }
    return lws("llm").replicas(2).size(2).but("spec.leaderWorkerTemplate.schedulingPolicy", policy)


EXCLUSIVE = lws("llm").replicas(2).size(2).exclusive(RACK).but(RESOURCES, asking("4"))
SELECTING = lws("llm").replicas(1).size(2).node_selector(pool="b")


@pytest.mark.parametrize(
    ("built", "homeless", "reason"),
    [
        (EXCLUSIVE, 4, f"no node has the label {RACK}"),
        (subgrouped(), 4, f"no node has the label {RACK}"),
        (
            pinned(),
            4,
            "no node is labelled example.com/replica=llm-0, no node is labelled example.com/replica=llm-1",
        ),
        (SELECTING, 2, "no node is labelled pool=b"),
    ],
    ids=["exclusive", "subgroups", "own nodes", "selector"],
)
def test_nodes_without_the_label_that_placement_goes_by(built: JsonObject, homeless: int, reason: str) -> None:
    found = new(built, [node(f"node-{number}", "64") for number in range(8)]).room
    assert found is not None
    assert (found.fits, found.nodes, found.homeless, found.reason) == (False, 0, homeless, reason)


@pytest.mark.parametrize(
    ("built", "nodes", "usable"),
    [
        (EXCLUSIVE, racked({"a": 1, "b": 1}), 2),
        (EXCLUSIVE, racked({"small": 1, "a": 2, "b": 2}, "4"), 5),
        (subgrouped(), racked({"a": 1, "b": 1}), 2),
        (subgrouped(), racked({"small": 1, "a": 2, "b": 2}, "4"), 5),
        (SELECTING, [labelled(node("one", "8"), {"pool": "b"}), node("two", "8")], 1),
    ],
)
def test_nodes_with_the_label_have_room(built: JsonObject, nodes: list[Node], usable: int) -> None:
    """A rack that is too small for a group is passed over."""
    found = new(built, nodes).room
    assert found is not None
    assert (found.fits, found.nodes) == (True, usable)


def test_every_group_needs_a_rack_to_itself() -> None:
    found = new(EXCLUSIVE, racked({"a": 8})).room
    assert found is not None
    assert (found.fits, found.homeless, found.lacking) == (False, 2, ())
    assert (
        found.reason == f"node label {RACK} has 1 value, and every group needs one to itself with room for all its pods"
    )


def test_a_rack_that_another_set_has_is_taken() -> None:
    other = member(0)
    labels = {**other.metadata.labels, "leaderworkerset.sigs.k8s.io/group-key": "somebody"}
    stranger = replace(
        other,
        metadata=replace(other.metadata, labels=labels),
        spec=replace(other.spec, node_name="a-0"),
    )
    built = EXCLUSIVE.replicas(1)
    rooms = [forecast(None, group_set(built), racked({"a": 1}), pods).room for pods in ([], [stranger])]
    assert [room is not None and room.fits for room in rooms] == [True, False]


def test_groups_on_nodes_of_their_own() -> None:
    def own(number: int) -> Node:
        value = f"llm-{number}"
        taint = {"key": "example.com/replica", "value": value, "effect": "NoSchedule"}
        return labelled(node(f"node-{number}", "8", taints=[taint]), {"example.com/replica": value})

    found = new(pinned(), [own(0), own(1)]).room
    assert found is not None
    assert (found.fits, found.nodes) == (True, 2)
    half = new(pinned(), [own(0), node("node-1", "8")]).room
    assert half is not None
    assert (half.fits, half.homeless, half.reason) == (False, 2, "no node is labelled example.com/replica=llm-1")


def test_a_leader_outside_the_subgroups_may_be_anywhere() -> None:
    found = new(subgrouped(3, "LeaderExcluded"), [*racked({"a": 1}), node("any", "4")]).room
    assert found is not None
    assert found.fits


@pytest.mark.parametrize(
    "resources",
    [
        {"limits": {"nvidia.com/gpu": "8"}},
        {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "8"}},
        {"requests": {"nvidia.com/gpu": "8"}, "limits": {"nvidia.com/gpu": "8"}},
    ],
    ids=["limits only", "other requests", "both"],
)
def test_accelerators_that_are_only_limits_are_asked_for(resources: JsonObject) -> None:
    """A pod gets its limits as requests when it is stored; a template does not."""
    nodes = [replace(node("node-0", "8"), status=_status({"cpu": "8", "pods": "110", "nvidia.com/gpu": "8"}))]
    found = forecast(None, group_set(lws("llm").replicas(1).size(2).but(RESOURCES, resources)), nodes)
    assert found.extra_requests["nvidia.com/gpu"] == "16"
    assert found.room is not None
    assert (found.room.fits, found.room.homeless, found.room.lacking) == (False, 1, ("nvidia.com/gpu",))
    small = forecast(None, group_set(lws("llm").replicas(1).size(1).but(RESOURCES, resources)), nodes)
    assert small.room is not None
    assert small.room.fits


@pytest.mark.parametrize("side", ["requests", "limits"])
def test_amounts_that_are_numbers_count_too(side: str) -> None:
    built = lws("llm").replicas(1).size(2).but(RESOURCES, {side: {"cpu": 500}})
    found = forecast(scene(1, built=lws("llm").replicas(1).size(2)), group_set(built), [node("node-0", "8")])
    assert found.room is not None
    assert not found.room.fits


def test_the_room_of_a_pod_as_a_whole_counts() -> None:
    spec = "spec.leaderWorkerTemplate.workerTemplate.spec"
    built = lws("llm").replicas(1).size(2).but(f"{spec}.resources", {"limits": {"cpu": "6"}})
    found = forecast(None, group_set(built), [node("node-0", "8")])
    assert dict(found.extra_requests) == {"cpu": "12"}
    assert found.room is not None
    assert not found.room.fits


def test_what_the_server_would_store_counts_before_what_the_template_says() -> None:
    """A LimitRange of the namespace gives every container 5 cpus."""
    after = group_set(lws("llm").replicas(1).size(2))
    container = {"name": "main", "image": "pause:3", "resources": asking("5")}
    stored: JsonObject = {"workerTemplate": {"spec": {"containers": [container]}}}
    found = forecast(None, after, [node("node-0", "8")], stored=stored)
    assert dict(found.extra_requests) == {"cpu": "10"}
    assert found.room is not None
    assert not found.room.fits


def _status(allocatable: Mapping[str, str]) -> NodeStatus:
    conditions = [{"type": "Ready", "status": "True"}]
    return msgspec.convert({"allocatable": allocatable, "conditions": conditions}, NodeStatus)
