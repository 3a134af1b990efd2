"""Why a set is not as wanted: the first cause first, and what to do about it.

A group that does not come up shows many symptoms: twelve pods wait for a leader that waits for a volume. What a person
needs is the one fact that everything else follows from. So each symptom is put into a class, classes are ordered by
what follows from what, and within a class the lowest group and worker come first.

| order | class | seen in |
|--:|---|---|
| 0 | operator | the set's last edit was never observed |
| 1 | refused | warning events of the set and its StatefulSets: quota, webhooks |
| 2 | volume | claims that are not bound, mounts that fail |
| 3 | scheduling | PodScheduled is False |
| 4 | image | ErrImagePull, ImagePullBackOff, InvalidImageName |
| 5 | configuration | CreateContainerConfigError and the like |
| 6 | crash | CrashLoopBackOff, containers that ended, failed pods |
| 7 | probe | running, not ready |
| 8 | resize | PodResizePending, PodResizeInProgress with an error |
| 9 | traffic | a step that cannot move requests: routes, Services, endpoints |
| 10 | rollout | steps that wait for approval, held partitions |
| 11 | waiting | starting, terminating, workers that wait for their leader: nothing is wrong yet |
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

import msgspec

from kohort.groups import wire
from kohort.groups.views import owned_by
from kohort.inspection.holding import paused
from kohort.inspection.snapshot import Snapshot, group_of, worker_of
from kohort.objects.core import ContainerStatus, Pod
from kohort.objects.meta import find_condition
from kohort.objects.pods import ContainerStateTerminated
from kohort.objects.unready import why_not_ready
from kohort.rollouts.api import Rollout, RolloutStatus
from kohort.rollouts.wire import ROUTING

ORDER: Final = (
    "operator",
    "refused",
    "volume",
    "scheduling",
    "image",
    "configuration",
    "crash",
    "probe",
    "resize",
    "traffic",
    "rollout",
    "waiting",
)
_IMAGE: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_CONFIGURATION: Final = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreStartHookError"}
)
_ORDINARY: Final = frozenset({"", "PodInitializing", "ContainerCreating"})
_REFUSALS: Final = ("FailedCreate", "FailedUpdate")
_ABSENT: Final = re.compile(r"((?:Service|Ingress|HTTPRoute) \S+)[^;]* does not exist")
_MOUNTS: Final = frozenset({"FailedMount", "FailedAttachVolume"})


class Cause(msgspec.Struct, frozen=True):
    kind: str
    objects: tuple[str, ...]
    """Who shows it, first the one to look at."""
    found: str
    action: str


def causes(snapshot: Snapshot) -> list[Cause]:
    """Everything that stands between the set and what is wanted; empty when nothing does."""
    found = _of_groups(snapshot)
    if snapshot.canary is not None:
        found += _of_groups(snapshot.canary)
    found += [*_rollout(snapshot), *_held(snapshot)]
    if not found:
        found += _missing(snapshot)
    return _merged(sorted(found, key=lambda cause: ORDER.index(cause.kind)))


def _of_groups(snapshot: Snapshot) -> list[Cause]:
    pods = sorted(snapshot.pods, key=_position)
    refused = [*_service_taken(snapshot), *_refused(snapshot)]
    found = [*([] if _tried(snapshot) else _operator(snapshot)), *refused]
    found += [cause for pod in pods if not _fine(pod) for cause in _of_pod(pod, snapshot)]
    return found + [cause for pod in pods for cause in _resize(pod)]


def _merged(ordered: Iterable[Cause]) -> list[Cause]:
    """The same thing told of several objects is told once."""
    result: list[Cause] = []
    for kind, group in groupby(ordered, key=lambda cause: cause.kind):
        texts: dict[tuple[str, str], list[str]] = {}
        for cause in group:
            texts.setdefault((cause.found, cause.action), []).extend(cause.objects)
        result += [Cause(kind, tuple(names), *text) for text, names in texts.items()]
    return result


def _fine(pod: Pod) -> bool:
    return pod.status.phase == "Running" and pod.ready and not pod.metadata.deleting


def _position(pod: Pod) -> tuple[int, int]:
    return group_of(pod) or 0, worker_of(pod)


def _operator(snapshot: Snapshot) -> Iterator[Cause]:
    metadata, status = snapshot.group_set.metadata, snapshot.group_set.status
    if status.observed_generation < metadata.generation:
        text = (
            f"the operator has seen generation {status.observed_generation}, the set is at {metadata.generation}"
            if status.observed_generation
            else "no operator has seen this set"
        )
        yield Cause(
            "operator",
            (metadata.name,),
            text,
            "wait a second and ask again; if it stays so, see that the operator runs (kohort up, or kohort operator)",
        )


def _tried(snapshot: Snapshot) -> bool:
    """An operator that is refused what it writes does not get to noting that it has seen the set: it runs, though."""
    uid = snapshot.group_set.metadata.uid
    return any(
        event.type == "Warning" and event.reason in _REFUSALS and event.involved_object.uid == uid
        for event in snapshot.events
    )


def _service_taken(snapshot: Snapshot) -> Iterator[Cause]:
    """Groups may run all the same, but their members do not find each other."""
    service, group_set = snapshot.service, snapshot.group_set
    if service is None or group_set.subdomain_policy != wire.SHARED or owned_by(service.metadata, group_set):
        return
    text = "exists and does not belong to this set, which needs one of its own by that name: pods have no addresses"
    action = f"delete it (kubectl -n {group_set.metadata.namespace} delete service {snapshot.name}) or rename the set"
    yield Cause("refused", (f"Service {snapshot.name}",), text, f"{action}; the set's own is made within a minute")


def _refused(snapshot: Snapshot) -> Iterator[Cause]:
    """Objects that the server did not accept leave nothing behind but an event. An event outlives what it tells, so it
    counts only while something is missing."""
    if not any(True for _ in _missing(snapshot)):
        return
    owners = {snapshot.name} | {one.metadata.name for one in snapshot.stateful_sets}
    latest: dict[str, str] = {}
    for event in sorted(snapshot.events, key=lambda one: one.last_timestamp or one.event_time or ""):
        if event.type == "Warning" and event.reason in _REFUSALS:
            reference = event.involved_object
            if reference.name in owners and reference.kind in ("LeaderWorkerSet", "StatefulSet"):
                latest[f"{reference.kind} {reference.name}"] = event.message
    for name, message in latest.items():
        action = "make room in the quota or ask for less" if "quota" in message else "mend what the message names"
        yield Cause("refused", (name,), message, f"{action}; it is tried again by itself")


def _of_pod(pod: Pod, snapshot: Snapshot) -> list[Cause]:
    name = pod.metadata.name
    found = _explained(pod, snapshot)
    return [Cause(kind, (name,), text, action) for kind, text, action in found]


def _explained(pod: Pod, snapshot: Snapshot) -> list[tuple[str, str, str]]:
    """(class, what was found, what to do)"""
    name, namespace = pod.metadata.name, pod.metadata.namespace
    if pod.metadata.deleting:
        return [("waiting", _leaving(pod), "wait until it has ended")]
    if unbound := _unbound(pod, snapshot):
        return [("volume", text, action) for text, action in unbound]
    if mounting := _mount_trouble(pod, snapshot):
        return [("volume", mounting, "see that the volume exists and can be attached to the pod's node")]
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return [("scheduling", scheduled.message or scheduled.reason, _place_to_look(scheduled.message, snapshot))]
    if not pod.spec.node_name:
        return [("waiting", "no node yet", "wait for the scheduler; if it stays so, see that a scheduler runs")]
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if known := _of_container(status, pod):
            return [known]
    if pod.status.phase == "Failed":
        text = ": ".join(filter(None, (pod.status.reason, pod.status.message))) or "the pod failed"
        return [("crash", text, f"kubectl -n {namespace} describe pod {name}")]
    if pod.status.phase == "Running":
        return [("probe", *_probing(pod, snapshot))]
    if waiting := _for_leader(pod, snapshot):
        return [("waiting", waiting, "nothing to do: it starts when the leader is ready")]
    return [("waiting", why_not_ready(pod), "wait: it is starting")]


def _leaving(pod: Pod) -> str:
    seconds = pod.metadata.deletion_grace_period_seconds
    held = f", held by {', '.join(pod.metadata.finalizers)}" if pod.metadata.finalizers else ""
    return f"terminating (grace period {seconds} s{held})"


def _unbound(pod: Pod, snapshot: Snapshot) -> list[tuple[str, str]]:
    if pod.spec.node_name:
        return []
    claims = {claim.metadata.name: claim for claim in snapshot.claims}
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
        elif claim.status.phase != "Bound" and (trouble := _event_of(snapshot, claim.metadata.name, "Provision")):
            kind = claim.spec.storage_class_name or "none"
            found.append((f"claim {wanted} (storage class {kind}) is not bound: {trouble}", "mend the storage class"))
        elif claim.status.phase != "Bound" and claim.spec.storage_class_name is None:
            text = f"claim {wanted} is {claim.status.phase or 'Pending'}: it names no storage class"
            found.append((text, "name one in the claim template, or mark one as the cluster's default"))
    return found


def _event_of(snapshot: Snapshot, name: str, word: str) -> str:
    for event in snapshot.events:
        if event.type == "Warning" and event.involved_object.name == name and word in event.reason:
            return event.message
    return ""


def _mount_trouble(pod: Pod, snapshot: Snapshot) -> str:
    if pod.status.phase != "Pending":
        return ""
    for event in snapshot.events:
        if event.involved_object.uid == pod.metadata.uid and event.reason in _MOUNTS:
            return event.message
    return ""


def _place_to_look(message: str, snapshot: Snapshot) -> str:
    """
    | the scheduler says | so |
    |---|---|
    | Insufficient … | more room |
    | affinity, with an exclusive topology | more domains |
    | affinity or selector | labels |
    | taint | tolerations |
    """
    if "Insufficient" in message or "Too many pods" in message:
        return "add nodes, free what others hold, or ask for less in the template"
    exclusive = snapshot.group_set.exclusive_topology
    if "affinity" in message and exclusive:
        return f"every group needs a value of node label {exclusive} for itself: add a domain, or want fewer groups"
    unique = snapshot.group_set.template.scheduling
    if unique is not None and unique.replica_unique_node_selector:
        label = unique.replica_unique_node_selector
        return f"each group needs nodes labelled {label}=<leader's name>: kubectl label nodes ... {label}=..."
    if "affinity" in message or "selector" in message:
        return "see that nodes have the labels that the template's selector and affinity ask for"
    if "taint" in message:
        return "tolerate the taint in the template, or remove it from the nodes"
    return "kubectl describe the pod for the scheduler's whole story"


def _of_container(status: ContainerStatus, pod: Pod) -> tuple[str, str, str] | None:
    waiting, name = status.state.waiting, f"container {status.name}"
    logs = f"kohort logs {pod.metadata.labels.get(wire.NAME, '')} -n {pod.metadata.namespace} --pod {pod.metadata.name}"
    if waiting is not None and waiting.reason in _IMAGE:
        text = f"{name}: {waiting.reason} for {_image(pod, status)}" + (f": {waiting.message}" * bool(waiting.message))
        return "image", text, "correct the image in the template, or its imagePullSecrets"
    if waiting is not None and waiting.reason in _CONFIGURATION:
        text = f"{name}: {waiting.reason}" + (f": {waiting.message}" * bool(waiting.message))
        return "configuration", text, "create the ConfigMap or Secret that is missing, or correct the template"
    if waiting is not None and waiting.reason == "CrashLoopBackOff":
        return "crash", f"{name} ends again and again{_last(status)}", f"{logs} --previous"
    if waiting is not None and waiting.reason not in _ORDINARY:
        text = f"{name}: {waiting.reason}" + (f": {waiting.message}" * bool(waiting.message))
        return "configuration", text, f"kubectl -n {pod.metadata.namespace} describe pod {pod.metadata.name}"
    ended = status.state.terminated
    if ended is not None and ended.exit_code and pod.status.phase != "Succeeded":
        return "crash", f"{name} ended with code {ended.exit_code}{_why(ended)}", logs
    return None


def _image(pod: Pod, status: ContainerStatus) -> str:
    written = {one.name: one.image for one in pod.spec.all_containers}
    return written.get(status.name) or status.image


def _last(status: ContainerStatus) -> str:
    ended = status.last_state.terminated
    times = f", {status.restart_count} times" if status.restart_count else ""
    return f"{times}; last with code {ended.exit_code}{_why(ended)}" if ended is not None else times


def _why(ended: ContainerStateTerminated) -> str:
    """The reason, where it says more than the code does, and the last line of the message."""
    reason = f" ({ended.reason})" if ended.reason not in ("", "Error", "Completed") else ""
    lines = ended.message.strip().splitlines()
    return f"{reason}: {lines[-1].strip()}" if lines else reason


def _probing(pod: Pod, snapshot: Snapshot) -> tuple[str, str]:
    failing = [one.name for one in pod.status.container_statuses if not one.ready]
    told = [
        event.message
        for event in snapshot.events
        if event.involved_object.uid == pod.metadata.uid and event.reason == "Unhealthy"
    ]
    subject = f"running, but {', '.join(failing)} is not ready" if failing else why_not_ready(pod)
    text = f"{subject}: {told[-1]}" if told else subject
    action = f"see what it says: kohort logs {snapshot.name} -n {pod.metadata.namespace} --pod {pod.metadata.name}"
    return text, action


def _for_leader(pod: Pod, snapshot: Snapshot) -> str:
    if snapshot.group_set.startup_policy != wire.LEADER_READY or not worker_of(pod):
        return ""
    return f"waits for leader {pod.metadata.annotations.get(wire.LEADER_NAME, '')}"


def _resize(pod: Pod) -> Iterator[Cause]:
    pending = find_condition(pod.status.conditions, "PodResizePending")
    if pending is not None and pending.status == "True":
        action = (
            "ask for less: this node can never hold it; or recreate the group to move it"
            if pending.reason == "Infeasible"
            else "wait until others on the node give back room, or move them"
        )
        yield Cause("resize", (pod.metadata.name,), f"resize {pending.reason.lower()}: {pending.message}", action)
    acting = find_condition(pod.status.conditions, "PodResizeInProgress")
    if acting is not None and acting.reason == "Error":
        yield Cause("resize", (pod.metadata.name,), f"resize fails: {acting.message}", "undo the resize, or recreate")


def _rollout(snapshot: Snapshot) -> Iterator[Cause]:
    rollout = snapshot.rollout
    if rollout is None or not snapshot.releasing:
        return
    name, status = f"Rollout {rollout.metadata.name}", rollout.status
    if rollout.spec.strategy.paused:
        yield Cause("rollout", (name,), "the rollout is paused", f"kohort resume {snapshot.name}")
    elif status.current_step_state == "StepPaused" and "manually" in status.message:
        text = f"step {status.current_step_index} waits for approval"
        yield Cause("rollout", (name,), text, f"kohort approve {snapshot.name}")
    elif status.current_step_state == ROUTING or _ABSENT.search(status.message):
        yield Cause("traffic", (name,), _step_text(status), _routes_to_look_at(rollout))
    else:
        yield Cause("rollout", (name,), _step_text(status), f"wait, or go back: kohort abort {snapshot.name}")


def _step_text(status: RolloutStatus) -> str:
    if status.phase in ("", "Healthy"):
        return "the release is about to begin"
    return status.message or f"step {status.current_step_index} is {status.current_step_state}"


def _routes_to_look_at(rollout: Rollout) -> str:
    if absent := _ABSENT.search(rollout.status.message):
        return f"create {absent[1]}, or name another in trafficRoutings of Rollout {rollout.metadata.name}"
    services = ", ".join(f"{one.service}-canary" for one in rollout.strategy.traffic_routings)
    return f"see that the routes exist, and that Service {services} has a ready leader (kubectl describe service)"


def _held(snapshot: Snapshot) -> Iterator[Cause]:
    if snapshot.releasing:
        return
    partition = snapshot.group_set.partition
    states = sorted(snapshot.states.items())
    old = [f"group {index}" for index, state in states if index < partition and not state.updated]
    if old:
        text = f"partition {partition} holds groups below it at their old revision"
        if paused(snapshot):
            text = "held at the old revision by the pause"
        yield Cause("rollout", tuple(old), text, f"kohort resume {snapshot.name}")


def _missing(snapshot: Snapshot) -> Iterator[Cause]:
    """Nobody complains, and yet not all is there."""
    group_set = snapshot.group_set
    for index in range(group_set.replicas):
        leader = snapshot.leaders.get(index)
        if leader is None:
            action = "wait; if it stays so, see that the StatefulSet controller runs"
            yield Cause("waiting", (f"group {index}",), "has no leader pod yet", action)
            continue
        count = len(snapshot.members(index))
        if count < group_set.template.size:
            state = "is not ready yet" if group_set.startup_policy == wire.LEADER_READY and not leader.ready else ""
            text = f"has {count} of {group_set.template.size} pods" + (f": its leader {state}" if state else "")
            yield Cause("waiting", (f"group {index}",), text, "wait; workers are made after their leader")
    if all(state.ready for state in snapshot.states.values()):
        old = [f"group {index}" for index, state in sorted(snapshot.states.items()) if not state.updated]
        if old and group_set.partition == 0:
            yield Cause("waiting", tuple(old), "not yet at the new revision", "wait: groups are rolled step by step")


def spoken(cause: Cause, number: int) -> list[str]:
    first, *others = cause.objects
    more = f" and {len(others)} more" if others else ""
    return [f"{number}. [{cause.kind}] {first}{more}: {cause.found}", f"   → {cause.action}"]
