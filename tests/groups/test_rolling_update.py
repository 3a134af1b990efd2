"""The worked rollouts of the LeaderWorkerSet behaviour, and what must hold for all others."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.groups.rolling_update import LeaderSet, RollView, plan_roll
from kohort.rules.group_state import ABSENT, GroupsInOrder, GroupState

STATES = {
    "o+": GroupState(True, False),
    "o-": GroupState(False, False),
    "U+": GroupState(True, True),
    "U-": GroupState(False, True),
    "--": ABSENT,
}


class Roll:
    """A set whose StatefulSet does at once what it is told, but whose groups become ready only when a test says so."""

    def __init__(self, replicas: int, unavailable: int = 1, surge: int = 0, partition: int = 0) -> None:
        self.wanted, self.unavailable, self.surge, self.held = replicas, unavailable, surge, partition
        self.groups = ["U+"] * replicas
        self.leader_set: LeaderSet | None = None
        self.reconcile()

    def reconcile(self, changed: bool = False) -> tuple[int, int]:
        view = RollView(
            replicas=self.wanted,
            partition=self.held,
            surge=min(self.surge, self.wanted),
            unavailable=self.unavailable,
            leader_set=self.leader_set,
            groups=GroupsInOrder.of([STATES[group] for group in self.groups]),
            template_changed=changed,
        )
        plan = plan_roll(view)
        self.leader_set = LeaderSet(plan.replicas, plan.partition, self.wanted)
        del self.groups[plan.replicas :]
        self.groups += ["U-"] * (plan.replicas - len(self.groups))
        for index, group in enumerate(self.groups):
            if index >= plan.partition and group.startswith("o"):
                self.groups[index] = "o-"
        return plan.partition, plan.replicas

    def change(self, replicas: int | None = None) -> tuple[int, int]:
        """Change the template, and perhaps the size in the same edit."""
        if replicas is not None:
            self.wanted = replicas
        self.groups = ["o" + group[1] for group in self.groups]
        return self.reconcile(changed=True)

    def done(self, *indices: int) -> tuple[int, int]:
        """These groups come back with the new revision and are ready."""
        for index in indices:
            self.groups[index] = "U+"
        return self.reconcile()

    def states(self) -> str:
        return " ".join(self.groups)


def test_one_by_one() -> None:
    roll = Roll(4)
    assert roll.change() == (4, 4)
    assert roll.reconcile() == (3, 4)
    assert roll.states() == "o+ o+ o+ o-"
    assert roll.done(3) == (2, 4)
    assert roll.done(2) == (1, 4)
    assert roll.done(1) == (0, 4)
    assert roll.states() == "o- U+ U+ U+"
    assert roll.done(0) == (0, 4)
    assert roll.states() == "U+ U+ U+ U+"


def test_the_surge_is_given_back_one_step_before_the_end() -> None:
    roll = Roll(4, surge=1)
    assert roll.change() == (4, 5)
    assert roll.reconcile() == (3, 5)
    assert roll.states() == "o+ o+ o+ o- U-"
    assert roll.done(4) == (2, 5)
    assert roll.done(3) == (1, 5)
    assert roll.done(2) == (0, 5)
    assert roll.done(1) == (0, 4)
    assert roll.done(0) == (0, 4)


def test_without_unavailability_the_surge_stays_to_the_very_end() -> None:
    roll = Roll(4, unavailable=0, surge=1)
    assert roll.change() == (4, 5)
    assert roll.reconcile() == (4, 5)
    assert [roll.done(index) for index in (4, 3, 2, 1)] == [(3, 5), (2, 5), (1, 5), (0, 5)]
    assert roll.done(0) == (0, 4)


def test_two_and_two() -> None:
    roll = Roll(4, unavailable=2, surge=2)
    assert roll.change() == (4, 6)
    assert roll.reconcile() == (2, 6)
    assert roll.done(4) == (2, 6)
    assert roll.done(5) == (0, 6)
    assert roll.states() == "o- o- o- o- U+ U+"
    assert roll.done(3, 2) == (0, 4)


def test_surge_larger_than_needed() -> None:
    roll = Roll(4, surge=4)
    assert roll.change() == (4, 7)
    assert roll.reconcile() == (3, 7)
    assert [roll.done(index)[0] for index in (6, 5, 4)] == [2, 1, 0]
    assert [roll.done(index)[1] for index in (3, 2, 1)] == [6, 5, 4]


def test_surge_is_capped_at_the_number_of_groups() -> None:
    roll = Roll(2, surge=4)
    assert roll.change() == (2, 3)
    assert roll.reconcile() == (1, 3)
    assert roll.done(2) == (0, 3)
    assert roll.done(1) == (0, 2)


def test_scale_up_and_template_in_one_edit() -> None:
    roll = Roll(2, surge=2)
    assert roll.change(replicas=4) == (2, 4)
    assert roll.reconcile() == (2, 6)
    assert roll.done(5, 4) == (1, 6)
    assert roll.done(3, 2) == (0, 5)


def test_scale_down_and_template_in_one_edit() -> None:
    roll = Roll(6, surge=2)
    assert roll.change(replicas=3) == (3, 5)
    assert roll.reconcile() == (2, 5)
    assert [roll.done(index) for index in (4, 3, 2, 1)] == [(1, 5), (0, 5), (0, 4), (0, 3)]


def test_new_groups_are_born_updated() -> None:
    roll = Roll(4)
    assert roll.change(replicas=6) == (4, 6)
    assert roll.done(*range(6)) == (0, 6)


def test_size_changes_during_a_roll() -> None:
    roll = Roll(4, surge=2)
    assert roll.change() == (4, 6)
    assert roll.reconcile() == (3, 6)
    roll.wanted = 6
    assert roll.reconcile() == (3, 8)
    assert roll.done(7, 6) == (3, 8)
    roll.wanted = 2
    assert roll.reconcile() == (3, 3)
    assert roll.reconcile() == (1, 3)
    assert roll.done(2) == (0, 3)
    assert roll.done(1) == (0, 2)


def test_the_partition_of_the_user_holds_groups_back() -> None:
    roll = Roll(6, partition=4)
    assert roll.leader_set == LeaderSet(6, 4, 6)
    assert roll.change() == (6, 6)
    assert roll.reconcile() == (5, 6)
    assert roll.done(5) == (4, 6)
    assert roll.done(4) == (4, 6)
    roll.held = 2
    assert roll.reconcile() == (3, 6)
    assert roll.done(3) == (2, 6)
    assert roll.done(2) == (2, 6)


def test_a_surge_stays_while_the_partition_holds() -> None:
    roll = Roll(3, surge=1, partition=2)
    assert roll.change() == (3, 4)
    assert roll.reconcile() == (2, 4)
    assert roll.done(3, 2) == (2, 4)
    roll.held = 0
    assert roll.reconcile() == (0, 4)
    assert roll.done(1) == (0, 3)


def test_a_group_that_is_away_already_uses_the_budget() -> None:
    roll = Roll(4, unavailable=2)
    roll.groups[1] = "U-"
    assert roll.change() == (4, 4)
    assert roll.reconcile() == (3, 4)


def test_a_set_in_which_nothing_is_ready_still_rolls() -> None:
    roll = Roll(2)
    roll.groups = ["U-", "U-"]
    assert roll.change() == (2, 2)
    assert roll.reconcile() == (1, 2)
    assert roll.done(1) == (0, 2)


def test_a_second_change_starts_again_at_the_top() -> None:
    roll = Roll(4, surge=2)
    roll.change()
    roll.reconcile()
    roll.done(5, 4)
    assert roll.leader_set == LeaderSet(6, 1, 4)
    roll.groups[1:4] = ["o+"] * 3  # the StatefulSet has not come to them yet
    assert roll.change() == (4, 6)
    assert roll.reconcile() == (3, 6)


def test_more_may_be_away_than_there_are() -> None:
    roll = Roll(4, unavailable=10)
    assert roll.change() == (4, 4)
    assert roll.reconcile() == (0, 4)


def test_how_many_surge_groups_are_kept() -> None:
    rows = {(1, 1, 0, 1): 2, (4, 2, 1, 2): 5, (2, 2, 1, 2): 3, (1, 1, 0, 0): 1, (1, 1, 1, 1): 1, (3, 0, 0, 1): 3}
    for (wanted, surge, unavailable, unfinished), expected in rows.items():
        groups = [STATES["U+"]] * (wanted - unfinished) + [STATES["o-"]] * unfinished
        view = RollView(wanted, 0, surge, unavailable, LeaderSet(wanted, 1, wanted), GroupsInOrder.of(groups))
        assert plan_roll(view).replicas == expected


def test_a_ready_surge_group_is_kept_while_it_is_needed() -> None:
    """Group 0 came back before group 4: giving back 5 and 6 now would leave one ready group where two are promised."""
    groups = [STATES[state] for state in ("U+", "o-", "o-", "o-", "U-", "U+", "U+")]
    assert plan_roll(RollView(4, 0, 3, 2, LeaderSet(7, 0, 4), GroupsInOrder.of(groups))).replicas == 6


def test_a_group_that_fails_at_rest_is_no_reason_for_a_surge() -> None:
    """A partition above zero keeps the roll's arithmetic at work when there is no roll."""
    roll = Roll(4, unavailable=0, surge=1, partition=2)
    roll.groups[3] = "U-"
    assert roll.reconcile() == (2, 4)
    roll.groups[0] = "--"
    assert roll.reconcile() == (2, 4)


