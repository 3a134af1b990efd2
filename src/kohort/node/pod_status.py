"""From the runs of a pod's containers on this node to the status that is reported. Pure.

`kohort.rules.pod_status` decides phase, conditions and states; here is what only a node with cgroups knows. Values that
the kernel holds are reported as the user wrote them when they mean the same, because weights and quotas are coarser
than requests and limits. A limit that a container inherits from its pod is not reported as its own. Overhead is never
part of what is reported.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from kohort.node.container_order import ContainerRun, may_restart_all, uninitialized
from kohort.node.resource_views import Applied, CgroupTarget, Figures, figures_of
from kohort.node.runtimes.interface import Instance
from kohort.objects import container_reasons
from kohort.objects.json_types import JsonObject
from kohort.objects.node_pods import NodeContainer, NodePod
from kohort.objects.pods import FINISHED_PHASES, Pod, ResourceRequirements
from kohort.objects.quantity import BINARY_SI, Quantity
from kohort.resources import CPU, MEMORY, SANDBOX, amounts_of, reported, requests, written_of
from kohort.rules import pod_disruption
from kohort.rules import pod_status as rules
from kohort.rules.node_feature_gates import ALL_ON, NodeGates
from kohort.rules.pod_status import (
    SECURITY_CONTEXT_ENFORCED,
    ContainerObservation,
    ContainerState,
    PodCondition,
    PodObservation,
    Running,
    Terminated,
    Waiting,
    container_state,
    crash_loop_backoff,
    exit_reason,
)
from kohort.rules.resize_conditions import ResizeState

EVICTED: Final = "Evicted"
LONGEST_MESSAGES_OF_POD: Final = 12 << 10
"""Bytes that the termination messages of all containers of a pod have together; each has an equal part of it."""


class Report(msgspec.Struct):
    """Everything that a status is made of."""

    pod: NodePod
    allocated: Pod
    runs: Mapping[str, ContainerRun]
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
    restarting_all: bool = False
    """All containers are being stopped, to start again."""
    unenforced: tuple[str, ...] = ()
    """Fields of the pod that the node does not enforce."""
    gates: NodeGates = ALL_ON


def pod_status(report: Report, reported: JsonObject) -> JsonObject:
    """The whole status except the conditions of others; `reported` is the last one that was written."""
    return rules.pod_status(report.pod, observation(report), reported)


def observation(report: Report) -> PodObservation:
    spec, target = report.pod.spec, figures_of(report.allocated)
    actual = report.actual if report.phase == "Running" else None
    return PodObservation(
        phase=report.phase,
        now=report.stamp,
        start_time=report.started,
        containers=[_container(report, each, target) for each in spec.containers or ()],
        init_containers=[_container(report, each, target, init=not each.sidecar) for each in spec.init_containers],
        ephemeral_containers=[_ephemeral_container(report, each) for each in spec.ephemeral_containers],
        sandbox_ready=report.sandbox,
        uninitialized=[] if report.phase == "Succeeded" else uninitialized(spec, report.runs),
        host=report.host,
        address=report.address,
        reason=report.reason,
        message=report.message,
        more_conditions=_more_conditions(report),
        resize=report.resize,
        resources=pod_resources(report.allocated, target, actual) if report.gates.pod_level_resize else {},
    )


def _more_conditions(report: Report) -> list[PodCondition]:
    conditions = []
    if report.unenforced:
        message = f"this node does not enforce: {', '.join(report.unenforced)}"
        conditions.append(PodCondition(SECURITY_CONTEXT_ENFORCED, False, "FieldsNotEnforced", message))
    if may_restart_all(report.pod.spec):
        conditions.append(rules.all_containers_restarting(report.restarting_all, report.phase))
    if report.reason == EVICTED:
        conditions.append(PodCondition(pod_disruption.DISRUPTION_TARGET, True, pod_disruption.KUBELET, report.message))
    return conditions


def pod_resources(allocated: Pod, target: CgroupTarget, actual: Applied | None) -> JsonObject:
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


def _container(
    report: Report, container: NodeContainer, target: CgroupTarget, *, init: bool = False
) -> ContainerObservation:
    """`init` is for init containers that must end before the next container starts."""
    run = report.runs[container.name]
    seen = _observed(report, container)
    if init:
        seen = msgspec.structs.replace(seen, ready=run.ended and run.exit_code == 0, started=False)
    else:
        seen = msgspec.structs.replace(
            seen,
            ready=run.ready and run.running and not report.stopping,
            started=run.running and run.started and run.post_start_done,
        )
    return msgspec.structs.replace(seen, resources=_container_resources(report, container, run, target))


def _ephemeral_container(report: Report, container: NodeContainer) -> ContainerObservation:
    """It has no probes, so it is never ready, and no resources of its own."""
    return msgspec.structs.replace(_observed(report, container), resources={"resources": {}})


def _observed(report: Report, container: NodeContainer) -> ContainerObservation:
    run, spec = report.runs[container.name], report.pod.spec
    count = len(spec.containers or ()) + len(spec.init_containers) + len(spec.ephemeral_containers)
    longest = LONGEST_MESSAGES_OF_POD // count
    message = _cut(run.termination_message, longest)
    last = None
    if run.last is not None:
        last = _terminated(
            run.last, report.scheme, message if run.last is run.instance else _cut(run.previous_message, longest)
        )
    return ContainerObservation(
        container.name,
        container.image,
        _state(report, run, container, message),
        last,
        container_id=_container_id(report.scheme, run.instance) if run.instance is not None else "",
        image_id=run.instance.image_id or f"{report.scheme}{container.image}" if run.instance is not None else "",
        restarts=max(run.attempt, 0),
    )


def _cut(message: str, longest: int) -> str:
    return message.encode()[:longest].decode(errors="ignore")


def _state(report: Report, run: ContainerRun, container: NodeContainer, message: str) -> ContainerState:
    finished = report.phase in FINISHED_PHASES
    unfinished = uninitialized(report.pod.spec, report.runs)
    backs_off = run.ended and run.restart_due is not None and not report.stopping and not finished
    return container_state(
        running=Running(run.instance.started)
        if run.instance is not None and run.running and run.post_start_done
        else None,
        blocked=_blocked(run, finished=finished),
        backoff=crash_loop_backoff(report.pod, container.name, run.restart_pause) if backs_off else None,
        ended=_terminated(run.instance, report.scheme, message) if run.instance is not None and run.ended else None,
        pod_ended=finished and not (unfinished and run.attempt < 0),
        initializing=bool(report.pod.spec.init_containers) and (not unfinished or unfinished[0] != container.name),
    )


def _blocked(run: ContainerRun, *, finished: bool) -> Waiting | None:
    if run.waiting_reason:
        return Waiting(run.waiting_reason, run.waiting_message)
    return rules.WAITS_FOR_ALL if run.restarts_with_all and run.restart_due is None and not finished else None


def _container_resources(
    report: Report, container: NodeContainer, run: ContainerRun, target: CgroupTarget
) -> JsonObject:
    """`resources` and `allocatedResources` of a container."""
    if not report.gates.resize:
        return {}
    allocated = next(each for each in report.allocated.spec.all_containers if each.name == container.name).resources
    actual = report.actual.containers.get(container.name) if report.actual is not None and run.running else None
    found: JsonObject = {"resources": _resources(allocated, target.containers[container.name], actual)}
    return {**found, "allocatedResources": written_of(amounts_of(allocated.requests))} if allocated.requests else found


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


def _terminated(instance: Instance, scheme: str, message: str = "") -> Terminated:
    reason = exit_reason(instance.exit_code or 0)
    if instance.oom_killed:
        reason = container_reasons.OOM_KILLED
    if instance.problem:
        reason, message = container_reasons.START_ERROR, instance.problem
    if instance.lost:
        reason = container_reasons.CONTAINER_STATUS_UNKNOWN
        message = ": ".join(filter(None, ("the exit status was lost", instance.lost_reason)))
    return Terminated(
        instance.exit_code or 0,
        reason,
        instance.started,
        instance.ended or instance.started,
        _container_id(scheme, instance),
        message,
    )


def _container_id(scheme: str, instance: Instance) -> str:
    return scheme + (instance.runtime_id or instance.id)
