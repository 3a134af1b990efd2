"""A set may ask for millions of groups; what it costs the operator depends on those that exist."""

from collections.abc import Callable

import msgspec
import pytest
from tests.builders import lws
from tests.groups.resize import test_plan as resizes
from tests.work import instructions

from kohort.groups import messages
from kohort.groups.caches import GroupCache
from kohort.groups.disruption_budget import disruptions_allowed, groups_away
from kohort.groups.early_rolls import EarlyRollView, LeaderFacts, plan_early_roll
from kohort.groups.group_problems import GroupProblems
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.resize.plan import SetView, plan_group_resizes
from kohort.groups.rolling_update import LeaderSet, RollView, plan_roll
from kohort.groups.waiting_reason import ObstacleTracker, WaitingReason
from kohort.kube.resources import Key
from kohort.rules.group_state import GroupsInOrder, GroupState
from kohort.rules.recorded_restarts import DueRestart, outdated_groups

STATES = {0: GroupState(True, True), 1: GroupState(True, False), 2: GroupState(False, False)}
LEADERS = {index: LeaderFacts(updated=False) for index in STATES}


def roll(replicas: int, *, surge: int = 0, partition: int = 1, changed: bool = False) -> object:
    groups = GroupsInOrder(STATES, replicas)
    return plan_roll(RollView(replicas, 0, surge, 1, LeaderSet(replicas, partition, replicas), groups, changed))


def refused_eviction(replicas: int) -> object:
    away = groups_away(replicas, STATES, {}, 0)
    disruptions_allowed(away, 1, replicas)
    return messages.eviction_refused("default/s", "p", replicas, 1, away)


def resize(replicas: int) -> object:
    groups = (resizes.group(0), resizes.group(1))
    return plan_group_resizes(SetView(resizes.NEW, resizes.OR_RECREATE, 0, replicas, 1, 60.0, resizes.NOW, groups))


@pytest.mark.parametrize(
    "decide",
    [
        roll,
        lambda replicas: roll(replicas, changed=True),
        lambda replicas: roll(replicas, surge=replicas, changed=True),
        lambda replicas: roll(replicas, surge=replicas),
        lambda replicas: roll(replicas, partition=replicas),
        refused_eviction,
        lambda replicas: plan_early_roll(EarlyRollView(range(replicas), STATES, LEADERS)),
        lambda replicas: plan_early_roll(EarlyRollView(range(replicas), STATES, LEADERS, on_delete=True)),
        lambda replicas: outdated_groups({"0": {}, "7": {}, "x": {}}, {}, replicas, has_budget=True),
        resize,
    ],
)
def test_a_decision_costs_what_exists_and_not_what_is_asked_for(decide: Callable[[int], object]) -> None:
    decide(10)
    few, many = instructions(lambda: decide(10)), instructions(lambda: decide(20_000))
    assert many < 2 * few + 100


async def test_the_obstacle_of_a_set_is_found_among_the_problems_that_exist() -> None:
    problems = GroupProblems()
    problems.set_recreation_delayed(Key("default", "s-2"), DueRestart(at="2026-01-01T00:00:00Z"))
    problems.set_recreation_delayed(Key("default", "s-2-1"), DueRestart())
    problems.set_recreation_delayed(Key("other", "s-0"), DueRestart())
    tracker = ObstacleTracker(object.__new__(GroupCache), problems)

    def observe(wanted: int) -> None:
        group_set = msgspec.convert(lws("s").replicas(wanted), LeaderWorkerSet)
        obstacle, _ = tracker.observe(group_set, "new", STATES)
        assert obstacle is not None and (obstacle.reason, obstacle.group) == (WaitingReason.GROUP_FAILING, 2)

    observe(3)
    assert instructions(lambda: observe(1_000_000)) < instructions(lambda: observe(3)) + 100
    assert problems.delayed_recreations(Key("default", "s"))[0][0] == 2


def test_groups_that_do_not_exist_are_away_and_named_first() -> None:
    away = groups_away(1_000_000, {0: GroupState(True, True), 2: GroupState(False, True)}, {}, 0)
    assert len(away) == 999_999
    assert 0 not in away and 1 in away and 2 in away and 1_000_000 not in away
    text = messages.eviction_refused("default/s", "p", 1_000_000, 1, away)
    assert "away are: group 1 (not ready), group 2 (not ready)" in text and "and 999994 more" in text
