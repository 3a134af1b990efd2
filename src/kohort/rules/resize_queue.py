"""When are the waiting resizes of a node decided, and in which order?

A *pass* decides all resizes that are due (`is_due`). Every trigger makes a pass, and so does the timer (`next_retry`).
Node agents and simulated nodes follow the same rules.

Each is decided against what the ones before it have taken: one that stays deferred does not hold up a smaller one
behind it.

1. resizes that ask for nothing more: they free room;
2. the higher priority;
3. Guaranteed before others;
4. the longest wait; those that were not refused yet come last;
5. the pod's UID, so that the order is total and the same every time.

The time that counts is the one in the pod's condition, so it survives a restart of the node.
"""

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from kohort.objects.meta import Condition
from kohort.objects.pods import Pod
from kohort.resources import GUARANTEED, stored_qos_class
from kohort.resources.effective import INFEASIBLE
from kohort.rules.allocated_resources import Allocated
from kohort.rules.resize_decision import Accepted, Deferred, NodeFacts, ResizeDecision, decide_resize, increases

FIRST_RETRY_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 180.0
Trigger = Literal[
    "pod_updated", "pods_added", "pods_removed", "pod_resized", "pod_terminated", "node_changed", "periodic_retry"
]


def is_due(pending: Condition | None, trigger: Trigger, *, new: bool) -> bool:
    """Whether a pass decides a resize. `pending` is the pod's condition, `new` means that what the pod asks for was not
    decided yet.

    | resize                     | decided                                          |
    |----------------------------|--------------------------------------------------|
    | new                        | always                                           |
    | deferred                   | always                                           |
    | infeasible                 | if the node has changed                          |
    | none of these              | never: it was accepted, or nothing was asked for |
    """
    if new or pending is None:
        return new
    return pending.reason != INFEASIBLE or trigger == "node_changed"


def next_retry(started: float, last_pass: float | None) -> float:
    """When a node makes a pass that nothing triggers: for room that was freed without a trigger.

    | passes since the node started | next                                           |
    |-------------------------------|------------------------------------------------|
    | none                          | 30 s after the start                           |
    | some                          | 3 min after the last one, whatever its trigger |
    """
    return started + FIRST_RETRY_SECONDS if last_pass is None else last_pass + RETRY_SECONDS


class WaitingResize(msgspec.Struct, frozen=True):
    pod: Pod
    allocated: Allocated
    since: str = ""
    """When it was first refused; empty if it was not."""


def in_order(waiting: Iterable[WaitingResize]) -> list[WaitingResize]:
    return sorted(waiting, key=_place)


def decide_in_order(
    waiting: Iterable[WaitingResize], settled: Iterable[Pod], node: NodeFacts
) -> list[tuple[WaitingResize, ResizeDecision]]:
    """Decide all resizes that wait on a node. `settled` are its other pods, *as allocated*.

    A resize may ask for more of one resource and less of another, and so free room for one that was deferred before its
    turn. Those that are deferred are therefore asked again until no more is accepted: none of them waits while it fits.
    Decisions come in the order in which they were made: none depends on a later one.
    """
    queue, fixed = in_order(waiting), list(settled)
    held = {entry.pod.metadata.uid: entry.allocated.applied_to(entry.pod) for entry in queue}
    decisions: dict[str, tuple[WaitingResize, ResizeDecision]] = {}
    while queue:
        accepted = False
        deferred: list[WaitingResize] = []
        for entry in queue:
            uid = entry.pod.metadata.uid
            others = [*fixed, *(pod for other, pod in held.items() if other != uid)]
            decision = decide_resize(entry.pod, entry.allocated, others, node)
            if isinstance(decision, Accepted):
                held[uid], accepted = entry.pod, True
            if isinstance(decision, Deferred):
                deferred.append(entry)
            decisions.pop(uid, None)
            decisions[uid] = entry, decision
        queue = deferred if accepted else []
    return list(decisions.values())


def _place(entry: WaitingResize) -> tuple[bool, int, bool, bool, str, str]:
    pod = entry.pod
    return (
        increases(pod, entry.allocated),
        -(pod.spec.priority or 0),
        stored_qos_class(pod) != GUARANTEED,
        not entry.since,
        entry.since,
        pod.metadata.uid,
    )
