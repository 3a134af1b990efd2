"""How many pods a budget lets go now."""

from datetime import UTC, datetime

import pytest

from kohort.cluster.workloads.disruption.plan import Budget, count_budget, granted_evictions


@pytest.mark.parametrize(
    ("budget", "existing", "wanted", "healthy", "expected", "desired", "allowed"),
    [
        (Budget(min_available=2), 3, 0, 3, 3, 2, 1),
        (Budget(min_available=2), 3, 0, 2, 3, 2, 0),
        (Budget(min_available=3), 3, 0, 2, 3, 3, 0),
        (Budget(min_available="50%"), 3, 5, 5, 5, 3, 2),
        (Budget(max_unavailable=1), 3, 3, 3, 3, 2, 1),
        (Budget(max_unavailable=5), 3, 3, 3, 3, 0, 3),
        (Budget(max_unavailable="30%"), 10, 10, 10, 10, 7, 3),
        (Budget(max_unavailable="25%"), 3, 3, 3, 3, 2, 1),
        (Budget(min_available=0), 0, 0, 0, 0, 0, 0),
    ],
)
def test_the_arithmetic(
    budget: Budget, existing: int, wanted: int, healthy: int, expected: int, desired: int, allowed: int
) -> None:
    counts = count_budget(budget, existing=existing, wanted=wanted, healthy=healthy)
    assert (counts.expected, counts.desired, counts.allowed) == (expected, desired, allowed)


def test_a_granted_eviction_is_remembered_until_it_shows_or_times_out() -> None:
    now = datetime(2026, 1, 1, 0, 2, 0, tzinfo=UTC)
    noted = {
        "a": "2026-01-01T00:01:00Z",
        "b": "2026-01-01T00:00:00Z",
        "c": "2026-01-01T00:01:00Z",
        "d": "2026-01-01T00:01:00Z",
    }
    granted = granted_evictions(noted, leaving={"c"}, present={"a", "b", "c"}, now=now)
    assert (granted.pending, granted.overdue) == ({"a": noted["a"]}, ["b"])