def test_a_roll_that_is_held_from_its_first_moment_makes_no_surge() -> None:
    roll = Roll(3, surge=1, partition=4)
    assert roll.change() == (4, 3)
    assert roll.reconcile() == (4, 3)
    roll.held = 0
    assert roll.reconcile() == (2, 4)


def test_a_useless_surge_group_of_the_old_revision_is_given_back() -> None:
    """As another implementation leaves it: made while the partition held everything back."""
    roll = Roll(3, surge=1, partition=4)
    roll.groups = ["o+", "o+", "o+", "o+"]
    roll.leader_set = LeaderSet(4, 4, 3)
    assert roll.reconcile() == (4, 3)


def test_a_second_change_spares_the_surge_groups_that_carry_the_load() -> None:
    """Groups 1 to 3 are away for the first change; replacing 4 and 5 as well would leave one of three promised."""
    groups = [STATES[state] for state in ("o+", "o-", "o-", "o-", "o+", "o+")]
    plan = plan_roll(RollView(4, 0, 2, 1, LeaderSet(6, 1, 4), GroupsInOrder.of(groups), template_changed=True))
    assert (plan.partition, plan.replicas) == (6, 6)
    assert plan_roll(RollView(4, 0, 2, 1, LeaderSet(6, 6, 4), GroupsInOrder.of(groups))).partition == 6


rolls = st.tuples(st.integers(1, 8), st.integers(0, 4), st.integers(0, 4)).filter(lambda roll: roll[1] + roll[2] > 0)


@settings(max_examples=300)
@given(rolls, st.randoms(use_true_random=False))
def test_any_order_of_recovery_keeps_the_budget_and_ends(sizes: tuple[int, int, int], random: Random) -> None:
    replicas, unavailable, surge = sizes
    roll = Roll(replicas, unavailable, surge)
    roll.change()
    partition = replicas
    for _ in range(20 * (replicas + surge) + 20):
        now, _count = roll.reconcile()
        assert now <= partition, "the partition only moves forward in one roll"
        partition = now
        ready = sum(group.endswith("+") for group in roll.groups)
        assert ready >= replicas - unavailable, f"below the availability budget: {roll.states()}"
        assert len(roll.groups) <= replicas + min(surge, replicas)
        waiting = [index for index, group in enumerate(roll.groups) if group.endswith("-")]
        if waiting:
            roll.groups[random.choice(waiting)] = "U+"
        elif all(group == "U+" for group in roll.groups) and len(roll.groups) == replicas:
            return
    raise AssertionError(f"the roll did not end: {roll.states()}")
