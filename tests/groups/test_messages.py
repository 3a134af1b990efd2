"""Texts that are made from typed reasons."""

import pytest

from kohort.groups import messages
from kohort.groups.messages import RevisionNote
from kohort.groups.resize.record import Phase, ResizeRecord
from kohort.groups.rolling_update import RollPlan, RollReason


def test_every_reason_of_a_roll_has_a_text_of_its_own() -> None:
    texts = {messages.roll_reason(RollPlan(0, 4, reason)) for reason in RollReason}
    assert len(texts) == len(RollReason)


def test_a_roll_that_is_held_names_the_partition() -> None:
    plan = RollPlan(3, 4, RollReason.ROLLING, held=True)
    assert messages.roll_reason(plan) == "rolling; held by partition 3"


@pytest.mark.parametrize(
    ("note", "text"),
    [
        (RevisionNote.NEW_SET, "Creating revision with key abc for a newly created LeaderWorkerSet"),
        (RevisionNote.MISSING, "Creating missing revision with key abc for existing LeaderWorkerSet"),
        (RevisionNote.UPDATED_SET, "Creating revision with key abc for updated LWS"),
    ],
)
def test_events_about_revisions_are_those_of_upstream(note: RevisionNote, text: str) -> None:
    assert messages.creating_revision(note, "abc") == text


def test_one_group_is_named_and_several_as_a_range() -> None:
    assert messages.updating_replicas(2, 2) == "Updating replica 2"
    assert messages.updating_replicas(1, 3) == "Updating replicas 1 to 3 (inclusive)"
    assert messages.deleting_surge("llm", 4, 4) == "deleting surge replica llm-4"
    assert messages.deleting_surge("llm", 4, 6) == "deleting surge replicas from llm-4 to llm-6"


def test_a_name_that_is_taken_names_the_owner_if_there_is_one() -> None:
    assert messages.worker_set_name_taken("llm-0", "LeaderWorkerSet llm-0").endswith("belongs to LeaderWorkerSet llm-0")
    assert messages.worker_set_name_taken("llm-0", "") == "a StatefulSet llm-0 exists and has no owner"


def test_a_pod_that_does_not_end_names_its_node_if_it_has_one() -> None:
    assert "is to be gone on node n1 since t and" in messages.terminating("n1", "t")
    assert "is to be gone since t and" in messages.terminating("", "t")


def test_every_phase_of_a_resize_has_a_text_of_its_own_with_its_reason() -> None:
    texts = {phase: messages.group_resize("2", ResizeRecord("abc", phase, 0.0, message="no room")) for phase in Phase}
    assert len(set(texts.values())) == len(Phase)
    assert [phase for phase, text in texts.items() if not text.endswith(": no room")] == [Phase.RESIZING]
