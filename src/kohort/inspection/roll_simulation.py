"""The steps of a roll, simulated with the functions that the operator rolls by: `plan_roll` and `plan_early_roll`.

Every group that is made becomes ready. What the operator may do next depends on when, so the caller chooses: at once,
or (`surge_is_late`) only when nothing else can go on. A group that is not ready now stays so until it is recreated, or
until nothing else can go on: then the next step names the groups that must be ready first (`waits_for`).

A turn of the simulation:

| what happens | decided by |
|---|---|
| groups are made, recreated or removed, as the leader StatefulSet moves | `plan_roll`, `plan_early_roll` |
| groups get other resources in place | `ResizeSimulation` |
| otherwise: groups that start become ready, and once there are none, all others | |
| otherwise: all groups are ready, and the roll has ended | |
"""

from collections.abc import Collection, Sequence

import msgspec
from msgspec.structs import replace

from kohort.groups import revisions
from kohort.groups.early_rolls import EarlyRollView, LeaderFacts, plan_early_roll
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.messages import roll_reason
from kohort.groups.revisions import Revision
from kohort.groups.rolling_update import LeaderSet, RollView, plan_roll
from kohort.inspection.absent_groups import GroupWindow
from kohort.inspection.resize_forecast import Preflight, ResizeSimulation
from kohort.inspection.snapshot import Snapshot
from kohort.rules.group_state import ABSENT, GroupsInOrder, GroupState
from kohort.rules.resource_update_policy import resource_update_policy

_LONGEST = 10_000
"""Steps after which a roll is taken to have no end; the largest sets need one per group."""


class ForecastStep(msgspec.Struct, frozen=True, rename="camel"):
    """One move of the leader StatefulSet."""

    partition: int
    replicas: int
    recreated: tuple[int, ...] = ()
    created: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()
    resized: tuple[int, ...] = ()
    """In place."""
    serving: int = 0
    """Groups that are ready while this step is under way."""
    waits_for: tuple[int, ...] = ()
    """Groups that are not ready now, and must be before this step begins."""
    reason: str = ""


class SetEdit(msgspec.Struct, frozen=True):
    """A set before and after an edit."""

    before: Snapshot | None
    """None for a set that does not exist yet."""
    after: LeaderWorkerSet
    changed: bool
    """Whether the edit makes another revision current."""
    known: Revision | None
    """That revision, if the set has had it before."""

    @staticmethod
    def of(before: Snapshot | None, after: LeaderWorkerSet) -> "SetEdit":
        if before is None or revisions.content(before.group_set) == revisions.content(after):
            return SetEdit(before, after, False, None)
        return SetEdit(before, after, True, revisions.matching(after, before.revisions))

    @property
    def standing(self) -> GroupsInOrder:
        """The groups that the set has now."""
        return self.before.ordered_states if self.before is not None else GroupsInOrder({}, 0)

    @property
    def kept(self) -> Collection[int]:
        """Groups that have the wanted revision although the template changes: it returns to theirs."""
        if self.before is None or self.known is None:
            return ()
        return self.before.using.get(self.known.key, ())


class SimulatedRoll(msgspec.Struct, frozen=True):
    steps: Sequence[ForecastStep]
    held: tuple[int, ...]
    """Groups that the partition keeps at an old revision."""
    resizes: ResizeSimulation | None
    """At its end; None where resources do not change in place."""


def simulate_roll(edit: SetEdit, window: GroupWindow, preflight: Preflight, *, surge_is_late: bool) -> SimulatedRoll:
    simulation = _RollSimulation(edit, window, preflight, surge_is_late=surge_is_late)
    for _ in range(_LONGEST):
        if not simulation.advance():
            break
    return SimulatedRoll(simulation.steps, simulation.held(), simulation.resizes)


