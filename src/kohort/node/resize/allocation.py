"""What this node has promised: one record per pod, and the decisions made on it.

Accounting and judging happen here, in one place and without waiting, so that no two decisions can overlap; carrying
them out happens elsewhere, pod by pod.
"""

from collections.abc import Iterable
from pathlib import Path

from kohort.node.admission_checks import Refusal, misfit
from kohort.node.checkpoint import Checkpoint, Witness, nobody
from kohort.node.views import Actuated
from kohort.objects.pods import Pod
from kohort.resources import SPEC, pod_level_set, requests
from kohort.rules.allocated_resources import Allocated, Desired
from kohort.rules.resize_decision import Accepted, NodeFacts, ResizeDecision, judge, message_for, shortage_for

NOT_SUPPORTED = "PodLevelResourcesNotSupported"


class Allocations:
    def __init__(self, directory: Path, witness: Witness = nobody) -> None:
        self._allocated = Checkpoint(directory / "allocated.json", Allocated, witness)
        self._actuated = Checkpoint(directory / "actuated.json", Actuated, witness)

    @property
    def recovered_from_previous(self) -> bool:
        """A record was damaged and its last good version was taken: somebody should be told."""
        return self._allocated.recovered_from_previous or self._actuated.recovered_from_previous

    def allocated(self, uid: str) -> Allocated | None:
        return self._allocated.get(uid)

    def actuated(self, uid: str) -> Actuated | None:
        return self._actuated.get(uid)

    def record_actuated(self, uid: str, actuated: Actuated) -> None:
        self._actuated.put(uid, actuated)

    def as_allocated(self, pod: Pod) -> Pod:
        """A pod as this node sees it: by what was accepted, not by what is asked."""
        allocated = self._allocated.get(pod.metadata.uid)
        return pod if allocated is None else allocated.applied_to(pod)

    def admit(self, pod: Pod, others: Iterable[Pod], node: NodeFacts) -> Refusal | None:
        """Take a pod in, or say why not. One that was taken in before is judged by what it has."""
        known = self._allocated.get(pod.metadata.uid)
        seen = pod if known is None else known.completed(pod.spec).applied_to(pod)
        if pod_level_set(seen.spec) and not node.gates.pod_level_resources:
            return Refusal(NOT_SUPPORTED, "Pod-level resources are not enabled on this node")
        if pod_level_set(seen.spec) and not (node.linux and node.cgroup_v2):
            return Refusal(NOT_SUPPORTED, "Pod-level resources need a node with writable cgroup v2")
        running = [each for each in others if self._allocated.get(each.metadata.uid) is not None]
        if (unfit := misfit(seen, running)) is not None:
            return unfit
        wanted = requests(seen, SPEC)
        pods = node.allocatable.get("pods")
        if pods is not None and len(running) + 1 > pods.value:
            words = (
                f"Node didn't have enough resource: pods, requested: 1, used: {len(running)}, capacity: {pods.value}"
            )
            return Refusal("OutOfpods", words)
        shortage = shortage_for(wanted, [self.as_allocated(each) for each in running], node.allocatable)
        if shortage is not None:
            return Refusal(f"OutOf{shortage.resource}", message_for(shortage))
        allocation = known.completed(pod.spec) if known is not None else Allocated.accepting(Desired.of(pod.spec))
        self._allocated.put(pod.metadata.uid, allocation)
        return None

    def judge(self, pod: Pod, others: Iterable[Pod], node: NodeFacts) -> ResizeDecision:
        """Judge a resize, and remember it when it is accepted. Raises OSError when it cannot be remembered."""
        allocated = self._allocated.get(pod.metadata.uid)
        assert allocated is not None
        running = [
            self.as_allocated(each)
            for each in others
            if each.metadata.uid != pod.metadata.uid and self._allocated.get(each.metadata.uid) is not None
        ]
        verdict = judge(pod, allocated, running, node)
        if isinstance(verdict, Accepted):
            self._allocated.put(pod.metadata.uid, verdict.allocated)
        return verdict

    def forget(self, alive: "set[str]") -> None:
        """Drop the records of pods that are not among `alive`."""
        for checkpoint in (self._allocated, self._actuated):
            checkpoint.drop({uid for uid in checkpoint.known() if uid not in alive})
