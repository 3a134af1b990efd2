"""What a drain of a node would do to groups: which go, in which order, and what each waits for.

| groups of a set with pods on the node | go |
|---|---|
| that are away already | at once |
| of a set without a disruption budget | at once, all together |
| of a set with one | as `disruption_budget.decide_eviction` lets them; the next when those are ready again |
| of a set whose budget is 0 | never: the drain does not end |
| of a set with one that groups use up which are held | never: held groups do not come back by themselves |
| of a set that does not give up pods of lost nodes, if the node is lost | never: pods there cannot be seen to end |
| with a pod that PodDisruptionBudgets keep from being evicted (`eviction_obstacles`) | never |
| with a volume that only this node reaches | in their turn, and stay away: later groups have one place less |
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from kohort.groups.disruption_budget import (
    AwayReason,
    EvictionRefused,
    decide_eviction,
    groups_away,
    rolled_from,
)
from kohort.groups.restart_decision import restart_policy
from kohort.inspection.advice import Verb
from kohort.inspection.eviction_obstacles import (
    EvictionObstacle,
    eviction_obstacles,
    is_taken_by_drain,
    obstacle_words,
)
from kohort.inspection.node_bound_claims import ClaimKey, claims_of_pods
from kohort.inspection.release_subject import command
from kohort.inspection.snapshot import Snapshot, group_of
from kohort.objects.core import Pod
from kohort.objects.counted_nouns import agreeing, counted
from kohort.objects.policy import PodDisruptionBudget
from kohort.rules import group_labels
from kohort.rules.group_identity import is_leader
from kohort.rules.group_state import GroupState, RestartState

_RECREATING = (group_labels.RECREATE_ON_RESTART, group_labels.RECREATE_WHEN_STARTED)


class DrainedGroup(msgspec.Struct, frozen=True, rename="camel"):
    namespace: str
    set: str
    group: int
    pods: Sequence[str]
    """On the node."""
    recreated: Sequence[str] = ()
    """Pods on other nodes that are recreated with them."""
    turn: int | None = 1
    """1 goes first, 2 after those of 1; None: it never goes."""
    waits_for: Sequence[str] = ()
    """Groups that must be ready again before; with none, it goes at once."""
    why: str = ""
    node_bound_claims: Mapping[str, Sequence[str]] = {}
    """Claims by pod whose volume only this node reaches: the pod does not start elsewhere."""


class DrainForecast(msgspec.Struct, frozen=True, rename="camel"):
    node: str
    groups: Sequence[DrainedGroup]
    others: Sequence[str]
    """Pods on the node that belong to no group, and that the drain takes."""
    held_groups: Sequence[str] = ()
    """Commands that end what keeps groups from going: restarts of held groups."""
    not_ready_since: str = ""
    """Since when the node does not report; empty if it does."""
    volumes_unknown: bool = False
    """The user may not list volumes, so which of them only this node reaches is not known."""
    blocked_pods: Sequence[EvictionObstacle] = ()
    """Pods on the node that PodDisruptionBudgets of users keep from being evicted."""
    budgets_unknown_in: Sequence[str] = ()
    """Namespaces of pods on the node whose PodDisruptionBudgets the user may not list."""

    @property
    def ends(self) -> bool:
        stuck = any(one.turn is None for one in self.groups) or self.blocked_pods
        return not stuck and not (self.not_ready_since and self.others)


def forecast_drain(
    node: str,
    pods: Sequence[Pod],
    sets: Sequence[Snapshot],
    bound: frozenset[ClaimKey] | None = frozenset(),
    not_ready_since: str = "",
    budgets: Sequence[PodDisruptionBudget] = (),
    budgets_unknown_in: Collection[str] = (),
) -> DrainForecast:
    """`pods` are all pods on the node, `sets` those that some of them belong to, `bound` the claims whose volumes only
    this node reaches (None if volumes may not be listed), `not_ready_since` since when the node does not report,
    `budgets` all PodDisruptionBudgets of these pods' namespaces but those where the user may not list them."""
    pods = [one for one in pods if is_taken_by_drain(one)]
    known = {(one.metadata.namespace, one.name) for one in sets}
    others = [
        f"{pod.metadata.namespace}/{pod.metadata.name}"
        for pod in pods
        if (pod.metadata.namespace, pod.metadata.labels.get(group_labels.NAME, "")) not in known
    ]
    groups = [group for one in sets for group in _groups_of_set(one, node, bound or frozenset())]
    blocked = eviction_obstacles(pods, budgets, sets)
    by_pod = {(one.namespace, one.pod): one for one in blocked}
    for number, group in enumerate(groups):
        obstacles = [by_pod[key] for name in group.pods if (key := (group.namespace, name)) in by_pod]
        if obstacles:
            groups[number] = replace(group, turn=None, waits_for=(), why=obstacle_words(obstacles[0]))
    if not_ready_since:
        forced = {(one.metadata.namespace, one.name) for one in sets if _gives_up_pods(one)}
        stuck = f"its node has not been ready since {not_ready_since}, so its pods there cannot be seen to end"
        groups = [
            one if (one.namespace, one.set) in forced else replace(one, turn=None, waits_for=(), why=stuck)
            for one in groups
        ]
    waiting = {(one.namespace, one.set) for one in groups if one.turn is None}
    held = [text for one in sets if (one.metadata.namespace, one.name) in waiting for text in _restarts_of_held(one)]
    ordered = sorted(groups, key=lambda one: (one.turn is None, one.turn or 0, one.namespace, one.set, one.group))
    unknown = sorted({one.metadata.namespace for one in pods}.intersection(budgets_unknown_in))
    return DrainForecast(node, ordered, sorted(others), held, not_ready_since, bound is None, blocked, unknown)


