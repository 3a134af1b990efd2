"""A node without its kernel: directories that look like cgroups, and an agent that can be made to die."""

from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec

from kohort.node.cgroups import Cgroups
from kohort.node.resize.actuation import CgroupActuator
from kohort.node.resize.allocation import Allocations
from kohort.node.resize.plan import in_progress
from kohort.node.resource_views import Actuated, figures_of
from kohort.node.runtimes.interface import Runtime
from kohort.objects.pods import Pod
from kohort.objects.quantity import Quantity
from kohort.resources import container_cgroup, pod_cgroup, stored_qos_class
from kohort.rules.allocated_resources import Desired, agrees
from kohort.rules.resize_decision import NodeFacts, ResizeDecision

ROOM = NodeFacts({"cpu": Quantity.parse("8"), "memory": Quantity.parse("8Gi")})
FILES = ("memory.max", "memory.high", "cpu.max", "cpu.weight")


class Died(BaseException):
    """kill -9."""


class Machine:
    """A directory that looks like a cgroup tree, and an agent that dies before its n-th write, or whose n-th write
    fails once."""

    def __init__(self, root: Path, dies_before: int | None = None, fails_at: int | None = None) -> None:
        self.root = root
        self.dies_before = dies_before
        self.fails_at = fails_at
        self._counting = False
        self.writes: list[str] = []
        self.stopped: list[str] = []
        self.allocations = Allocations(root / "state", self.observer)
        self.cgroups = Cgroups(root / "cgroup", self.observer)
        self.runtime: Runtime | None = None
        """One that makes the cgroups of containers; None if the agent does."""

    def observer(self, kind: str, path: Path, content: str) -> None:
        if self.dies_before is not None and len(self.writes) == self.dies_before:
            raise Died
        if self._counting and len(self.writes) == self.fails_at:
            self.fails_at = None
            raise OSError("refused by the kernel" if kind == "cgroup" else "no space left")
        self.writes.append(f"{path.parent.name}/{path.name} {content}" if kind == "cgroup" else f"{kind} {path.name}")

    def begin_counting(self) -> None:
        """From here on writes count."""
        self.writes.clear()
        self._counting = True

    def run(self, pod: Pod, usage: int = 0) -> None:
        """Start a pod."""
        assert self.allocations.admit(pod, [], ROOM) is None
        path = self.cgroups.pod(pod.metadata.uid, stored_qos_class(pod))
        for below, values in [
            (path, pod_cgroup(pod)),
            *((path / each.name, container_cgroup(pod, each)) for each in pod.spec.all_containers),
        ]:
            below.mkdir(parents=True, exist_ok=True)
            for file in FILES:
                (below / file).write_text(values.files()[file])
            (below / "memory.current").write_text(str(usage))
        figures = figures_of(pod)
        self.allocations.record_actuated(pod.metadata.uid, Actuated(figures.pod, figures.containers))

    async def resize(self, pod: Pod, running: Collection[str] | None = None) -> None:
        """What the agent does with a pod whose spec has changed, from decision to cgroups. All containers run, unless
        told which, except those that were stopped."""
        self.allocations.admit(pod, [], ROOM)
        decide(self.allocations, pod, [], ROOM)
        allocated = self.allocations.as_allocated(pod)
        names = [each.name for each in pod.spec.all_containers] if running is None else list(running)
        running = [name for name in names if name not in self.stopped]

        async def stop(name: str) -> None:
            self.stopped.append(name)

        await CgroupActuator(self.cgroups, self.allocations, self.runtime).actuate(allocated, running, stop)

    def start_again(self, pod: Pod) -> list[str]:
        """Start what was stopped, as the agent does it: with the figures that are allocated by then. Their names."""
        allocated, uid = self.allocations.as_allocated(pod), pod.metadata.uid
        path = self.cgroups.pod(uid, stored_qos_class(pod))
        for each in allocated.spec.all_containers:
            if each.name in self.stopped:
                self.cgroups.create(path / each.name, container_cgroup(allocated, each), inner=False)
                actuated = self.allocations.actuated(uid)
                assert actuated is not None and each.name in actuated.restarting
                fresh = actuated.with_container(each.name, figures_of(allocated).containers[each.name])
                self.allocations.record_actuated(
                    uid, msgspec.structs.replace(fresh, restarting=actuated.restarting - {each.name})
                )
        started, self.stopped = self.stopped, []
        return started

    def settled(self, pod: Pod, running: Collection[str] | None = None) -> bool:
        """Whether everything that the pod asks for is accepted and pushed."""
        actuated = self.allocations.actuated(pod.metadata.uid)
        allocated = self.allocations.allocated(pod.metadata.uid)
        assert actuated is not None and allocated is not None
        names = [each.name for each in pod.spec.all_containers] if running is None else running
        return agrees(Desired.of(pod.spec), allocated) and not in_progress(figures_of(pod), actuated, names)

    def files(self, pod: Pod) -> dict[str, str]:
        path = self.cgroups.pod(pod.metadata.uid, stored_qos_class(pod))
        return {
            f"{below.name}/{file}": (below / file).read_text()
            for below in (path, *(path / each.name for each in pod.spec.all_containers))
            for file in FILES
        }


def decide(allocations: Allocations, pod: Pod, others: Iterable[Pod], node: NodeFacts) -> ResizeDecision:
    """Decide the resize of one pod among others."""
    ((_, decision),) = allocations.decide_and_allocate({pod.metadata.uid: ""}, [pod, *others], node)
    return decision
