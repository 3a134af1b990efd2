"""What is reported of a pod: its status as the API knows it. Pure.

Figures that the kernel holds are reported in the user's words when they mean the same, because weights and quotas are
coarser than requests and limits. A limit that a container has only inherited is not reported as its own. Overhead is
never part of what is reported.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from kohort.node.container_order import Run, initialised
from kohort.node.runtimes.interface import Instance
from kohort.node.views import Applied, Figures, Target, figures_of
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import condition_is
from kohort.objects.node_pods import NodeContainer, NodePod
from kohort.objects.pods import Pod, ResourceRequirements
from kohort.objects.quantity import BINARY_SI, Quantity
from kohort.resources import CPU, MEMORY, SANDBOX, amounts_of, reported, requests, written_of
from kohort.rules.node_feature_gates import ALL_ON, NodeGates
from kohort.rules.resize_conditions import IN_PROGRESS, PENDING, ResizeState

SECURITY_CONTEXT_ENFORCED: Final = "node.kohort.dev/SecurityContextEnforced"
"""False on pods with fields that the node does not follow; absent from all others."""
OURS: Final = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    PENDING,
    IN_PROGRESS,
    SECURITY_CONTEXT_ENFORCED,
)
"""Conditions that belong to the node. Others are not touched."""


EVICTED: Final = "Evicted"
LONGEST_MESSAGES_OF_POD: Final = 12 << 10
"""Bytes that the termination messages of all containers of a pod have together; each has an equal part of it."""


class Report(msgspec.Struct):
    """Everything that a status is made of."""

    pod: NodePod
    allocated: Pod
    runs: Mapping[str, Run]
    phase: str
    stamp: str
    started: str
    scheme: str
    host: str = ""
    address: str = ""
    sandbox: bool = False
    actual: Applied | None = None
    resize: ResizeState = ResizeState()
    reason: str = ""
    message: str = ""
    stopping: bool = False
    unenforced: tuple[str, ...] = ()
    """Fields of the pod that the node does not follow."""
    gates: NodeGates = ALL_ON


def pod_status(report: Report, said: JsonObject) -> JsonObject:
    """The whole status except the conditions of others; `said` is the last one."""
    pod, terminal = report.pod, report.phase in ("Succeeded", "Failed")
    status: JsonObject = {
        "phase": report.phase,
        "observedGeneration": pod.metadata.generation,
        "startTime": report.started,
        "conditions": _conditions(report, said, terminal),
    }
    for key, value in (("reason", report.reason), ("message", report.message)):
        if value:
            status[key] = value
    if report.host:
        status |= {"hostIP": report.host, "hostIPs": [{"ip": report.host}]}
    if report.address:
        status |= {"podIP": report.address, "podIPs": [{"ip": report.address}]}
    target = figures_of(report.allocated)
    mains = pod.spec.containers or ()
    status["containerStatuses"] = [_container(report, each, target, "containers") for each in mains]
    if pod.spec.init_containers:
        status["initContainerStatuses"] = [
            _container(report, each, target, "initContainers") for each in pod.spec.init_containers
        ]
    if pod.spec.ephemeral_containers:
        status["ephemeralContainerStatuses"] = [_visitor(report, each) for each in pod.spec.ephemeral_containers]
    if not report.gates.pod_level_resize:
        return status
    return {**status, **pod_resources(report.allocated, target, report.actual if report.phase == "Running" else None)}


def refused_status(pod: NodePod, reason: str, message: str, stamp: str) -> JsonObject:
    """Of a pod that the node does not take in."""
    return {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "observedGeneration": pod.metadata.generation,
        "startTime": stamp,
    }


def said_before(pod: Pod) -> JsonObject:
    """The conditions that an earlier agent has reported."""
    return {"conditions": [msgspec.to_builtins(each) for each in pod.status.conditions if each.type in OURS]}


def status_patch(said: JsonObject, status: JsonObject) -> JsonObject:
    """The strategic merge patch from the one to the other; what is gone must be said."""
    before = {each["type"]: each for each in said.get("conditions", ())}
    after = {each["type"]: each for each in status.get("conditions", ())}
    conditions = [
        {**{field: None for field in ("reason", "message") if before.get(type, {}).get(field)}, **condition}
        for type, condition in after.items()
    ]
    conditions += [{"type": type, "$patch": "delete"} for type in before if type not in after]
    patch = {**status, "conditions": conditions} if conditions else dict(status)
    for key in ("resources", "allocatedResources"):
        if key in said and said[key] != status.get(key):
            patch[key] = {"$patch": "replace", **status[key]} if key in status else None
    return patch


def pod_resources(allocated: Pod, target: Target, actual: Applied | None) -> JsonObject:
    """`resources` and `allocatedResources` of a pod."""
    asked, allowed = reported(allocated)
    if actual is not None:
        overhead = amounts_of(allocated.spec.overhead)
        _correct(asked, actual.pod, target.pod, overhead, limits=False)
        _correct(allowed, actual.pod, target.pod, overhead, limits=True)
    block = {key: written_of(part) for key, part in (("requests", asked), ("limits", allowed)) if part}
    found: JsonObject = {"resources": block}
    accepted = written_of(requests(allocated, SANDBOX))
    return {**found, "allocatedResources": accepted} if accepted else found


def _correct(
    amounts: dict[str, Quantity],
    actual: Figures,
    target: Figures,
    overhead: Mapping[str, Quantity],
    *,
    limits: bool,
) -> None:
    """Replace figures that the kernel does not hold as allocated by what it holds."""
    for name in (CPU, MEMORY):
        held = actual.limit(name) if limits else actual.request(name)
        wanted = target.limit(name) if limits else target.request(name)
        if held == wanted:
            continue
        if held is None:
            amounts.pop(name, None)
        else:
            amounts[name] = _amount(name, held) - overhead.get(name, Quantity.of(0))


def _amount(name: str, figure: int) -> Quantity:
    return Quantity.of_milli(figure) if name == CPU else Quantity.of(figure, BINARY_SI)


def _container(report: Report, container: NodeContainer, target: Target, group: str) -> JsonObject:
    run = report.runs[container.name]
    regular_init = group == "initContainers" and not container.sidecar
    status = _observed(report, container)
    status["ready"] = run.ready and run.running and not report.stopping
    if regular_init:
        status |= {"ready": run.ended and run.exit_code == 0, "started": False}
    if not report.gates.resize:
        return status
    allocated = next(each for each in report.allocated.spec.all_containers if each.name == container.name)
    actual = report.actual.containers.get(container.name) if report.actual is not None and run.running else None
    status["resources"] = _resources(allocated.resources, target.containers[container.name], actual)
    if allocated.resources.requests:
        status["allocatedResources"] = written_of(amounts_of(allocated.resources.requests))
    return status


def _visitor(report: Report, container: NodeContainer) -> JsonObject:
    """Of a container that somebody has added to look inside: it is never ready and has no figures."""
    return {**_observed(report, container), "ready": False, "resources": {}}


def _observed(report: Report, container: NodeContainer) -> JsonObject:
    run = report.runs[container.name]
    status: JsonObject = {
        "name": container.name,
        "image": container.image,
        "imageID": f"{report.scheme}{container.image}" if run.instance is not None else "",
        "started": run.running and run.started and run.hooked,
        "restartCount": max(run.attempt, 0),
        "lastState": {},
    }
    pod = report.pod.spec
    count = len(pod.containers or ()) + len(pod.init_containers) + len(pod.ephemeral_containers)
    message = run.message.encode()[: LONGEST_MESSAGES_OF_POD // count].decode(errors="ignore")
    if run.last is not None:
        words = message if run.last is run.instance else ""
        status["lastState"] = {"terminated": _terminated(run.last, report.scheme, words)}
    status["state"] = _state(report, run, container, message)
    if run.instance is not None:
        status["containerID"] = report.scheme + run.instance.id
    return status


def _resources(allocated: ResourceRequirements, target: Figures, actual: Figures | None) -> JsonObject:
    asked, allowed = amounts_of(allocated.requests), amounts_of(allocated.limits)
    if actual is not None:
        for name in (CPU, MEMORY):
            if name in asked and actual.request(name) not in (None, target.request(name)):
                asked[name] = _amount(name, actual.request(name) or 0)
            held = actual.limit(name)
            if name in allowed and held != target.limit(name):
                if held is None:
                    del allowed[name]
                else:
                    allowed[name] = _amount(name, held)
    return {key: written_of(part) for key, part in (("requests", asked), ("limits", allowed)) if part}


def _state(report: Report, run: Run, container: NodeContainer, message: str) -> JsonObject:
    if run.running and run.hooked and run.instance is not None:
        return {"running": {"startedAt": run.instance.started}}
    if run.waiting:
        return {"waiting": {"reason": run.waiting, "message": run.words}}
    if run.ended and run.due is not None and not report.stopping and report.phase not in ("Succeeded", "Failed"):
        pod = report.pod.metadata
        whose = f"container={container.name} pod={pod.name}_{pod.namespace}({pod.uid})"
        words = f"back-off {duration(run.delay)} restarting failed {whose}"
        return {"waiting": {"reason": "CrashLoopBackOff", "message": words}}
    if run.ended and run.instance is not None:
        return {"terminated": _terminated(run.instance, report.scheme, message)}
    unfinished = initialised(report.pod.spec, report.runs)
    if report.phase in ("Succeeded", "Failed") and not (unfinished and run.attempt < 0):
        words = "The container could not be located when the pod was terminated"
        return {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": words}}
    waits_for_init = bool(report.pod.spec.init_containers) and (not unfinished or unfinished[0] != container.name)
    return {"waiting": {"reason": "PodInitializing" if waits_for_init else "ContainerCreating"}}


def duration(seconds: float) -> str:
    """As Kubernetes writes it.

    >>> duration(10), duration(80), duration(300)
    ('10s', '1m20s', '5m0s')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _terminated(instance: Instance, scheme: str, message: str = "") -> JsonObject:
    code = instance.exit_code or 0
    reason = "Completed" if code == 0 else "Error"
    if instance.oom_killed:
        reason = "OOMKilled"
    if instance.problem:
        reason, message = "StartError", instance.problem
    if instance.lost:
        reason, message = "ContainerStatusUnknown", "nobody was there to see how the container ended"
    found: JsonObject = {
        "exitCode": code,
        "reason": reason,
        "startedAt": instance.started,
        "finishedAt": instance.ended or instance.started,
        "containerID": scheme + instance.id,
    }
    return {**found, "message": message} if message else found