def _gives_up_pods(snapshot: Snapshot) -> bool:
    budget = snapshot.group_set.template.restart_budget
    return budget is not None and budget.force_delete_on_node_loss


def _restarts_of_held(snapshot: Snapshot) -> list[str]:
    held = [index for index, state in sorted(snapshot.states.items()) if state.restart is RestartState.HELD]
    return [command(snapshot, Verb.RESTART, "--group", str(index)).text for index in held]


def _groups_of_set(snapshot: Snapshot, node: str, bound: frozenset[ClaimKey]) -> list[DrainedGroup]:
    group_set = snapshot.group_set
    here: dict[int, list[Pod]] = {}
    for pod in snapshot.pods:
        index = group_of(pod)
        if pod.spec.node_name == node and index is not None and not pod.metadata.deleting:
            here.setdefault(index, []).append(pod)
    claims = {index: claims_of_pods(pods, bound) for index, pods in here.items()}
    staying = frozenset(index for index, found in claims.items() if found)
    leader_set = snapshot.leader_set
    away = groups_away(group_set.replicas, snapshot.states, {}, rolled_from(leader_set, group_set.replicas))
    budget = group_set.disruption_budget
    limit = budget.groups(group_set.replicas) if budget is not None else len(here) + len(away)
    leading = {index for index, pods in here.items() for pod in pods if is_leader(pod.metadata.labels)}
    held = frozenset(index for index, why in away.items() if why is AwayReason.HELD and index not in leading)
    states = {index: snapshot.states.get(index) for index in sorted(here)}
    turns = _turns(states, group_set.replicas, away, limit, staying, held)
    whole = restart_policy(group_set) in _RECREATING
    found = []
    for index, turn in turns.items():
        rest = [pod.metadata.name for pod in snapshot.members(index) if pod.spec.node_name != node] if whole else []
        found.append(
            DrainedGroup(
                namespace=snapshot.metadata.namespace,
                set=snapshot.name,
                group=index,
                pods=sorted(pod.metadata.name for pod in here[index]),
                recreated=sorted(rest),
                turn=turn.number,
                waits_for=[f"group {other}" for other in turn.waits_for],
                why=turn.why,
                node_bound_claims=claims[index],
            )
        )
    return found


class _Turn(NamedTuple):
    number: int | None
    why: str = ""
    waits_for: tuple[int, ...] = ()


def _turns(
    states: Mapping[int, GroupState | None],
    replicas: int,
    away: Mapping[int, AwayReason],
    limit: int,
    staying: frozenset[int],
    held: frozenset[int],
) -> dict[int, _Turn]:
    """The turns of the groups on the node, of which `states` has the states. `staying` groups do not come back while
    the node is drained, and `held` ones not by themselves, so each of them keeps a place of the budget."""
    found: dict[int, _Turn] = {}
    unavailable, number = dict(away), 1
    awaited: list[int] = []
    while True:
        for index, state in states.items():
            decision = decide_eviction(index, state, unavailable, limit)
            if index in found or isinstance(decision, EvictionRefused):
                continue
            why = "" if decision.costs_group else f"it is already {away.get(index, AwayReason.NOT_READY).value}"
            found[index] = _Turn(number, why, tuple(awaited))
            if index < replicas:  # The budget counts wanted groups alone.
                unavailable[index] = AwayReason.EVICTED
        gone = {index: why for index, why in unavailable.items() if index in staying or index in held}
        if len(found) == len(states) or gone == unavailable:
            break
        awaited, unavailable = sorted(unavailable.keys() - gone.keys()), dict(gone)
        number += any(turn.number == number for turn in found.values())
    return found | dict.fromkeys(states.keys() - found.keys(), _Turn(None, _why_never(sorted(gone), limit, held)))


