"""Causes why a pod is not ready or not resized: from its status, its claims and its events."""

from collections.abc import Iterator
from typing import Final

from kohort.inspection.advice import Advice, Verb
from kohort.inspection.cause import Cause, CauseKind
from kohort.inspection.container_causes import container_cause
from kohort.inspection.pod_context import PodContext
from kohort.inspection.scheduling_causes import scheduling_cause
from kohort.inspection.snapshot import worker_of
from kohort.objects.core import Pod
from kohort.objects.meta import find_condition
from kohort.objects.unready_reason import why_not_ready
from kohort.rules import group_labels

_REJECTIONS: Final = frozenset(
    {"UnexpectedAdmissionError", "NodeAffinity", "NodeName", "NodePorts", "TopologyAffinityError", "NodeShutdown"}
)
_AFTER_REJECTION: Final = (
    "free what others hold there, or ask for less; if it repeats, what the node reports and what it has differ: "
    "kubectl describe node, and its device plugins"
)
_MOUNTS: Final = frozenset({"FailedMount", "FailedAttachVolume"})


def pod_causes(pod: Pod, context: PodContext) -> list[Cause]:
    name = pod.metadata.name
    found = _explained(pod, context)
    return [Cause(kind, (name,), text, action) for kind, text, action in found]


def _explained(pod: Pod, context: PodContext) -> list[tuple[CauseKind, str, Advice]]:
    """(kind, what was found, what to do)"""
    name, namespace = pod.metadata.name, pod.metadata.namespace
    if rejected := _rejected(pod, context):
        return [(CauseKind.REFUSED, f"its node did not take it: {rejected}", Advice(_AFTER_REJECTION))]
    if pod.metadata.deleting:
        return [(CauseKind.WAITING, _terminating(pod), Advice("wait until it has ended"))]
    if unbound := _unbound(pod, context):
        return [(CauseKind.VOLUME, text, Advice(action)) for text, action in unbound]
    if mounting := _mount_trouble(pod, context):
        return [
            (CauseKind.VOLUME, mounting, Advice("see that the volume exists and can be attached to the pod's node"))
        ]
    if placing := scheduling_cause(pod, context):
        return [placing]
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if known := container_cause(status, pod, context):
            return [known]
    if pod.status.phase == "Failed":
        text = ": ".join(filter(None, (pod.status.reason, pod.status.message))) or "the pod failed"
        return [(CauseKind.CRASH, text, Advice(f"kubectl -n {namespace} describe pod {name}"))]
    if pod.status.phase == "Running":
        return [(CauseKind.PROBE, *_probing(pod, context))]
    if waiting := _for_leader(pod, context):
        return [(CauseKind.WAITING, waiting, Advice("nothing to do: it starts when the leader is ready"))]
    if pod.status.start_time is None:
        node = pod.spec.node_name
        action = f"wait; if it stays so, see that the node exists and is ready: kubectl get node {node}"
        return [(CauseKind.WAITING, f"node {node} has not begun with it", Advice(action))]
    return [(CauseKind.WAITING, why_not_ready(pod), Advice("wait: it is starting"))]


def _rejected(pod: Pod, context: PodContext) -> str:
    """The last warning of the node of this pod, or of its predecessor with the same name, if the node rejected it. A
    rejected pod fails and is replaced at once, so its status is rarely seen; its events stay."""
    if pod.status.phase == "Running" and not pod.metadata.deleting:
        return ""
    name = pod.metadata.name
    events = [one for one in context.events if one.involved_object.kind == "Pod" and one.involved_object.name == name]
    events.sort(key=lambda one: one.last_timestamp or one.event_time or "")
    last = next((one for one in reversed(events) if one.type == "Warning"), None)
    if last is None or not (last.reason.startswith("OutOf") or last.reason in _REJECTIONS):
        return ""
    return f"{last.reason}: {last.message}"


def _terminating(pod: Pod) -> str:
    seconds = pod.metadata.deletion_grace_period_seconds
    held = f", held by {', '.join(pod.metadata.finalizers)}" if pod.metadata.finalizers else ""
    return f"terminating (grace period {seconds} s{held})"


def _unbound(pod: Pod, context: PodContext) -> list[tuple[str, str]]:
    if pod.spec.node_name:
        return []
    claims = {claim.metadata.name: claim for claim in context.claims}
    found: list[tuple[str, str]] = []
    for volume in pod.spec.volumes:
        wanted = volume.claim_name(pod.metadata.name)
        if not wanted:
            continue
        claim = claims.get(wanted)
        if claim is None:
            found.append((f"claim {wanted} does not exist", f"create PersistentVolumeClaim {wanted}"))
        elif claim.status.phase == "Lost":
            found.append((f"claim {wanted} has lost its volume", "restore the volume, or delete claim and pod"))
        elif claim.status.phase != "Bound" and (trouble := _event_of(context, claim.metadata.name, "Provision")):
            kind = claim.spec.storage_class_name or "none"
            found.append((f"claim {wanted} (storage class {kind}) is not bound: {trouble}", "fix the storage class"))
        elif claim.status.phase != "Bound" and claim.spec.storage_class_name is None:
            text = f"claim {wanted} is {claim.status.phase or 'Pending'}: it names no storage class"
            found.append((text, "name one in the claim template, or mark one as the cluster's default"))
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


def _probing(pod: Pod, context: PodContext) -> tuple[str, Advice]:
    failing = [one.name for one in pod.status.container_statuses if not one.ready]
    messages = [
        event.message
        for event in context.events
        if event.involved_object.uid == pod.metadata.uid and event.reason == "Unhealthy"
    ]
    subject = f"running, but {', '.join(failing)} is not ready" if failing else why_not_ready(pod)
    text = f"{subject}: {messages[-1]}" if messages else subject
    return text, Advice("read its logs: {}", (context.command(Verb.LOGS, "--pod", pod.metadata.name),))


def _for_leader(pod: Pod, context: PodContext) -> str:
    group_set = context.group_set
    if group_set is None or group_set.startup_policy != group_labels.LEADER_READY or not worker_of(pod):
        return ""
    return f"waits for leader {pod.metadata.annotations.get(group_labels.LEADER_NAME, '')}"


def resize_causes(pod: Pod, context: PodContext) -> Iterator[Cause]:
    pending = find_condition(pod.status.conditions, "PodResizePending")
    if pending is not None and pending.status == "True":
        advice = (
            _undoing(pod, context, "this node can never hold it: ")
            if pending.reason == "Infeasible"
            else Advice("wait until others on the node give back room, or move them")
        )
        yield Cause(
            CauseKind.RESIZE, (pod.metadata.name,), f"resize {pending.reason.lower()}: {pending.message}", advice
        )
    acting = find_condition(pod.status.conditions, "PodResizeInProgress")
    if acting is not None and acting.reason == "Error":
        yield Cause(CauseKind.RESIZE, (pod.metadata.name,), f"resize fails: {acting.message}", _undoing(pod, context))


def _undoing(pod: Pod, context: PodContext, reason: str = "") -> Advice:
    if context.group_set is None:
        look = f"kubectl -n {context.namespace} delete pod {pod.metadata.name}"
        return Advice(f"{reason}ask for less (kubectl patch pod --subresource resize), or recreate it ({look})")
    group = pod.metadata.labels.get(group_labels.GROUP_INDEX, "")
    asking = f"kohort resize {context.reference} -n {context.namespace} ..."
    recreate = context.command(Verb.RESTART, "--group", group)
    return Advice(f"{reason}ask for less ({asking}), or recreate it ({{}})", (recreate,))
