"""`CriRuntime`: pods as sandboxes and containers of a container runtime.

What runs is known from the runtime's lists. They are read at the start, after every loss of the connection, whenever
the runtime reports an event, and regularly: every second where a runtime has no events, every ten seconds as a
safeguard where it has them. Events only say that something has happened; what is true is in the lists. A runtime that
was restarted may be another version: it is asked for events, its version and its features again.

| found in the lists                                | follows                                                      |
|---------------------------------------------------|--------------------------------------------------------------|
| a container that ran has ended                    | its status is asked for, and its end reported                |
| one that ran is gone, or its state is unknown     | its end is reported as lost, exit code 137                   |
| a sandbox that was ready is not                   | the pod is reported as lost; its containers may still run    |
| a container that was created and never started    | removed: an agent was killed between the two calls           |

An answer that was lost does not lead to a second container: names are reserved in the runtime by pod, container and
attempt, and a container that is there under the name is taken over.
"""

import asyncio
import contextlib
import math
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from kohort.kube import clock
from kohort.kube.log import Log
from kohort.kube.tasks import cancel_all
from kohort.node.cgroups import MOUNT
from kohort.node.grpc.status import Code, RpcError
from kohort.node.pressure import process_cpu_seconds, resident_bytes
from kohort.node.runtimes.cri import configuration, container_logs, crio_settings, streams
from kohort.node.runtimes.cri import messages as cri
from kohort.node.runtimes.cri.client import SANDBOX_SECONDS, SECONDS, CriClient, Unsupported
from kohort.node.runtimes.cri.cni import CniServer
from kohort.node.runtimes.cri.discovery import gives_exact_groups as gives_exact_groups_of
from kohort.node.runtimes.cri.image_pulls import RegistryImages
from kohort.node.runtimes.cri.image_removal import ImageRemoval
from kohort.node.runtimes.interface import (
    CANNOT_RUN,
    CannotCreate,
    CannotStart,
    ContainerKey,
    ImageSource,
    Instance,
    Launch,
    PodSandboxSpec,
    Session,
    as_lost,
    as_started,
    parse_container_key,
)
from kohort.objects import container_reasons
from kohort.resources import CgroupValues
from kohort.rules.restart_backoff import pause_after

LIST_SECONDS: Final = 1.0
SAFEGUARD_SECONDS: Final = 10.0
STATUS_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 1.0
NETWORK_SECONDS: Final = 5.0
SHORTEST_WAIT, LONGEST_WAIT = 0.1, 3.0
"""Before another attempt to reach a runtime that does not answer."""
ROTATION_SECONDS: Final = 10.0
CLEARING_SECONDS: Final = 60.0
NO_USER_NAMESPACES: Final = (
    "failed to create pod sandbox: can't set `spec.hostUsers: false`, this node does not support user namespaces; "
    "remove the field, or use a node of kubelet"
)
LONGEST_OUTPUT: Final = 10240
CRIO_CGROUP: Final = "crio-"
"""How CRI-O begins the names of cgroups; other runtimes use the id of the container."""
_log = Log(part="node")


class _Container(msgspec.Struct):
    """A container of this node, as it was last seen."""

    id: str
    instance: Instance
    log: str
    info: configuration.RuntimeInfo


class _Sandbox(msgspec.Struct, frozen=True):
    id: str
    attempt: int
    ready: bool


