"""What a pod says about its resize, and since when."""

import msgspec
import pytest
from tests.node.resizing import sized

from kohort.objects.meta import Condition
from kohort.objects.quantity import Quantity
from kohort.rules.resize_conditions import (
    ReportedStage,
    ResizeState,
    accepted,
    completed,
    failed,
    progressing,
    refused,
    summary,
)
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


def test_a_state_is_recovered_from_the_status_that_was_written() -> None:
    state, _ = accepted(POD, "t1")
    state, _ = refused(state, Deferred(SHORT_OF_CPU), sized(c1="2", generation=4), "t2")
    status = msgspec.structs.replace(POD.status, conditions=(Condition("Ready", "True"), *_both(state)))
    assert ResizeState.reported(msgspec.structs.replace(POD, status=status)) == state
    assert ResizeState.reported(POD) == ResizeState()


def _both(state: ResizeState) -> list[Condition]:
    return [each for each in (state.pending, state.progress) if each is not None]


DEFERRED_NOW = Condition("PodResizePending", "True", "Deferred", "no room")
INFEASIBLE_NOW = Condition("PodResizePending", "True", "Infeasible", "too much")
RUNNING = Condition("PodResizeInProgress", "True", "", "soon")
FAILED = Condition("PodResizeInProgress", "True", "Error", "broken")


@pytest.mark.parametrize(
    ("conditions", "stage", "message", "fails"),
    [
        ((), ReportedStage.SETTLED, "", False),
        ((DEFERRED_NOW,), ReportedStage.DEFERRED, "no room", False),
        ((INFEASIBLE_NOW,), ReportedStage.INFEASIBLE, "too much", False),
        ((RUNNING,), ReportedStage.IN_PROGRESS, "soon", False),
        ((FAILED,), ReportedStage.FAILING, "broken", True),
        ((FAILED, DEFERRED_NOW), ReportedStage.DEFERRED, "no room", True),
        ((RUNNING, INFEASIBLE_NOW), ReportedStage.INFEASIBLE, "too much", False),
        ((Condition("PodResizePending", "False", "Deferred"), RUNNING), ReportedStage.IN_PROGRESS, "soon", False),
        ((Condition("PodResizePending", "True"),), ReportedStage.DEFERRED, "", False),
    ],
)
def test_where_a_resize_stands(
    conditions: tuple[Condition, ...], stage: ReportedStage, message: str, fails: bool
) -> None:
    status = msgspec.structs.replace(POD.status, conditions=conditions)
    found = ResizeState.reported(msgspec.structs.replace(POD, status=status))
    assert (found.stage, found.message, found.fails) == (stage, message, fails)


def test_a_pod_that_has_ended_has_no_resize_and_a_resize_that_is_taken_back_none_that_waits() -> None:
    state, _ = accepted(POD, "t1")
    state, _ = refused(state, Infeasible(NotSupported.CGROUP_V1), POD, "t2")
    assert state.cleared() == ResizeState()
    assert state.without_pending() == ResizeState(progress=state.progress)


def test_an_acceptance_replaces_both_conditions() -> None:
    state, _ = failed(accepted(POD, "t1")[0], "no", POD, "t2")
    state, _ = refused(state, Deferred(NodePressure("later")), POD, "t3")
    newer, notes = accepted(sized(c1="2", generation=7), "t4")
    assert (newer.pending, len(notes)) == (None, 1)
    assert newer.progress is not None
    assert (newer.progress.reason, newer.progress.message, newer.progress.observed_generation) == ("", "", 7)


def test_progress_that_was_not_known_begins_now() -> None:
    state = progressing(ResizeState(), 5, "t1")
    assert state.progress is not None
    assert (state.progress.observed_generation, state.progress.last_transition_time) == (5, "t1")
    assert state.pending is None


def test_a_failure_without_known_progress_has_the_generation_of_the_pod() -> None:
    state, notes = failed(ResizeState(), "no cgroup", POD, "t1")
    assert state.progress is not None
    assert (state.progress.reason, state.progress.observed_generation) == ("Error", 3)
    assert notes[0].type == "Warning"
    assert notes[0].message.endswith(": no cgroup")


def test_another_error_is_news_and_keeps_the_time_of_the_first() -> None:
    state, _ = failed(accepted(POD, "t1")[0], "first", POD, "t2")
    state, notes = failed(state, "second", POD, "t3")
    assert [note.reason for note in notes] == ["ResizeError"]
    assert state.progress is not None
    assert (state.progress.message, state.progress.last_transition_time) == ("second", "t2")


def test_the_summary_lists_init_containers_before_containers() -> None:
    document = msgspec.json.decode(summary(sized(c1="1", side1="2", generation=2), 2))
    assert list(document) == ["initContainers", "containers", "generation"]
    assert document["initContainers"] == [{"name": "side1", "resources": {"requests": {"cpu": "2"}}}]
