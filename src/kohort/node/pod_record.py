"""What the node knows of one pod. The parts that look after a pod share its record; each part writes its own fields.

| fields                                 | written by                                         |
|----------------------------------------|----------------------------------------------------|
| `pod`, `admitted`, `rejected`, ...     | `pod_worker.PodWorker`                             |
| `runs`, `launches`, `probes`, `exits`  | `container_starter`, `pod_worker`                  |
| `address`, `netns`, `volumes`          | `pod_sandbox.PodSandbox`                           |
| `resize`                               | `resize.resize_and_admission`, `resize.pod_resize` |
| `evicted`                              | `eviction.EvictionManager`                         |
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping

from kohort.kube import clock
from kohort.kube.events import EventRecorder
from kohort.kube.log import Log
from kohort.kube.resources import PODS, Key
from kohort.node.container_order import ContainerRun
from kohort.node.probes import ProbeRunner
from kohort.node.resize.allocation import Allocations
from kohort.node.runtimes.interface import Instance, Launch, parse_container_key
from kohort.objects.node_pods import NodeContainer, NodePod
from kohort.rules.resize_conditions import Note, ResizeState

_log = Log(part="node")


class PodRecord:
    def __init__(
        self,
        pod: NodePod,
        instances: Mapping[str, Instance],
        allocations: Allocations,
        recorder: EventRecorder,
        enqueue: Callable[[Key, float], None],
        unenforced: tuple[str, ...] = (),
    ) -> None:
        """`instances` are containers that an earlier agent has started; `enqueue` has a pod reconciled again in so many
        seconds; `unenforced` are fields of the pod that the node does not enforce."""
        self.pod = pod
        self.uid = pod.metadata.uid
        self.key = Key(pod.metadata.namespace, pod.metadata.name)
        self.admitted = False
        self.rejected = False
        self.stopping = False
        """The whole pod is being stopped."""
        self.finished = False
        self.became_unready = False
        """The API says so since the last report. Either that was the report itself, or the node lifecycle controller
        marked the pod while the node was silent."""
        self.restarting_all = False
        """All containers are being stopped, to start again."""
        self.evicted = ""
        """Why the node stops the pod."""
        self.runs = {each.name: recovered_run(pod, each, instances) for each in containers_of(pod)}
        self.launches: dict[str, Launch] = {}
        self.probes: dict[str, ProbeRunner] = {}
        self.exits: dict[str, asyncio.Event] = {}
        """By instance: set when it has ended."""
        self.resize = ResizeState.reported(pod)
        self.address = ""
        self.netns = ""
        self.volumes: dict[str, str] | None = None
        """Where each volume is, once all are there."""
        self.started_at = pod.status.start_time or clock.timestamp()
        self.unenforced = unenforced
        self._allocations = allocations
        self._recorder = recorder
        self._enqueue = enqueue
        self._tasks: set[asyncio.Task[None]] = set()

    def update(self, pod: NodePod) -> None:
        """The pod as the API has it now; ephemeral containers may have been added."""
        self.pod = pod
        for container in pod.spec.ephemeral_containers:
            self.runs.setdefault(container.name, ContainerRun(container.name))

    def allocated(self) -> NodePod:
        """The pod with the resources that this node has allocated to it."""
        pod = self._allocations.as_allocated(self.pod)
        assert isinstance(pod, NodePod)
        return pod

    def restarting(self) -> frozenset[str]:
        """Containers that were stopped for a resize and have not started again."""
        actuated = self._allocations.actuated(self.uid)
        return actuated.restarting if actuated is not None else frozenset()

    @property
    def resizable(self) -> bool:
        """Whether resizes of the pod are decided at all."""
        return self.admitted and not (self.finished or self.stopping or self.pod.metadata.deleting)

    def container(self, name: str) -> NodeContainer:
        return container_of(self.pod, name)

    def running(self) -> list[str]:
        """Containers that run and have resources of their own."""
        return [each.name for each in resizable_of(self.pod) if self.runs[each.name].running]

    def evict(self, message: str) -> None:
        """Have the pod stopped for a reason of the node's."""
        if not self.evicted:
            self.evicted = message
            self.wake()

    def wake(self, seconds: float = 0.0) -> None:
        """Have the pod reconciled again."""
        self._enqueue(self.key, seconds)

    def event(self, type: str, reason: str, message: str) -> None:
        write = self._recorder.warning if type == "Warning" else self._recorder.normal
        write(PODS, self.pod, reason, message)

    def set_resize(self, state: ResizeState, notes: list[Note]) -> None:
        """How a resize stands, and events about what is new."""
        self.resize = state
        for note in notes:
            self.event(note.type, note.reason, note.message)

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
    """Init and main containers, in the order of their start."""
    return (*pod.spec.init_containers, *(pod.spec.containers or ()))


def containers_of(pod: NodePod) -> tuple[NodeContainer, ...]:
    """All containers, ephemeral ones included."""
    return (*resizable_of(pod), *pod.spec.ephemeral_containers)


def container_of(pod: NodePod, name: str) -> NodeContainer:
    return next(each for each in containers_of(pod) if each.name == name)


def recovered_run(pod: NodePod, container: NodeContainer, instances: Mapping[str, Instance]) -> ContainerRun:
    """A container as an earlier agent has left it."""
    run = ContainerRun(container.name)
    attempts = {}
    for id, instance in instances.items():
        key = parse_container_key(id)
        if (key.pod_uid, key.container) == (pod.metadata.uid, container.name):
            attempts[key.attempt] = instance
    if not attempts:
        return run
    run.attempt = max(attempts)
    run.instance, run.previous = attempts[run.attempt], attempts.get(run.attempt - 1)
    run.begun_at = asyncio.get_running_loop().time()
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        if status.name == container.name and run.running:
            run.started, run.ready = bool(status.started), status.ready
    return run


def _log_failure(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (problem := task.exception()) is not None:
        _log.error("task of a pod failed", task=task.get_name(), problem=repr(problem))
