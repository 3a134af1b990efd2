"""Which pods a DaemonSet creates and deletes next, and what its status counts.

First every node gets what belongs there:

| pods on the node, terminating ones aside | the node | then                                                       |
|------------------------------------------|----------|------------------------------------------------------------|
| none                                     | fits     | create; without surge only when no terminating one is left |
| a failed one                             | may keep | delete, with a growing delay for each node                 |
| a succeeded one                          | may keep | delete                                                     |
| more than one                            | may keep | keep the oldest                                            |
| more than one, with surge                | may keep | keep the oldest of each revision until new is available    |
| any                                      | does not | delete                                                     |

Outdated pods are replaced only when that leaves nothing to do. Without surge they are deleted: those that are not
available at once, whatever `maxUnavailable` is, others while fewer than `maxUnavailable` nodes lack an available pod.
With surge a new pod is created beside the old one, on at most `maxSurge` nodes at a time, and the old one is deleted
once the new one is available.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto

import msgspec

from kohort.objects import int_or_string

BURST = 250
"""Pods that are created or deleted at a time."""


class DaemonPod(msgspec.Struct, frozen=True):
    """One pod, as far as the rules need it."""

    name: str
    updated: bool = True
    """It has the newest template."""
    bound: bool = True
    phase: str = "Running"
    ready: bool = True
    available: bool = True
    terminating: bool = False
    created: str = ""

    @property
    def age(self) -> tuple[bool, str, str]:
        """Sorts pods that have a node first, then the oldest."""
        return not self.bound, self.created, self.name


class Fit(msgspec.Struct, frozen=True):
    """Whether pods of the DaemonSet belong on a node."""

    should_run: bool
    """A pod is created here."""
    may_keep: bool
    """A pod that is here stays: nodes that only refuse new pods keep those that they have."""


class Strategy(msgspec.Struct, frozen=True):
    """`rolling` is false for OnDelete: outdated pods are replaced when users delete them."""

    rolling: bool = True
    max_unavailable: int | str = 1
    max_surge: int | str = 0

    def allowed(self, desired: int) -> tuple[int, int]:
        """Unavailable and extra pods for so many nodes. Both round up, and they are never both zero."""
        surge = int_or_string.resolve(self.max_surge, desired, round_up=True) if self.rolling else 0
        unavailable = int_or_string.resolve(self.max_unavailable, desired, round_up=True)
        return (1 if not surge and not unavailable else unavailable), surge

    @property
    def surges(self) -> bool:
        return self.rolling and self.max_surge not in (0, "0%")


class View(msgspec.Struct, frozen=True):
    nodes: Mapping[str, Fit]
    pods: Mapping[str, Sequence[DaemonPod]]
    """By the node that they run on or are meant for. It may have vanished."""
    strategy: Strategy = Strategy()
    delayed: frozenset[str] = frozenset()
    """Nodes where a pod failed not long ago: the next failed one is not deleted yet."""


class Cause(Enum):
    FAILED = auto()
    SUCCEEDED = auto()
    SURPLUS = auto()
    UNWANTED = auto()
    NODE_GONE = auto()
    OUTDATED = auto()


class Create(msgspec.Struct, frozen=True):
    node: str


class Delete(msgspec.Struct, frozen=True):
    pod: str
    node: str
    cause: Cause


Action = Create | Delete


def plan(view: View) -> list[Action]:
    """What to do now. Creations come first; not more than `BURST` of either."""
    actions = _bring_nodes_in_order(view) or (_replace_outdated(view) if view.strategy.rolling else [])
    creations = [each for each in actions if isinstance(each, Create)][:BURST]
    deletions = [each for each in actions if isinstance(each, Delete)][:BURST]
    return [*creations, *deletions]


def _bring_nodes_in_order(view: View) -> list[Action]:
    actions: list[Action] = []
    for node, fit in view.nodes.items():
        pods = view.pods.get(node, ())
        if fit.should_run and not pods:
            actions.append(Create(node))
        elif fit.may_keep:
            actions += _in_order(node, fit, pods, view)
        else:
            actions += _all_of(node, pods, Cause.UNWANTED)
    for node, pods in view.pods.items():
        if node not in view.nodes:
            actions += _all_of(node, [pod for pod in pods if not pod.bound], Cause.NODE_GONE)
    return actions


def _in_order(node: str, fit: Fit, pods: Sequence[DaemonPod], view: View) -> list[Action]:
    actions: list[Action] = []
    running: list[DaemonPod] = []
    for pod in pods:
        if pod.terminating:
            continue
        if pod.phase == "Failed":
            actions += [] if node in view.delayed else [Delete(pod.name, node, Cause.FAILED)]
        elif pod.phase == "Succeeded":
            actions.append(Delete(pod.name, node, Cause.SUCCEEDED))
        else:
            running.append(pod)
    running.sort(key=lambda pod: pod.age)
    if not view.strategy.surges:
        return actions + _all_of(node, running[1:], Cause.SURPLUS)
    if not running and fit.should_run:
        return [*actions, Create(node)]
    return actions + _surplus_while_surging(node, running)


def _surplus_while_surging(node: str, running: Sequence[DaemonPod]) -> list[Action]:
    new = [pod for pod in running if pod.updated]
    old = [pod for pod in running if not pod.updated]
    actions = _all_of(node, [*new[1:], *old[1:]], Cause.SURPLUS)
    if new and old and (not old[0].ready or new[0].available):
        actions.append(Delete(old[0].name, node, Cause.OUTDATED))
    return actions


def _replace_outdated(view: View) -> list[Action]:
    unavailable, surge = view.strategy.allowed(desired(view))
    nodes = [name for name, fit in view.nodes.items() if fit.should_run or view.pods.get(name)]
    pairs = {node: _one_of_each(view.pods.get(node, ())) for node in nodes}
    return _surge(view, pairs, surge) if surge else _delete_outdated(pairs, unavailable)


Pair = tuple[DaemonPod | None, DaemonPod | None]
"""The new and the old pod of a node."""


def _one_of_each(pods: Sequence[DaemonPod]) -> Pair | None:
    """None if there are several of one kind: the next plan deletes the surplus first."""
    staying = [pod for pod in pods if not pod.terminating]
    new = [pod for pod in staying if pod.updated]
    old = [pod for pod in staying if not pod.updated]
    if len(new) > 1 or len(old) > 1:
        return None
    return (new[0] if new else None), (old[0] if old else None)


def _delete_outdated(nodes: Mapping[str, Pair | None], unavailable: int) -> list[Action]:
    missing = 0
    broken: list[Action] = []
    candidates: list[Action] = []
    for node, pair in nodes.items():
        if pair is None:
            missing += 1
            continue
        new, old = pair
        if new is not None and old is None:
            missing += not new.available
        elif old is None or new is not None:
            missing += 1
        elif not old.available:
            broken.append(Delete(old.name, node, Cause.OUTDATED))
        else:
            candidates.append(Delete(old.name, node, Cause.OUTDATED))
    # All pods that are not available are replaced, whatever maxUnavailable is, but they count towards it.
    left = max(0, unavailable - missing - len(broken))
    return broken + candidates[:left]


def _surge(view: View, pairs: Mapping[str, Pair | None], surge: int) -> list[Action]:
    """
    | new pod       | old pod       | node       | then                                                  |
    |---------------|---------------|------------|-------------------------------------------------------|
    | available     | any           | any        | delete the old one                                    |
    | not available | any           | any        | wait; counts towards `maxSurge`                       |
    | none          | not available | should run | create                                                |
    | none          | available     | should run | create within `maxSurge`                              |
    | none          | not available | keeps it   | delete                                                |
    | none          | available     | keeps it   | delete while more pods are available than desired     |
    """
    extra = available = 0
    replacements: list[Action] = []
    candidates: list[Action] = []
    deletions: list[Action] = []
    kept: list[Action] = []
    for node, pair in pairs.items():
        if pair is None:
            extra += 1
            continue
        new, old = pair
        counted = old or new
        available += counted is not None and counted.available
        if old is None:
            continue
        delete = Delete(old.name, node, Cause.OUTDATED)
        if new is not None:
            if new.available:
                deletions.append(delete)
            else:
                extra += 1
        elif not view.nodes[node].should_run:
            (kept if old.available else deletions).append(delete)
        else:
            (candidates if old.available else replacements).append(Create(node))
    surplus = max(0, available - desired(view))
    return [*replacements, *candidates[: max(0, surge - extra)], *deletions, *kept[:surplus]]


def _all_of(node: str, pods: Iterable[DaemonPod], cause: Cause) -> list[Action]:
    return [Delete(pod.name, node, cause) for pod in pods if not pod.terminating]


def desired(view: View) -> int:
    return sum(fit.should_run for fit in view.nodes.values())


class Counts(msgspec.Struct, frozen=True):
    desired: int = 0
    current: int = 0
    misscheduled: int = 0
    ready: int = 0
    updated: int = 0
    available: int = 0

    @property
    def unavailable(self) -> int:
        return self.desired - self.available


def count(view: View) -> Counts:
    """The oldest pod of a node stands for the node."""
    oldest = {node: min(pods, key=lambda pod: pod.age) for node, pods in view.pods.items() if pods}
    wanted = [oldest.get(node) for node, fit in view.nodes.items() if fit.should_run]
    there = [pod for pod in wanted if pod is not None]
    return Counts(
        desired=len(wanted),
        current=len(there),
        misscheduled=sum(not fit.should_run and node in oldest for node, fit in view.nodes.items()),
        ready=sum(pod.ready for pod in there),
        updated=sum(pod.updated for pod in there),
        available=sum(pod.available for pod in there),
    )
