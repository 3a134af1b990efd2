"""What holds for every roll, whatever a user and the cluster do meanwhile.

A model of a set plays the parts around the decision: a StatefulSet that replaces leaders at once, groups that go, come
back and become ready in any order, groups that fail by themselves; a user who changes the template, goes back to an old
one, scales, holds and edits the strategy, in absolute numbers and in percents, in the middle of rolls.
"""

from collections.abc import Callable
from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.rolling_update import LeaderSet, RollView, plan_roll
from kohort.objects.json_types import JsonObject
from kohort.rules.group_state import ABSENT, GroupsInOrder, GroupState

Amount = int | str


class Group(msgspec.Struct):
    revision: int
    ready: bool = False
    leaving: bool = False
    """Being replaced: the old leader is going."""


class Model:
    def __init__(self, replicas: int, unavailable: Amount, surge: Amount, random: Random) -> None:
        self.random = random
        self.wanted = replicas
        self.strategy: JsonObject = {"partition": 0, "maxUnavailable": unavailable, "maxSurge": surge}
        self.revision = self.newest = 1
        self.groups = [Group(1, ready=True) for _ in range(replicas)]
        self.leader_set = LeaderSet(replicas, 0, replicas)
        self.template_changed = False

    @property
    def subject(self) -> LeaderWorkerSet:
        rollout = {"type": "RollingUpdate", "rollingUpdateConfiguration": self.strategy}
        return LeaderWorkerSet(spec={"replicas": self.wanted, "rolloutStrategy": rollout})

    def states(self) -> list[GroupState]:
        found = [GroupState(group.ready, group.revision == self.revision) for group in self.groups]
        return found + [ABSENT] * (self.leader_set.replicas - len(found))

    # The decision, and what the StatefulSet makes of it

    def reconcile(self) -> None:
        subject, before = self.subject, self.leader_set
        most = subject.replicas + subject.surge
        states = self.states()
        plan = plan_roll(
            RollView(
                replicas=subject.replicas,
                partition=subject.partition,
                surge=subject.surge,
                unavailable=subject.unavailable,
                leader_set=before,
                groups=GroupsInOrder.of(states),
                template_changed=self.template_changed,
            )
        )
        if not self.template_changed:
            assert plan.partition <= max(before.partition, subject.partition), "the partition only moves forward"
        assert plan.replicas <= max(most, before.replicas)
        self.template_changed = False
        self.leader_set = LeaderSet(plan.replicas, plan.partition, subject.replicas)
        ready = sum(group.ready for group in self.groups)
        self._act()
        left = sum(group.ready for group in self.groups)
        if before.replicas <= most:  # what a user takes away by allowing fewer groups is not part of the promise
            floor = min(subject.replicas - subject.unavailable, ready)
            assert left >= floor, f"{ready} ready groups, {left} left, {floor} promised: {states} {before} {plan}"

    def _act(self) -> None:
        del self.groups[self.leader_set.replicas :]
        while len(self.groups) < self.leader_set.replicas:
            self.groups.append(Group(self.revision if len(self.groups) >= self.leader_set.partition else 0))
        for group in self.groups[self.leader_set.partition :]:
            if group.revision != self.revision:
                group.ready, group.leaving = False, True

    # What the cluster does

    def progress(self) -> bool:
        """One group that is not ready comes one step further. False when there is none."""
        waiting = [group for group in self.groups if not group.ready]
        if not waiting:
            return False
        group = self.random.choice(waiting)
        if group.leaving:
            group.revision, group.leaving = self.revision, False
        else:
            group.ready = True
        return True

    def fail(self) -> None:
        if self.groups:
            self.random.choice(self.groups).ready = False

    # What a user does

    def new_template(self) -> None:
        self.newest += 1
        self._change(self.newest)

    def roll_back(self) -> None:
        self._change(self.random.randint(1, self.newest))

    def _change(self, revision: int) -> None:
        if revision != self.revision:
            self.revision, self.template_changed = revision, True
        self.reconcile()

    def scale(self) -> None:
        self.wanted = self.random.randint(0, 8)
        self.reconcile()

    def scale_and_update(self) -> None:
        self.wanted = self.random.randint(0, 8)
        self.newest += 1
        self.revision, self.template_changed = self.newest, True
        self.reconcile()

    def hold(self) -> None:
        self.strategy["partition"] = self.random.randint(0, 10)
        self.reconcile()

    def change_strategy(self) -> None:
        self.strategy["maxUnavailable"] = self.random.choice([0, 1, 2, "25%", "50%", "100%"])
        self.strategy["maxSurge"] = self.random.choice([0, 1, 3, "25%", "100%"])
        self.reconcile()


STEPS: list[Callable[[Model], object]] = [
    Model.new_template,
    Model.roll_back,
    Model.scale,
    Model.scale_and_update,
    Model.hold,
    Model.change_strategy,
    Model.fail,
]
amounts = st.one_of(st.integers(0, 4), st.sampled_from(["0%", "25%", "34%", "50%", "100%"]))


@settings(max_examples=400)
@given(
    st.integers(1, 8),
    amounts,
    amounts,
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 6)), max_size=12),
    st.randoms(use_true_random=False),
)
def test_rolls_keep_the_budget_and_end(
    replicas: int,
    unavailable: Amount,
    surge: Amount,
    story: list[tuple[Callable[[Model], object], int]],
    random: Random,
) -> None:
    model = Model(replicas, unavailable, surge, random)
    model.new_template()
    for step, pause in story:
        step(model)
        for _ in range(pause):
            model.reconcile()
            model.progress()
    model.strategy["partition"] = 0
    for _ in range(2000):
        model.reconcile()
        if not model.progress() and model.leader_set == LeaderSet(model.wanted, 0, model.wanted):
            break
    assert [(group.revision, group.ready) for group in model.groups] == [(model.revision, True)] * model.wanted
    assert model.leader_set == LeaderSet(model.wanted, 0, model.wanted)