def _conditions(report: Report, said: JsonObject, terminal: bool) -> list[JsonObject]:
    pod = report.pod
    before = {each["type"]: each for each in said.get("conditions", ())}

    def condition(type: str, holds: bool, reason: str = "", message: str = "") -> JsonObject:
        status = "True" if holds else "False"
        known = before.get(type)
        since = known["lastTransitionTime"] if known is not None and known["status"] == status else report.stamp
        words = {} if holds and type != "Initialized" else {"reason": reason, "message": message}
        return {
            "type": type,
            "status": status,
            **{key: text for key, text in words.items() if text},
            "observedGeneration": pod.metadata.generation,
            "lastTransitionTime": since,
        }

    counted = [each for each in pod.spec.init_containers if each.sidecar] + list(pod.spec.containers or ())
    unready = [
        each.name
        for each in counted
        if not (report.runs[each.name].ready and report.runs[each.name].running) or report.stopping
    ]
    ended = "PodCompleted" if report.phase == "Succeeded" else "PodFailed"
    reason, words = "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    if terminal:
        reason, words = ended, ""
    all_ready = not unready and not terminal
    closed = [
        gate.condition_type
        for gate in pod.spec.readiness_gates
        if not condition_is(pod.status.conditions, gate.condition_type)
    ]
    gates = "; ".join(f'corresponding condition of pod readiness gate "{gate}" does not exist.' for gate in closed)
    pod_reason, pod_words = (reason, words) if not all_ready else ("ReadinessGatesNotReady", gates)
    unfinished = initialised(pod.spec, report.runs) if not terminal or report.phase == "Failed" else []
    init_words = f"containers with incomplete status: [{' '.join(unfinished)}]"
    found = [
        condition("PodReadyToStartContainers", report.sandbox and not terminal),
        condition(
            "Initialized",
            not unfinished,
            "ContainersNotInitialized" if unfinished else ("PodCompleted" if report.phase == "Succeeded" else ""),
            init_words if unfinished else "",
        ),
        condition("Ready", all_ready and not closed, pod_reason, pod_words),
        condition("ContainersReady", all_ready, reason, words),
    ]
    if report.unenforced:
        words = f"this node does not follow: {', '.join(report.unenforced)}"
        found.append(condition(SECURITY_CONTEXT_ENFORCED, False, "FieldsNotEnforced", words))
    if report.reason == EVICTED:
        target = condition("DisruptionTarget", True)
        found.append({**target, "reason": "TerminationByKubelet", "message": report.message})
    return found if terminal else found + report.resize.conditions()
