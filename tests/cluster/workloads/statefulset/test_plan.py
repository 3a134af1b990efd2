"""The order of a StatefulSet, case by case and as properties."""

from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.workloads.statefulset.plan import (
    BURST,
    MOST_PENDING,
    Action,
    Create,
    Delete,
    PodFacts,
    SetFacts,
    count,
    is_complete,
    plan,
    revision_for,
)


def pod(ordinal: int, revision: str = "update", state: str = "available") -> PodFacts:
    """One pod; `state` is the farthest point it has reached: pending, running, ready, available, failed, leaving."""
    return PodFacts(
        name=f"web-{ordinal}",
        ordinal=ordinal,
        revision=revision,
        finished=state == "failed",
        pending=state == "pending",
        ready=state in ("ready", "available", "leaving"),
        available=state in ("available", "leaving"),
        terminating=state == "leaving",
    )


def effects(facts: SetFacts, *pods: PodFacts) -> list[str]:
    """The creations and deletions of one pass, as `+ordinal` and `-ordinal`."""
    return [_effect(action) for action in plan(facts, pods).actions if isinstance(action, Create | Delete)]


def _effect(action: Action) -> str:
    return f"+{action.ordinal}" if isinstance(action, Create) else f"-{action.pod[4:]}"


def test_ordered_creation_goes_one_by_one() -> None:
    facts = SetFacts(3)
    assert effects(facts) == ["+0"]
    assert effects(facts, pod(0, state="pending")) == []
    assert effects(facts, pod(0, state="running")) == []
    assert effects(facts, pod(0, state="ready")) == []
    assert effects(facts, pod(0)) == ["+1"]
    assert effects(facts, pod(0), pod(1)) == ["+2"]


def test_parallel_creation_waits_for_no_pod() -> None:
    assert effects(SetFacts(3, ordered=False)) == ["+0", "+1", "+2"]
    assert effects(SetFacts(3, ordered=False), pod(1, state="running")) == ["+0", "+2"]


def test_one_pass_makes_a_bounded_number_of_pods() -> None:
    endless = SetFacts(2**31 - 1, ordered=False)
    first = plan(endless, ())
    assert [action.ordinal for action in first.actions if isinstance(action, Create)] == list(range(BURST))
    assert first.waiting
    then = plan(endless, [pod(ordinal, state="pending") for ordinal in range(BURST)])
    assert [one.ordinal for one in then.actions if isinstance(one, Create)] == list(range(BURST, 2 * BURST))


def test_a_set_that_the_nodes_cannot_hold_does_not_grow_for_ever() -> None:
    endless = SetFacts(2**31 - 1, ordered=False)
    waiting = [pod(ordinal, state="pending") for ordinal in range(MOST_PENDING)]
    assert effects(endless, *waiting) == []
    assert effects(endless, pod(0), *waiting[1:]) == [f"+{MOST_PENDING}"]


def test_ordinals_start_where_told() -> None:
    assert effects(SetFacts(2, start=5, ordered=False), pod(4)) == ["+5", "+6", "-4"]


def test_ordered_scale_down_takes_the_highest_first() -> None:
    facts = SetFacts(1)
    assert effects(facts, *(pod(n) for n in range(4))) == ["-3"]
    assert effects(facts, pod(0), pod(1), pod(2), pod(3, state="leaving")) == []
    assert effects(facts, pod(0), pod(1), pod(2)) == ["-2"]


def test_an_unready_condemned_pod_blocks_unless_it_is_the_lowest() -> None:
    facts = SetFacts(1)
    assert effects(facts, pod(0), pod(1, state="running"), pod(2), pod(3)) == ["-3"]
    assert effects(facts, pod(0), pod(1, state="running")) == ["-1"]
    assert effects(facts, pod(0), pod(1, state="running"), pod(2, state="running")) == []


def test_parallel_scale_down_takes_all() -> None:
    assert effects(SetFacts(1, ordered=False), *(pod(n) for n in range(4))) == ["-3", "-2", "-1"]


def test_a_finished_pod_is_deleted_and_then_created_again() -> None:
    assert effects(SetFacts(2), pod(0, state="failed"), pod(1)) == ["-0"]
    assert effects(SetFacts(2), pod(1)) == ["+0"]


def test_a_roll_goes_down_one_by_one_to_the_partition() -> None:
    facts = SetFacts(4, partition=2)
    old = [pod(n, "current") for n in range(4)]
    assert effects(facts, *old) == ["-3"]
    assert effects(facts, *old[:3], pod(3, state="running")) == []
    assert effects(facts, *old[:3], pod(3)) == ["-2"]
    assert effects(facts, *old[:2], pod(2), pod(3)) == []