class _RollSimulation:
    def __init__(self, edit: SetEdit, window: GroupWindow, preflight: Preflight, *, surge_is_late: bool) -> None:
        before, after = edit.before, edit.after
        in_place = before is not None and resource_update_policy(after.spec).in_place
        self.resizes = ResizeSimulation(before, after, preflight) if before is not None and in_place else None
        self.steps: list[ForecastStep] = []
        self._after = after
        self._window = window
        self._surge_is_late = surge_is_late
        self._wanted = window.within(after.replicas)
        leaders = before.leader_set if before is not None else None
        self._current: LeaderSet | None = None
        if leaders is not None:
            self._current = LeaderSet(window.within(leaders.spec.replicas), leaders.partition, self._wanted)
        self._changed = edit.changed
        kept = edit.kept
        self._groups = [
            replace(state, updated=index in kept if edit.changed else state.updated)
            for index, state in enumerate(edit.standing.below(window.end))
        ]
        self._starting: frozenset[int] = frozenset()
        self._awaited: tuple[int, ...] = ()
        """Groups that had to become ready before the step that is next."""

    def advance(self) -> bool:
        """Simulate one turn; whether there was anything left to do."""
        steps_before = len(self.steps)
        reached = self._roll()
        self._resize(reached)
        is_idle = len(self.steps) == steps_before and reached == self._current and not self._changed
        self._current, self._changed = reached, False
        return not is_idle or self._become_ready()

    def held(self) -> tuple[int, ...]:
        below = min(self._after.partition, self._wanted)
        return tuple(index for index, state in enumerate(self._groups[:below]) if not state.updated)

    def _roll(self) -> LeaderSet:
        """Let the operator move the leader StatefulSet; how that is afterwards. Groups that are resized in place are
        kept from the roll by the partition that their resizes ask for, as the operator does it."""
        lowest = max(self._after.partition, self.resizes.lowest_partition if self.resizes is not None else 0)
        plan = plan_roll(self._view(lowest))
        early = _rolled_early(self._groups, min(self._wanted, plan.partition), lowest)
        step, self._groups = _moved(self._groups, plan.partition, plan.replicas, early, roll_reason(plan))
        self._starting |= frozenset(step.created)
        if not self._surge_is_late:
            self._end_starts()
        if self.resizes is not None:
            self.resizes.recreate(step.recreated)
        if step.recreated or step.created or step.removed:
            self._add(step)
        return LeaderSet(plan.replicas, plan.partition, self._wanted)

    def _view(self, lowest: int) -> RollView:
        return RollView(
            self._wanted,
            lowest,
            self._window.within(self._after.surge),
            self._window.within(self._after.unavailable),
            self._current,
            GroupsInOrder.of(self._groups),
            template_changed=self._changed,
        )

    def _resize(self, leaders: LeaderSet) -> None:
        resized = self.resizes.advance() if self.resizes is not None else ()
        if self.resizes is None or not resized:
            return
        self._groups = [replace(one, updated=one.updated or index in resized) for index, one in enumerate(self._groups)]
        away = self.resizes.restarting(resized)
        serving = sum(one.ready for index, one in enumerate(self._groups) if index not in away)
        self._add(ForecastStep(leaders.partition, leaders.replicas, resized=resized, serving=serving))

    def _add(self, step: ForecastStep) -> None:
        self.steps.append(replace(step, waits_for=self._awaited))
        self._awaited = ()

    def _become_ready(self) -> bool:
        """Nothing else can go on: groups that start become ready, else those that are not ready; whether there were
        any."""
        if self._starting:
            self._end_starts()
            return True
        self._awaited = tuple(index for index, one in enumerate(self._groups) if not one.ready)
        if not self._awaited:
            return False
        self._groups = [GroupState(ready=True, updated=one.updated) for one in self._groups]
        if self.resizes is not None:
            self.resizes.becomes_ready(self._awaited)
        return True

    def _end_starts(self) -> None:
        self._groups = [
            replace(one, ready=one.ready or index in self._starting) for index, one in enumerate(self._groups)
        ]
        self._starting = frozenset()


def _rolled_early(groups: Sequence[GroupState], reached: int, partition: int) -> tuple[int, ...]:
    """Groups that have failed and get the new template before their turn."""
    states = {index: state for index, state in enumerate(groups) if state.exists}
    leaders = {index: LeaderFacts(state.updated) for index, state in states.items()}
    return plan_early_roll(
        EarlyRollView(range(reached), states, leaders, partition, on_delete=True, observed=True)
    ).failed


def _moved(
    groups: Sequence[GroupState], partition: int, replicas: int, early: Collection[int], reason: str
) -> tuple[ForecastStep, list[GroupState]]:
    """What the StatefulSets do with these two numbers, and the groups once all of it is done, but for those that are
    new: they are not ready yet. `early` are groups below the partition that are recreated all the same.

    A group that is new takes the new revision from the partition on, and the old one below it.
    """
    count = len(groups)
    reached = [*early, *range(partition, min(count, replicas))]
    recreated = [index for index in reached if not groups[index].updated]
    away = frozenset(recreated)
    during = [ABSENT if index in away else state for index, state in enumerate(groups[:replicas])]
    made = GroupState(ready=True, updated=True)
    done = [
        (made if index in away else groups[index])
        if index < count
        else GroupState(ready=False, updated=index >= partition or count == 0)
        for index in range(replicas)
    ]
    step = ForecastStep(
        partition=partition,
        replicas=replicas,
        recreated=tuple(reversed(recreated)),
        created=tuple(range(count, replicas)),
        removed=tuple(range(count - 1, replicas - 1, -1)),
        serving=sum(state.ready for state in during),
        reason=reason,
    )
    return step, done
