"""What is known of one pod on this machine, shared by those who look after its parts."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path

from kohort.kube import clock
from kohort.kube.log import Log
from kohort.kube.resources import PODS, Key
from kohort.node.container_order import Run
from kohort.node.container_spec import execution_of
from kohort.node.node_context import Surroundings
from kohort.node.probe_runner import Probing
from kohort.node.probes import output_of
from kohort.node.runtimes.interface import CannotStart, Instance, Launch
from kohort.node.security_context import unenforced
from kohort.objects.node_pods import NodeContainer, NodePod
from kohort.resources import stored_qos_class
from kohort.rules.resize_conditions import Note, ResizeState

DEFAULT_GRACE = 30.0
_log = Log(part="node")


class HeldPod:
    def __init__(self, node: Surroundings, pod: NodePod, instances: dict[str, Instance]) -> None:
        self.node = node
        self.pod = pod
        self.uid = pod.metadata.uid
        self.key = Key(pod.metadata.namespace, pod.metadata.name)
        self.runs = {each.name: recovered(pod, each, instances) for each in containers_of(pod)}
        self.launches: dict[str, Launch] = {}
        self.probing: dict[str, Probing] = {}
        self.exits: dict[str, asyncio.Event] = {}
        """By instance: set when it has ended."""
        self.resize = ResizeState.recovered(pod)
        self.address = ""
        self.netns = ""
        self.places: dict[str, str] | None = None
        """Where volumes are, once they are there."""
        self.started_at = pod.status.start_time or clock.timestamp()
        self.unenforced = unenforced(pod, root=os.geteuid() == 0)
        self._tasks: set[asyncio.Task[None]] = set()

    def seen(self, pod: NodePod) -> None:
        """The pod as it is now; ephemeral containers may have come."""
        self.pod = pod
        for container in pod.spec.ephemeral_containers:
            self.runs.setdefault(container.name, Run(container.name))

    def allocated(self) -> NodePod:
        found = self.node.allocations.as_allocated(self.pod)
        assert isinstance(found, NodePod)
        return found

    def container(self, name: str) -> NodeContainer:
        return container_of(self.pod, name)

    def running(self) -> list[str]:
        """Containers that run and have figures of their own."""
        return [each.name for each in resizable_of(self.pod) if self.runs[each.name].running]

    def restarting(self) -> frozenset[str]:
        """Containers that were stopped for a resize and have not started again."""
        actuated = self.node.allocations.actuated(self.uid)
        return actuated.restarting if actuated is not None else frozenset()

    @property
    def grace(self) -> float:
        seconds = self.pod.spec.termination_grace_period_seconds
        return DEFAULT_GRACE if seconds is None else float(seconds)

    @property
    def cgroup(self) -> Path:
        assert self.node.cgroups is not None
        return self.node.cgroups.pod(self.uid, stored_qos_class(self.pod))

    def wake(self, seconds: float = 0.0) -> None:
        self.node.wake(self.key, seconds)

    def event(self, type: str, reason: str, message: str) -> None:
        write = self.node.recorder.warning if type == "Warning" else self.node.recorder.normal
        write(PODS, self.pod, reason, message)

    def note(self, state: ResizeState, notes: list[Note]) -> None:
        """How a resize stands, and what is new about it."""
        self.resize = state
        for note in notes:
            self.event(note.type, note.reason, note.message)

    def executor(self, name: str) -> Callable[[tuple[str, ...]], Awaitable[tuple[int, bytes]]]:
        """Runs commands in a container, for hooks and probes."""

        async def execute(command: tuple[str, ...]) -> tuple[int, bytes]:
            run, launch = self.runs[name], self.launches.get(name)
            if run.instance is None or launch is None:
                return 126, b"the container does not run"
            execution = execution_of(launch, f"{run.instance.id}_x", command, stdin=False, tty=False)
            try:
                session = await self.node.runtime.execute(run.instance.id, execution)
            except CannotStart as problem:
                return 126, str(problem).encode()
            return await output_of(session)

        return execute

    def spawn(self, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        task: asyncio.Task[None] = asyncio.create_task(work, name=f"pod-{self.key}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_log_failure)
        return task

    def cancel_tasks(self, except_for: "asyncio.Task[None] | None") -> None:
        for task in list(self._tasks):
            if task is not except_for:
                task.cancel()


def resizable_of(pod: NodePod) -> tuple[NodeContainer, ...]:
    """Init containers and the others, in the order of their start."""
    return (*pod.spec.init_containers, *(pod.spec.containers or ()))


def containers_of(pod: NodePod) -> tuple[NodeContainer, ...]:
    """All of them, those that somebody has added to look inside included."""
    return (*resizable_of(pod), *pod.spec.ephemeral_containers)


def container_of(pod: NodePod, name: str) -> NodeContainer:
    return next(each for each in containers_of(pod) if each.name == name)


def recovered(pod: NodePod, container: NodeContainer, instances: dict[str, Instance]) -> Run:
    """A container as an earlier agent has left it."""
    run = Run(container.name)
    attempts = {}
    for id, instance in instances.items():
        uid, name, attempt = id.split("_")
        if (uid, name) == (pod.metadata.uid, container.name):
            attempts[int(attempt)] = instance
    if not attempts:
        return run
    run.attempt = max(attempts)
    run.instance, run.previous = attempts[run.attempt], attempts.get(run.attempt - 1)
    run.begun = asyncio.get_running_loop().time()
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        if status.name == container.name and run.running:
            run.started, run.ready = bool(status.started), status.ready
    return run


def _log_failure(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (problem := task.exception()) is not None:
        _log.error("work for a pod failed", task=task.get_name(), problem=repr(problem))
