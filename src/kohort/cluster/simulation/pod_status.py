"""What a node agent would report of a pod: its status as the API knows it, from a machine. Pure.

A status is compared with the last one that was said, not with the cache, which may lag behind it: else a condition
would seem to have changed again, and its time with it.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from kohort.cluster.simulation.annotations import Orders
from kohort.cluster.simulation.pod_lifecycle import ContainerRun, Ended, Machine, Moment
from kohort.cluster.simulation.resizing import Resize
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.meta import condition_is
from kohort.objects.pods import Container, Pod, ResourceRequirements
from kohort.resources import effective
from kohort.resources.amounts import written_of
from kohort.rules.resize_conditions import IN_PROGRESS, PENDING

SCHEME = "simulated://"

OURS = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    PENDING,
    IN_PROGRESS,
)
"""Conditions that a node agent writes. Others belong to others and are not touched."""


class Addresses(NamedTuple):
    host: str
    pod: str


def said_before(pod: Pod) -> JsonObject:
    """The conditions that an earlier process, or nobody yet, has reported."""
    ours = [each for each in pod.status.conditions if each.type in OURS]
    return {"conditions": [msgspec.to_builtins(each) for each in ours]}


def pod_status(
    pod: Pod,
    machine: Machine,
    resize: Resize,
    orders: Orders,
    addresses: Addresses,
    at: Moment,
    said: JsonObject,
) -> JsonObject:
    """The whole status of a pod except the conditions of others. `said` is the last one."""
    if machine.refused:
        return _refused(pod, machine)
    ready = {name: machine.is_ready(name, orders, at.now) for name in (*machine.containers, *machine.sidecars)}
    status: JsonObject = {
        "phase": machine.phase,
        "observedGeneration": pod.metadata.generation,
        "startTime": machine.accepted.stamp,
        "hostIP": addresses.host,
        "hostIPs": [{"ip": addresses.host}],
        "conditions": _conditions(pod, machine, resize, ready, _Dated(pod, said, at.stamp)),
        "containerStatuses": [
            _container(each, machine.containers[each.name], machine, resize, orders, ready)
            for each in pod.spec.main_containers
        ],
    }
    if pod.spec.init_containers:
        status["initContainerStatuses"] = [
            _init_container(each, machine, resize, orders, ready) for each in pod.spec.init_containers
        ]
    if pod.spec.ephemeral_containers:
        status["ephemeralContainerStatuses"] = [
            _ephemeral(each, machine.ephemeral[each.name], machine, orders) for each in pod.spec.ephemeral_containers
        ]
    if machine.begun:
        status["podIP"] = addresses.pod
        status["podIPs"] = [{"ip": addresses.pod}]
    return {**status, **_pod_level(pod, resize)}


def status_patch(said: JsonObject, status: JsonObject) -> JsonObject:
    """The strategic merge patch that brings the one to the other. Such a patch keeps what it does not mention, so what
    is gone must be said: a condition, or the words of one."""
    before = {each["type"]: each for each in said.get("conditions", ())}
    after = {each["type"]: each for each in status.get("conditions", ())}
    conditions = [
        {**{field: None for field in ("reason", "message") if before.get(type, {}).get(field)}, **condition}
        for type, condition in after.items()
    ]
    conditions += [{"type": type, "$patch": "delete"} for type in before if type not in after]
    return {**status, "conditions": conditions} if conditions else status


def _refused(pod: Pod, machine: Machine) -> JsonObject:
    """A pod that the node did not take in."""
    reason, message = refusal(machine.refused)
    return {
        "phase": "Failed",
        "reason": reason,
        "message": message,
        "observedGeneration": pod.metadata.generation,
        "startTime": machine.accepted.stamp,
    }


def refusal(order: str) -> tuple[str, str]:
    """Reason and message.

    >>> refusal("OutOfcpu"), refusal("OutOfcpu: not enough")
    (('OutOfcpu', 'Pod was rejected: OutOfcpu'), ('OutOfcpu', 'not enough'))
    """
    reason, _, message = order.partition(":")
    return reason.strip(), message.strip() or f"Pod was rejected: {reason.strip()}"


class _Dated:
    """Makes conditions that keep their time while their status stays."""

    def __init__(self, pod: Pod, said: JsonObject, stamp: str) -> None:
        self._generation = pod.metadata.generation
        self._before = {each["type"]: each for each in said.get("conditions", ())}
        self._stamp = stamp

    def condition(self, type: str, status: str, reason: str = "", message: str = "") -> JsonObject:
        before = self._before.get(type)
        kept = before is not None and before["status"] == status
        since = before["lastTransitionTime"] if before is not None and kept else self._stamp
        words = {name: text for name, text in (("reason", reason), ("message", message)) if text}
        dates = {"observedGeneration": self._generation, "lastTransitionTime": since}
        return {"type": type, "status": status, **words, **dates}


def _conditions(
    pod: Pod, machine: Machine, resize: Resize, ready: Mapping[str, bool], dated: _Dated
) -> list[JsonObject]:
    finished = machine.phase in ("Succeeded", "Failed")
    all_ready = machine.begun and not finished and all(ready.values())
    gates = [gate.condition_type for gate in pod.spec.readiness_gates]
    closed = [gate for gate in gates if not condition_is(pod.status.conditions, gate)]
    unready = [name for name, state in ready.items() if not state]
    reason = f"Pod{'Completed' if machine.phase == 'Succeeded' else 'Failed'}" if finished else "ContainersNotReady"
    message = "" if finished else f"containers with unready status: [{' '.join(unready)}]"
    containers_ready = ("True", "", "") if all_ready else ("False", reason, message)
    pod_ready = containers_ready
    if all_ready and closed:
        words = "; ".join(f'corresponding condition of pod readiness gate "{gate}" does not exist.' for gate in closed)
        pod_ready = ("False", "ReadinessGatesNotReady", words)
    initialized = ("True", "PodCompleted" if machine.phase == "Succeeded" else "", "")
    if not machine.begun and pod.spec.init_containers:
        names = " ".join(each.name for each in pod.spec.init_containers)
        initialized = ("False", "ContainersNotInitialized", f"containers with incomplete status: [{names}]")
    sandbox = "True" if machine.begun and not (finished or machine.stopped) else "False"
    found = {
        "PodReadyToStartContainers": (sandbox, "", ""),
        "Initialized": initialized,
        "Ready": pod_ready,
        "ContainersReady": containers_ready,
    }
    conditions = [dated.condition(type, *values) for type, values in found.items()]
    return conditions if finished else conditions + resize.state.conditions()


def _container(
    container: Container,
    run: ContainerRun,
    machine: Machine,
    resize: Resize,
    orders: Orders,
    ready: Mapping[str, bool],
) -> JsonObject:
    status: JsonObject = {
        "name": container.name,
        "image": container.image,
        "imageID": f"{SCHEME}{container.image}" if run.id else "",
        "ready": ready.get(container.name, False),
        "started": run.running,
        "restartCount": run.restarts,
        "state": _state(run, machine, orders),
        "lastState": {},
    }
    if run.id:
        status["containerID"] = SCHEME + run.id
    if run.last is not None and not run.finished:
        status["lastState"] = {"terminated": _terminated(run.last)}
    return {**status, **_resources(container.name, resize)}


def _init_container(
    container: Container, machine: Machine, resize: Resize, orders: Orders, ready: Mapping[str, bool]
) -> JsonObject:
    if container.sidecar:
        return _container(container, machine.sidecars[container.name], machine, resize, orders, ready)
    status: JsonObject = {
        "name": container.name,
        "image": container.image,
        "imageID": f"{SCHEME}{container.image}" if machine.begun else "",
        "ready": machine.begun,
        "started": False,
        "restartCount": 0,
        "state": {"waiting": {"reason": "PodInitializing"}},
        "lastState": {},
        **_resources(container.name, resize),
    }
    if machine.begun:
        stamp = machine.accepted.stamp
        ended = Ended(0, stamp, stamp, f"{machine.uid}-{container.name}")
        status |= {"state": {"terminated": _terminated(ended)}, "containerID": SCHEME + ended.id}
    return status


def _ephemeral(container: Container, run: ContainerRun, machine: Machine, orders: Orders) -> JsonObject:
    """Such a container is probed by nobody, so it never is ready."""
    status: JsonObject = {
        "name": container.name,
        "image": container.image,
        "imageID": f"{SCHEME}{container.image}" if run.id else "",
        "ready": False,
        "restartCount": 0,
        "state": _state(run, machine, orders),
        "lastState": {},
    }
    return {**status, "containerID": SCHEME + run.id} if run.id else status


def _state(run: ContainerRun, machine: Machine, orders: Orders) -> JsonObject:
    if run.running:
        return {"running": {"startedAt": run.started}}
    if run.due is not None:
        words = f"back-off restarting failed container={run.name}"
        return {"waiting": {"reason": "CrashLoopBackOff", "message": words}}
    if run.last is not None:
        return {"terminated": _terminated(run.last)}
    if machine.stopped:
        words = "The container could not be located when the pod was terminated"
        return {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": words}}
    return {"waiting": {"reason": orders.waiting or ("PodInitializing" if machine.sidecars else "ContainerCreating")}}


def _terminated(ended: Ended) -> JsonObject:
    return {
        "exitCode": ended.code,
        "reason": ended.reason,
        "startedAt": ended.started,
        "finishedAt": ended.finished,
        "containerID": SCHEME + ended.id,
    }


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
