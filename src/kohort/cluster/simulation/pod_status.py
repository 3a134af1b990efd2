"""The status of a simulated pod, from its lifecycle. Pure.

`kohort.rules.pod_status` decides phase, conditions and states, as for a node agent.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kohort.cluster.simulation.annotations import SimulatedBehavior
from kohort.cluster.simulation.pod_lifecycle import ContainerRun, Ended, PodLifecycle, SimulatedTime
from kohort.cluster.simulation.resizing import Resize
from kohort.objects import container_reasons
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.pods import Container, Pod, ResourceRequirements
from kohort.resources import effective
from kohort.resources.amounts import written_of
from kohort.rules import pod_status as rules
from kohort.rules.pod_status import (
    ContainerObservation,
    ContainerState,
    PodObservation,
    Running,
    Terminated,
    Waiting,
    container_state,
    crash_loop_backoff,
    exit_reason,
    rejected_status,
)

SCHEME = "simulated://"


class Addresses(NamedTuple):
    host: str
    pod: str


def pod_status(
    pod: Pod,
    lifecycle: PodLifecycle,
    resize: Resize,
    behavior: SimulatedBehavior,
    addresses: Addresses,
    at: SimulatedTime,
    reported: JsonObject,
) -> JsonObject:
    """The whole status of a pod except conditions of other writers. `reported` is the last one that was written."""
    if (rejection := lifecycle.rejection) is not None:
        return rejected_status(pod, rejection.reason, rejection.message, lifecycle.accepted.stamp)
    return rules.pod_status(pod, observation(pod, lifecycle, resize, behavior, addresses, at), reported)


def observation(
    pod: Pod,
    lifecycle: PodLifecycle,
    resize: Resize,
    behavior: SimulatedBehavior,
    addresses: Addresses,
    at: SimulatedTime,
) -> PodObservation:
    def container(each: Container, run: ContainerRun) -> ContainerObservation:
        ready = lifecycle.is_ready(each.name, behavior, at.now)
        return _container(pod, each, run, lifecycle, behavior, ready=ready, resources=_resources(each.name, resize))

    return PodObservation(
        phase=lifecycle.phase,
        now=at.stamp,
        start_time=lifecycle.accepted.stamp,
        containers=[container(each, lifecycle.containers[each.name]) for each in pod.spec.main_containers],
        init_containers=[
            container(each, lifecycle.sidecars[each.name]) if each.sidecar else _init_container(each, lifecycle, resize)
            for each in pod.spec.init_containers
        ],
        ephemeral_containers=[
            _container(pod, each, lifecycle.ephemeral[each.name], lifecycle, behavior)
            for each in pod.spec.ephemeral_containers
        ],
        sandbox_ready=lifecycle.begun and not lifecycle.stopped,
        uninitialized=[] if lifecycle.begun else [each.name for each in pod.spec.init_containers],
        host=addresses.host,
        address=addresses.pod if lifecycle.begun else "",
        resize=resize.state,
        resources=_pod_level(pod, resize),
    )


def _container(
    pod: Pod,
    container: Container,
    run: ContainerRun,
    lifecycle: PodLifecycle,
    behavior: SimulatedBehavior,
    *,
    ready: bool = False,
    resources: JsonObject | None = None,
) -> ContainerObservation:
    """An ephemeral container has neither probes nor resources."""
    return ContainerObservation(
        container.name,
        container.image,
        _state(pod, run, lifecycle, behavior),
        _terminated(run.last) if run.last is not None and not run.finished else None,
        container_id=SCHEME + run.id if run.id else "",
        image_id=f"{SCHEME}{container.image}" if run.id else "",
        ready=ready,
        started=None if resources is None else run.running,
        restarts=run.restarts,
        resources=resources or {},
    )


def _init_container(container: Container, lifecycle: PodLifecycle, resize: Resize) -> ContainerObservation:
    """Simulated init containers end at once, all together."""
    resources = _resources(container.name, resize)
    if not lifecycle.begun:
        waiting = Waiting(container_reasons.POD_INITIALIZING)
        return ContainerObservation(container.name, container.image, waiting, started=False, resources=resources)
    stamp = lifecycle.accepted.stamp
    ended = Ended(0, stamp, stamp, f"{lifecycle.uid}-{container.name}")
    return ContainerObservation(
        container.name,
        container.image,
        _terminated(ended),
        container_id=SCHEME + ended.id,
        image_id=f"{SCHEME}{container.image}",
        ready=True,
        started=False,
        resources=resources,
    )


def _state(pod: Pod, run: ContainerRun, lifecycle: PodLifecycle, behavior: SimulatedBehavior) -> ContainerState:
    blocked = behavior.waiting and not run.id and not lifecycle.stopped
    return container_state(
        running=Running(run.started) if run.running else None,
        blocked=Waiting(behavior.waiting) if blocked else None,
        backoff=crash_loop_backoff(pod, run.name, run.pause) if run.due is not None else None,
        ended=_terminated(run.last) if run.last is not None else None,
        pod_ended=lifecycle.stopped,
        initializing=bool(pod.spec.init_containers),
    )


def _terminated(ended: Ended) -> Terminated:
    return Terminated(ended.code, exit_reason(ended.code), ended.started, ended.finished, SCHEME + ended.id)


def _resources(name: str, resize: Resize) -> JsonObject:
    allocated, actual = resize.allocated.containers[name], resize.actual.containers[name]
    found: JsonObject = {"resources": _requirements(actual)}
    if allocated.requests:
        found["allocatedResources"] = dict(allocated.requests)
    return found


def _pod_level(pod: Pod, resize: Resize) -> JsonObject:
    allocated = effective.requests(resize.allocated.applied_to(pod), effective.SANDBOX)
    requests, limits = effective.reported(resize.actual.applied_to(pod))
    found: JsonObject = {"resources": _given({"requests": written_of(requests), "limits": written_of(limits)})}
    return {**found, "allocatedResources": written_of(allocated)} if allocated else found


def _requirements(resources: ResourceRequirements) -> JsonObject:
    return _given({"requests": dict(resources.requests), "limits": dict(resources.limits)})


def _given(parts: Mapping[str, Mapping[str, Json]]) -> JsonObject:
    return {name: dict(part) for name, part in parts.items() if part}
