"""When a group with a budget is restarted, delayed or held."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kohort.groups.crd import definition
from kohort.groups.restart_budget import (
    BudgetDecision,
    Delay,
    Exhausted,
    GroupHeld,
    Restart,
    RestartBudget,
    decide,
    exhausted_by,
    spend_at_once,
)
from kohort.objects.json_types import JsonObject
from kohort.rules.group_labels import RESTARTS_COUNTED_SINCE
from kohort.rules.recorded_restarts import FailedContainer, GroupRestarts, counted, exhausted_groups

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
BUDGET = RestartBudget(max_restarts=3, window_seconds=600, backoff_seconds=10, max_backoff_seconds=40)
FAILED = FailedContainer("llm-1-1", "main", 137, "OOMKilled")


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def restarted(*moments: float, budget: RestartBudget = BUDGET) -> GroupRestarts:
    """A group that was restarted at these moments, each time with another leader."""
    found = GroupRestarts()
    for number, moment in enumerate(moments):
        decision = decide(budget, found, f"leader-{number}", "r1", at(moment))
        assert isinstance(decision, Restart), decision
        found = decision.restarts
    return found


def next_decision(restarts: GroupRestarts, moment: float, budget: RestartBudget = BUDGET) -> BudgetDecision:
    return decide(budget, restarts, "new-leader", "r1", at(moment))


def test_the_first_restart_comes_at_once_and_the_delay_doubles() -> None:
    unlimited = RestartBudget(backoff_seconds=10, max_backoff_seconds=40)
    restarts, moment = restarted(0, budget=unlimited), 0.0
    delays = []
    for number in range(5):
        decision = decide(unlimited, restarts, f"next-{number}", "r1", at(moment))
        assert isinstance(decision, Delay)
        delays.append(decision.seconds)
        moment += decision.seconds
        decision = decide(unlimited, restarts, f"next-{number}", "r1", at(moment))
        assert isinstance(decision, Restart)
        restarts = decision.restarts
    assert delays == [10, 20, 40, 40, 40]


def test_twice_the_longest_delay_without_a_restart_is_forgiven() -> None:
    restarts = restarted(0, 10)
    decision = next_decision(restarts, 91)
    assert isinstance(decision, Restart)
    assert decision.restarts.in_a_row == 1
    assert isinstance(next_decision(restarts, 29), Delay)


def test_the_definition_has_the_defaults_of_the_budget() -> None:
    template = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    budget = template["leaderWorkerTemplate"]["properties"]["restartBudget"]["properties"]
    defaults = {name: field["default"] for name, field in budget.items() if "default" in field}
    assert msgspec.convert(defaults, RestartBudget) == RestartBudget()
    assert (defaults["windowSeconds"], defaults["backoffSeconds"], defaults["maxBackoffSeconds"]) == (3600, 10, 300)


def test_no_delay_when_there_is_none_wanted() -> None:
    budget = RestartBudget(backoff_seconds=0)
    assert isinstance(next_decision(restarted(0, 0, 0, 0, budget=budget), 0, budget), Restart)


def test_a_budget_is_used_up_within_its_window_only() -> None:
    restarts = restarted(0, 10, 30)
    assert next_decision(restarts, 100) == Exhausted(3)
    assert isinstance(next_decision(restarts, 601), Restart)
    assert next_decision(GroupRestarts(), 0, RestartBudget(max_restarts=0)) == Exhausted(0)


def test_a_held_group_stays_held_when_the_window_is_over() -> None:
    restarts = exhausted_by(restarted(0, 10, 30), Exhausted(3), FAILED, "new-leader", "r1", at(100))
    assert next_decision(restarts, 100_000) == GroupHeld()
    assert isinstance(decide(BUDGET, restarts, "leader-made-by-hand", "r1", at(100_000)), Restart)


def test_a_restart_that_was_recorded_and_not_carried_out_is_not_counted_again() -> None:
    restarts = restarted(0, 10, 30)
    assert decide(BUDGET, restarts, "leader-2", "r1", at(31)) == Restart(restarts)


def test_a_deleted_pod_does_not_wait_and_counts_all_the_same() -> None:
    restarts = restarted(0)
    decision = spend_at_once(BUDGET, restarts, "new-leader", "r1", at(1))
    assert isinstance(decision, Restart)
    assert (decision.restarts.in_a_row, len(decision.restarts.times)) == (2, 2)
    assert spend_at_once(BUDGET, restarted(0, 10, 30), "new-leader", "r1", at(31)) == Exhausted(3)


def stored(restarts: GroupRestarts) -> dict[str, JsonObject]:
    return {"1": msgspec.to_builtins(restarts)}


def test_what_counts_is_forgotten_with_another_template_or_by_a_user() -> None:
    status = stored(exhausted_by(restarted(0, 10, 30), Exhausted(3), FAILED, "new-leader", "r1", at(100)))
    assert exhausted_groups(status, {}, {1: ("new-leader", "r1")})[1].failed == FAILED
    assert not exhausted_groups(status, {}, {1: ("other-leader", "r1")})
    assert counted(status, {}, 1, "r2") == GroupRestarts()
    assert counted(status, {}, 0, "r1") == GroupRestarts()
    for moment, left in (("2026-01-01T00:00:20Z", 1), ("2026-01-01T00:01:00Z", 0), ("2025-01-01T00:00:00Z", 3)):
        found = counted(status, {RESTARTS_COUNTED_SINCE: f'{{"1": "{moment}"}}'}, 1, "r1")
        assert len(found.times) == left
        assert found.exhausted is not None
    found = counted(status, {RESTARTS_COUNTED_SINCE: '{"1": "2026-01-01T00:01:41Z"}'}, 1, "r1")
    assert (found.exhausted, found.in_a_row, found.last) == (None, 0, "")


def test_records_that_cannot_be_read_count_as_none() -> None:
    assert counted({"1": {"inARow": "many"}}, {}, 1, "r1") == GroupRestarts()
    assert len(counted(stored(restarted(0)), {RESTARTS_COUNTED_SINCE: "yesterday"}, 1, "r1").times) == 1


@given(
    st.lists(st.floats(0, 500), min_size=1, max_size=60),
    st.builds(
        RestartBudget,
        max_restarts=st.one_of(st.none(), st.integers(0, 8)),
        window_seconds=st.integers(1, 2000),
        backoff_seconds=st.integers(0, 50),
        max_backoff_seconds=st.integers(50, 400),
    ),
)
def test_never_more_restarts_than_the_budget_and_never_sooner_than_the_delay(
    pauses: list[float], budget: RestartBudget
) -> None:
    restarts, moment, done = GroupRestarts(), 0.0, list[float]()
    for number, pause in enumerate(pauses):
        moment += pause
        decision = decide(budget, restarts, f"leader-{number}", "r1", at(moment))
        if isinstance(decision, Exhausted):
            assert budget.max_restarts is not None
            break
        if isinstance(decision, Restart):
            restarts = decision.restarts
            done.append(moment)
    for position, moment in enumerate(done):
        window = [one for one in done[: position + 1] if moment - one < budget.window_seconds - 0.001]
        assert budget.max_restarts is None or len(window) <= max(budget.max_restarts, 0)
    for earlier, later in pairwise(done):
        assert later - earlier >= budget.backoff_seconds - 0.001 or later == earlier == 0 or not budget.backoff_seconds
