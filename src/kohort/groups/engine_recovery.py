"""Inference engines may recover by themselves when a worker fails: annotation `kohort.dev/engine-recovery-seconds`.

While the leader stays ready, a group is not restarted for a container of a worker that ended. It gets that many
seconds, from the moment at which the failure is first seen; when they are over, the pod is ready again or not:

| the leader | the time | the pod | decision |
|---|---|---|---|
| is ready | was not noted yet | | BeginRecovery: note on the pod until when |
| is ready | is not over | | AwaitRecovery |
| is ready | is over | is ready | GiveUpRestart: these restarts do not count any more |
| is ready | is over | is not ready | restart the group |
| is not ready | | | restart the group |

The failure is seen when the container ends, not when it has restarted: kubelets wait up to 5 minutes before they
restart a container that ended several times.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from kohort.objects.container_reasons import CRASH_LOOP_BACK_OFF
from kohort.objects.core import ContainerStatus, Pod
from kohort.rules.group_identity import parse_index
from kohort.rules.group_labels import ENGINE_RECOVERY, RECOVERY_UNTIL

LONGEST: Final = 86_400


def is_down(pod: Pod, expected_restarts: Mapping[str, int]) -> bool:
    """Whether a container that runs as long as the pod has ended and does not run again yet, without a resize that is
    expected to restart it."""
    sidecars = {one.name for one in pod.spec.init_containers if one.sidecar}
    statuses = (
        *(one for one in pod.status.init_container_statuses if one.name in sidecars),
        *pod.status.container_statuses,
    )
    return any(one.restart_count >= expected_restarts.get(one.name, 0) and _has_ended(one) for one in statuses)


def _has_ended(status: ContainerStatus) -> bool:
    waiting = status.state.waiting
    return status.state.terminated is not None or (waiting is not None and waiting.reason == CRASH_LOOP_BACK_OFF)


class EngineRecovery(msgspec.Struct, frozen=True):
    """Of one pod, in a set that gives its engine time."""

    seconds: float
    """That the set gives."""
    left: float | None = None
    """Of them; None while no failure was noted."""


class BeginRecovery(msgspec.Struct, frozen=True):
    seconds: float


class AwaitRecovery(msgspec.Struct, frozen=True):
    seconds: float


class GiveUpRestart(msgspec.Struct, frozen=True):
    pass


RecoveryDecision = BeginRecovery | AwaitRecovery | GiveUpRestart


def recovery_seconds(annotations: Mapping[str, str]) -> float:
    """That a set gives its engine; 0 for none, and for what is no number of seconds."""
    return min(parse_index(annotations.get(ENGINE_RECOVERY)) or 0, LONGEST)


def recovery_of(
    set_annotations: Mapping[str, str], pod_annotations: Mapping[str, str], now: datetime
) -> EngineRecovery | None:
    seconds = recovery_seconds(set_annotations)
    if not seconds:
        return None
    until = recovery_until(pod_annotations)
    return EngineRecovery(seconds, None if until is None else (until - now).total_seconds())


def recovery_until(pod_annotations: Mapping[str, str]) -> datetime | None:
    """What is noted on a pod. None if nothing is, or if it is no time."""
    try:
        found = datetime.fromisoformat(pod_annotations.get(RECOVERY_UNTIL, ""))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def decide_recovery(recovery: EngineRecovery | None, *, leader_ready: bool, pod_ready: bool) -> RecoveryDecision | None:
    """None: the group is restarted."""
    if recovery is None or not leader_ready:
        return None
    if recovery.left is None:
        return BeginRecovery(recovery.seconds)
    if recovery.left > 0:
        return AwaitRecovery(recovery.left)
    return GiveUpRestart() if pod_ready else None
