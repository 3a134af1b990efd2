"""Which causes are errors, and which only need time or a decision. Pages colour them by that.

| cause | is |
|---|---|
| rollout, waiting | a matter of time, or of a decision |
| probe, of pods that run for less than `STARTING` without a restart | a start: models take minutes to load |
| any other | an error |

`kohort explain` names all of them alike; there nothing is coloured.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from kohort.inspection.cause import Cause, CauseKind
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.workload import PlainWorkload
from kohort.kube.clock import parse_time
from kohort.objects.core import Pod

STARTING: Final = timedelta(minutes=10)
"""As long as a Deployment may make no progress before Kubernetes says so (progressDeadlineSeconds)."""
_PATIENT: Final = (CauseKind.ROLLOUT, CauseKind.WAITING)


class ShownCause(msgspec.Struct, frozen=True):
    cause: Cause
    error: bool


def shown_causes(found: Sequence[Cause], subject: Snapshot | PlainWorkload, now: datetime) -> list[ShownCause]:
    starting = _starting_pods(subject, now) if any(one.kind is CauseKind.PROBE for one in found) else ()
    return [ShownCause(one, _is_error(one, starting)) for one in found]


def _is_error(cause: Cause, starting: Collection[str]) -> bool:
    if cause.kind is CauseKind.PROBE:
        return not all(one in starting for one in cause.objects)
    return cause.kind not in _PATIENT


def _starting_pods(subject: Snapshot | PlainWorkload, now: datetime) -> frozenset[str]:
    pods = [*subject.pods, *(subject.canary.pods if subject.canary is not None else ())]
    return frozenset(one.metadata.name for one in pods if _is_starting(one, now))


def _is_starting(pod: Pod, now: datetime) -> bool:
    statuses = pod.status.container_statuses
    began = [one.state.running.started_at for one in statuses if one.state.running is not None]
    return not any(one.restart_count for one in statuses) and all(
        one is not None and now - parse_time(one) < STARTING for one in began
    )
