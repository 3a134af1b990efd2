"""Rows H of the checklist: what a node accepts, what it remembers, and what it says of it."""

from pathlib import Path

import msgspec
import pytest
from tests.node.fake_cgroups import ROOM, Machine, decide
from tests.node.resizing import sized

from kohort.node.checkpoint import Checkpoint, Corrupt
from kohort.objects.node_pods import NodePod
from kohort.objects.pods import Pod, ResourceRequirements
from kohort.objects.quantity import Quantity
from kohort.rules.allocated_resources import Allocated, Desired
from kohort.rules.node_feature_gates import NodeGates
from kohort.rules.resize_conditions import ResizeState, accepted, progressing, refused
from kohort.rules.resize_decision import (
    Accepted,
    Deferred,
    Infeasible,
    NodeFacts,
    NodePressure,
    ResizeDecision,
    Reverted,
    decide_resize,
)
from kohort.rules.resize_queue import WaitingResize, in_order

SMALL = NodeFacts({"cpu": Quantity.parse("1"), "memory": Quantity.parse("1Gi")})
OTHER = sized("u2", c1="500m/512Mi")


def held(pod: Pod) -> Allocated:
    return Allocated.accepting(Desired.of(pod.spec))


def decision(before: NodePod, after: NodePod, **node: bool | NodeGates) -> ResizeDecision:
    return decide_resize(after, held(before), [OTHER], msgspec.structs.replace(SMALL, **node))


BEFORE = sized(pod="300m/300Mi", c1="100m/100Mi")


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        pytest.param(
            {"pod": "300m/300Mi", "c1": "100m/100Mi"}, {"pod": "300m/300Mi", "c1": "100m/100Mi"}, id="H1-equal"
        ),
        pytest.param(
            {"pod": "300m/300Mi", "c1": "50m/50Mi"}, {"pod": "300m/300Mi", "c1": "50m/50Mi"}, id="H1-container"
        ),
        pytest.param({"pod": "200m/200Mi", "c1": "100m/100Mi"}, {"pod": "200m/200Mi", "c1": "100m/100Mi"}, id="H1-pod"),
        pytest.param({"pod": "200m/200Mi", "c1": "50m/50Mi"}, {"pod": "200m/200Mi", "c1": "50m/50Mi"}, id="H1-both"),
        pytest.param({"pod": "200m/200Mi"}, {"pod": "200m/200Mi", "c1": "100m/100Mi"}, id="H1-container-missing"),
    ],
)
def test_a_pod_is_seen_as_it_was_accepted(record: dict[str, str], expected: dict[str, str]) -> None:
    kept = held(sized(**{"c1": "", **record}))  # type: ignore[arg-type]
    if "c1" not in record:
        kept = Allocated({}, kept.pod)
    assert kept.applied_to(BEFORE).spec == sized(**expected).spec  # type: ignore[arg-type]


def test_h1_without_a_record_a_pod_is_what_it_asks_for(tmp_path: Path) -> None:
    assert Machine(tmp_path).allocations.as_allocated(BEFORE) == BEFORE


def test_h2_overhead_is_neither_stored_nor_added(tmp_path: Path) -> None:
    costly = msgspec.structs.replace(BEFORE, spec=msgspec.structs.replace(BEFORE.spec, overhead={"cpu": "100m"}))
    machine = Machine(tmp_path)
    assert machine.allocations.admit(costly, [], ROOM) is None
    assert "100m" not in str(machine.allocations.allocated("u1").pod)  # type: ignore[union-attr]
    assert machine.allocations.as_allocated(costly).spec == costly.spec