class CriRuntime:
    makes_cgroups = True

    def __init__(
        self,
        client: CriClient,
        node: str,
        name: str,
        version: str,
        images: RegistryImages,
        networks: CniServer | None = None,
        *,
        gives_exact_groups: bool = False,
        sandbox_image: str = "",
    ) -> None:
        """`name` and `version` are what the runtime says of itself; `networks` gives sandboxes their network."""
        self._networks = networks
        self.gives_exact_groups = gives_exact_groups
        self.sandbox_image = sandbox_image
        self.name = name
        self.version = version
        self.images: ImageSource | None = images
        self._registry = images
        self._client = client
        self._node = node
        self._containers: dict[str, _Container] = {}
        self._sandboxes: dict[str, _Sandbox] = {}
        """The newest of each pod."""
        self._specs: dict[str, PodSandboxSpec] = {}
        self._on_exit: list[Callable[[Instance], None]] = []
        self._on_change: list[Callable[[], None]] = []
        self._on_sandbox_lost: list[Callable[[str], None]] = []
        self._problem = self._network_problem = ""
        self._noticed = asyncio.Event()
        """Set when the lists should be read now."""
        self._relisted = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._version_asked_on = 0
        """The connection on which the runtime has said its version."""

    @property
    def problem(self) -> str:
        return self._problem

    @property
    def network_problem(self) -> str:
        return self._network_problem

    def on_change(self, callback: Callable[[], None]) -> None:
        self._on_change.append(callback)

    def on_exit(self, callback: Callable[[Instance], None]) -> None:
        self._on_exit.append(callback)

    def on_sandbox_lost(self, callback: Callable[[str], None]) -> None:
        self._on_sandbox_lost.append(callback)

    # Pods

    async def prepare_pod(self, pod: PodSandboxSpec) -> None:
        if pod.own_users:
            raise CannotStart(NO_USER_NAMESPACES)
        self._specs[pod.uid] = pod
        sandbox = self._sandboxes.get(pod.uid)
        if sandbox is not None and sandbox.ready:
            return
        try:
            if sandbox is not None:
                await self._stop_sandbox(sandbox.id)
            attempt = 0 if sandbox is None else sandbox.attempt + 1
            await self._run_sandbox(pod, attempt)
        except RpcError as problem:
            raise CannotStart(f"failed to create pod sandbox: {problem.detail}") from problem

    async def _run_sandbox(self, pod: PodSandboxSpec, attempt: int) -> None:
        os.makedirs(pod.log_directory, exist_ok=True)
        config = configuration.sandbox_config(pod, self._node, attempt, str(MOUNT))
        request = cri.RunPodSandboxRequest(config, pod.handler)
        try:
            answer = await self._client.call(cri.RUN_POD_SANDBOX, request, timeout=SANDBOX_SECONDS)
        except RpcError:
            await self._relist()  # the answer may have been lost
            found = self._sandboxes.get(pod.uid)
            if found is not None and found.ready:
                return
            raise
        self._sandboxes[pod.uid] = _Sandbox(answer.pod_sandbox_id, attempt, ready=True)

    async def stop_pod(self, uid: str) -> None:
        for sandbox in await self._sandboxes_of(uid):
            with _ignored("a sandbox could not be stopped", uid):
                await self._stop_sandbox(sandbox.id)
        if (known := self._sandboxes.get(uid)) is not None:
            self._sandboxes[uid] = msgspec.structs.replace(known, ready=False)

    async def remove_pod(self, uid: str) -> None:
        for sandbox in await self._sandboxes_of(uid):
            with _ignored("a sandbox could not be removed", uid):
                await self._stop_sandbox(sandbox.id)
                request = cri.RemovePodSandboxRequest(sandbox.id)
                await self._client.call_unless_gone(cri.REMOVE_POD_SANDBOX, request)
        self._sandboxes.pop(uid, None)
        self._specs.pop(uid, None)
        self._registry.forget(uid)
        for id in [id for id in self._containers if parse_container_key(id).pod_uid == uid]:
            self._containers.pop(id, None)

    async def pods(self) -> set[str]:
        return {_pod_uid(each) for each in await self._list_sandboxes()}

    async def _stop_sandbox(self, id: str) -> None:
        await self._client.call_unless_gone(cri.STOP_POD_SANDBOX, cri.StopPodSandboxRequest(id))

    async def _sandboxes_of(self, uid: str) -> list[cri.PodSandbox]:
        with _ignored("the sandboxes of a pod could not be listed", uid):
            return [each for each in await self._list_sandboxes() if _pod_uid(each) == uid]
        return []

    # Containers

    async def instances(self) -> dict[str, Instance]:
        await self._relist()
        if not self._tasks:
            if self._networks is not None:
                await self._networks.start()
                await self._until_network_ready()
            removal = ImageRemoval(self._client).run
            loops = (self._watch, self._follow_events, self._rotate_logs, self._clear_up, self._check_health, removal)
            self._tasks = [asyncio.create_task(_kept_running(each), name=f"cri{each.__name__}") for each in loops]
        return {id: each.instance for id, each in self._containers.items()}

    async def _until_network_ready(self) -> None:
        """The configuration of the network may have been written just now: a runtime that has not noticed it yet fails
        to make sandboxes. One that does not get ready in time is reported by the node."""
        with contextlib.suppress(TimeoutError, RpcError):
            async with asyncio.timeout(NETWORK_SECONDS):
                while True:
                    answer = await self._client.call(cri.STATUS, cri.StatusRequest(), timeout=STATUS_SECONDS)
                    conditions = answer.status.conditions if answer.status is not None else ()
                    if not problem_of(conditions, "NetworkReady"):
                        return
                    await asyncio.sleep(SHORTEST_WAIT)

    async def start(self, launch: Launch) -> Instance:
        key = parse_container_key(launch.id)
        pod, sandbox = self._specs.get(key.pod_uid), self._sandboxes.get(key.pod_uid)
        if pod is None or sandbox is None:
            raise CannotStart(f"pod {key.pod_uid} has no sandbox")
        os.makedirs(os.path.dirname(launch.log), exist_ok=True)
        id = await self._create(launch, key, pod, sandbox)
        try:
            await self._client.call(cri.START_CONTAINER, cri.StartContainerRequest(id))
        except RpcError as problem:
            return await self._failed_to_start(launch.id, id, problem)
        found = await self._ask_status(launch.id, id)
        if not found.instance.running:  # it has ended already; that is reported as every other end
            found.instance = as_started(found.instance)
            self._noticed.set()
        self._containers[launch.id] = found
        return found.instance

    async def _create(self, launch: Launch, key: ContainerKey, pod: PodSandboxSpec, sandbox: _Sandbox) -> str:
        target = self._target(key.pod_uid, launch.shares_processes_of)
        config = configuration.container_config(launch, pod, self._node, key, target)
        of_pod = configuration.sandbox_config(pod, self._node, sandbox.attempt, str(MOUNT))
        request = cri.CreateContainerRequest(sandbox.id, config, of_pod)
        try:
            return (await self._client.call(cri.CREATE_CONTAINER, request)).container_id
        except RpcError as problem:
            if "is reserved" not in problem.detail and problem.code not in (Code.UNAVAILABLE, Code.ALREADY_EXISTS):
                raise CannotCreate(problem.detail) from problem
        return await self._create_again(launch.id, request)

    async def _create_again(self, key: str, request: cri.CreateContainerRequest) -> str:
        """An earlier call has made the container, and its answer was lost. One that has not been started is made anew,
        with the configuration of now."""
        try:
            for each in await self._list_containers():
                found = configuration.container_key(each.labels, each.annotations)
                if found is not None and str(found) == key:
                    await self._client.call_unless_gone(cri.REMOVE_CONTAINER, cri.RemoveContainerRequest(each.id))
            return (await self._client.call(cri.CREATE_CONTAINER, request)).container_id
        except RpcError as problem:
            raise CannotCreate(problem.detail) from problem

    async def _failed_to_start(self, key: str, id: str, problem: RpcError) -> Instance:
        """A program that cannot be run has ended as soon as it was started."""
        try:
            found = await self._ask_status(key, id)
        except (CannotStart, RpcError):
            raise CannotStart(problem.detail) from problem
        if not found.instance.running:
            found.instance = msgspec.structs.replace(
                found.instance,
                exit_code=found.instance.exit_code or CANNOT_RUN,
                ended=found.instance.ended or clock.timestamp(),
                problem=found.instance.problem or problem.detail,
            )
        self._containers[key] = found  # one that runs: only the answer was lost
        return found.instance

    def _target(self, uid: str, container: str) -> str:
        found = self._current(uid, container) if container else None
        return found.id if found is not None else ""

    async def stop(self, id: str, grace: float, number: int = signal.SIGTERM) -> None:
        """The stop signal is part of the container's configuration."""
        deadline = asyncio.get_running_loop().time() + grace
        attempts = 0
        while (known := self._containers.get(id)) is not None and known.instance.running:
            left = max(deadline - asyncio.get_running_loop().time(), 0.0)
            try:
                request = cri.StopContainerRequest(known.id, math.ceil(left))
                await self._client.call_unless_gone(cri.STOP_CONTAINER, request, timeout=SECONDS + left)
                await self._relist()
            except RpcError as problem:
                _log.warning("a container could not be stopped", container=id, problem=str(problem))
            if id in self._containers and self._containers[id].instance.running:
                attempts += 1
                await asyncio.sleep(pause_after(attempts, SHORTEST_WAIT, LONGEST_WAIT))

    async def remove(self, id: str) -> None:
        if (known := self._containers.get(id)) is None:
            return
        with _ignored("a container could not be removed", id):
            await self._client.call_unless_gone(cri.REMOVE_CONTAINER, cri.RemoveContainerRequest(known.id))
            self._containers.pop(id, None)

    async def resize(self, pod_uid: str, container: str, values: CgroupValues) -> None:
        known = self._current(pod_uid, container)
        if known is None:
            raise OSError(f'container "{container}" does not run')
        resources = configuration.linux_resources(values)
        request = cri.UpdateContainerResourcesRequest(known.id, resources)
        try:
            await self._client.call(cri.UPDATE_CONTAINER, request)
        except RpcError as problem:
            message = f'the runtime did not change the resources of container "{container}": {problem.detail}'
            raise OSError(message) from problem
        pod = self._specs.get(pod_uid)
        if pod is not None and pod.cgroup:
            complete_files(Path(pod.cgroup) / self._cgroup_of(known), resources.unified)

    async def resize_pod(self, uid: str, values: CgroupValues) -> None:
        sandbox = self._sandboxes.get(uid)
        if sandbox is None:
            return
        resources = configuration.linux_resources(values)
        request = cri.UpdatePodSandboxResourcesRequest(sandbox.id, resources=resources)
        try:
            await self._client.call(cri.UPDATE_POD_SANDBOX, request)
        except Unsupported:
            pass
        except RpcError as problem:
            raise OSError(f"the runtime refused the new size of the pod: {problem.detail}") from problem

    def cgroup_name(self, pod_uid: str, container: str) -> str:
        found = self._current(pod_uid, container)
        return self._cgroup_of(found) if found is not None else ""

    def _cgroup_of(self, container: _Container) -> str:
        own = f"{CRIO_CGROUP}{container.id}" if self.name == crio_settings.NAME else container.id
        return container.info.cgroup_name or own

    def _current(self, uid: str, container: str) -> _Container | None:
        """The newest attempt of a container that runs."""
        keys = [(parse_container_key(id), each) for id, each in self._containers.items() if each.instance.running]
        found = [(key.attempt, each) for key, each in keys if (key.pod_uid, key.container) == (uid, container)]
        return max(found, key=lambda each: each[0])[1] if found else None

    def memory_in_use(self, instance: Instance) -> int:
        return resident_bytes([instance.pid]) if instance.pid > 0 else 0

    def cpu_seconds(self, instance: Instance) -> float:
        return process_cpu_seconds([instance.pid]) if instance.pid > 0 else 0.0

    # Commands

    async def layer_bytes(self) -> dict[str, int] | None:
        """The runtime counts every ten seconds; a container that has just started is not there yet."""
        request = cri.ListContainerStatsRequest(cri.ContainerStatsFilter({configuration.NODE_LABEL: self._node}))
        answer = await self._client.call(cri.LIST_CONTAINER_STATS, request)
        found = {}
        for each in answer.stats:
            layer, attributes = each.writable_layer, each.attributes
            if attributes is None or layer is None or layer.used_bytes is None:
                continue
            if (key := configuration.container_key(attributes.labels, attributes.annotations)) is not None:
                found[str(key)] = layer.used_bytes.value
        return found

    async def execute(self, within: str, launch: Launch) -> Session:
        request = cri.ExecRequest(
            self._id_of(within), launch.command, launch.tty, launch.stdin, stdout=True, stderr=not launch.tty
        )
        try:
            url = (await self._client.call(cri.EXEC, request)).url
        except RpcError as problem:
            raise CannotStart(problem.detail) from problem
        return await streams.connect(url, stdin=launch.stdin, tty=launch.tty)

    async def run_command(self, within: str, launch: Launch) -> tuple[int, bytes]:
        request = cri.ExecSyncRequest(self._id_of(within), launch.command)
        try:
            answer = await self._client.call(cri.EXEC_SYNC, request, timeout=None)
        except RpcError as problem:
            raise CannotStart(problem.detail) from problem
        return answer.exit_code, (answer.stdout + answer.stderr)[:LONGEST_OUTPUT]

    async def attach(self, id: str) -> Session:
        own, known = self._id_of(id), self._containers[id].info
        request = cri.AttachRequest(own, known.stdin, known.tty, stdout=True, stderr=not known.tty)
        try:
            url = (await self._client.call(cri.ATTACH, request)).url
        except RpcError as problem:
            raise CannotStart(problem.detail) from problem
        return await streams.connect(url, stdin=known.stdin, tty=known.tty)

    def _id_of(self, id: str) -> str:
        if (known := self._containers.get(id)) is None:
            raise CannotStart(f"container {id} is not known")
        return known.id

    # What the runtime says

    async def _watch(self) -> None:
        failures = 0
        while True:
            period = LIST_SECONDS if not self.has_events else SAFEGUARD_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(period):  # `wait_for` of Python 3.11 loses a cancellation at times
                    await self._noticed.wait()
            self._noticed.clear()
            try:
                await self._relist()
                failures = 0
            except RpcError:
                failures += 1
                await asyncio.sleep(pause_after(failures, SHORTEST_WAIT, LONGEST_WAIT))
                self._noticed.set()

    has_events = False
    """Whether the runtime reports events now; otherwise its lists are read every second."""

    async def _follow_events(self) -> None:
        """Read the lists at once when the runtime reports an event, and after every loss of the stream.

        CRI-O has the method also when its events are turned off, as they are by default: it ends the stream at once,
        without an error. It ends it in the same way before it stops, so the stream is tried again, after a while. So it
        is where the method is missing, since an update of the runtime can bring it."""
        failures = 0
        while True:
            pause = SAFEGUARD_SECONDS
            try:
                async with contextlib.aclosing(self._client.events()) as events:
                    self.has_events = True
                    self._noticed.set()
                    async for _ in events:
                        failures = 0
                        self._noticed.set()
            except Unsupported:
                pass  # asked again without a call, until there is another connection
            except RpcError:
                failures += 1
                pause = pause_after(failures, SHORTEST_WAIT, LONGEST_WAIT)
            self.has_events = False
            self._noticed.set()
            await asyncio.sleep(pause)

    async def _relist(self) -> None:
        """Raises RpcError."""
        async with self._relisted:
            await self._relist_sandboxes()
            await self._relist_containers()

    async def _relist_sandboxes(self) -> None:
        newest: dict[str, _Sandbox] = {}
        for each in await self._list_sandboxes():
            uid, attempt = _pod_uid(each), each.metadata.attempt if each.metadata else 0
            if uid not in newest or attempt > newest[uid].attempt:
                newest[uid] = _Sandbox(each.id, attempt, each.state == cri.PodSandboxState.READY)
        lost = [
            uid
            for uid, before in self._sandboxes.items()
            if before.ready and (uid not in newest or (newest[uid].id == before.id and not newest[uid].ready))
        ]
        for uid, found in newest.items():
            if uid not in self._sandboxes or self._sandboxes[uid].attempt <= found.attempt:
                self._sandboxes[uid] = found
        for uid in lost:
            if uid not in newest:
                self._sandboxes.pop(uid, None)
            for callback in self._on_sandbox_lost:
                callback(uid)

    async def _relist_containers(self) -> None:
        known = dict(self._containers)
        listed: dict[str, cri.Container] = {}
        for each in await self._list_containers():
            if (found := configuration.container_key(each.labels, each.annotations)) is not None:
                listed[str(found)] = each
        for key, each in listed.items():
            with _one_container(key):
                before = known.get(key)
                if before is None and key not in self._containers:
                    await self._take_over(key, each)
                elif before is not None and before.instance.running and each.state != cri.ContainerState.RUNNING:
                    await self._learn_end(key, each)
        for key, container in known.items():
            if container.instance.running and key not in listed and self._containers.get(key) is container:
                reason = "the container runtime does not have the container any more"
                self._ended(key, as_lost(container.instance, clock.timestamp(), reason))

    async def _take_over(self, key: str, container: cri.Container) -> None:
        if container.state == cri.ContainerState.CREATED:
            return  # `start` is about to start it, or removes it before it makes another one of that name
        with contextlib.suppress(CannotStart):
            found = await self._ask_status(key, container.id)
            self._containers.setdefault(key, found)

    async def _learn_end(self, key: str, container: cri.Container) -> None:
        with contextlib.suppress(CannotStart):
            found = await self._ask_status(key, container.id)
            if not found.instance.running:
                self._ended(key, found.instance)

    def _ended(self, key: str, instance: Instance) -> None:
        if (known := self._containers.get(key)) is not None and known.instance.running:
            known.instance = instance
            for callback in self._on_exit:
                callback(instance)

    async def _ask_status(self, key: str, id: str) -> _Container:
        """Raises CannotStart if it does not exist, and RpcError."""
        try:
            answer = await self._status(id)
        except RpcError as problem:
            if problem.code == Code.NOT_FOUND:
                raise CannotStart(problem.detail) from problem
            raise
        assert answer.status is not None
        info = configuration.runtime_info(answer.info)
        return _Container(id, instance_of(key, answer.status, info.pid), answer.status.log_path, info)

    async def _status(self, id: str) -> cri.ContainerStatusResponse:
        """The verbose status holds the environment of the container, more than once and with every special character
        escaped: a large one does not fit into a message. Raises RpcError."""
        try:
            return await self._client.call(cri.CONTAINER_STATUS, cri.ContainerStatusRequest(id, True))
        except RpcError as problem:
            if problem.code != Code.RESOURCE_EXHAUSTED:
                raise
        return await self._client.call(cri.CONTAINER_STATUS, cri.ContainerStatusRequest(id, False))

    async def _list_sandboxes(self) -> tuple[cri.PodSandbox, ...]:
        request = cri.ListPodSandboxRequest(cri.PodSandboxFilter(label_selector={configuration.NODE_LABEL: self._node}))
        return (await self._client.call(cri.LIST_POD_SANDBOX, request)).items

    async def _list_containers(self) -> tuple[cri.Container, ...]:
        request = cri.ListContainersRequest(cri.ContainerFilter(label_selector={configuration.NODE_LABEL: self._node}))
        return (await self._client.call(cri.LIST_CONTAINERS, request)).containers

    # Logs and health

    async def _rotate_logs(self) -> None:
        while True:
            await asyncio.sleep(ROTATION_SECONDS)
            await self.rotate_logs()

    async def rotate_logs(self, largest: int = container_logs.LARGEST) -> None:
        """Set aside log files of running containers that have become too large."""
        for key, each in list(self._containers.items()):
            path = Path(each.log)
            if each.instance.running and container_logs.is_full(path, largest):
                with container_logs.set_aside(path), _ignored("a log file could not be rotated", key):
                    await self._client.call(cri.REOPEN_CONTAINER_LOG, cri.ReopenContainerLogRequest(each.id))

    async def _clear_up(self) -> None:
        """Remove sandboxes that newer ones have replaced, once no container refers to them: statuses and logs of ended
        containers are kept for a while."""
        while True:
            await asyncio.sleep(CLEARING_SECONDS)
            with _ignored("sandboxes could not be cleared up", self._node):
                await self.clear_up()

    async def clear_up(self) -> None:
        """Raises RpcError."""
        used = {each.pod_sandbox_id for each in await self._list_containers()}
        newest = {each.id for each in self._sandboxes.values()}
        for each in await self._list_sandboxes():
            if each.id not in used | newest and each.state != cri.PodSandboxState.READY:
                await self._stop_sandbox(each.id)
                await self._client.call_unless_gone(cri.REMOVE_POD_SANDBOX, cri.RemovePodSandboxRequest(each.id))

    async def _check_health(self) -> None:
        while True:
            try:
                status = await self._client.call(cri.STATUS, cri.StatusRequest(), timeout=STATUS_SECONDS)
                conditions = status.status.conditions if status.status is not None else ()
                problem, network = problem_of(conditions, "RuntimeReady"), self._problem_of_network(conditions)
                await self._learn_facts(status)
            except RpcError as failed:
                problem, network = f"container runtime is down: {failed.detail}", ""
            self._set_problems(problem, network if self._networks is not None else "")
            await asyncio.sleep(RETRY_SECONDS if problem or self._network_problem else STATUS_SECONDS)

    def _problem_of_network(self, conditions: tuple[cri.RuntimeCondition, ...]) -> str:
        if self._networks is not None and (other := self._networks.preferred_network):
            return (
                f"the container runtime has come to use another network, {other}: remove that file, or restart kohort "
                "to have pods share the network of this machine"
            )
        return problem_of(conditions, "NetworkReady")

    async def _learn_facts(self, status: cri.StatusResponse) -> None:
        """What the runtime can do, and its version if the connection is a new one. Raises RpcError."""
        self.gives_exact_groups = gives_exact_groups_of(status)
        if self._version_asked_on == self._client.connection:
            return
        answer = await self._client.call(cri.VERSION, cri.VersionRequest("0.1.0"), timeout=STATUS_SECONDS)
        self._version_asked_on = self._client.connection
        if answer.runtime_version != self.version:
            _log.info("the container runtime has another version", before=self.version, now=answer.runtime_version)
            self.version = answer.runtime_version
            self._report_change()

    def _set_problems(self, problem: str, network: str) -> None:
        if (problem, network) != (self._problem, self._network_problem):
            self._problem, self._network_problem = problem, network
            self._report_change()

    def _report_change(self) -> None:
        for callback in self._on_change:
            callback()

    async def close(self, *, stop: bool) -> None:
        tasks, self._tasks = self._tasks, []
        await cancel_all(*tasks)
        empty = False
        if stop:
            with contextlib.suppress(RpcError):
                await asyncio.gather(*(self.stop_pod(uid) for uid in await self.pods()))
                empty = not await self.pods()
        if self._networks is not None:
            await self._networks.close()
        await self._client.close()
        if self._networks is not None and empty:
            self._networks.uninstall()


