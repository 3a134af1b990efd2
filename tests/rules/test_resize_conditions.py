"""What a pod says about its resize, and since when."""

import msgspec
from tests.node.resizing import sized

from kohort.objects.quantity import Quantity
from kohort.rules.resize_conditions import ResizeState, accepted, completed, failed, progressing, refused, summary
from kohort.rules.resize_decision import Deferred, Infeasible, NodePressure, NotSupported, ResourceShortage

SHORT_OF_CPU = ResourceShortage("cpu", Quantity.parse("1"), Quantity.parse("3500m"), Quantity.parse("4"))
POD = sized(pod="100m", c1="50m", generation=3)


def test_a_refusal_keeps_its_time_while_its_reason_stays() -> None:
    state, notes = refused(ResizeState(), Deferred(SHORT_OF_CPU), POD, "t1")
    assert [note.reason for note in notes] == ["ResizeDeferred"] and "OutOfcpu" in notes[0].message
    state, notes = refused(state, Deferred(NodePressure("no memory")), POD, "t2")
    assert notes == []
    assert state.conditions() == [
        {
            "type": "PodResizePending",
            "status": "True",
            "reason": "Deferred",
            "message": "no memory",
            "observedGeneration": 3,
            "lastTransitionTime": "t1",
            "lastProbeTime": "t2",
        }
    ]
    state, notes = refused(state, Infeasible(NotSupported.CGROUP_V1), POD, "t3")
    assert [note.reason for note in notes] == ["ResizeInfeasible"]
    assert state.pending is not None and state.pending.last_transition_time == "t3"


def test_a_new_generation_is_news_even_for_the_same_refusal() -> None:
    state, _ = refused(ResizeState(), Deferred(NodePressure("no")), POD, "t1")
    _, notes = refused(state, Deferred(NodePressure("no")), sized(c1="60m", generation=4), "t2")
    assert len(notes) == 1


def test_progress_keeps_generation_and_error_until_it_is_done() -> None:
    state, notes = accepted(POD, "t1")
    assert [note.reason for note in notes] == ["ResizeStarted"]
    state, notes = failed(state, "limit below usage", POD, "t2")
    assert [note.reason for note in notes] == ["ResizeError"]
    later = sized(c1="1", generation=9)
    assert progressing(state, 9, "t3") == state
    state, notes = failed(state, "limit below usage", later, "t4")
    assert notes == []
    assert state.progress is not None
    assert (state.progress.reason, state.progress.observed_generation, state.progress.last_transition_time) == (
        "Error",
        3,
        "t2",
    )
    state, notes = completed(state, later)
    assert state == ResizeState() and [note.reason for note in notes] == ["ResizeCompleted"]
    assert completed(state, later) == (state, [])


def test_both_conditions_can_be_there() -> None:
    state, _ = accepted(POD, "t1")
    state, _ = refused(state, Deferred(NodePressure("later")), sized(c1="2", generation=4), "t2")
    assert [each["observedGeneration"] for each in state.conditions()] == [4, 3]


def test_w8_the_summary_includes_the_pod_itself() -> None:
    assert msgspec.json.decode(summary(POD, 3)) == {
        "resources": {"requests": {"cpu": "100m"}},
        "containers": [{"name": "c1", "resources": {"requests": {"cpu": "50m"}}}],
        "generation": 3,
    }
