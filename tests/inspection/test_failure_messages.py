"""The words for kept failures."""

import pytest
from msgspec.structs import replace

from kohort.groups.failure_evidence import ContainerFailure, GroupFailure, PodFailure
from kohort.inspection.failure_messages import (
    container_text,
    due_restart_text,
    failure_lines,
    held_group_text,
    newest_failure_text,
    without_releases,
)
from kohort.rules.recorded_restarts import DueRestart, Exhaustion, FailedContainer

OOM = ContainerFailure("main", 137, signal=9, reason="OOMKilled", finished_at="12:00", log="a\nb\n\nc\nd\n")
FAILURE = GroupFailure(1, "12:01", "restarted", "u", pods=(PodFailure("llm-1-1", "n1", (OOM,), ("Killing main",)),))


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (OOM, "container main ended with code 137 (OOMKilled, signal 9) at 12:00"),
        (ContainerFailure("main", 1, reason="Error"), "container main ended with code 1"),
        (ContainerFailure("main", 1, message=" no weights\n"), "container main ended with code 1: no weights"),
    ],
)
def test_how_a_container_ended(failure: ContainerFailure, text: str) -> None:
    assert container_text(failure) == text


def test_the_newest_failure_quotes_the_end_of_the_log() -> None:
    text = newest_failure_text([FAILURE])
    assert text.startswith("it failed at 12:01: pod llm-1-1, container main ended with code 137")
    assert text.endswith("; its log ends with: b / c / d")
    assert newest_failure_text([FAILURE], group=2) == ""


def test_a_group_that_failed_because_a_pod_was_deleted() -> None:
    failure = GroupFailure(0, "12:01", "PodDeleted", "u", pods=(PodFailure("llm-0-1"),))
    assert newest_failure_text([failure]) == "it failed at 12:01: pod llm-0-1 was deleted"
    lost = PodFailure("llm-0-1", "n1", note="its node n1 has not been ready since 11:59")
    failure = GroupFailure(0, "12:01", "node-lost", "u", pods=(lost,))
    assert (
        newest_failure_text([failure]) == "it failed at 12:01: pod llm-0-1: its node n1 has not been ready since 11:59"
    )
    assert failure_lines(failure)[0] == "12:01  group 0: a node was lost; the group was restarted"


def test_everything_that_was_kept() -> None:
    first, pod, container, *rest = failure_lines(FAILURE)
    assert first == "12:01  group 1: a container ended; the group was restarted"
    assert (pod, container.strip()) == ("  pod llm-1-1 on node n1", container_text(OOM))
    assert rest[0].strip() == "| a" and rest[-1] == "    event Killing main"


@pytest.mark.parametrize(
    ("failed", "end", "with_record"),
    [
        (
            FailedContainer("llm-1-1", "main", 137),
            "container main of pod llm-1-1 ended with code 137",
            " at 12:00; its log ends with: b / c / d",
        ),
        (FailedContainer("llm-1-2", "main", 3), "container main of pod llm-1-2 ended with code 3", ""),
        (FailedContainer("llm-1-1"), "pod llm-1-1 was deleted", ""),
    ],
)
def test_why_a_group_is_held(failed: FailedContainer, end: str, with_record: str) -> None:
    """What is known is not said twice: the record adds only the time and the end of the log."""
    held = Exhaustion("u", "12:01", 2, failed)
    text = f"it is held: its budget of 2 restarts was used up when {end}"
    assert held_group_text(held) == text
    assert held_group_text(held, [FAILURE]) == text + with_record


def test_when_and_why_a_group_is_restarted() -> None:
    due = DueRestart("uid", "2026-01-01T00:01:00Z", 2, FailedContainer("llm-1-1", "main", 3))
    assert due_restart_text(due) == (
        "it is restarted at 2026-01-01T00:01:00Z, because container main of pod llm-1-1 ended with code 3; "
        "it waits until then, after 2 restarts in a row"
    )
    assert "because pod llm-1-1 restarted;" in due_restart_text(DueRestart(failed=FailedContainer("llm-1-1")))


def test_failures_of_a_release_name_its_set() -> None:
    failure = replace(FAILURE, set="llm-abcde", held=True)
    assert failure_lines(failure)[0] == (
        "12:01  group 1 of llm-abcde, the set of a release: a container ended; "
        "the group is held: its budget of restarts is used up"
    )
    assert without_releases([failure, FAILURE]) == [FAILURE]
