"""The phases of a TrafficRouting, as a function of what is known of it.

| phase       | guard                          | do       | then                                  |
|-------------|--------------------------------|----------|---------------------------------------|
| any         | being deleted                  | restore  | Terminating; done: finalizer dropped  |
| ""          |                                |          | Initial                               |
| Initial     | objects exist                  | check    | Healthy                               |
| Healthy     | a Rollout progresses           |          | Progressing                           |
| Progressing | a Rollout progresses           | route    | Progressing                           |
| Progressing | none progresses any more       |          | Finalizing                            |
| Finalizing  | a Rollout progresses again     |          | Progressing                           |
| Finalizing  | routes restored                | restore  | Healthy                               |

Rollouts say that they progress by finalizers of their own; several may share one TrafficRouting. The routes are
restored before the last finalizer goes, never after.
"""

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from kohort.rollouts.traffic.model import Answer
from kohort.rules import rollout_labels

INITIAL: Final = "Initial"
HEALTHY: Final = "Healthy"
PROGRESSING: Final = "Progressing"
FINALIZING: Final = "Finalizing"
TERMINATING: Final = "Terminating"

Action = Literal["none", "check", "route", "restore"]

_WORDS: Final = {INITIAL: "TrafficRouting is Initializing"}


class Next(msgspec.Struct, frozen=True):
    phase: str
    message: str
    released: bool = False
    """Whether the own finalizer may go."""


def is_used(finalizers: Iterable[str]) -> bool:
    return any(name.startswith(rollout_labels.PROGRESSING_FINALIZER) for name in finalizers)


def action(phase: str, *, used: bool, deleting: bool) -> Action:
    if deleting:
        return "restore"
    if phase == INITIAL:
        return "check"
    if phase == PROGRESSING and used:
        return "route"
    return "restore" if phase == FINALIZING and not used else "none"


def after(phase: str, answer: Answer, *, used: bool, deleting: bool) -> Next:
    """The phase after `action` was answered with `answer` (done, if there was none)."""
    if deleting:
        text = "TrafficRouting is Terminating" if answer.done else answer.text
        return Next(TERMINATING, text, released=answer.done)
    if not answer.done and phase in (INITIAL, PROGRESSING, FINALIZING):
        return Next(phase, answer.text)
    following = {
        "": INITIAL,
        INITIAL: HEALTHY,
        HEALTHY: PROGRESSING if used else HEALTHY,
        PROGRESSING: PROGRESSING if used else FINALIZING,
        FINALIZING: PROGRESSING if used else HEALTHY,
    }.get(phase, INITIAL)
    return Next(following, _WORDS.get(following, f"TrafficRouting is {following}"))
