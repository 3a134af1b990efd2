"""What a StatefulSet does next.

One plan covers all pods of the set and contains the writes to make now. A StatefulSet is about order: under
`OrderedReady` the first pod that is not yet as it should be ends the plan, so at most one pod changes at a time; under
`Parallel` no pod waits for another.

A plan has three stages, and a later stage starts only when the earlier one has nothing to wait for:

| stage | pods | what happens |
|---|---|---|
| fill | ordinals start .. start+replicas-1, ascending | finished pods deleted, missing ones made, identity repaired |
| shrink | all other ordinals, descending | deleted; ordered: one at a time, and only while those below are healthy |
| roll | in range, descending, from the partition up | pods of another revision than the update revision deleted |

One plan makes at most `BURST` pods, so that a set of any size takes its turn like the others; it goes on when it sees
them. It makes no more while `MOST_PENDING` of its pods have not started: what the nodes cannot hold would fill the
memory of the control plane.

How many pods may be unavailable during a roll:

| maxUnavailable | rule |
|---|---|
| not given | one after the other; a pod that is not available stops the roll below it |
| given | any pods, as long as unavailable ones (anywhere in range) stay below the number |
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec

from kohort.rules.rolling_limits import stateful_set_limit

BURST: Final = 500
MOST_PENDING: Final = 5000


class PodFacts(msgspec.Struct, frozen=True):
    """One pod, as far as the rules need it."""

    name: str
    ordinal: int
    revision: str = ""
    finished: bool = False
    """Succeeded or Failed: it will never run again."""
    pending: bool = False
    ready: bool = False
    """Running and Ready."""
    available: bool = False
    """Ready for at least minReadySeconds."""
    terminating: bool = False
    intact: bool = True
    """Name label, volumes and claim owners are as they must be."""


class SetFacts(msgspec.Struct, frozen=True):
    """The set, as far as the rules need it."""

    replicas: int
    start: int = 0
    ordered: bool = True
    rolling: bool = True
    """The strategy is RollingUpdate; otherwise pods change revision only when users delete them."""
    partition: int | None = 0
    """None when the strategy has no rollingUpdate block at all."""
    max_unavailable: int | str | None = None
    current_revision: str = "current"
    update_revision: str = "update"
    current_replicas: int = 0
    """`status.currentReplicas` as last reported."""
    deleting: bool = False

    def in_range(self, ordinal: int) -> bool:
        return self.start <= ordinal < self.start + self.replicas


class Create(msgspec.Struct, frozen=True):
    ordinal: int
    revision: str


class Delete(msgspec.Struct, frozen=True):
    pod: str
    reason: Literal["finished", "scale down", "update"]


class Repair(msgspec.Struct, frozen=True):
    """Correct labels, volumes and claim owners of a pod."""

    pod: str


class EnsureClaims(msgspec.Struct, frozen=True):
    """A pod waits to start; make sure that the claims it waits for exist."""

    pod: str


class FixClaimOwners(msgspec.Struct, frozen=True):
    """A pod is about to be scaled away; its claims must follow the retention policy first."""

    pod: str


Action = Create | Delete | Repair | EnsureClaims | FixClaimOwners


class Counts(msgspec.Struct, frozen=True):
    """The counters of the status."""

    replicas: int = 0
    ready: int = 0
    available: int = 0
    current: int = 0
    updated: int = 0


Step = tuple[Action, ...]
"""What happens to one pod, in this order."""


class Plan(msgspec.Struct, frozen=True):
    stages: tuple[tuple[Step, ...], ...]
    """One stage after the other, and none after a stage in which something failed. The steps of a stage are taken in
    this order by an ordered set, and several at once by a parallel one. A pod with which nothing happens has an empty
    step: it takes its place in a batch."""
    waiting: str
    """What the set waits for, in words; empty when it does not wait."""

    @property
    def actions(self) -> tuple[Action, ...]:
        return tuple(action for stage in self.stages for step in stage for action in step)


def revision_for(facts: SetFacts, ordinal: int) -> str:
    """The revision that a new pod gets.

    | strategy | ordinal | revision |
    |---|---|---|
    | RollingUpdate with partition p | < start + p | current |
    | RollingUpdate without its block | < start + status.currentReplicas | current |
    | otherwise | any | update |
    """
    if not facts.rolling:
        return facts.update_revision
    kept = facts.current_replicas if facts.partition is None else facts.partition
    return facts.current_revision if ordinal < facts.start + kept else facts.update_revision


def plan(facts: SetFacts, pods: Sequence[PodFacts]) -> Plan:
    """The writes to make now, in their order."""
    if facts.deleting:
        return Plan((), "the set is being deleted")
    stages: list[tuple[Step, ...]] = []
    waiting = ""
    for stage in (_fill, _settle_claims, _shrink, _roll):
        steps: list[Step] = []
        for actions in stage(facts, pods):
            taken = tuple(action for action in actions if not isinstance(action, _Wait))
            waiting = next((action.reason for action in actions if isinstance(action, _Wait)), "")
            steps.append(taken)
            if waiting:
                break
        stages.append(tuple(steps))
        if waiting:
            break
    return Plan(tuple(stages), waiting)


def count(facts: SetFacts, pods: Sequence[PodFacts], done: Sequence[Action] = ()) -> Counts:
    """The counters for pods that exist, after what was just done.

    A pod that is rolled leaves the counter of its revision at once: it decides the revision of the pod that follows.
    """
    rolled = {action.pod for action in done if isinstance(action, Delete) and action.reason == "update"}
    created = [action for action in done if isinstance(action, Create)]
    alive = [pod.revision for pod in pods if not pod.terminating and pod.name not in rolled]
    alive += [create.revision for create in created]
    return Counts(
        replicas=len(pods) + len(created),
        ready=sum(pod.ready for pod in pods),
        available=sum(pod.available for pod in pods),
        current=alive.count(facts.current_revision),
        updated=alive.count(facts.update_revision),
    )


def is_complete(facts: SetFacts, counts: Counts) -> bool:
    """The roll is over: every wanted pod exists, is ready and has the update revision."""
    return facts.rolling and counts.updated == counts.ready == counts.replicas == facts.replicas


class _Wait(msgspec.Struct, frozen=True):
    reason: str


_Steps = Iterator[tuple[Action | _Wait, ...]]


def _fill(facts: SetFacts, pods: Sequence[PodFacts]) -> _Steps:
    by_ordinal = {pod.ordinal: pod for pod in pods}
    made, pending = 0, sum(pod.pending and not pod.terminating for pod in pods)
    for ordinal in range(facts.start, facts.start + facts.replicas):
        if made == BURST:
            yield (_Wait(f"{BURST} pods are created first"),)
        if ordinal not in by_ordinal and made + pending >= MOST_PENDING:
            yield (_Wait(f"{MOST_PENDING} pods have not started yet"),)
        pod = by_ordinal.get(ordinal)
        made += pod is None
        yield tuple(_fill_one(facts, ordinal, pod))


def _fill_one(facts: SetFacts, ordinal: int, pod: PodFacts | None) -> Iterator[Action | _Wait]:
    if pod is None:
        yield Create(ordinal, revision_for(facts, ordinal))
        if facts.ordered:
            yield _Wait(f"pod {ordinal} was created and is not ready yet")
        return
    if pod.finished:
        if not pod.terminating:
            yield Delete(pod.name, "finished")
        if facts.ordered:
            yield _Wait(f"{pod.name} has finished and must go before it is created again")
        return
    if pod.pending:
        yield EnsureClaims(pod.name)
    if facts.ordered and pod.terminating:
        yield _Wait(f"{pod.name} is terminating")
    elif facts.ordered and not pod.ready:
        yield _Wait(f"{pod.name} is not ready")
    elif facts.ordered and not pod.available:
        yield _Wait(f"{pod.name} is not available for long enough")
    elif not pod.intact:
        yield Repair(pod.name)


def _settle_claims(facts: SetFacts, pods: Sequence[PodFacts]) -> _Steps:
    for pod in _beyond_range(facts, pods):
        yield () if pod.intact else (FixClaimOwners(pod.name),)


def _shrink(facts: SetFacts, pods: Sequence[PodFacts]) -> _Steps:
    condemned = _beyond_range(facts, pods)
    first_unhealthy = _first_unhealthy(facts, pods, condemned)
    for pod in condemned:
        if pod.terminating:
            yield (_Wait(f"{pod.name} is terminating"),) if facts.ordered else ()
            continue
        if facts.ordered and not _healthy(pod) and pod is not first_unhealthy:
            yield (_Wait(f"{first_unhealthy.name if first_unhealthy else pod.name} is not available"),)
        delete = Delete(pod.name, "scale down")
        yield (delete, _Wait(f"{pod.name} is being scaled down")) if facts.ordered else (delete,)


def _beyond_range(facts: SetFacts, pods: Sequence[PodFacts]) -> list[PodFacts]:
    return sorted((pod for pod in pods if not facts.in_range(pod.ordinal)), key=lambda pod: -pod.ordinal)


def _roll(facts: SetFacts, pods: Sequence[PodFacts]) -> _Steps:
    if not facts.rolling:
        return
    members = sorted((pod for pod in pods if facts.in_range(pod.ordinal)), key=lambda pod: -pod.ordinal)
    lowest = facts.start + (facts.partition or 0)
    outdated = [
        pod
        for pod in members
        if pod.ordinal >= lowest and pod.revision != facts.update_revision and not pod.terminating
    ]
    if facts.max_unavailable is not None:
        budget = roll_budget(facts)
        away = facts.replicas - sum(_healthy(pod) for pod in members)
        for pod in outdated[: max(0, budget - away)]:
            yield (Delete(pod.name, "update"),)
        return
    by_ordinal = {pod.ordinal: pod for pod in members}
    for ordinal in range(facts.start + facts.replicas - 1, lowest - 1, -1):
        member = by_ordinal.get(ordinal)
        if member is None:
            yield (_Wait(f"pod {ordinal} does not exist yet"),)
        elif member in outdated:
            yield Delete(member.name, "update"), _Wait(f"{member.name} is being updated")
        elif not _healthy(member):
            yield (_Wait(f"{member.name} is not available"),)


def roll_budget(facts: SetFacts) -> int:
    """How many pods may be unavailable at once."""
    return stateful_set_limit(facts.max_unavailable, facts.replicas)


def _healthy(pod: PodFacts) -> bool:
    return pod.available and not pod.terminating


def _first_unhealthy(facts: SetFacts, pods: Sequence[PodFacts], condemned: Sequence[PodFacts]) -> PodFacts | None:
    """The lowest unhealthy pod, those that stay before those that go. It may always be deleted: waiting for it to
    become healthy could last for ever."""
    members = sorted((pod for pod in pods if facts.in_range(pod.ordinal)), key=lambda pod: pod.ordinal)
    return next((pod for pod in [*members, *reversed(condemned)] if not _healthy(pod)), None)