def test_an_unready_lower_pod_blocks_an_ordered_roll_but_not_a_parallel_one() -> None:
    pods = [pod(0, "current", "running"), pod(1, "current"), pod(2, "current")]
    assert effects(SetFacts(3), *pods) == []
    assert effects(SetFacts(3, ordered=False), *pods) == ["-2"]


def test_on_delete_never_rolls() -> None:
    assert effects(SetFacts(2, rolling=False), pod(0, "current"), pod(1, "current")) == []


def test_max_unavailable_counts_every_pod_that_is_away() -> None:
    old = [pod(n, "current") for n in range(5)]
    facts = SetFacts(5, ordered=False, max_unavailable=2)
    assert effects(facts, *old) == ["-4", "-3"]
    assert effects(facts, pod(0, "current", "running"), *old[1:]) == ["-4"]
    assert effects(SetFacts(5, ordered=False, max_unavailable="50%"), *old) == ["-4", "-3"]
    assert effects(SetFacts(5, ordered=False, max_unavailable="1%"), *old) == ["-4"]


def test_a_deleted_set_touches_nothing() -> None:
    assert effects(SetFacts(3, deleting=True), pod(0)) == []


def test_the_revision_of_a_new_pod() -> None:
    assert revision_for(SetFacts(4, partition=2), 1) == "current"
    assert revision_for(SetFacts(4, partition=2), 2) == "update"
    assert revision_for(SetFacts(4, start=10, partition=2), 11) == "current"
    assert revision_for(SetFacts(4, partition=None, current_replicas=3), 2) == "current"
    assert revision_for(SetFacts(4, rolling=False, partition=4), 0) == "update"


def test_a_roll_is_complete_when_all_pods_are_new_and_ready() -> None:
    facts = SetFacts(2)
    assert is_complete(facts, count(facts, [pod(0), pod(1)]))
    assert not is_complete(facts, count(facts, [pod(0), pod(1, "current")]))
    assert not is_complete(facts, count(facts, [pod(0), pod(1, state="running")]))
    assert not is_complete(SetFacts(2, rolling=False), count(facts, [pod(0), pod(1)]))


states = st.sampled_from(["pending", "running", "ready", "available", "failed", "leaving"])
many_pods = st.dictionaries(st.integers(0, 8), st.tuples(st.sampled_from(["current", "update"]), states)).map(
    lambda found: [pod(ordinal, revision, state) for ordinal, (revision, state) in found.items()]
)
facts_of = st.builds(
    SetFacts,
    replicas=st.integers(0, 6),
    start=st.integers(0, 2),
    ordered=st.booleans(),
    rolling=st.booleans(),
    partition=st.one_of(st.none(), st.integers(0, 6)),
    max_unavailable=st.one_of(st.none(), st.integers(1, 6)),
)


@given(facts_of, many_pods)
def test_an_ordered_pass_moves_at_most_one_pod_unless_a_budget_allows_more(
    facts: SetFacts, pods: list[PodFacts]
) -> None:
    if facts.ordered and facts.max_unavailable is None:
        assert len(effects(facts, *pods)) <= 1


@given(facts_of, many_pods)
def test_a_roll_never_exceeds_its_budget(facts: SetFacts, pods: list[PodFacts]) -> None:
    rolled = {
        action.pod for action in plan(facts, pods).actions if isinstance(action, Delete) and action.reason == "update"
    }
    if not rolled:
        return
    budget = 1 if facts.max_unavailable is None else int(facts.max_unavailable)
    healthy = [p for p in pods if facts.in_range(p.ordinal) and p.available and not p.terminating]
    away = facts.replicas - len(healthy) + sum(p.name in rolled for p in healthy)
    if facts.max_unavailable is not None or facts.ordered:
        assert away <= max(1, budget)


@given(facts_of, many_pods)
def test_a_pass_never_rolls_below_the_partition(facts: SetFacts, pods: list[PodFacts]) -> None:
    by_name = {p.name: p for p in pods}
    for action in plan(facts, pods).actions:
        if isinstance(action, Delete) and action.reason == "update":
            assert by_name[action.pod].ordinal >= facts.start + (facts.partition or 0)
            assert by_name[action.pod].revision != facts.update_revision


@given(facts_of)
def test_repeated_passes_end_with_the_wanted_pods(facts: SetFacts) -> None:
    """Play a kubelet that makes every pod available at once: the set reaches its goal and stops."""
    pods: dict[int, PodFacts] = {}
    for _ in range(60):
        actions = [a for a in plan(facts, list(pods.values())).actions if isinstance(a, Create | Delete)]
        if not actions:
            break
        for action in actions:
            if isinstance(action, Create):
                pods[action.ordinal] = pod(action.ordinal, action.revision)
            else:
                del pods[int(action.pod[4:])]
    assert sorted(pods) == list(range(facts.start, facts.start + facts.replicas))
