"""In-place resize of one pod on a simulated node. What is decided, and in which order, is in `kohort.rules`.

| annotation           | decision                        | then                                                      |
|----------------------|---------------------------------|-----------------------------------------------------------|
| deferred, infeasible | rejected by the annotation      | PodResizePending                                          |
| accept, error        | that of `rules.resize_decision` | PodResizePending if it is rejected                        |
| accept               | accepted                        | allocated; PodResizeInProgress; applied after the latency |
| error                | accepted                        | allocated; PodResizeInProgress, Error, while annotated    |
"""

import msgspec

from kohort.cluster.simulation.annotations import SimulatedBehavior
from kohort.cluster.simulation.pod_lifecycle import SimulatedTime
from kohort.objects.meta import Condition
from kohort.objects.pods import Pod, ResourceRequirements
from kohort.resources.effective import DEFERRED
from kohort.rules import resize_conditions
from kohort.rules.allocated_resources import Allocated, Desired, agrees
from kohort.rules.resize_conditions import Note, ResizeState
from kohort.rules.resize_decision import Accepted, Deferred, Infeasible, Injected, ResizeDecision, Reverted
from kohort.rules.resize_restart import containers_to_restart

ORDERED = "ordered by an annotation"


class Outcome(msgspec.Struct):
    """What carrying out a resize led to."""

    wait: float | None = None
    restarts: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


class Resize(msgspec.Struct):
    """The resources of a pod on a simulated node: allocated, actual, and pending."""

    allocated: Allocated
    actual: Allocated
    state: ResizeState = ResizeState()
    due: float = 0.0
    """When the accepted resize is applied."""
    reported: bool = False
    """The present progress is in a status that was written: watchers see it, however short it is."""
    settled_generation: int = 0
    """The generation of the pod's spec that is known to ask for what is allocated."""

    @staticmethod
    def none(pod: Pod) -> "Resize":
        allocated = Allocated.accepting(Desired.of(pod.spec))
        return Resize(allocated, allocated)

    @staticmethod
    def recover(pod: Pod) -> "Resize":
        """From the status that an earlier process wrote. It has no allocated limits: those are the applied ones, unless
        the spec was accepted and is being applied."""
        desired = Allocated.accepting(Desired.of(pod.spec))
        actual = Allocated(
            {name: _applied(pod, name, spec) for name, spec in desired.containers.items()}, _applied_to_pod(pod)
        )
        state = ResizeState.reported(pod)
        if state.progress is not None and state.pending is None:
            return Resize(desired, actual, state)
        return Resize(actual, actual, state)

    def waits(self, pod: Pod) -> bool:
        """Whether the spec differs from what is allocated."""
        if self.settled_generation == pod.metadata.generation != 0:
            return False
        if not agrees(Desired.of(pod.spec), self.allocated):
            return True
        self.settled_generation = pod.metadata.generation
        return False

    @property
    def deferred(self) -> bool:
        return self.state.pending is not None and self.state.pending.reason == DEFERRED

    def is_new(self, pod: Pod) -> bool:
        """Whether what the pod asks for was not decided yet, if it asks for something else than it has."""
        return self.state.pending is None or self.state.pending.observed_generation != pod.metadata.generation

    def take(self, decision: ResizeDecision, pod: Pod, behavior: SimulatedBehavior, at: SimulatedTime) -> list[Note]:
        """Remember a decision."""
        match decision:
            case Reverted():
                self.state = self.state.without_pending()
                return []
            case Accepted(allocated):
                self.allocated, self.reported, self.due = allocated, False, at.now + behavior.resize_latency
                self.state, notes = resize_conditions.accepted(pod, at.stamp)
                return notes
            case Deferred() | Infeasible():
                state, notes = resize_conditions.refused(self.state, decision, pod, at.stamp)
                if not _same(state.pending, self.state.pending):
                    self.state = state
                return notes

    def carry_out(self, pod: Pod, behavior: SimulatedBehavior, at: SimulatedTime) -> Outcome:
        """Apply the accepted resize when its latency is over."""
        if self.state.progress is None:
            return Outcome()
        if behavior.resize == "error":
            state, notes = resize_conditions.failed(self.state, behavior.resize_message or ORDERED, pod, at.stamp)
            if not _same(state.progress, self.state.progress):
                self.state = state
            return Outcome(notes=tuple(notes))
        if not self.reported or at.now < self.due:
            return Outcome(wait=max(self.due - at.now, 0.001))
        before, after = self.actual.applied_to(pod).spec, self.allocated.applied_to(pod).spec
        restarts = tuple(containers_to_restart(before, after))
        self.state, notes = resize_conditions.completed(self.state, pod)
        self.actual = self.allocated
        return Outcome(restarts=restarts, notes=tuple(notes))


def annotated_decision(behavior: SimulatedBehavior) -> Deferred | Infeasible | None:
    match behavior.resize:
        case "deferred":
            return Deferred(Injected(behavior.resize_message or ORDERED))
        case "infeasible":
            return Infeasible(Injected(behavior.resize_message or ORDERED))
        case _:
            return None


def _same(left: Condition | None, right: Condition | None) -> bool:
    """But for the time at which it was looked at: a status is not written again for that."""
    if left is None or right is None:
        return left is right
    return msgspec.structs.replace(left, last_probe_time=right.last_probe_time) == right


def _applied(pod: Pod, container: str, spec: ResourceRequirements) -> ResourceRequirements:
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        if status.name == container and status.resources is not None:
            return status.resources
    return spec


def _applied_to_pod(pod: Pod) -> ResourceRequirements | None:
    """The pod-level figures in a status also hold what the containers add up to; leave that out."""
    spec, status = pod.spec.resources, pod.status.resources
    if spec is None or status is None:
        return spec
    return ResourceRequirements(
        {name: status.requests.get(name, amount) for name, amount in spec.requests.items()},
        {name: status.limits.get(name, amount) for name, amount in spec.limits.items()},
    )
