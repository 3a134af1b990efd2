"""Which pods of a Deployment leave next, and how far its ReplicaSets may shrink meanwhile."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects.core import Pod
from kohort.objects.meta import Condition, ObjectMeta
from kohort.objects.pods import PodStatus
from kohort.objects.well_known_names import DELETION_COST
from kohort.rollouts.workloads import draining_rounds
from kohort.rollouts.workloads.draining_rounds import (
    LOWEST_COST,
    DrainingRound,
    SetPods,
    bounded_sizes,
    cost_patches,
    is_scaled,
    next_round,
    round_of,
)
from kohort.rollouts.workloads.partition_sizes import PartitionedSizes, SetSize
from kohort.rules.rollout_labels import DRAINING_PODS, FORMER_DELETION_COST


def test_examples_hold() -> None:
    found = doctest.testmod(draining_rounds)
    assert found.attempted and not found.failed


def pod(name: str, annotations: dict[str, str] | None = None, *, ready: bool = True) -> Pod:
    """The name says how old it is: `a` is the oldest."""
    time = f"2026-01-01T00:00:{ord(name[0]) - ord('a'):02}Z"
    metadata = ObjectMeta(name=name, uid=name, creation_timestamp=time, annotations=annotations or {})
    return Pod(metadata, status=PodStatus(conditions=(Condition("Ready", "True" if ready else "False"),)))


def pods(names: str, broken: str = "") -> tuple[Pod, ...]:
    return tuple(pod(name, ready=name not in broken) for name in names)


def chosen(*sets: SetPods, begun: str = "") -> list[str]:
    return ["".join(one.metadata.name for one in gone) for gone in next_round(sets, begun)]


@pytest.mark.parametrize(
    ("names", "broken", "target", "begun", "expected"),
    [
        ("abcde", "", 5, "", ""),
        ("abcde", "", 3, "", "ed"),
        ("abcde", "b", 3, "", "b"),
        ("abcde", "abc", 3, "", "cb"),
        ("abcde", "", 3, "ab", "ba"),
        ("abcde", "", 4, "ab", "b"),
        ("abcde", "", 5, "ab", ""),
        ("abcde", "e", 3, "a", "a"),
        ("abcde", "", 3, "xy", "ed"),
        ("abc", "", 4, "", ""),
    ],
)
def test_who_leaves_next(names: str, broken: str, target: int, begun: str, expected: str) -> None:
    assert chosen(SetPods(len(names), target, pods(names, broken)), begun=begun) == [expected]


def test_a_round_is_about_all_replica_sets_of_a_deployment() -> None:
    first, second = SetPods(2, 0, pods("ab")), SetPods(3, 2, pods("cde", "c"))
    assert chosen(first, second) == ["", "c"], "those that are not ready go alone"
    assert chosen(first, SetPods(3, 2, pods("cde"))) == ["ba", "e"]
    assert chosen(first, second, begun="a") == ["a", ""], "and a round does not grow"


@pytest.mark.parametrize(
    ("one", "drained", "least"),
    [
        (SetPods(5, 3, pods("abcde")), 0, 5),
        (SetPods(5, 3, pods("abcde")), 1, 4),
        (SetPods(5, 3, pods("abcde")), 2, 3),
        (SetPods(5, 3, pods("abcd")), 0, 4),
        (SetPods(5, 6, pods("abcde")), 0, 6),
        (SetPods(3, 3, pods("abcde")), 2, 3),
    ],
)
def test_how_small_a_replica_set_may_be(one: SetPods, drained: int, least: int) -> None:
    assert one.least_size(drained) == least


def test_pods_that_are_about_to_be_deleted_are_not_drained_again() -> None:
    leaving = (pods("de"),)
    assert not is_scaled([SetPods(5, 3, pods("abcde"))], leaving)
    assert is_scaled([SetPods(3, 3, pods("abcde"))], leaving)
    assert is_scaled([SetPods(3, 3, pods("abcde")), SetPods(2, 1, pods("fg"))], (*leaving, ()))


SIZES = st.integers(0, 6)


@given(
    new=SIZES,
    old=st.lists(SIZES, min_size=1, max_size=3),
    wanted=st.lists(SIZES, min_size=4, max_size=4),
    kept=st.lists(SIZES, min_size=4, max_size=4),
    limit=st.integers(0, 12),
)
def test_no_replica_set_is_smaller_than_it_may_be_and_no_more_pods_are_made(
    new: int, old: list[int], wanted: list[int], kept: list[int], limit: int
) -> None:
    present = [new, *old]
    least = [min(size, now) for size, now in zip(kept, present, strict=False)]
    sizes = PartitionedSizes(wanted[0], tuple(wanted[1 : 1 + len(old)]))
    found = bounded_sizes(sizes, SetSize(new, new), [SetSize(one, one) for one in old], least, limit)
    after = [found.new, *found.old]
    assert all(size >= at_least for size, at_least in zip(after, least, strict=True))
    for size, now, asked in zip(after, present, (sizes.new, *sizes.old), strict=True):
        assert min(now, asked) <= size <= max(now, asked)
    if after != [sizes.new, *sizes.old]:
        assert sum(after) <= max(limit, sum(present))


def test_the_deletion_cost_of_the_user_comes_back() -> None:
    own = pod("a", {DELETION_COST: "7"})
    (patch,) = cost_patches([own, pod("b")], {"a"}).values()
    assert patch == {DELETION_COST: LOWEST_COST, FORMER_DELETION_COST: "7"}
    marked = pod("a", {key: value or "" for key, value in patch.items()})
    assert cost_patches([marked], {"a"}) == {}
    assert cost_patches([marked], ()) == {"a": {DELETION_COST: "7", FORMER_DELETION_COST: None}}
    without = pod("b", {DELETION_COST: LOWEST_COST, FORMER_DELETION_COST: ""})
    assert cost_patches([without], ()) == {"b": {DELETION_COST: None, FORMER_DELETION_COST: None}}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pods": 3}', "[" * 5000])
def test_an_annotation_that_cannot_be_read_is_no_round(text: str) -> None:
    assert round_of({DRAINING_PODS: text}) is None
    assert round_of({DRAINING_PODS: '{"pods":{"u":"n"}}'}) == DrainingRound({"u": "n"})
