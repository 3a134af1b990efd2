"""What this node has allocated to each pod, and what it has actuated: patch -> decide -> ALLOCATE -> actuate -> report.

Both records are checkpoints on disk. An accepted resize is recorded here before anything acts on it, so an agent that
is killed at any moment finishes it after a restart.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from kohort.node.admission_checks import mismatch
from kohort.node.checkpoint import Checkpoint, WriteObserver, unobserved
from kohort.node.resource_views import Actuated
from kohort.objects.pods import Pod
from kohort.resources import SPEC, requests, summed
from kohort.rules.allocated_resources import Allocated, Desired
from kohort.rules.pod_admission import Rejection, pod_level_rejection, room_rejection
from kohort.rules.resize_decision import Accepted, NodeFacts, ResizeDecision
from kohort.rules.resize_queue import WaitingResize, decide_in_order


class Allocations:
    def __init__(self, directory: Path, observer: WriteObserver = unobserved) -> None:
        self._allocated = Checkpoint(directory / "allocated.json", Allocated, observer)
        self._actuated = Checkpoint(directory / "actuated.json", Actuated, observer)

    @property
    def recovered_from_previous(self) -> bool:
        """A record was damaged and its last good version was taken."""
        return self._allocated.recovered_from_previous or self._actuated.recovered_from_previous

    def allocated(self, uid: str) -> Allocated | None:
        return self._allocated.get(uid)

    def actuated(self, uid: str) -> Actuated | None:
        return self._actuated.get(uid)

    def record_actuated(self, uid: str, actuated: Actuated) -> None:
        self._actuated.put(uid, actuated)

    def as_allocated(self, pod: Pod) -> Pod:
        """A pod with the resources that are allocated to it, instead of those that its spec asks for."""
        allocated = self._allocated.get(pod.metadata.uid)
        return pod if allocated is None else allocated.applied_to(pod)

    def admit(self, pod: Pod, others: Iterable[Pod], node: NodeFacts) -> Rejection | None:
        """Allocate what a new pod requests, or say why not. A pod that was admitted before keeps what it has."""
        known = self._allocated.get(pod.metadata.uid)
        seen = pod if known is None else known.completed(pod.spec).applied_to(pod)
        if (rejection := pod_level_rejection(seen, node)) is not None:
            return rejection
        running = [each for each in others if self._allocated.get(each.metadata.uid) is not None]
        if (rejection := mismatch(seen, running)) is not None:
            return rejection
        used = summed(requests(self.as_allocated(each), SPEC) for each in running)
        rejection = room_rejection(requests(seen, SPEC), len(running), used, node.allocatable)
        if rejection is not None:
            return rejection
        allocation = known.completed(pod.spec) if known is not None else Allocated.accepting(Desired.of(pod.spec))
        self._allocated.put(pod.metadata.uid, allocation)
        return None

    def decide_and_allocate(
        self, waiting: Mapping[str, str], pods: Iterable[Pod], node: NodeFacts
    ) -> Iterator[tuple[str, ResizeDecision]]:
        """Decide resizes in their order, and record each that is accepted before its decision is yielded.

        `waiting` has the UIDs of pods whose resize is decided, and since when it waits (empty if it was not refused
        yet); `pods` are all pods of the node. Raises OSError when a resize cannot be recorded: it and those after it,
        which may count on the room that it frees, stay undecided.
        """
        entries, settled = [], []
        for pod in pods:
            uid = pod.metadata.uid
            allocated = self._allocated.get(uid)
            if allocated is not None and uid in waiting:
                entries.append(WaitingResize(pod, allocated, waiting[uid]))
            elif allocated is not None:
                settled.append(allocated.applied_to(pod))
        for entry, decision in decide_in_order(entries, settled, node):
            if isinstance(decision, Accepted):
                self._allocated.put(entry.pod.metadata.uid, decision.allocated)
            yield entry.pod.metadata.uid, decision

    def known(self) -> set[str]:
        """The UIDs of all pods that were admitted and not forgotten, also by an earlier agent of this node."""
        return {*self._allocated.known(), *self._actuated.known()}

    def forget(self, alive: "set[str]") -> None:
        """Drop the records of pods that are not among `alive`."""
        for checkpoint in (self._allocated, self._actuated):
            checkpoint.drop({uid for uid in checkpoint.known() if uid not in alive})
