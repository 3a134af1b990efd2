"""What is a pod's status, given the states of its containers? Node agents and simulated nodes both ask here.

Phase, the first row that applies:

| containers                                                 | phase     |
|------------------------------------------------------------|-----------|
| an init container has failed and is not started again      | Failed    |
| a main container was never started                         | Pending   |
| a main container runs or will be started again             | Running   |
| all have ended for good, one with an exit code other than 0| Failed    |
| all have ended for good with exit code 0                   | Succeeded |

State of one container, the first row that applies:

| container                                                  | state                                   |
|------------------------------------------------------------|-----------------------------------------|
| runs                                                       | running                                 |
| could not be started                                       | waiting, with the reason                |
| has ended and waits for its next start                     | waiting, CrashLoopBackOff               |
| has ended                                                  | terminated                              |
| was never started, and its pod has ended                   | terminated, ContainerStatusUnknown, 137 |
| was never started, init containers are not through         | waiting, PodInitializing                |
| was never started                                          | waiting, ContainerCreating              |

A status is compared with the last one that the node has reported, not with the cache, which may lag behind: otherwise a
condition would seem to have changed again, and its transition time with it.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from kohort.objects import container_reasons
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import condition_is, find_condition
from kohort.objects.pods import FINISHED_PHASES, Pod
from kohort.rules.resize_conditions import IN_PROGRESS, PENDING, ResizeState

SECURITY_CONTEXT_ENFORCED: Final = "node.kohort.dev/SecurityContextEnforced"
"""False on pods with fields that the node does not enforce; absent from all others."""
SCHEDULED: Final = "PodScheduled"
ALL_RESTARTING: Final = "AllContainersRestarting"
"""On pods with a rule that restarts all containers."""
NODE_CONDITIONS: Final = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    PENDING,
    IN_PROGRESS,
    SECURITY_CONTEXT_ENFORCED,
    ALL_RESTARTING,
)
"""Conditions that the node writes. It does not touch others."""
KILLED: Final = 137
"""The exit code of a process that was ended with SIGKILL."""


class Running(msgspec.Struct, frozen=True):
    started_at: str


class Waiting(msgspec.Struct, frozen=True):
    reason: str
    message: str = ""


class Terminated(msgspec.Struct, frozen=True):
    exit_code: int
    reason: str
    started_at: str = ""
    finished_at: str = ""
    container_id: str = ""
    message: str = ""


ContainerState = Running | Waiting | Terminated

CONTAINER_LOST: Final = Terminated(
    KILLED,
    container_reasons.CONTAINER_STATUS_UNKNOWN,
    message="The container could not be located when the pod was terminated",
)

WAITS_FOR_ALL: Final = Waiting(
    "RestartingAllContainers", "all containers of the pod start again, because a rule of one that has ended says so"
)


class ContainerProgress(StrEnum):
    """How far a container has come, as far as the pod's phase depends on it."""

    NOT_STARTED = "not started"
    ACTIVE = "active"
    """It runs, or it will be started again."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class ContainerObservation(msgspec.Struct, frozen=True):
    """One container as its node sees it."""

    name: str
    image: str
    state: ContainerState
    last: Terminated | None = None
    """The end of the run before the present one."""
    container_id: str = ""
    """Empty before the first start."""
    image_id: str = ""
    ready: bool = False
    started: bool | None = None
    """None for ephemeral containers, which have no probes."""
    restarts: int = 0
    resources: JsonObject = {}
    """The fields `resources` and `allocatedResources`."""


class PodCondition(msgspec.Struct, frozen=True):
    type: str
    holds: bool
    reason: str = ""
    message: str = ""


class PodObservation(msgspec.Struct, frozen=True):
    """One pod as its node sees it."""

    phase: str
    now: str
    start_time: str
    containers: Sequence[ContainerObservation]
    init_containers: Sequence[ContainerObservation] = ()
    ephemeral_containers: Sequence[ContainerObservation] = ()
    sandbox_ready: bool = False
    """Network and volumes are there."""
    uninitialized: Sequence[str] = ()
    """Init containers that are not through."""
    host: str = ""
    address: str = ""
    reason: str = ""
    message: str = ""
    more_conditions: Sequence[PodCondition] = ()
    resize: ResizeState = ResizeState()
    resources: JsonObject = {}
    """The fields `resources` and `allocatedResources` of the pod."""


def pod_phase(mains: Iterable[ContainerProgress], *, init_failed: bool = False) -> str:
    """`init_failed`: an init container has failed and is not started again."""
    found = set(mains)
    if init_failed:
        return "Failed"
    if not found or ContainerProgress.NOT_STARTED in found:
        return "Pending"
    if ContainerProgress.ACTIVE in found:
        return "Running"
    return "Failed" if ContainerProgress.FAILED in found else "Succeeded"


def container_state(
    *,
    running: Running | None,
    blocked: Waiting | None,
    ended: Terminated | None,
    backoff: Waiting | None,
    pod_ended: bool,
    initializing: bool,
) -> ContainerState:
    """`blocked` says why it could not be started, `backoff` that it will be started again, `ended` how it ended;
    `initializing` is for a container that waits for init containers."""
    its_turn = Waiting(container_reasons.POD_INITIALIZING if initializing else container_reasons.CONTAINER_CREATING)
    never_started = CONTAINER_LOST if pod_ended else its_turn
    return running or blocked or backoff or ended or never_started


def crash_loop_backoff(pod: Pod, container: str, seconds: float) -> Waiting:
    """A container that is started again after a pause, in the kubelet's words."""
    whose = f"container={container} pod={pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
    return Waiting(container_reasons.CRASH_LOOP_BACK_OFF, f"back-off {duration(seconds)} restarting failed {whose}")


