"""What maxSurge and maxUnavailable come to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects import int_or_string
from kohort.rules.rolling_limits import (
    DEFAULT_LIMIT_OF_DEPLOYMENTS,
    DEFAULT_ROLLING_OF_GROUPS,
    Amount,
    RollLimits,
    comes_to_nothing,
    deployment_limits,
    group_limits,
    stateful_set_limit,
    written_groups,
)

counts = st.integers(0, 40)
amounts = st.none() | counts | st.integers(0, 100).map(lambda number: f"{number}%")


def rolling(surge: Amount, unavailable: Amount) -> dict[str, Amount]:
    return {"maxSurge": surge, "maxUnavailable": unavailable}


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "expected"),
    [
        (None, None, 4, (0, 1)),
        (0, 1, 4, (0, 1)),
        (1, 0, 4, (1, 0)),
        (4, 2, 4, (4, 2)),
        (10, 1, 4, (4, 1)),
        (0, 10, 4, (0, 10)),
        ("25%", "25%", 10, (3, 2)),
        ("25%", "25%", 1, (1, 0)),
        ("1%", 0, 4, (1, 0)),
        ("100%", "100%", 4, (4, 4)),
        (0, "10%", 5, (0, 1)),
        ("0%", "10%", 5, (0, 1)),
        (0, 0, 4, (0, 1)),
        (None, "10%", 5, (0, 1)),
        (1, "10%", 5, (1, 0)),
        (1, 0, 0, (0, 1)),
        ("50%", "50%", 0, (0, 1)),
    ],
)
def test_limits_of_groups(surge: Amount, unavailable: Amount, replicas: int, expected: tuple[int, int]) -> None:
    assert group_limits(rolling(surge, unavailable), replicas) == expected


def test_fields_that_are_absent_are_those_of_the_default() -> None:
    assert group_limits({}, 7) == group_limits(DEFAULT_ROLLING_OF_GROUPS, 7) == RollLimits(0, 1)
    assert group_limits({"partition": 3}, 7) == RollLimits(0, 1)


@given(amounts, amounts, counts)
def test_a_roll_of_groups_can_always_move(surge: Amount, unavailable: Amount, replicas: int) -> None:
    found = group_limits(rolling(surge, unavailable), replicas)
    assert any(found)
    assert 0 <= found.surge <= replicas
    assert found.unavailable >= 0


@given(amounts, amounts, counts)
def test_one_group_is_away_beyond_what_is_written_only_where_that_comes_to_nothing(
    surge: Amount, unavailable: Amount, replicas: int
) -> None:
    written = rolling(surge, unavailable)
    exact = (
        written_groups("maxSurge", surge, replicas),
        written_groups("maxUnavailable", unavailable, replicas),
    )
    assert (group_limits(written, replicas) != exact) == comes_to_nothing(written, replicas)


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "expected"),
    [
        (0, 0, 4, True),
        ("0%", "0%", 4, True),
        (0, "25%", 3, True),
        (0, "25%", 4, False),
        (None, None, 4, False),
        (None, 0, 4, True),
        ("1%", 0, 1, False),
        (5, 0, 0, True),
    ],
)
def test_what_comes_to_nothing(surge: Amount, unavailable: Amount, replicas: int, expected: bool) -> None:
    assert comes_to_nothing(rolling(surge, unavailable), replicas) is expected


@pytest.mark.parametrize("field", ["maxSurge", "maxUnavailable"])
def test_text_that_is_not_a_percentage_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match="invalid value"):
        written_groups(field, "half", 4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="invalid value"):
        group_limits({field: "half"}, 4)


@pytest.mark.parametrize(
    ("surge", "unavailable", "replaced", "resized"),
    [(1, 2, 3, 2), (2, 0, 2, 1), (0, 0, 1, 1), (0, 3, 3, 3), (1, 1, 2, 1)],
)
def test_how_many_are_replaced_and_resized_at_once(surge: int, unavailable: int, replaced: int, resized: int) -> None:
    limits = RollLimits(surge, unavailable)
    assert (limits.replaced_at_once, limits.resized_at_once) == (replaced, resized)


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "expected"),
    [
        (None, None, 4, (1, 1)),
        ("25%", "25%", 10, (3, 2)),
        ("25%", "25%", 1, (1, 0)),
        (0, 0, 4, (0, 1)),
        ("0%", "10%", 5, (0, 1)),
        (8, 9, 4, (8, 4)),
        (1, 0, 4, (1, 0)),
    ],
)
def test_limits_of_deployments(surge: Amount, unavailable: Amount, replicas: int, expected: tuple[int, int]) -> None:
    assert deployment_limits(surge, unavailable, replicas) == expected


@given(amounts, amounts, counts)
def test_a_deployment_can_always_move(surge: Amount, unavailable: Amount, replicas: int) -> None:
    found = deployment_limits(surge, unavailable, replicas)
    assert any(found)
    assert 0 <= found.unavailable <= max(1, replicas)
    default = DEFAULT_LIMIT_OF_DEPLOYMENTS
    written = default if surge is None else surge
    assert found.surge == int_or_string.resolve(written, replicas, round_up=True)


@pytest.mark.parametrize(
    ("unavailable", "replicas", "expected"),
    [(None, 5, 1), (0, 5, 1), (2, 5, 2), ("10%", 5, 1), ("50%", 5, 2), ("100%", 5, 5), ("50%", 0, 1)],
)
def test_the_limit_of_a_stateful_set(unavailable: Amount, replicas: int, expected: int) -> None:
    assert stateful_set_limit(unavailable, replicas) == expected
