"""What a release needs on top of what runs now, and how long it takes. Asked before its first step.

| style | replicas beside those of the stable version | what starts after the steps |
|---|---|---|
| canary | those of the step; the end: see below | all stable replicas, at the pace of their rolling update |
| blue-green of a LeaderWorkerSet | those of the step; all at the end | all groups of the stable set at once |
| blue-green of a Deployment | those of the step | the pods that the last step left out |
| partition style | none: within the surge of the workload | the pods that the last step left out |

At the end of a canary release the stable workload is replaced while the canary keeps its replicas, all of them if the
release drains. The surge of that rolling update comes on top, with two exceptions. A LeaderWorkerSet beside a canary
with all groups rolls without a surge if it finds no room for one (`promotion_pace`). A Deployment that may have pods
away needs no room for its surge: pods that find no node wait for those that go. Groups do not: the pods of a surge
group and those of a group that was replaced divide the room of one group between them, and neither becomes complete.

Replicas start as fast as those that run now did (`rules.start_times`). The duration is the sum of the starts, of the
grace periods of routes and of pauses that end by themselves. Approvals, analyses and draining take what they take.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from kohort.objects.apps import Deployment, StatefulSet
from kohort.objects.core import Node, Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.rollouts.forecast_types import ReleaseForecast
from kohort.rollouts.group_set import GroupSet
from kohort.rollouts.release_state import SETTLE_SECONDS
from kohort.rollouts.rollout_types import Rollout
from kohort.rollouts.traffic.draining import drain_timeout
from kohort.rollouts.traffic.model import finalising_grace, routing_grace
from kohort.rollouts.workloads import group_hold
from kohort.rules import group_labels, rollout_labels
from kohort.rules.group_identity import group_index
from kohort.rules.rolling_limits import RollLimits, deployment_limits, group_limits, stateful_set_limit
from kohort.rules.scheduling.group_capacity import GroupCapacity, group_capacity
from kohort.rules.scheduling.planned_group import PlannedGroup, Unit
from kohort.rules.start_times import expected_start
from kohort.rules.stored_requests import with_stored_requests

Released = GroupSet | Deployment | StatefulSet
GroupPlanner = Callable[[ObjectMeta, JsonObject, int], PlannedGroup | None]
"""The pods of a group of a LeaderWorkerSet, by its metadata, its spec and the index of the group; None if no pod of the
set can be made at all."""


class ClusterRoom(NamedTuple):
    """Where the replicas of a release go."""

    nodes: Sequence[Node]
    plan_group: GroupPlanner


_GRACES_OF_A_STEP: Final = 2
"""Before its routes change, until proxies know the new pods; and after."""
_GRACES_OF_THE_END: Final = 3


def forecast_release(
    rollout: Rollout, subject: Released, room: ClusterRoom | None, pods: Sequence[Pod]
) -> ReleaseForecast:
    """`subject` has the template that is released. `pods` are all of the cluster, those of the workload at least.
    Without `room` it is not asked whether the replicas fit."""
    total = replicas_of(subject)
    counts = tuple(rollout.planned(step.replicas or 0, total) for step in rollout.strategy.steps)
    extra = max(_beside_stable(rollout, subject, counts, total), default=0)
    start = expected_start(running_groups(subject, pods))
    forecast = ReleaseForecast(
        unit="group" if isinstance(subject, GroupSet) else "pod",
        replicas=counts,
        extra_replicas=extra,
        start_seconds=round(start) if start is not None else None,
        duration_seconds=round(_duration(rollout, subject, counts, start)) if start is not None else None,
        approvals=sum(_waits_for_approval(rollout, number) for number in range(1, len(counts) + 1)),
        judged=rollout_labels.ANALYSIS_NAME in rollout.metadata.annotations,
    )
    if room is None or not extra:
        return forecast
    found = _capacity(subject, room, pods, extra)
    if found is None:
        return forecast
    return _with_capacity(forecast, found, _beside_stable(rollout, subject, counts, total))


def _with_capacity(forecast: ReleaseForecast, found: GroupCapacity, beside: Sequence[int]) -> ReleaseForecast:
    too_large = next((number for number, count in enumerate(beside, 1) if count > found.fitting), 0)
    lacking, reason = (found.obstacle.lacking, found.obstacle.reason) if found.obstacle is not None else ((), "")
    return msgspec.structs.replace(
        forecast, fitting=found.fitting, lacking=lacking, reason=reason, step_without_room=too_large
    )


def _capacity(subject: Released, room: ClusterRoom, pods: Sequence[Pod], wanted: int) -> GroupCapacity | None:
    """None if no pod of the workload can be made."""
    first = _first_free_index(subject, pods)
    if plan_replica(subject, room.plan_group, first) is None:
        return None

    def planned(number: int) -> PlannedGroup:
        return plan_replica(subject, room.plan_group, first + number) or PlannedGroup("", ())

    return group_capacity(room.nodes, pods, planned, wanted)


def _first_free_index(subject: Released, pods: Sequence[Pod]) -> int:
    """Beyond all groups that exist: pods of an exclusive group stay with those of the same index."""
    if not isinstance(subject, GroupSet):
        return 0
    return max((subject.replicas, *(index + 1 for index in _by_group(subject, pods) if index is not None)))


def plan_replica(subject: Released, plan_group: GroupPlanner, index: int) -> PlannedGroup | None:
    """The pods of one replica of the new version, as far as their placement is concerned."""
    if isinstance(subject, GroupSet):
        return plan_group(subject.metadata, subject.spec, index)
    namespace, name = subject.metadata.namespace, f"{subject.metadata.name}-{index}"
    template = subject.spec.template
    metadata = {"name": name, "namespace": namespace, "uid": f"to come: {namespace}/{name}"}
    labels = {"labels": (template.get("metadata") or {}).get("labels") or {}}
    spec = with_stored_requests(template.get("spec") or {})
    return PlannedGroup("", [Unit("", [msgspec.convert({"metadata": metadata | labels, "spec": spec}, Pod)])])


def _beside_stable(rollout: Rollout, subject: Released, counts: Sequence[int], total: int) -> list[int]:
    """How many replicas exist beside those of the stable version at each step, and at the end where that is more."""
    if _in_one_workload(rollout, subject):
        return []
    reached = max(counts, default=total)
    last = total if _grows_at_the_end(rollout, subject, reached) else reached
    last += 0 if rollout.blue_green else _surge_of_promotion(subject, last)
    return [*counts, last] if last > reached else list(counts)


def _surge_of_promotion(subject: Released, beside: int) -> int:
    """Replicas that the stable workload adds while it is replaced, and cannot do without."""
    surge, away = rolling_limits(subject)
    if isinstance(subject, GroupSet):
        return surge if beside < subject.replicas else 0
    return surge if not away else 0


def _grows_at_the_end(rollout: Rollout, subject: Released, reached: int) -> bool:
    """The new version serves alone while the stable workload is replaced: in blue-green, and where stable replicas are
    drained before."""
    if reached >= replicas_of(subject):
        return False
    if rollout.blue_green:
        return isinstance(subject, GroupSet)
    return drain_timeout(rollout.strategy.traffic_routings) > 0


def _in_one_workload(rollout: Rollout, subject: Released) -> bool:
    """Partition style, which groups do not have."""
    return rollout.partitioned and not isinstance(subject, GroupSet)


def running_groups(subject: Released, pods: Sequence[Pod]) -> list[list[Pod]]:
    """The pods of a workload, by replica; groups that are not complete are left out."""
    if isinstance(subject, GroupSet):
        return [group for group in _by_group(subject, pods).values() if len(group) >= subject.size]
    wanted = subject.spec.selector.match_labels if subject.spec.selector is not None else {}
    here = [pod for pod in pods if pod.metadata.namespace == subject.metadata.namespace]
    return [[pod] for pod in here if wanted and wanted.items() <= pod.metadata.labels.items()]


def _by_group(subject: GroupSet, pods: Sequence[Pod]) -> dict[int | None, list[Pod]]:
    """By the index of the group; None for pods whose label says none."""
    groups: dict[int | None, list[Pod]] = {}
    for pod in pods:
        ours = pod.metadata.labels.get(group_labels.NAME) == subject.metadata.name
        if ours and pod.metadata.namespace == subject.metadata.namespace:
            groups.setdefault(group_index(pod.metadata.labels), []).append(pod)
    return groups


def replicas_of(subject: Released) -> int:
    if isinstance(subject, Deployment):
        return 1 if subject.spec.replicas is None else subject.spec.replicas
    return subject.replicas


# Duration


def _duration(rollout: Rollout, subject: Released, counts: Sequence[int], start: float) -> float:
    pace = replaced_at_once(subject)
    refs = rollout.strategy.traffic_routings
    if _in_one_workload(rollout, subject) and drain_timeout(refs) > 0:
        start += routing_grace(refs)  # Pods that are replaced leave their Service so long before.
    seconds, reached = SETTLE_SECONDS, 0
    for number, (step, count) in enumerate(zip(rollout.strategy.steps, counts, strict=True), 1):
        more, reached = max(0, count - reached), max(count, reached)
        seconds += start * (_rounds(more, pace) if _in_one_workload(rollout, subject) else min(1, more))
        seconds += _GRACES_OF_A_STEP * routing_grace(refs) if step.routes else 0
        seconds += 0 if rollout.skips_pause(number) else step.pause_seconds or 0
    return seconds + start * _starts_at_the_end(rollout, subject, reached) + _GRACES_OF_THE_END * finalising_grace(refs)


def _starts_at_the_end(rollout: Rollout, subject: Released, reached: int) -> int:
    """How often pods that start one after the other are waited for, once the steps are done."""
    total, pace = replicas_of(subject), replaced_at_once(subject)
    if _in_one_workload(rollout, subject):
        return _rounds(total - reached, pace)
    if not rollout.blue_green:
        return _rounds(total, pace) + int(_grows_at_the_end(rollout, subject, reached))
    left_out = 1 if reached < total else 0
    return left_out + (1 if isinstance(subject, GroupSet) else 0)


def _rounds(count: int, pace: int) -> int:
    return -(-count // pace)


def replaced_at_once(subject: Released) -> int:
    """How many replicas the rolling update of the user replaces at a time."""
    return rolling_limits(subject).replaced_at_once


def rolling_limits(subject: Released) -> RollLimits:
    """Of the rolling update of the user."""
    total = replicas_of(subject)
    match subject:
        case GroupSet():
            held = rollout_labels.ORIGINAL_LWS_STRATEGY in subject.metadata.annotations
            return group_limits(group_hold.saved_strategy(subject.metadata) if held else subject.rolling, total)
        case StatefulSet():
            of_user = subject.spec.update_strategy.rolling_update
            away = None if of_user is None else of_user.max_unavailable
            return RollLimits(0, stateful_set_limit(away, total))
        case Deployment():
            limits = subject.spec.strategy.rolling_update
            surge, away = (None, None) if limits is None else (limits.max_surge, limits.max_unavailable)
            return deployment_limits(surge, away, total)


def _waits_for_approval(rollout: Rollout, number: int) -> bool:
    return not rollout.skips_pause(number) and rollout.strategy.steps[number - 1].pause_seconds is None
