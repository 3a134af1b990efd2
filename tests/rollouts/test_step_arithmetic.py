"""How many replicas a step means, and which step comes next."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.kube.resources import DEPLOYMENTS, LEADER_WORKER_SETS, STATEFUL_SETS
from kohort.rollouts import step_arithmetic
from kohort.rollouts.step_arithmetic import NO_STEP, GroupKind, allowed_failures, next_index, same_targets
from kohort.rules import rollout_labels

replicas_of_sets = st.integers(0, 500)
percentages = st.integers(0, 100).map(lambda number: f"{number}%")
wanted_of_steps = st.one_of(st.integers(0, 600), percentages)


def planned(wanted: int | str, replicas: int) -> int:
    return step_arithmetic.planned(wanted, replicas, DEPLOYMENTS.group_kind, rollout_labels.CANARY)


def planned_in_place(wanted: int | str, replicas: int) -> int:
    return step_arithmetic.planned(wanted, replicas, DEPLOYMENTS.group_kind, rollout_labels.PARTITION)


@pytest.mark.parametrize(
    ("wanted", "replicas", "count"),
    [
        (0, 4, 0),
        (3, 4, 3),
        (9, 4, 4),
        ("0%", 4, 0),
        ("1%", 4, 1),
        ("25%", 4, 1),
        ("26%", 4, 2),
        ("100%", 4, 4),
        ("50%", 0, 0),
        (1, 0, 0),
    ],
)
def test_replicas_of_a_step(wanted: int | str, replicas: int, count: int) -> None:
    assert planned(wanted, replicas) == count


@pytest.mark.parametrize(
    ("wanted", "replicas", "count"),
    [
        ("99%", 4, 3),
        ("76%", 4, 3),
        ("75%", 4, 3),
        ("100%", 4, 4),
        (4, 4, 4),
        ("1%", 1, 1),
        ("99%", 1, 1),
        ("0%", 1, 0),
        ("51%", 2, 1),
    ],
)
def test_only_a_literal_hundred_percent_replaces_all_in_place(wanted: int | str, replicas: int, count: int) -> None:
    assert planned_in_place(wanted, replicas) == count


@pytest.mark.parametrize(
    ("workload", "style", "count"),
    [
        (DEPLOYMENTS.group_kind, rollout_labels.CANARY, 10),
        (DEPLOYMENTS.group_kind, rollout_labels.BLUE_GREEN, 9),
        (DEPLOYMENTS.group_kind, rollout_labels.PARTITION, 9),
        (STATEFUL_SETS.group_kind, rollout_labels.PARTITION, 10),
        (LEADER_WORKER_SETS.group_kind, rollout_labels.CANARY, 10),
        (LEADER_WORKER_SETS.group_kind, rollout_labels.BLUE_GREEN, 10),
        (LEADER_WORKER_SETS.group_kind, rollout_labels.PARTITION, 10),
        (("extensions.example", "Deployment"), rollout_labels.PARTITION, 10),
    ],
)
def test_only_where_both_versions_share_a_deployment_an_old_pod_stays(
    workload: GroupKind, style: str, count: int
) -> None:
    assert step_arithmetic.planned("95%", 10, workload, style) == count


@given(wanted_of_steps, replicas_of_sets)
def test_a_step_never_means_more_replicas_than_there_are(wanted: int | str, replicas: int) -> None:
    assert 0 <= planned_in_place(wanted, replicas) <= planned(wanted, replicas) <= replicas


@given(percentages, percentages, replicas_of_sets)
def test_a_larger_percentage_never_means_fewer(first: str, second: str, replicas: int) -> None:
    smaller, larger = sorted((first, second), key=lambda text: int(text[:-1]))
    for rule in (planned, planned_in_place):
        assert rule(smaller, replicas) <= rule(larger, replicas)


@given(wanted_of_steps, replicas_of_sets, st.integers(0, 50))
def test_a_larger_set_never_has_fewer_replicas_at_a_step(wanted: int | str, replicas: int, more: int) -> None:
    assert planned(wanted, replicas) <= planned(wanted, replicas + more)


@given(st.integers(1, 99), st.integers(1, 500))
def test_a_percentage_rounds_up_by_less_than_one(number: int, replicas: int) -> None:
    exact = number * replicas / 100
    assert exact <= planned(f"{number}%", replicas) < exact + 1


@pytest.mark.parametrize(("index", "steps", "after"), [(1, 3, 2), (2, 3, 3), (3, 3, NO_STEP), (4, 3, NO_STEP)])
def test_after_the_last_step_there_is_none(index: int, steps: int, after: int) -> None:
    assert next_index(index, steps) == after


@pytest.mark.parametrize(
    ("threshold", "updated", "allowed"), [(None, 10, 0), (0, 10, 0), (2, 10, 2), ("10%", 10, 1), ("11%", 10, 2)]
)
def test_how_many_may_fail(threshold: int | str | None, updated: int, allowed: int) -> None:
    assert allowed_failures(threshold, updated) == allowed


@pytest.mark.parametrize(
    ("wanted", "replicas", "same"),
    [
        ([], 4, []),
        ([1], 4, []),
        (["20%", "40%", "100%"], 10, []),
        (["20%", "40%", "100%"], 2, [(1, 2, 1)]),
        (["10%", "20%", "30%"], 1, [(1, 2, 1), (2, 3, 1)]),
        ([5, 9, "100%"], 5, [(1, 2, 5), (2, 3, 5)]),
        ([1, 3, 1], 4, []),
    ],
)
def test_neighbouring_steps_that_come_to_the_same(
    wanted: list[int | str], replicas: int, same: list[tuple[int, int, int]]
) -> None:
    assert same_targets([planned(one, replicas) for one in wanted]) == same


@given(st.lists(wanted_of_steps, max_size=6), replicas_of_sets)
def test_what_comes_to_the_same_is_named_by_its_steps(wanted: list[int | str], replicas: int) -> None:
    for first, second, count in same_targets([planned(one, replicas) for one in wanted]):
        assert second == first + 1
        assert planned(wanted[first - 1], replicas) == planned(wanted[second - 1], replicas) == count
