"""A cause why a workload is not in its wanted state, and the order of causes.

| order | kind | found in |
|--:|---|---|
| 0 | operator | the set's last edit was never observed |
| 1 | refused | warning events of the set and its StatefulSets: quota, webhooks; revisions that were deleted |
| 2 | node | nodes that do not report that they are ready |
| 3 | volume | claims that are not bound, mounts that fail |
| 4 | scheduling | PodScheduled is False |
| 5 | image | ErrImagePull, ImagePullBackOff, InvalidImageName |
| 6 | configuration | CreateContainerConfigError, StartError and the like |
| 7 | crash | CrashLoopBackOff, containers that ended, failed pods |
| 8 | probe | running, not ready |
| 9 | resize | PodResizePending, PodResizeInProgress with an error |
| 10 | traffic | a step that cannot move requests: routes, Services, endpoints |
| 11 | analysis | steps that failed their analysis, or are held by it |
| 12 | rollout | steps that wait for approval, held partitions |
| 13 | waiting | starting, terminating, workers that wait for their leader: not an error yet |

A note is worth knowing, but the workload is as wanted: notes come last, and `explain` and `status` agree that it is
done.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from kohort.inspection.advice import Advice
from kohort.objects.json_types import JsonObject


class CauseKind(StrEnum):
    """In the order of the table: causes of an earlier kind explain those of later ones."""

    OPERATOR = "operator"
    REFUSED = "refused"
    NODE = "node"
    VOLUME = "volume"
    SCHEDULING = "scheduling"
    IMAGE = "image"
    CONFIGURATION = "configuration"
    CRASH = "crash"
    PROBE = "probe"
    RESIZE = "resize"
    TRAFFIC = "traffic"
    ANALYSIS = "analysis"
    ROLLOUT = "rollout"
    WAITING = "waiting"


ORDER: Final = tuple(CauseKind)


class Cause(msgspec.Struct, frozen=True):
    kind: CauseKind
    objects: tuple[str, ...]
    """Names of the objects that show it; look at the first one first."""
    found: str
    action: Advice
    note: bool = False
    """It does not keep the workload from being as wanted."""


def cause_lines(cause: Cause, number: int) -> list[str]:
    first, *others = cause.objects
    more = f" and {len(others)} more" if others else ""
    return [f"{number}. [{cause.kind}] {first}{more}: {cause.found}", f"   → {cause.action.text}"]


def documents(causes: Iterable[Cause]) -> list[JsonObject]:
    """For scripts: the advice as text, and its commands as a list."""
    return [
        {
            "kind": one.kind,
            "objects": list(one.objects),
            "found": one.found,
            "action": one.action.text,
            "commands": [command.text for command in one.action.commands],
            "note": one.note,
        }
        for one in causes
    ]
