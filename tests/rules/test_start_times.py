"""How long the next group will take to start, by those that run."""

import pytest
from tests.builders import pod

from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.rules.start_times import expected_start, start_seconds


def started(created: int, ready: int | None, restarts: int = 0) -> Pod:
    """Seconds after noon."""
    condition: JsonObject = {"type": "Ready", "status": "False" if ready is None else "True"}
    condition["lastTransitionTime"] = f"2026-01-01T12:{(ready or 0) // 60:02}:{(ready or 0) % 60:02}Z"
    made = pod("p").but("metadata.creationTimestamp", f"2026-01-01T12:00:{created:02}Z")
    status = {"conditions": [condition], "containerStatuses": [{"name": "main", "restartCount": restarts}]}
    return made.but("status", status).as_view(Pod)


@pytest.mark.parametrize(
    ("groups", "seconds"),
    [
        ([], None),
        ([[]], None),
        ([[started(0, 30)]], 30),
        ([[started(0, 30), started(5, 50)]], 50),
        ([[started(0, 30), started(5, None)]], None),
        ([[started(0, 30)], [started(0, None)]], 30),
        ([[started(0, 10)], [started(0, 30)], [started(0, 80)]], 30),
        ([[started(0, 10)], [started(0, 3000, restarts=1)], [started(0, 3000, restarts=2)]], 10),
        ([[started(0, 3000, restarts=1)]], 3000),
    ],
)
def test_the_median_of_ready_groups_counts(groups: list[list[Pod]], seconds: float | None) -> None:
    assert expected_start(groups) == seconds


def test_a_clock_that_was_set_back_makes_no_negative_time() -> None:
    assert start_seconds([started(50, 10)]) == 0
