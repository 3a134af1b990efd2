"""Decides the phase of a TrafficRouting.

| phase       | guard                          | action   | then                                  |
|-------------|--------------------------------|----------|---------------------------------------|
| any         | being deleted                  | restore  | Terminating; done: finalizer dropped  |
| ""          |                                |          | Initial                               |
| Initial     | objects exist                  | check    | Healthy                               |
| Healthy     | a Rollout progresses           |          | Progressing                           |
| Progressing | a Rollout progresses           | route    | Progressing                           |
| Progressing | none progresses any more       |          | Finalizing                            |
| Finalizing  | a Rollout progresses again     |          | Progressing                           |
| Finalizing  | routes restored                | restore  | Healthy                               |

Each Rollout that progresses has a finalizer of its own on it; several may share one TrafficRouting. The routes are
restored before the last finalizer goes, never after.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from kohort.rollouts.action_result import ActionResult, Done
from kohort.rollouts.traffic.actions import CheckReferences, RouteAllToStable, RouteStep, TrafficAction
from kohort.rules import rollout_labels

INITIAL: Final = "Initial"
HEALTHY: Final = "Healthy"
PROGRESSING: Final = "Progressing"
FINALIZING: Final = "Finalizing"
TERMINATING: Final = "Terminating"

_MESSAGES: Final = {INITIAL: "TrafficRouting is Initializing"}


class TrafficRoutingDecision(msgspec.Struct, frozen=True):
    phase: str
    message: str
    released: bool = False
    """Whether the finalizer of kohort may go."""


def is_used(finalizers: Iterable[str]) -> bool:
    return any(name.startswith(rollout_labels.PROGRESSING_FINALIZER) for name in finalizers)


def decide(phase: str, *, used: bool, deleting: bool) -> TrafficAction | None:
    if deleting:
        return RouteAllToStable()
    if phase == INITIAL:
        return CheckReferences()
    if phase == PROGRESSING and used:
        return RouteStep()
    return RouteAllToStable() if phase == FINALIZING and not used else None


def decide_after(phase: str, result: ActionResult, *, used: bool, deleting: bool) -> TrafficRoutingDecision:
    """The phase after the action of `decide` came to `result` (`Done`, if there was no action)."""
    if deleting:
        if isinstance(result, Done):
            return TrafficRoutingDecision(TERMINATING, "TrafficRouting is Terminating", released=True)
        return TrafficRoutingDecision(TERMINATING, result.text)
    if not isinstance(result, Done) and phase in (INITIAL, PROGRESSING, FINALIZING):
        return TrafficRoutingDecision(phase, result.text)
    following = {
        "": INITIAL,
        INITIAL: HEALTHY,
        HEALTHY: PROGRESSING if used else HEALTHY,
        PROGRESSING: PROGRESSING if used else FINALIZING,
        FINALIZING: PROGRESSING if used else HEALTHY,
    }.get(phase, INITIAL)
    return TrafficRoutingDecision(following, _MESSAGES.get(following, f"TrafficRouting is {following}"))