def test_h3_k6_a_node_that_cannot_resize_pods_leaves_them_as_they_are() -> None:
    turned = NodeGates.parse("InPlacePodLevelResourcesVerticalScaling=false")
    found = decision(BEFORE, sized(pod="400m/300Mi", c1="100m/100Mi"), gates=turned)
    assert isinstance(found, Infeasible) and found.detail == "plr_feature_gate_off"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param({"c1": "300m/300Mi"}, {"c1": "200m/200Mi"}, Accepted, id="H4-down"),
        pytest.param({"c1": "300m/300Mi"}, {"c1": "400m/200Mi"}, Accepted, id="H4-cpu-up-memory-down"),
        pytest.param({"c1": "300m/300Mi"}, {"c1": "200m/400Mi"}, Accepted, id="H4-cpu-down-memory-up"),
        pytest.param({"c1": "300m/300Mi"}, {"c1": "600m/300Mi"}, Deferred, id="H5-beyond-free"),
        pytest.param({"c1": "300m/300Mi"}, {"c1": "600m/100Mi"}, Deferred, id="H5-mixed"),
        pytest.param({"c1": "300m/300Mi"}, {"c1": "1001m/300Mi"}, Infeasible, id="H6-beyond-node"),
        pytest.param({"c1": "2m:10m"}, {"c1": "1m:5m"}, Accepted, id="H10-from-minimum"),
        pytest.param({"c1": "100m:100m"}, {"c1": "1m:5m"}, Accepted, id="H10-to-minimum"),
        pytest.param({"c1": "", "pod": "300m/300Mi"}, {"c1": "", "pod": "400m/400Mi"}, Accepted, id="H11-up"),
        pytest.param({"c1": "", "pod": "300m/300Mi"}, {"c1": "", "pod": "200m/200Mi"}, Accepted, id="H11-down"),
        pytest.param({"c1": "", "pod": "300m/300Mi"}, {"c1": "", "pod": "600m/300Mi"}, Deferred, id="H11-beyond-free"),
        pytest.param({"c1": "", "pod": "300m/300Mi"}, {"c1": "", "pod": "300m/2Gi"}, Infeasible, id="H11-beyond-node"),
    ],
)
def test_judging(before: dict[str, str], after: dict[str, str], expected: type[ResizeDecision]) -> None:
    assert isinstance(decision(sized(**before), sized(**after)), expected)  # type: ignore[arg-type]


