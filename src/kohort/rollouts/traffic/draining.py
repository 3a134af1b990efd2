"""Waiting for requests in flight, before pods that served are deleted.

Routes lead elsewhere by now, and the grace period has passed: nothing new arrives. What is still being answered, a
stream of tokens for example, ends normally if it ends within `drainTimeoutSeconds`. The time when the wait began is
stored like those of grace periods, so a crash of the operator neither shortens nor lengthens it.

| requests in flight          | since the wait began         | then                                       |
|-----------------------------|------------------------------|--------------------------------------------|
| none, or unknown            | any                          | go on                                      |
| some                        | not stored yet               | store the time, wait                       |
| some                        | less than the timeout        | wait                                       |
| some                        | the timeout or more          | go on, and an event names pods and numbers |
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from kohort.objects.counted_nouns import counted
from kohort.rollouts.traffic.model import RouteRef, routing_grace

LOOK_SECONDS: Final = 1.0
_NAMED: Final = 3
"""Pods that a message names."""


class Drained(msgspec.Struct, frozen=True):
    """Nothing is in flight, as far as can be known."""


class StillDraining(msgspec.Struct, frozen=True):
    text: str
    seconds: float
    """When to look again."""
    begins: bool = False
    """The time of its beginning is to be stored."""


class DrainTimedOut(msgspec.Struct, frozen=True):
    text: str


DrainDecision = Drained | StillDraining | DrainTimedOut


def drain_timeout(refs: tuple[RouteRef, ...]) -> int:
    return max((ref.drain_timeout_seconds for ref in refs), default=0)


def longest_drain(refs: tuple[RouteRef, ...]) -> int:
    """Seconds after pods have left their Services; requests in flight are counted from the end of the grace period on.

    >>> longest_drain((RouteRef(grace_period_seconds=90, drain_timeout_seconds=30),))
    120
    """
    return max(
        (routing_grace((ref,)) + ref.drain_timeout_seconds for ref in refs if ref.drain_timeout_seconds), default=0
    )


def decide_drain(in_flight: Mapping[str, float], began: str | None, now: datetime, timeout: float) -> DrainDecision:
    """`in_flight` has the requests of each pod that is known to have any."""
    busy = {pod: count for pod, count in in_flight.items() if count > 0}
    if not busy or timeout <= 0:
        return Drained()
    if began is None:
        return StillDraining(_text(busy, timeout), min(LOOK_SECONDS, timeout), begins=True)
    age = (now - datetime.fromisoformat(began)).total_seconds()
    if age < 0:
        # A clock that was set back must not make the wait longer.
        return StillDraining(_text(busy, timeout), min(LOOK_SECONDS, timeout), begins=True)
    if age >= timeout:
        return DrainTimedOut(f"{_counted(busy)} after {timeout:g} s (drainTimeoutSeconds); they are cut off")
    return StillDraining(_text(busy, timeout), min(LOOK_SECONDS, timeout - age))


def _text(busy: Mapping[str, float], timeout: float) -> str:
    return f"waiting for {_counted(busy)}, at most {timeout:g} s"


def _counted(busy: Mapping[str, float]) -> str:
    named = sorted(busy.items(), key=lambda item: (-item[1], item[0]))
    pods = ", ".join(f"{pod}: {count:g}" for pod, count in named[:_NAMED])
    more = f" and {counted(len(named) - _NAMED, 'more pod')}" if len(named) > _NAMED else ""
    total = sum(busy.values())
    return f"{total:g} {'request' if total == 1 else 'requests'} in flight ({pods}{more})"
