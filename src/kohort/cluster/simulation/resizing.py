"""In-place resize on a simulated node: judged, allocated and carried out as a node agent does it.

| desired = allocated | order         | room on the node | then                                                      |
|---------------------|---------------|------------------|-----------------------------------------------------------|
| yes                 |               |                  | nothing is pending                                        |
| no                  | deferred      |                  | PodResizePending, Deferred                                |
| no                  | infeasible    |                  | PodResizePending, Infeasible                              |
| no                  | accept, error | never            | PodResizePending, Infeasible                              |
| no                  | accept, error | not now          | PodResizePending, Deferred; asked again                   |
| no                  | accept        | yes              | allocated; PodResizeInProgress; after the latency applied |
| no                  | error         | yes              | allocated; PodResizeInProgress, Error, while so ordered   |
"""

from collections.abc import Callable
from typing import Literal

import msgspec

from kohort.cluster.simulation.machine import Moment
from kohort.cluster.simulation.orders import Orders
from kohort.objects.pods import Container, Pod, PodSpec, ResourceRequirements

RETRY_SECONDS = 5.0
Reason = Literal["Deferred", "Infeasible"]


class Allocation(msgspec.Struct, frozen=True):
    """Resources of a pod at one stage: what each container has, and the pod as a whole."""

    containers: dict[str, ResourceRequirements]
    pod: ResourceRequirements | None = None

    @staticmethod
    def desired(spec: PodSpec) -> "Allocation":
        return Allocation({each.name: each.resources for each in spec.all_containers}, spec.resources)

    def applied_to(self, pod: Pod) -> Pod:
        return pod.with_resources(self.containers, self.pod)


class Refusal(msgspec.Struct, frozen=True):
    reason: Reason
    message: str


class Pending(msgspec.Struct, frozen=True):
    reason: Reason
    message: str
    generation: int
    since: str


class Progress(msgspec.Struct, frozen=True):
    generation: int
    since: str
    done: float
    error: str = ""


class Note(msgspec.Struct, frozen=True):
    """An event on the pod."""

    warning: bool
    reason: str
    message: str


class Outcome(msgspec.Struct):
    """What one look at a resize led to."""

    wait: float | None = None
    restarts: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


class Resize(msgspec.Struct):
    allocated: Allocation
    actual: Allocation
    pending: Pending | None = None
    progress: Progress | None = None
    reported: bool = False
    """The present progress stands in a status that has been written: nobody may miss it, however short it is."""

    @staticmethod
    def none(pod: Pod) -> "Resize":
        desired = Allocation.desired(pod.spec)
        return Resize(desired, desired)

    @staticmethod
    def recover(pod: Pod) -> "Resize":
        """From the status that an earlier process has written."""
        statuses = {
            status.name: status for status in (*pod.status.container_statuses, *pod.status.init_container_statuses)
        }
        found = {
            each.name: status.resources
            for each in pod.spec.all_containers
            if (status := statuses.get(each.name)) is not None and status.resources is not None
        }
        desired = Allocation.desired(pod.spec)
        pod_level = pod.spec.resources
        if pod_level is not None and pod.status.resources is not None:
            pod_level = _only_names_of(pod_level, pod.status.resources)
        actual = Allocation({**desired.containers, **found}, pod_level)
        return Resize(actual, actual)

    def look(self, pod: Pod, orders: Orders, room: Callable[[Pod], Refusal | None], at: Moment) -> Outcome:
        """Judge and carry out. `room` says whether the node has what the pod asks for."""
        outcome = Outcome()
        desired = Allocation.desired(pod.spec)
        if desired == self.allocated:
            self.pending = None
        else:
            self._judge(pod, desired, orders, room, at, outcome)
        if self.progress is not None:
            self._carry_out(pod, self.progress, orders, at, outcome)
        return outcome

    def _judge(
        self,
        pod: Pod,
        desired: Allocation,
        orders: Orders,
        room: Callable[[Pod], Refusal | None],
        at: Moment,
        outcome: Outcome,
    ) -> None:
        generation = pod.metadata.generation
        refusal = _ordered_refusal(orders) or room(pod)
        if refusal is None:
            self.allocated, self.pending, self.reported = desired, None, False
            self.progress = Progress(generation, at.stamp, at.now + orders.resize_latency)
            outcome.notes += (Note(False, "ResizeStarted", _summary(desired, generation)),)
            return
        before = self.pending
        kept = before is not None and before.reason == refusal.reason
        since = before.since if before is not None and kept else at.stamp
        self.pending = Pending(refusal.reason, refusal.message, generation, since)
        if before is None or not kept or before.generation != generation:
            words = f"{_summary(desired, generation)}: {refusal.message}"
            outcome.notes += (Note(True, f"Resize{refusal.reason}", words),)
        if refusal.reason == "Deferred" and orders.resize not in ("deferred", "infeasible"):
            outcome.wait = RETRY_SECONDS

    def _carry_out(self, pod: Pod, progress: Progress, orders: Orders, at: Moment, outcome: Outcome) -> None:
        error = (orders.resize_message or "ordered by an annotation") if orders.resize == "error" else ""
        if error:
            if progress.error != error:
                outcome.notes += (
                    Note(True, "ResizeError", f"{_summary(self.allocated, progress.generation)}: {error}"),
                )
                self.progress = msgspec.structs.replace(progress, error=error)
            return
        if not self.reported or at.now < progress.done:
            wait = max(progress.done - at.now, 0.001)
            outcome.wait = wait if outcome.wait is None else min(wait, outcome.wait)
            return
        outcome.restarts = tuple(each.name for each in pod.spec.all_containers if self._needs_restart(each))
        outcome.notes += (Note(False, "ResizeCompleted", _summary(self.allocated, progress.generation)),)
        self.actual, self.progress = self.allocated, None

    def _needs_restart(self, container: Container) -> bool:
        """A resource changed, own or inherited from the pod, for which the container asked to be restarted."""
        before, after = self.actual, self.allocated
        sensitive = [
            each.resource_name for each in container.resize_policy if each.restart_policy == "RestartContainer"
        ]
        return any(
            _figures(before, container.name, name) != _figures(after, container.name, name) for name in sensitive
        )


def _ordered_refusal(orders: Orders) -> Refusal | None:
    if orders.resize == "deferred":
        return Refusal("Deferred", orders.resize_message or "ordered by an annotation")
    if orders.resize == "infeasible":
        return Refusal("Infeasible", orders.resize_message or "ordered by an annotation")
    return None


def _figures(allocation: Allocation, container: str, name: str) -> tuple[object, object]:
    own = allocation.containers[container]
    inherited = allocation.pod.limits.get(name) if allocation.pod is not None else None
    return own.requests.get(name), own.limits.get(name) or inherited


def _only_names_of(spec: ResourceRequirements, status: ResourceRequirements) -> ResourceRequirements:
    """The pod-level figures in a status also hold what the containers add up to; leave that out."""
    return ResourceRequirements(
        {name: status.requests.get(name, amount) for name, amount in spec.requests.items()},
        {name: status.limits.get(name, amount) for name, amount in spec.limits.items()},
    )


def _summary(allocation: Allocation, generation: int) -> str:
    containers = [{"name": name, "resources": resources} for name, resources in allocation.containers.items()]
    document: dict[str, object] = {"containers": containers, "generation": generation}
    if allocation.pod is not None:
        document["resources"] = allocation.pod
    return msgspec.json.encode(document).decode()