def _why_never(gone: Sequence[int], limit: int, held: frozenset[int]) -> str:
    if limit <= 0:
        return "spec.disruptionBudget.maxUnavailable is 0"
    by_itself = "by itself, because it is held" if len(gone) == 1 else "by themselves, because they are held"
    when = by_itself if set(gone) <= held else "while the node is drained"
    return f"{_named(gone)} {'does' if len(gone) == 1 else 'do'} not come back {when}"


def _named(groups: Sequence[int]) -> str:
    return f"{'group' if len(groups) == 1 else 'groups'} {', '.join(map(str, groups))}"


def drain_lines(forecast: DrainForecast) -> list[str]:
    count = sum(len(one.pods) for one in forecast.groups)
    groups, others = len(forecast.groups), len(forecast.others)
    lines = [
        f"drain of node {forecast.node}: {counted(count, 'pod')} of {counted(groups, 'group')}, "
        f"{counted(others, 'other pod')}"
    ]
    for one in forecast.groups:
        when = f"{one.turn}." if one.turn is not None else "never:"
        text = f"  {when} {one.namespace}/{one.set} group {one.group}: {', '.join(one.pods)}"
        if one.recreated:
            text += f"; recreated with them: {', '.join(one.recreated)}"
        lines.append("; ".join([text, *conditions_of(one)]))
    if forecast.others:
        lines.append(f"  other pods: {', '.join(forecast.others)}")
    lines += [f"  never: {name}; {words}" for name, words in blocked_others(forecast).items()]
    return lines + drain_notes(forecast)


def blocked_others(forecast: DrainForecast) -> Mapping[str, str]:
    """Pods without a group that the drain cannot evict, and why."""
    found = {f"{one.namespace}/{one.pod}": obstacle_words(one) for one in forecast.blocked_pods}
    return {name: words for name, words in found.items() if name in forecast.others}


def conditions_of(group: DrainedGroup) -> list[str]:
    """What a group waits for, and what becomes of it."""
    found = []
    if group.waits_for:
        are = agreeing(len(group.waits_for), "is", "are")
        found.append(f"when {', '.join(group.waits_for)} {are} ready again")
    for pod, claims in group.node_bound_claims.items():
        found.append(f"{pod} cannot start elsewhere: only this node reaches the volume of {', '.join(claims)}")
    return [*found, group.why] if group.why else found


def drain_notes(forecast: DrainForecast) -> list[str]:
    """What holds for the drain as a whole."""
    lines = []
    bound = any(one.node_bound_claims for one in forecast.groups)
    if bound:
        lines.append(
            "groups with such volumes are not ready until the node is uncordoned, or until these claims are deleted"
        )
    if forecast.volumes_unknown:
        lines.append("volumes that only this node reaches are not known: you may not list PersistentVolumes")
    if unknown := forecast.budgets_unknown_in:
        where = f"{agreeing(len(unknown), 'namespace', 'namespaces')} {', '.join(unknown)}"
        lines.append(f"PodDisruptionBudgets of {where} are not known: you may not list them")
    if not forecast.ends:
        lines.append(_what_ends_it(forecast))
    return lines


def _what_ends_it(forecast: DrainForecast) -> str:
    if forecast.not_ready_since:
        return (
            f"the drain does not end, because node {forecast.node} has not been ready since "
            f"{forecast.not_ready_since}: bring it back, or if it is off for good: kubectl taint node {forecast.node} "
            "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
        )
    if forecast.blocked_pods:
        named = sorted({f"{one.namespace}/{name}" for one in forecast.blocked_pods for name in one.budgets})
        budgets = f"{agreeing(len(named), 'PodDisruptionBudget', 'PodDisruptionBudgets')} {', '.join(named)}"
        return f"the drain does not end before {budgets} {agreeing(len(named), 'is', 'are')} changed or deleted"
    if forecast.held_groups:
        return f"the drain does not end before held groups are restarted: {'; '.join(forecast.held_groups)}"
    return "the drain does not end: raise spec.disruptionBudget.maxUnavailable, or delete the groups by hand"
