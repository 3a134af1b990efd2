"""How long a Job waits after failures before it creates another pod.

Failures since the last success count, also those of pods that are gone: the first means 10 seconds, each further one
twice as long, up to ten minutes. With a limit per index, every index has a back-off of its own, and the replacement of
a failed pod carries the number in an annotation.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from kohort.cluster.workloads.job.plan import PodResult
from kohort.kube import clock
from kohort.objects.core import Pod
from kohort.objects.meta import find_condition
from kohort.rules.restart_backoff import pause_after

BACKOFF_BASE: Final = 10.0
BACKOFF_MAX: Final = 600.0
REFUSED_BASE: Final = 1.0
REFUSED_MAX: Final = 60.0


class FailureRecord(msgspec.Struct, frozen=True):
    failures: int = 0
    """In a row, since the last success."""
    since: datetime | None = None
    """The last of them."""


def after(rest: FailureRecord, good: Sequence[PodResult], bad: Sequence[PodResult]) -> FailureRecord:
    """The record after pods that just succeeded or failed."""
    ends = sorted(pod.ended for pod in bad if pod.ended)
    if good:
        rest = FailureRecord()
        last = max((pod.ended for pod in good if pod.ended), default=None)
        ends = [moment for moment in ends if last is None or moment > last]
    return FailureRecord(rest.failures + len(ends), ends[-1]) if ends else rest


def duration(failures: int) -> float:
    """How long after the last failure the next pod may start."""
    return pause_after(failures, BACKOFF_BASE, BACKOFF_MAX)


def after_refusals(times: int) -> float:
    """How long to wait before a pod is asked for again that was refused `times` in a row."""
    return pause_after(times, REFUSED_BASE, REFUSED_MAX)


def seconds_left(rest: FailureRecord, now: datetime) -> float:
    """Seconds until a new pod may be created."""
    if rest.since is None:
        return 0.0
    return max(0.0, duration(rest.failures) - (now - rest.since).total_seconds())


def seconds_left_for_index(pod: PodResult | None, now: datetime) -> float:
    """The same, where `pod` is the one that failed last."""
    if pod is None:
        return 0.0
    return seconds_left(FailureRecord(pod.failures + pod.ignored + 1, pod.ended), now)


def ended(pod: Pod) -> datetime | None:
    """When a pod ended; the first of these that is known: the end of its last container, the end of its readiness, its
    deletion, its creation."""
    moments = [
        clock.parse_time(one.state.terminated.finished_at)
        if one.state.terminated is not None and one.state.terminated.finished_at
        else None
        for one in pod.status.container_statuses
    ]
    finished = [moment for moment in moments if moment is not None]
    if finished and len(finished) == len(moments):
        return max(finished)
    ready = find_condition(pod.status.conditions, "Ready")
    if ready is not None and ready.status == "False" and ready.last_transition_time:
        return clock.parse_time(ready.last_transition_time)
    meta = pod.metadata
    if meta.deletion_timestamp:
        return clock.parse_time(meta.deletion_timestamp) - timedelta(seconds=meta.deletion_grace_period_seconds or 0)
    return clock.parse_time(meta.creation_timestamp) if meta.creation_timestamp else None