def exit_reason(exit_code: int) -> str:
    return "Completed" if exit_code == 0 else "Error"


def duration(seconds: float) -> str:
    """As Kubernetes writes it.

    >>> duration(10), duration(80), duration(300)
    ('10s', '1m20s', '5m0s')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def pod_status(pod: Pod, seen: PodObservation, reported: JsonObject) -> JsonObject:
    """The whole status except the conditions of others; `reported` is the last status that the node has written."""
    status: JsonObject = {
        "phase": seen.phase,
        "observedGeneration": pod.metadata.generation,
        "startTime": seen.start_time,
        "conditions": pod_conditions(pod, seen, reported),
        "containerStatuses": [container_status(each) for each in seen.containers],
    }
    if seen.reason:
        status["reason"] = seen.reason
    if seen.message:
        status["message"] = seen.message
    if seen.host:
        status |= {"hostIP": seen.host, "hostIPs": [{"ip": seen.host}]}
    if seen.address:
        status |= {"podIP": seen.address, "podIPs": [{"ip": seen.address}]}
    if seen.init_containers:
        status["initContainerStatuses"] = [container_status(each) for each in seen.init_containers]
    if seen.ephemeral_containers:
        status["ephemeralContainerStatuses"] = [container_status(each) for each in seen.ephemeral_containers]
    return {**status, **seen.resources}


def rejected_status(pod: Pod, reason: str, message: str, start_time: str) -> JsonObject:
    """Of a pod that the node does not admit."""
    return {
        "phase": "Failed",
        "reason": reason,
        "message": message,
        "observedGeneration": pod.metadata.generation,
        "startTime": start_time,
    }


def reported_conditions(pod: Pod) -> JsonObject:
    """The conditions that an earlier process has reported for this node, as a status."""
    return {"conditions": [msgspec.to_builtins(each) for each in pod.status.conditions if each.type in NODE_CONDITIONS]}


def says_ready(status: JsonObject) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", ()))


def status_patch(reported: JsonObject, status: JsonObject) -> JsonObject:
    """The strategic merge patch from the one to the other. Such a patch keeps what it does not mention, so it must name
    what is gone: a condition, its reason or message, a resource, an address."""
    before = {each["type"]: each for each in reported.get("conditions", ())}
    after = {each["type"]: each for each in status.get("conditions", ())}
    conditions = [
        {**{field: None for field in ("reason", "message") if before.get(type, {}).get(field)}, **condition}
        for type, condition in after.items()
    ]
    conditions += [{"type": type, "$patch": "delete"} for type in before if type not in after]
    patch = {**status, "conditions": conditions} if conditions else dict(status)
    for key in ("podIPs", "hostIPs"):
        if key in status and reported.get(key, status[key]) != status[key]:
            patch[key] = [{"$patch": "replace"}, *status[key]]
    for key in ("resources", "allocatedResources"):
        if key in reported and reported[key] != status.get(key):
            patch[key] = {"$patch": "replace", **status[key]} if key in status else None
    return patch


def pod_conditions(pod: Pod, seen: PodObservation, reported: JsonObject) -> list[JsonObject]:
    """The node's conditions. Each keeps its transition time while its status stays.

    The node says that the pod is scheduled, too: a pod that names its node itself has passed no scheduler, and no
    scheduler looks at later generations.
    """
    finished = seen.phase in FINISHED_PHASES
    before = {each["type"]: each for each in reported.get("conditions", ())}
    if SCHEDULED not in before and (scheduled := find_condition(pod.status.conditions, SCHEDULED)) is not None:
        before[SCHEDULED] = msgspec.to_builtins(scheduled)
    conditions = [
        PodCondition(SCHEDULED, True),
        PodCondition("PodReadyToStartContainers", seen.sandbox_ready and not finished),
        _initialized(seen),
        *_readiness(pod, seen, finished),
        *seen.more_conditions,
    ]
    written = [_written(each, before.get(each.type), pod.metadata.generation, seen.now) for each in conditions]
    return written if finished else written + seen.resize.conditions()


def all_containers_restarting(restarting: bool, phase: str) -> PodCondition:
    if restarting and phase not in FINISHED_PHASES:
        return PodCondition(
            ALL_RESTARTING, True, "RestartAllContainersStarted", "container exited with restart policy rule"
        )
    return PodCondition(ALL_RESTARTING, False, {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, ""))


def _initialized(seen: PodObservation) -> PodCondition:
    if seen.uninitialized:
        message = f"containers with incomplete status: [{' '.join(seen.uninitialized)}]"
        return PodCondition("Initialized", False, "ContainersNotInitialized", message)
    return PodCondition("Initialized", True, "PodCompleted" if seen.phase == "Succeeded" else "")


def _readiness(pod: Pod, seen: PodObservation, finished: bool) -> tuple[PodCondition, PodCondition]:
    sidecars = {each.name for each in pod.spec.init_containers if each.sidecar}
    counted = [*(each for each in seen.init_containers if each.name in sidecars), *seen.containers]
    unready = [each.name for each in counted if not each.ready]
    if finished:
        reason, message = "PodCompleted" if seen.phase == "Succeeded" else "PodFailed", ""
    else:
        reason, message = "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    if finished or unready:
        return PodCondition("Ready", False, reason, message), PodCondition("ContainersReady", False, reason, message)
    closed = [
        gate.condition_type
        for gate in pod.spec.readiness_gates
        if not condition_is(pod.status.conditions, gate.condition_type)
    ]
    ready = PodCondition("Ready", True)
    if closed:
        gates = (f'corresponding condition of pod readiness gate "{gate}" does not exist.' for gate in closed)
        ready = PodCondition("Ready", False, "ReadinessGatesNotReady", "; ".join(gates))
    return ready, PodCondition("ContainersReady", True)


def _written(condition: PodCondition, before: JsonObject | None, generation: int, now: str) -> JsonObject:
    status = "True" if condition.holds else "False"
    kept = before is not None and before["status"] == status
    texts: Mapping[str, str] = {"reason": condition.reason, "message": condition.message}
    return {
        "type": condition.type,
        "status": status,
        **{key: text for key, text in texts.items() if text},
        "observedGeneration": generation,
        "lastTransitionTime": before["lastTransitionTime"] if before is not None and kept else now,
    }


def container_status(seen: ContainerObservation) -> JsonObject:
    status: JsonObject = {
        "name": seen.name,
        "image": seen.image,
        "imageID": seen.image_id,
        "ready": seen.ready,
        "restartCount": seen.restarts,
        "state": _state(seen.state),
        "lastState": _state(seen.last) if seen.last is not None else {},
    }
    if seen.started is not None:
        status["started"] = seen.started
    if seen.container_id:
        status["containerID"] = seen.container_id
    return {**status, **seen.resources}


def _state(state: ContainerState) -> JsonObject:
    match state:
        case Running(started_at):
            return {"running": {"startedAt": started_at}}
        case Waiting(reason, message):
            return {"waiting": {"reason": reason, **({"message": message} if message else {})}}
        case Terminated(exit_code, reason, started_at, finished_at, container_id, message):
            texts = {
                "startedAt": started_at,
                "finishedAt": finished_at,
                "containerID": container_id,
                "message": message,
            }
            given = {key: text for key, text in texts.items() if text}
            return {"terminated": {"exitCode": exit_code, "reason": reason, **given}}
