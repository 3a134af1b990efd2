"""Groups that have failed, or that cannot be completed, get a new template before their turn.

A roll begins at the highest index and takes no healthy group while others are away. A group below it that is held, or
that fails again and again with the old template, would keep the roll that brings the fix from beginning. Such a group
has nothing to lose, so it gets the new template first. The same holds for a group without workers whose revision was
deleted (`observed_groups.cannot_be_completed`): the template of its workers is gone, so it stays away for ever.

A StatefulSet makes pods below its partition from the old template, and a partition of 0 would roll healthy groups. So
the leader StatefulSet gets the strategy OnDelete for a while: it deletes nothing by itself, and pods that it creates
have the new template. Only where no partition of the user holds groups back: those could be made anew meanwhile.

With such a partition, a group that cannot be completed waits, and the condition `Waiting` says why (RevisionMissing): a
partition may keep a version from serving that is not approved, and only the user can weigh that against one group.

| a wanted group below the roll | the strategy is | action |
|---|---|---|
| has failed with an old template (held, or waits to be recreated), or cannot be completed | RollingUpdate | OnDelete |
| the same | OnDelete, and the StatefulSet controller has seen it | delete its leader |
| has no leader, or a leader that is being deleted | OnDelete | wait |
| has the new template, and is not ready and not held | OnDelete | wait: a restart would bring the old one back |
| any other | | RollingUpdate |
"""

from collections.abc import Mapping

import msgspec

from kohort.rules.group_state import GroupState, RestartState


class LeaderFacts(msgspec.Struct, frozen=True):
    updated: bool
    """It has the new template. Its group may lack workers, and then has no state."""
    deleting: bool = False
    incomplete: bool = False
    """Its group cannot be completed: the old revision that describes its workers does not exist."""


class EarlyRollView(msgspec.Struct, frozen=True):
    groups: range
    """The wanted groups that the roll has not reached."""
    states: Mapping[int, GroupState]
    leaders: Mapping[int, LeaderFacts]
    partition: int = 0
    """Below which no group may get the new template."""
    on_delete: bool = False
    """The strategy that the leader StatefulSet has."""
    observed: bool = False
    """The StatefulSet controller has seen that strategy, and the new template."""


class EarlyRoll(msgspec.Struct, frozen=True):
    on_delete: bool = False
    """The strategy that the leader StatefulSet shall have."""
    failed: tuple[int, ...] = ()
    """Groups that have failed, whose leaders are to be deleted."""
    incomplete: tuple[int, ...] = ()
    """Groups that cannot be completed, whose leaders are to be deleted."""


def plan_early_roll(view: EarlyRollView) -> EarlyRoll:
    if view.partition > 0:
        return EarlyRoll()
    leaders = {index: leader for index, leader in sorted(view.leaders.items()) if index in view.groups}
    failed = sorted(index for index in view.states if index in view.groups and _has_failed_before(view.states[index]))
    incomplete = [index for index, leader in leaders.items() if leader.incomplete]
    returning = view.on_delete and any(_is_returning(view, index) for index in view.groups)
    if not failed and not incomplete and not returning:
        return EarlyRoll()
    if not (view.on_delete and view.observed):
        return EarlyRoll(on_delete=True)
    present = {index for index, leader in leaders.items() if not leader.deleting}
    return EarlyRoll(
        on_delete=True,
        failed=tuple(index for index in failed if index in present),
        incomplete=tuple(index for index in incomplete if index in present and index not in failed),
    )


def _has_failed_before(state: GroupState) -> bool:
    """With a template that it shall not have any more."""
    return not state.updated and state.restart is not None


def _is_returning(view: EarlyRollView, index: int) -> bool:
    leader, state = view.leaders.get(index), view.states.get(index)
    if leader is None or leader.deleting:
        return True
    if not leader.updated:
        return False
    return state is None or (not state.ready and state.restart is not RestartState.HELD)
