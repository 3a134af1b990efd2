"""How many groups a set keeps while those that a scale down removes still answer requests.

A Rollout that drains (`drainTimeoutSeconds`) writes on its set how long the groups may take, and afterwards which
number of groups they are drained for. In between, the set keeps the groups that it was last sized for.

| annotation drain-on-scale-down | groups wanted, sized for | annotation drained-for | waited | groups kept |
|--------------------------------|--------------------------|------------------------|--------|-------------|
| none, or not a number          | any                      | any                    | any    | wanted      |
| 60                             | 4, 4                     | any                    | any    | wanted      |
| 60                             | 2, 4                     | none, or for 3         | 10 s   | 4           |
| 60                             | 2, 4                     | for 2                  | any    | wanted      |
| 60                             | 2, 4                     | none                   | 120 s  | wanted      |

The last row is for an operator that does not release: whatever was meant to drain is not there any more.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from kohort.objects.recorded_json import read_recorded
from kohort.rules.group_identity import parse_index

DRAIN_ON_SCALE_DOWN: Final = "kohort.dev/drain-on-scale-down"
"""On a set: for how many seconds at most groups that a scale down removes are drained."""
DRAINED_FOR: Final = "kohort.dev/drained-for"
"""On a set: for which number of groups the others are drained, and their leaders."""
SPARE_SECONDS: Final = 60.0


class DrainedFor(msgspec.Struct, frozen=True):
    replicas: int
    leaders: tuple[str, ...] = ()
    """Uids of leaders that go."""


def drained_for(annotations: Mapping[str, str]) -> DrainedFor | None:
    return read_recorded(annotations.get(DRAINED_FOR, ""), DrainedFor)


def seconds_to_drain(annotations: Mapping[str, str]) -> int:
    """0 if groups go at once."""
    return parse_index(annotations.get(DRAIN_ON_SCALE_DOWN)) or 0


def kept_groups(annotations: Mapping[str, str], wanted: int, sized_for: int, waited: float) -> int:
    allowed = seconds_to_drain(annotations)
    if not allowed or wanted >= sized_for or waited > allowed + SPARE_SECONDS:
        return wanted
    found = drained_for(annotations)
    return wanted if found is not None and found.replicas == wanted else sized_for
