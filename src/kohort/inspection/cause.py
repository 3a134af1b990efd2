"""A cause why a workload is not in its wanted state, and the order of causes.

| order | kind | found in |
|--:|---|---|
| 0 | operator | the set's last edit was never observed |
| 1 | refused | warning events of the set and its StatefulSets: quota, webhooks |
| 2 | volume | claims that are not bound, mounts that fail |
| 3 | scheduling | PodScheduled is False |
| 4 | image | ErrImagePull, ImagePullBackOff, InvalidImageName |
| 5 | configuration | CreateContainerConfigError, StartError and the like |
| 6 | crash | CrashLoopBackOff, containers that ended, failed pods |
| 7 | probe | running, not ready |
| 8 | resize | PodResizePending, PodResizeInProgress with an error |
| 9 | traffic | a step that cannot move requests: routes, Services, endpoints |
| 10 | analysis | steps that failed their analysis, or are held by it |
| 11 | rollout | steps that wait for approval, held partitions |
| 12 | waiting | starting, terminating, workers that wait for their leader: not an error yet |
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
        }
        for one in causes
    ]
