"""Causes why a pod is not ready or not resized: from its status, its claims and its events."""

from collections.abc import Iterator
from typing import Final

from kohort.inspection.advice import Verb
from kohort.inspection.cause import Cause, CauseKind
from kohort.inspection.container_causes import container_problem
from kohort.inspection.messages import cause_of, pod_resize_advice, problem_text
from kohort.inspection.pod_context import PodContext
from kohort.inspection.problems import (
    ClaimNotBound,
    ClaimState,
    IsStarting,
    MountFails,
    NodeHasNotBegun,
    NodeSilent,
    NotReady,
    PodFailed,
    Problem,
    RejectedByNode,
    ResizeFails,
    ResizePending,
    Terminating,
    WaitsForLeader,
)
from kohort.inspection.scheduling_causes import scheduling_problem
from kohort.inspection.snapshot import worker_of
from kohort.objects.core import Pod
from kohort.rules import group_labels
from kohort.rules.pod_admission import is_rejection
from kohort.rules.resize_conditions import ResizeState
from kohort.rules.unready_reason import why_not_ready

_MOUNTS: Final = frozenset({"FailedMount", "FailedAttachVolume"})


def pod_causes(pod: Pod, context: PodContext) -> list[Cause]:
    return [cause_of(kind, problem, pod.metadata.name) for kind, problem in _problems(pod, context)]


def _problems(pod: Pod, context: PodContext) -> list[tuple[CauseKind, Problem]]:
    """The first check that finds something is the answer: what comes later follows from it."""
    if rejected := _rejection(pod, context):
        return [(CauseKind.REFUSED, rejected)]
    if silent := _silent_node(pod, context):
        return [(CauseKind.NODE, silent)]
    if pod.metadata.deleting:
        terminating = Terminating(pod.metadata.deletion_grace_period_seconds, tuple(pod.metadata.finalizers))
        return [(CauseKind.WAITING, terminating)]
    if unbound := _unbound_claims(pod, context):
        return [(CauseKind.VOLUME, one) for one in unbound]
    if mounting := _mount_trouble(pod, context):
        return [(CauseKind.VOLUME, MountFails(mounting))]
    if placing := scheduling_problem(pod, context):
        return [placing]
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if known := container_problem(status, pod, context):
            return [known]
    return [_problem_of_whole_pod(pod, context)]


def _problem_of_whole_pod(pod: Pod, context: PodContext) -> tuple[CauseKind, Problem]:
    status, metadata = pod.status, pod.metadata
    if status.phase == "Failed":
        return CauseKind.CRASH, PodFailed(status.reason, status.message, metadata.name, metadata.namespace)
    if status.phase == "Running":
        return CauseKind.PROBE, _not_ready(pod, context)
    if _waits_for_leader(pod, context):
        return CauseKind.WAITING, WaitsForLeader(metadata.annotations.get(group_labels.LEADER_NAME, ""))
    if status.start_time is None:
        return CauseKind.WAITING, NodeHasNotBegun(pod.spec.node_name)
    return CauseKind.WAITING, IsStarting(why_not_ready(pod))


def _rejection(pod: Pod, context: PodContext) -> RejectedByNode | None:
    """The last warning of the node of this pod, or of its predecessor with the same name, if the node rejected it. A
    rejected pod fails and is replaced at once, so its status is rarely seen; its events stay."""
    if pod.status.phase == "Running" and not pod.metadata.deleting:
        return None
    name = pod.metadata.name
    events = [one for one in context.events if one.involved_object.kind == "Pod" and one.involved_object.name == name]
    events.sort(key=lambda one: one.last_timestamp or one.event_time or "")
    last = next((one for one in reversed(events) if one.type == "Warning"), None)
    if last is None or not is_rejection(last.reason):
        return None
    return RejectedByNode(last.reason, last.message)


def _silent_node(pod: Pod, context: PodContext) -> NodeSilent | None:
    since = context.silent_nodes.get(pod.spec.node_name, "")
    if not since:
        return None
    budget = context.group_set.template.restart_budget if context.group_set is not None else None
    after = budget.node_loss_seconds if budget is not None and budget.force_delete_on_node_loss else None
    return NodeSilent(pod.spec.node_name, since, pod.metadata.deleting, after, context.group_set is not None)


def _unbound_claims(pod: Pod, context: PodContext) -> list[ClaimNotBound]:
    if pod.spec.node_name:
        return []
    claims = {claim.metadata.name: claim for claim in context.claims}
    found: list[ClaimNotBound] = []
    for volume in pod.spec.volumes:
        wanted = volume.claim_name(pod.metadata.name)
        if not wanted:
            continue
        claim = claims.get(wanted)
        if claim is None:
            found.append(ClaimNotBound(wanted, ClaimState.MISSING))
        elif claim.status.phase == "Lost":
            found.append(ClaimNotBound(wanted, ClaimState.LOST))
        elif claim.status.phase != "Bound" and (trouble := _event_of(context, claim.metadata.name, "Provision")):
            kind = claim.spec.storage_class_name or ""
            found.append(ClaimNotBound(wanted, ClaimState.NOT_PROVISIONED, kind, message=trouble))
        elif claim.status.phase != "Bound" and claim.spec.storage_class_name is None:
            found.append(ClaimNotBound(wanted, ClaimState.WITHOUT_CLASS, phase=claim.status.phase))
    return found


def _event_of(context: PodContext, name: str, word: str) -> str:
    for event in context.events:
        if event.type == "Warning" and event.involved_object.name == name and word in event.reason:
            return event.message
    return ""


def _mount_trouble(pod: Pod, context: PodContext) -> str:
    if pod.status.phase != "Pending":
        return ""
    for event in context.events:
        if event.involved_object.uid == pod.metadata.uid and event.reason in _MOUNTS:
            return event.message
    return ""


def _not_ready(pod: Pod, context: PodContext) -> NotReady:
    failing = tuple(one.name for one in pod.status.container_statuses if not one.ready)
    messages = [
        event.message
        for event in context.events
        if event.involved_object.uid == pod.metadata.uid and event.reason == "Unhealthy"
    ]
    logs = context.command(Verb.LOGS, "--pod", pod.metadata.name)
    return NotReady(failing, why_not_ready(pod), messages[-1] if messages else "", logs)


def _waits_for_leader(pod: Pod, context: PodContext) -> bool:
    group_set = context.group_set
    return group_set is not None and group_set.startup_policy == group_labels.LEADER_READY and worker_of(pod) > 0


def resize_causes(pod: Pod, context: PodContext) -> Iterator[Cause]:
    """Of a pod that was resized by itself, not with its group."""
    reported = ResizeState.reported(pod)
    if reported.pending is not None:
        yield _resize_cause(ResizePending(reported.pending.reason, reported.pending.message), pod, context)
    if reported.progress is not None and reported.fails:
        yield _resize_cause(ResizeFails(reported.progress.message), pod, context)


def _resize_cause(problem: ResizePending | ResizeFails, pod: Pod, context: PodContext) -> Cause:
    name, group = pod.metadata.name, pod.metadata.labels.get(group_labels.GROUP_INDEX, "")
    advice = pod_resize_advice(problem, name, context, group)
    return Cause(CauseKind.RESIZE, (name,), problem_text(problem), advice)
