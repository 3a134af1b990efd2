"""A change of cpu and memory in place, as it runs: the set as a whole, then group by group and pod by pod.

Progress of a pod is decided by the rules of the operator (`groups.resize`); this page only shows it.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from kohort.dashboard.set_page import SetHead, head_of
from kohort.inspection.pod_resources import PodResources, resources_of
from kohort.inspection.resize_progress import ResizeProgress, records, resize_progress
from kohort.inspection.snapshot import Snapshot, worker_of
from kohort.objects.core import Pod
from kohort.rules.resize_conditions import ReportedStage, ResizeState
from kohort.rules.resource_update_policy import resource_update_policy


class PodResizeState(StrEnum):
    """As the pod's node reports it."""

    SETTLED = "Settled"
    PENDING = "Pending"
    INFEASIBLE = "Infeasible"
    RUNNING = "Running"
    FAILING = "Failing"


_STATES: Final = {
    ReportedStage.SETTLED: PodResizeState.SETTLED,
    ReportedStage.DEFERRED: PodResizeState.PENDING,
    ReportedStage.INFEASIBLE: PodResizeState.INFEASIBLE,
    ReportedStage.IN_PROGRESS: PodResizeState.RUNNING,
    ReportedStage.FAILING: PodResizeState.FAILING,
}


class PodResizeRow(msgspec.Struct, frozen=True, rename="camel"):
    pod: str
    role: str
    node: str
    state: PodResizeState
    message: str
    resources: PodResources
    """As the pod desires them, as its node has allocated them, and as containers have them."""


class GroupResize(msgspec.Struct, frozen=True, rename="camel"):
    index: int
    phase: str
    """Resizing, Reverting, Reverted or Recreate, as the operator has recorded it; empty if it has begun nothing."""
    reason: str
    message: str
    since: float
    """Seconds since the epoch; 0 if it has not begun."""
    adopted: bool
    """The group has the wanted revision."""
    pods: Sequence[PodResizeRow]


class ResizePage(msgspec.Struct, frozen=True, rename="camel"):
    set: SetHead
    policy: str
    progress: ResizeProgress | None
    """None while no group is to be resized."""
    groups: Sequence[GroupResize]


def resize_page(snapshot: Snapshot, now: datetime) -> ResizePage:
    group_set = snapshot.group_set
    states, recorded = snapshot.states, records(snapshot)
    groups = []
    for index in sorted(snapshot.leaders):
        record = recorded.get(index)
        state = states.get(index)
        groups.append(
            GroupResize(
                index=index,
                phase=record.phase if record is not None else "",
                reason=(record.reason or "") if record is not None else "",
                message=record.message if record is not None else "",
                since=record.since if record is not None else 0.0,
                adopted=state is not None and state.updated,
                pods=[_pod(one) for one in snapshot.members(index)],
            )
        )
    return ResizePage(
        set=head_of(snapshot, now),
        policy=resource_update_policy(group_set.spec),
        progress=resize_progress(snapshot),
        groups=groups,
    )


def _pod(pod: Pod) -> PodResizeRow:
    reported = ResizeState.reported(pod)
    role, state = "worker" if worker_of(pod) else "leader", _STATES[reported.stage]
    return PodResizeRow(pod.metadata.name, role, pod.spec.node_name, state, reported.message, resources_of(pod))