def test_h5_a_refused_resize_changes_nothing_of_what_is_allocated(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert machine.allocations.admit(sized(c1="300m/300Mi"), [], SMALL) is None
    assert machine.allocations.admit(OTHER, [], SMALL) is None
    decide(machine.allocations, sized(c1="600m/100Mi"), [OTHER], SMALL)
    assert machine.allocations.allocated("u1") == held(sized(c1="300m/300Mi"))


@pytest.mark.parametrize(
    ("node", "after", "detail"),
    [
        pytest.param({"exclusive_cpus": True}, "200m/100Mi", "guaranteed_pod_cpu_manager_static_policy", id="H12-cpu"),
        pytest.param(
            {"exclusive_memory": True}, "100m/200Mi", "guaranteed_pod_memory_manager_static_policy", id="H12-memory"
        ),
        pytest.param(
            {"exclusive_cpus": True, "exclusive_memory": True},
            "200m/200Mi",
            "guaranteed_pod_cpu_manager_static_policy",
            id="H12-both",
        ),
    ],
)
def test_what_is_pinned_stays(node: dict[str, bool], after: str, detail: str) -> None:
    found = decision(sized(c1="100m/100Mi"), sized(c1=after), **node)
    assert isinstance(found, Infeasible) and found.detail == detail
    assert isinstance(decision(sized(c1="100m/100Mi"), sized(c1=after)), Accepted)


def test_h7_h8_h9_the_generation_of_progress_is_that_of_what_was_accepted() -> None:
    state, _ = accepted(sized(c1="1", generation=1), "t1")
    assert progressing(state, 9, "t2") == state
    fresh, notes = accepted(sized(c1="2", generation=5), "t3")
    assert fresh.progress is not None
    assert (fresh.progress.observed_generation, fresh.progress.reason, notes[0].reason) == (5, "", "ResizeStarted")
    both, _ = refused(state, Deferred(NodePressure("later")), sized(c1="3", generation=2), "t4")
    assert [each["type"] for each in both.conditions()] == ["PodResizePending", "PodResizeInProgress"]


def test_h15_the_story_of_a_pod_that_cannot_decide() -> None:
    said: list[str] = []

    def told(step: tuple[ResizeState, list[object]]) -> ResizeState:
        said.extend(getattr(note, "reason", "") for note in step[1])
        return step[0]

    state = told(accepted(sized(c1="200m", generation=1), "t1"))  # type: ignore[arg-type]
    too_much = sized(c1="900m", generation=2)
    state = told(refused(state, Deferred(NodePressure("no room")), too_much, "t2"))  # type: ignore[arg-type]
    state = told(refused(state, Deferred(NodePressure("no room")), too_much, "t3"))  # type: ignore[arg-type]
    assert said == ["ResizeStarted", "ResizeDeferred"]
    state = state.without_pending()
    assert [(each["type"], each["observedGeneration"]) for each in state.conditions()] == [("PodResizeInProgress", 1)]
    state = told(accepted(sized(c1="300m", generation=5), "t5"))  # type: ignore[arg-type]
    assert [(each["type"], each["observedGeneration"]) for each in state.conditions()] == [("PodResizeInProgress", 5)]
    assert said == ["ResizeStarted", "ResizeDeferred", "ResizeStarted"]


def test_h16_a_pod_is_taken_in_by_its_record(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    pod = sized(c1="300m")
    assert machine.allocations.admit(pod, [], SMALL) is None
    assert machine.allocations.allocated("u1") == held(pod)
    assert machine.allocations.admit(sized("u3", c1="800m"), [pod], SMALL) is not None
    assert machine.allocations.allocated("u3") is None
    wants_more = sized(c1="5000m")
    assert machine.allocations.admit(wants_more, [], SMALL) is None, "judged by what it has"
    assert machine.allocations.allocated("u1") == held(pod)


def test_h17_without_the_right_cgroups_pod_level_blocks_are_refused(tmp_path: Path) -> None:
    found = Machine(tmp_path).allocations.admit(sized(pod="1m", c1=""), [], NodeFacts({}, cgroup_v2=False))
    assert found is not None and found.reason == "PodLevelResourcesNotSupported"


def test_h19_the_order_of_those_who_wait() -> None:
    def waiting(uid: str, before: str, after: str, since: str = "", **more: object) -> WaitingResize:
        def made(text: str) -> NodePod:
            level = {"pod": text, "c1": ""} if uid.startswith("pod") else {"c1": text}
            return sized(uid, **level, **more)  # type: ignore[arg-type]

        return WaitingResize(made(after), held(made(before)), since)

    expected = [
        waiting("container-shrinks", "100m", "50m"),
        waiting("pod-level-shrinks", "100m", "50m"),
        waiting("important", "100m", "200m", priority=10),
        waiting("guaranteed", "100m", "200m", qos="Guaranteed"),
        waiting("oldest", "100m", "200m", "2026-01-01T00:00:00Z"),
        waiting("newer", "100m", "200m", "2026-01-02T00:00:00Z"),
        waiting("fresh", "100m", "200m"),
    ]
    assert in_order(expected) == in_order(reversed(expected)) == expected


def test_h21_pods_without_a_record_take_no_room(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    unknown = sized("u9", c1="900m")
    assert machine.allocations.admit(sized(c1="300m"), [unknown], SMALL) is None
    assert isinstance(decide(machine.allocations, sized(c1="800m"), [unknown], SMALL), Accepted)


def test_h23_a_record_is_rewritten_only_when_it_changes(tmp_path: Path) -> None:
    written: list[str] = []
    path = tmp_path / "a.json"
    checkpoint = Checkpoint(path, Allocated, lambda kind, place, content: written.append(kind))
    checkpoint.put("u1", held(BEFORE))
    checkpoint.put("u1", held(BEFORE))
    assert written == ["checkpoint", "rename"] and checkpoint.get("unobserved") is None
    path.write_text("{}")
    path.with_suffix(".previous").unlink(missing_ok=True)
    with pytest.raises(Corrupt):
        Checkpoint(path, Allocated)


def test_z12_reverted_is_recognised_by_meaning() -> None:
    assert decide_resize(sized(c1="1000m"), held(sized(c1="1")), [], SMALL) == Reverted()
    empty = Allocated({"c1": ResourceRequirements()}, ResourceRequirements())
    assert decide_resize(sized(c1=""), empty, [], SMALL) == Reverted()