def instance_of(key: str, status: cri.ContainerStatus, pid: int = 0) -> Instance:
    """A container as the agent sees it."""
    state = cri.ContainerState
    image = status.image_ref or status.image_id  # with the digest in a registry, as kubelet reports it
    common = Instance(key, pid, 0, _time(status.started_at or status.created_at), runtime_id=status.id, image_id=image)
    if status.state in (state.RUNNING, state.CREATED):
        return common
    if status.state != state.EXITED:
        return as_lost(common, clock.timestamp(), "the container runtime does not know the state of the container")
    cannot_run = status.reason in container_reasons.NEVER_RAN
    return msgspec.structs.replace(
        common,
        ended=_time(status.finished_at),
        exit_code=status.exit_code,
        oom_killed=status.reason == container_reasons.OOM_KILLED,
        problem=status.message or status.reason if cannot_run else "",
    )


def complete_files(cgroup: Path, files: Mapping[str, str]) -> None:
    """Write files of a cgroup that the runtime was asked to write and did not. CRI-O writes them for a new container,
    and leaves them out of an update. Files that the kernel does not have are left out. Raises OSError."""
    for name, content in files.items():
        path = cgroup / name
        try:
            held = path.read_text().strip()
        except OSError:
            continue
        if held != content:
            path.write_text(content)


