"""Which failed groups get a new template before their turn."""

import pytest

from kohort.groups.early_rolls import EarlyRoll, EarlyRollView, LeaderFacts, plan_early_roll
from kohort.rules.group_state import GroupState, RestartState

OLD = GroupState(ready=True, updated=False)
NEW = GroupState(ready=True, updated=True)
HELD = GroupState(ready=False, updated=False, restart=RestartState.HELD)
DUE = GroupState(ready=False, updated=False, restart=RestartState.DUE)
STARTING = GroupState(ready=False, updated=True)
HELD_AGAIN = GroupState(ready=False, updated=True, restart=RestartState.HELD)


def decide(*states: GroupState | None, deleting: int = -1, gone: int = -1, **more: object) -> EarlyRoll:
    found = {index: state for index, state in enumerate(states) if state is not None}
    leaders = {
        index: LeaderFacts(state is None or state.updated, index == deleting)
        for index, state in enumerate(states)
        if index != gone
    }
    view = EarlyRollView(groups=range(len(states)), states=found, leaders=leaders)
    return plan_early_roll(EarlyRollView(**{name: getattr(view, name) for name in view.__struct_fields__} | more))


def test_nothing_happens_without_failed_groups() -> None:
    assert decide(OLD, OLD, OLD) == EarlyRoll()
    assert decide(OLD, GroupState(ready=False, updated=False), OLD) == EarlyRoll()
    assert decide(HELD_AGAIN, OLD, OLD) == EarlyRoll()


@pytest.mark.parametrize("failed", [HELD, DUE])
def test_a_failed_group_is_made_anew_when_its_statefulset_replaces_nothing_by_itself(failed: GroupState) -> None:
    assert decide(failed, OLD, OLD) == EarlyRoll(on_delete=True)
    assert decide(failed, OLD, OLD, on_delete=True) == EarlyRoll(on_delete=True)
    assert decide(failed, OLD, OLD, on_delete=True, observed=True) == EarlyRoll(on_delete=True, failed=(0,))


def test_a_leader_that_is_being_deleted_is_not_deleted_again() -> None:
    found = decide(HELD, DUE, OLD, deleting=0, on_delete=True, observed=True)
    assert found == EarlyRoll(on_delete=True, failed=(1,))


def test_the_roll_goes_on_when_the_group_is_ready_or_held_again() -> None:
    waits = EarlyRoll(on_delete=True)
    assert decide(None, OLD, OLD, gone=0, on_delete=True, observed=True) == waits
    assert decide(None, OLD, OLD, on_delete=True, observed=True) == waits
    assert decide(STARTING, OLD, OLD, on_delete=True, observed=True) == waits
    assert decide(NEW, OLD, OLD, on_delete=True, observed=True) == EarlyRoll()
    assert decide(HELD_AGAIN, OLD, OLD, on_delete=True, observed=True) == EarlyRoll()


def test_a_roll_that_began_otherwise_does_not_wait_for_groups_that_start() -> None:
    assert decide(STARTING, OLD, OLD) == EarlyRoll()
    assert decide(None, OLD, OLD, gone=0) == EarlyRoll()


def test_a_partition_of_the_user_is_kept() -> None:
    assert decide(HELD, OLD, OLD, partition=1) == EarlyRoll()
    assert decide(HELD, OLD, OLD, partition=1, on_delete=True, observed=True) == EarlyRoll()


def decide_incomplete(*, partition: int = 0, on_delete: bool = False) -> EarlyRoll:
    """Group 0 has no workers, and the revision that describes them was deleted."""
    leaders = {0: LeaderFacts(updated=False, incomplete=True), 1: LeaderFacts(updated=False)}
    return decide(None, OLD, leaders=leaders, partition=partition, on_delete=on_delete, observed=on_delete)


def test_a_group_that_cannot_be_completed_is_made_anew_like_one_that_has_failed() -> None:
    assert decide_incomplete() == EarlyRoll(on_delete=True)
    assert decide_incomplete(on_delete=True) == EarlyRoll(on_delete=True, incomplete=(0,))


def test_a_group_that_cannot_be_completed_waits_while_a_partition_holds_others() -> None:
    assert decide_incomplete(partition=1) == EarlyRoll()


def test_a_group_that_has_failed_and_cannot_be_completed_is_deleted_once() -> None:
    leaders = {0: LeaderFacts(updated=False, incomplete=True)}
    assert decide(HELD, leaders=leaders, on_delete=True, observed=True) == EarlyRoll(on_delete=True, failed=(0,))
