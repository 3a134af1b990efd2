"""What a drain of a node would do to groups: which go, in which order, and what each waits for.

| groups of a set with pods on the node | go |
|---|---|
| that are away already | at once |
| of a set without a disruption budget | at once, all together |
| of a set with one | as many at a time as its budget leaves; the next when those are ready again |
| of a set whose budget is 0 | never: the drain does not end |
"""

from collections.abc import Mapping, Sequence

import msgspec

from kohort.groups.disruption_budget import AwayReason, groups_away
from kohort.groups.pod_controller import restart_policy
from kohort.inspection.snapshot import Snapshot, group_of
from kohort.objects.core import Pod
from kohort.rules import group_labels

_RECREATING = (group_labels.RECREATE_ON_RESTART, group_labels.RECREATE_WHEN_STARTED)


class DrainedGroup(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    namespace: str
    set: str
    group: int
    pods: Sequence[str]
    """On the node."""
    recreated: Sequence[str] = ()
    """Pods on other nodes that are recreated with them."""
    turn: int | None = 1
    """1 goes at once, 2 when those of 1 are ready again; None: it never goes."""
    waits_for: Sequence[str] = ()
    why: str = ""


class DrainForecast(msgspec.Struct, frozen=True, rename="camel"):
    node: str
    groups: Sequence[DrainedGroup]
    others: Sequence[str]
    """Pods on the node that belong to no group."""

    @property
    def ends(self) -> bool:
        return all(one.turn is not None for one in self.groups)


def forecast_drain(node: str, pods: Sequence[Pod], sets: Sequence[Snapshot]) -> DrainForecast:
    """`pods` are all pods on the node, `sets` those that some of them belong to."""
    known = {(one.metadata.namespace, one.name) for one in sets}
    others = [
        f"{pod.metadata.namespace}/{pod.metadata.name}"
        for pod in pods
        if (pod.metadata.namespace, pod.metadata.labels.get(group_labels.NAME, "")) not in known
    ]
    groups = [group for one in sets for group in _groups_of_set(one, node)]
    ordered = sorted(groups, key=lambda one: (one.turn is None, one.turn or 0, one.namespace, one.set, one.group))
    return DrainForecast(node, ordered, sorted(others))


def _groups_of_set(snapshot: Snapshot, node: str) -> list[DrainedGroup]:
    group_set = snapshot.group_set
    here: dict[int, list[str]] = {}
    for pod in snapshot.pods:
        index = group_of(pod)
        if pod.spec.node_name == node and index is not None and not pod.metadata.deleting:
            here.setdefault(index, []).append(pod.metadata.name)
    leader_set = snapshot.leader_set
    partition = leader_set.partition if leader_set is not None else group_set.replicas
    away = groups_away(group_set.replicas, snapshot.states, {}, partition)
    budget = group_set.disruption_budget
    limit = budget.groups(group_set.replicas) if budget is not None else len(here) + len(away)
    found = []
    for index, (turn, why) in _turns(sorted(here), away, limit).items():
        whole = restart_policy(group_set) in _RECREATING
        rest = [pod.metadata.name for pod in snapshot.members(index) if pod.spec.node_name != node] if whole else []
        waits = [f"group {other}" for other in _waits_for(index, turn, _turns(sorted(here), away, limit), away, limit)]
        metadata = snapshot.metadata
        found.append(
            DrainedGroup(metadata.namespace, snapshot.name, index, sorted(here[index]), sorted(rest), turn, waits, why)
        )
    return found


def _turns(groups: Sequence[int], away: Mapping[int, AwayReason], limit: int) -> dict[int, tuple[int | None, str]]:
    found: dict[int, tuple[int | None, str]] = {
        index: (1, f"it is {away[index].value} already") for index in groups if index in away
    }
    waiting = [index for index in groups if index not in away]
    if limit <= 0:
        return found | dict.fromkeys(waiting, (None, "spec.disruptionBudget.maxUnavailable is 0"))
    first = max(0, limit - len(away))
    found |= dict.fromkeys(waiting[:first], (1, ""))
    for position, index in enumerate(waiting[first:]):
        found[index] = (2 + position // limit, "")
    return found


def _waits_for(
    index: int,
    turn: int | None,
    turns: Mapping[int, tuple[int | None, str]],
    away: Mapping[int, AwayReason],
    limit: int,
) -> list[int]:
    if turn is None or turn == 1:
        return []
    before = [other for other, (its, _) in turns.items() if its == turn - 1]
    return sorted({*before, *(away if turn == 2 else ())})


def drain_lines(forecast: DrainForecast) -> list[str]:
    count = sum(len(one.pods) for one in forecast.groups)
    groups, others = len(forecast.groups), len(forecast.others)
    lines = [f"drain of node {forecast.node}: {count} pods of {groups} groups, {others} other pods"]
    for one in forecast.groups:
        when = f"{one.turn}." if one.turn is not None else "never:"
        text = f"  {when} {one.namespace}/{one.set} group {one.group}: {', '.join(one.pods)}"
        if one.recreated:
            text += f"; recreated with them: {', '.join(one.recreated)}"
        if one.waits_for:
            text += f"; when {', '.join(one.waits_for)} {'is' if len(one.waits_for) == 1 else 'are'} ready again"
        lines.append(f"{text}; {one.why}" if one.why else text)
    if forecast.others:
        lines.append(f"  other pods: {', '.join(forecast.others)}")
    if not forecast.ends:
        lines.append("the drain does not end: raise spec.disruptionBudget.maxUnavailable, or delete the groups by hand")
    return lines