def problem_of(conditions: tuple[cri.RuntimeCondition, ...], type: str) -> str:
    """What a condition of the runtime says is wrong; empty if nothing is."""
    missing = "container runtime network" if type == "NetworkReady" else "container runtime"
    condition = next((each for each in conditions if each.type == type), None)
    if condition is None:
        return f"{missing} not ready: {type} is not reported"
    if condition.status:
        return ""
    return f"{missing} not ready: {type}=false reason:{condition.reason} message:{condition.message}"


def _time(nanoseconds: int) -> str:
    moment = datetime.fromtimestamp(nanoseconds / 1e9, UTC)
    return clock.format_time(moment.replace(microsecond=0)) if nanoseconds > 0 else ""


def _pod_uid(sandbox: cri.PodSandbox) -> str:
    return sandbox.labels.get(configuration.POD_UID, "")


async def _kept_running(loop: Callable[[], Awaitable[None]]) -> None:
    """A loop must survive what it was not written for."""
    while True:
        try:
            await loop()
            return
        except Exception as problem:
            _log.error("a loop of the container runtime failed", loop=loop.__name__, problem=repr(problem))
        await asyncio.sleep(RETRY_SECONDS)


@contextlib.contextmanager
def _one_container(key: str) -> Iterator[None]:
    """A container whose status cannot be read does not keep those of others from being read. A runtime that is away
    does: RpcError."""
    try:
        yield
    except RpcError as problem:
        if problem.code in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED):
            raise
        _log.warning("the status of a container could not be read", container=key, problem=str(problem))


class _ignored(contextlib.AbstractContextManager[None]):
    """A failed call is logged and not raised: the next cleanup repeats it for what is left."""

    def __init__(self, message: str, what: str) -> None:
        self._message = message
        self._what = what

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> bool:
        if not isinstance(problem, RpcError):
            return False
        _log.warning(self._message, what=self._what, problem=str(problem))
        return True
