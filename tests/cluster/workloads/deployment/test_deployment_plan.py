"""How many replicas each ReplicaSet of a Deployment gets next."""

from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.workloads.deployment.plan import (
    ReplicaSetFacts,
    plan_recreate,
    plan_rolling,
    plan_scaling,
)
from kohort.rules.rolling_limits import RollLimits, deployment_limits


def facts(name: str, replicas: int, available: int | None = None, **more: object) -> ReplicaSetFacts:
    ready = replicas if available is None else available
    return ReplicaSetFacts(name, replicas, ready, replicas, created=name, **more)  # type: ignore[arg-type]


def test_a_roll_with_surge_one_and_nothing_unavailable() -> None:
    limits = RollLimits(1, 0)
    assert plan_rolling(3, limits, facts("b", 0), [facts("a", 3)]) == {"b": 1}
    assert plan_rolling(3, limits, facts("b", 1, 0), [facts("a", 3)]) == {}
    assert plan_rolling(3, limits, facts("b", 1), [facts("a", 3)]) == {"a": 2}


def test_broken_old_replicas_go_first() -> None:
    assert plan_rolling(4, RollLimits(0, 1), facts("b", 0), [facts("a", 4, 3)]) == {"a": 3}


def test_recreate_waits_until_no_old_pod_exists() -> None:
    assert plan_recreate(3, None, [facts("a", 3)]) == {"a": 0}
    assert plan_recreate(3, facts("b", 0), [ReplicaSetFacts("a", 0, pods=1)]) == {}
    assert plan_recreate(3, facts("b", 0), [facts("a", 0)]) == {"b": 3}


def test_scaling_in_the_middle_of_a_roll_keeps_the_shares() -> None:
    """10 replicas with surge 3 roll as 8 old and 5 new; scaled to 15 with surge 3 they become 11 and 7."""
    sets = [facts("a", 8, scaled_to=13), facts("b", 5, scaled_to=13)]
    assert plan_scaling(15, RollLimits(3, 2), sets) == {"a": 11, "b": 7}


def test_halves_are_rounded_up_and_equals_are_told_apart_by_age() -> None:
    sets = [facts("a", 5, scaled_to=10), facts("b", 5, scaled_to=10)]
    assert plan_scaling(4, RollLimits(1, 0), sets) == {"a": 2, "b": 3}, "the older shrinks by what is left"
    assert plan_scaling(14, RollLimits(1, 0), sets) == {"a": 7, "b": 8}, "the newer grows first"


def test_sets_that_do_not_say_what_they_were_scaled_for_share_by_the_reported_size() -> None:
    sets = [facts("a", 4), facts("b", 2)]
    assert plan_scaling(12, RollLimits(0, 1), sets, reported=6) == {"a": 8, "b": 4}


def test_a_complete_new_set_sends_the_others_away() -> None:
    new = facts("b", 2, scaled_for=2)
    assert plan_scaling(2, RollLimits(1, 0), [facts("a", 1), new], new) == {"a": 0}
    assert plan_scaling(3, RollLimits(1, 0), [facts("a", 1), facts("b", 2)], rolling=False) == {}


def test_from_nothing_the_set_of_the_present_template_grows() -> None:
    rolled_back = facts("a", 0)
    assert plan_scaling(2, RollLimits(1, 0), [rolled_back, facts("b", 0)], rolled_back) == {"a": 2}
    assert plan_scaling(2, RollLimits(1, 0), [rolled_back, facts("b", 0)]) == {"b": 2}


@given(st.integers(1, 20), st.integers(0, 5), st.integers(0, 5), st.data())
def test_a_roll_keeps_its_limits_and_ends(replicas: int, surge: int, unavailable: int, data: st.DataObject) -> None:
    limits = deployment_limits(surge, unavailable, replicas)
    sizes = {"a": replicas, "b": 0}
    available = {"a": replicas, "b": 0}
    for _ in range(20 * replicas + 20):
        new, old = facts("b", sizes["b"], available["b"]), facts("a", sizes["a"], available["a"])
        sizes.update(plan_rolling(replicas, limits, new, [old]))
        available = {name: min(available[name], size) for name, size in sizes.items()}
        assert sum(sizes.values()) <= replicas + limits.surge
        assert sum(available.values()) >= replicas - limits.unavailable
        if data.draw(st.booleans()) or available["b"] < sizes["b"]:
            available["b"] = sizes["b"]
        if sizes == {"a": 0, "b": replicas}:
            return
    raise AssertionError(f"the roll did not end: {sizes}")
