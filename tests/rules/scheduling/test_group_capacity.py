"""How many groups fit on the nodes that there are."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects.core import Node, Pod
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.pods import PodStatus
from kohort.rules.scheduling.group_capacity import GroupCapacity
from kohort.rules.scheduling.group_capacity import group_capacity as capacity_of
from kohort.rules.scheduling.planned_group import PlannedGroup, Unit

GPU = "nvidia.com/gpu"


def node(name: str, gpus: int, *, ready: bool = True, labels: JsonObject | None = None, **spec: Json) -> Node:
    status = {
        "allocatable": {GPU: str(gpus), "cpu": "8", "pods": "10"},
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
    }
    metadata = {"name": name, "labels": labels or {}}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Node)


def pod(gpus: int, on: str = "", **spec: Json) -> Pod:
    container = {"name": "main", "resources": {"requests": {GPU: str(gpus)}, "limits": {GPU: str(gpus)}}}
    return msgspec.convert({"spec": {"containers": [container], "nodeName": on, **spec}}, Pod)


def copied(original: Pod, uid: str) -> Pod:
    return msgspec.structs.replace(original, metadata=msgspec.structs.replace(original.metadata, uid=uid))


def group_capacity(nodes: list[Node], running: list[Pod], group: list[Pod], wanted: int) -> GroupCapacity:
    """Of groups that have no domain to themselves."""
    there = [copied(one, f"running-{number}") for number, one in enumerate(running)]

    def planned(index: int) -> PlannedGroup:
        pods = [copied(one, f"new-{index}-{number}") for number, one in enumerate(group)]
        return PlannedGroup("", [Unit("", [one]) for one in pods])

    return capacity_of(nodes, there, planned, wanted)


def lacking(found: GroupCapacity) -> tuple[str, ...]:
    return found.obstacle.lacking if found.obstacle is not None else ()


TAINT = {"key": "gpu", "effect": "NoSchedule"}


def tolerant(gpus: int) -> Pod:
    return pod(gpus, tolerations=[{"key": "gpu", "operator": "Exists"}])


@pytest.mark.parametrize(
    ("nodes", "running", "group", "fitting"),
    [
        ([node("a", 8)], [], [pod(4), pod(4)], 1),
        ([node("a", 8), node("b", 8)], [], [pod(4), pod(4)], 2),
        ([node("a", 8), node("b", 8)], [pod(4, "a")], [pod(4), pod(4)], 1),
        ([node("a", 8), node("b", 8)], [pod(4, "a")], [pod(8)], 1),
        ([node("a", 8, ready=False), node("b", 8)], [], [pod(8)], 1),
        ([node("a", 8, unschedulable=True)], [], [pod(8)], 0),
        ([node("a", 8, taints=[TAINT])], [], [pod(8)], 0),
        ([node("a", 8, taints=[TAINT])], [], [tolerant(8)], 1),
        ([node("a", 8), node("b", 8, labels={"zone": "1"})], [], [pod(4, nodeSelector={"zone": "1"})], 2),
        ([node("a", 8, labels={"zone": "2"})], [], [pod(4, nodeSelector={"zone": "1"})], 0),
        ([node("a", 8, labels={"zone": "1"})], [], [pod(4, nodeSelector={"zone": "1", "disk": "ssd"})], 0),
        ([node("a", 8, taints=[{"key": "gpu", "effect": "PreferNoSchedule"}])], [], [pod(4)], 2),
        ([node("a", 8, taints=[{"key": "gpu", "effect": "NoExecute"}])], [], [pod(4)], 0),
        ([node("a", 8, taints=[TAINT, {"key": "other", "effect": "NoSchedule"}])], [], [tolerant(4)], 0),
        ([node("a", 16)], [], [pod(8)], 2),
        ([], [], [pod(0)], 0),
    ],
)
def test_groups_that_fit(nodes: list[Node], running: list[Pod], group: list[Pod], fitting: int) -> None:
    found = group_capacity(nodes, running, group, 2)
    assert (found.fitting, found.enough) == (fitting, fitting == 2)


def test_what_a_pod_does_not_ask_for_is_not_lacking() -> None:
    """A node without GPUs, or with more promised than it has, still takes pods that want none."""
    assert group_capacity([node("a", 0)], [], [pod(0)], 1).enough
    assert group_capacity([node("a", 4)], [pod(8, "a")], [pod(0)], 1).enough


def test_what_is_lacking_is_named() -> None:
    assert lacking(group_capacity([node("a", 4)], [], [pod(8)], 1)) == (GPU,)
    assert lacking(group_capacity([node("a", 4, taints=[TAINT])], [], [pod(8)], 1)) == ()


sizes = st.integers(0, 8)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Node], list[Pod]]:
    """Nodes, and pods that fit on them."""
    nodes = [node(f"n{number}", draw(sizes), ready=draw(st.booleans())) for number in range(draw(st.integers(0, 4)))]
    running: list[Pod] = []
    for one in nodes:
        left = int(one.status.allocatable[GPU])
        while left and draw(st.booleans()):
            taken = draw(st.integers(1, left))
            running.append(pod(taken, one.metadata.name))
            left -= taken
    return nodes, running


groups = st.lists(st.builds(pod, sizes), min_size=1, max_size=4)


@given(clusters(), groups, st.integers(0, 5))
def test_no_more_groups_fit_than_there_is_room_for(
    cluster: tuple[list[Node], list[Pod]], group: list[Pod], wanted: int
) -> None:
    nodes, running = cluster
    found = group_capacity(nodes, running, group, wanted)
    assert 0 <= found.fitting <= wanted == found.wanted
    assert found.enough == (found.fitting == wanted)
    ready = {one.metadata.name for one in nodes if one.ready}
    free = sum(int(one.status.allocatable[GPU]) for one in nodes if one.ready)
    free -= sum(asked(one) for one in running if one.spec.node_name in ready)
    assert found.fitting * sum(map(asked, group)) <= free
    assert (found.obstacle is None) == found.enough


def asked(one: Pod) -> int:
    return int(str((one.spec.containers or ())[0].resources.requests[GPU]))


@given(clusters(), groups, st.integers(1, 5))
def test_another_empty_node_never_makes_fewer_groups_fit(
    cluster: tuple[list[Node], list[Pod]], group: list[Pod], wanted: int
) -> None:
    nodes, running = cluster
    before = group_capacity(nodes, running, group, wanted).fitting
    assert group_capacity([*nodes, node("more", 8)], running, group, wanted).fitting >= before


@given(clusters(), groups, st.integers(1, 5))
def test_pods_that_have_ended_or_wait_take_no_room(
    cluster: tuple[list[Node], list[Pod]], group: list[Pod], wanted: int
) -> None:
    nodes, running = cluster
    ended = [msgspec.structs.replace(pod(8, one.metadata.name), status=PodStatus(phase="Succeeded")) for one in nodes]
    found = group_capacity(nodes, [*running, *ended, pod(8)], group, wanted)
    assert found == group_capacity(nodes, running, group, wanted)


def test_a_node_takes_as_many_pods_as_it_has_places_for() -> None:
    """Ten, whatever they request."""
    assert group_capacity([node("a", 8)], [], [pod(0)], 20).fitting == 10
    assert lacking(group_capacity([node("a", 8)], [], [pod(0)], 20)) == ("pods",)
    assert group_capacity([node("a", 8)], [pod(0, "a")] * 9, [pod(0), pod(0)], 1).fitting == 0


def test_nothing_wanted_is_always_enough() -> None:
    assert group_capacity([], [], [pod(8)], 0).enough


@given(clusters(), groups, st.integers(0, 5), st.integers(0, 5))
def test_what_fits_does_not_depend_on_how_many_are_wanted(
    cluster: tuple[list[Node], list[Pod]], group: list[Pod], few: int, more: int
) -> None:
    """Wanting fewer never makes more of them fit."""
    nodes, running = cluster
    most = group_capacity(nodes, running, group, few + more).fitting
    assert group_capacity(nodes, running, group, few).fitting == min(few, most)


@given(clusters(), st.builds(pod, sizes), st.integers(1, 5))
def test_a_pod_that_ends_never_makes_fewer_groups_of_one_fit(
    cluster: tuple[list[Node], list[Pod]], single: Pod, wanted: int
) -> None:
    """Groups of several pods may be placed worse where there is more room: each pod takes the first node that fits."""
    nodes, running = cluster
    before = group_capacity(nodes, running, [single], wanted).fitting
    for index in range(len(running)):
        left = [*running[:index], *running[index + 1 :]]
        assert group_capacity(nodes, left, [single], wanted).fitting >= before


def test_a_group_with_a_domain_to_itself_needs_one_with_room_for_all_of_its_pods() -> None:
    """Eight GPUs are free, but no rack has four of them."""
    racks = {"a": 3, "b": 3, "c": 2}
    nodes = [node(name, gpus, labels={"rack": name}) for name, gpus in racks.items()]

    def planned(topology: str) -> GroupCapacity:
        pods = [copied(pod(2), f"new-{number}") for number in range(2)]
        return capacity_of(nodes, [], lambda _: PlannedGroup(topology, [Unit("", [one]) for one in pods]), 1)

    assert planned("").enough
    found = planned("rack")
    assert found.fitting == 0 and found.obstacle is not None
    assert found.obstacle.reason.startswith("node label rack has 3 values, and every group needs one to itself")


def test_a_label_that_no_node_has_is_named() -> None:
    found = capacity_of([node("a", 8)], [], lambda _: PlannedGroup("rack", [Unit("", [pod(1)])]), 1)
    assert found.obstacle is not None and found.obstacle.reason == "no node has the label rack"
