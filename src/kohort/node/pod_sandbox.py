"""What a pod has before its first container starts: an address, a network, a cgroup, volumes."""

import asyncio

from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.resources import RUNTIME_CLASSES
from kohort.node.cgroups import Cgroups
from kohort.node.launch_builder import LaunchBuilder
from kohort.node.mount_table import remove_directory, unmount_below
from kohort.node.pod_files import PodFiles
from kohort.node.pod_hostname import kernel_name_of
from kohort.node.pod_network import PodNetwork
from kohort.node.pod_record import PodRecord, containers_of
from kohort.node.runtimes.interface import CannotStart, PodSandboxSpec, Runtime
from kohort.node.volumes import REFRESH_SECONDS, MountProblem, PodVolumes
from kohort.objects.counted_nouns import how_often
from kohort.objects.node_pods import NodePod, PodSecurityContext
from kohort.rules.restart_backoff import RestartBackoff


class PodSandbox:
    def __init__(
        self,
        record: PodRecord,
        network: PodNetwork,
        volumes: PodVolumes,
        cgroups: Cgroups | None,
        files: PodFiles,
        runtime: Runtime,
        client: Client,
    ) -> None:
        self._record = record
        self._network = network
        self._volumes = volumes
        self._cgroups = cgroups
        self._files = files
        self._runtime = runtime
        self._client = client
        self._handler: str | None = None
        self._mounted_at = 0.0
        self._removed = False
        self._losses: RestartBackoff[str] = RestartBackoff()
        self._is_lost = False
        self._reported_losses = 0

    def runtime_is_unready(self) -> bool:
        """Whether nothing can be started now. What runs is left alone."""
        network = "" if self._record.pod.spec.host_network else self._runtime.network_problem
        if network and not self._runtime.problem:
            self._record.event("Warning", "NetworkNotReady", f"network is not ready: {network}")
        return bool(self._runtime.problem or network)

    def begin_replacement(self) -> None:
        """The sandbox has ended by itself: stop what is left of it, so that it is made again."""
        self._is_lost = True
        self._record.spawn(self._stop_lost())

    async def _stop_lost(self) -> None:
        await self._runtime.stop_pod(self._record.uid)
        self._record.wake()

    def pause_after_loss(self, now: float) -> float:
        """Seconds until a sandbox that has ended by itself may be made again."""
        if not self._is_lost:
            return 0.0
        record = self._record
        if pause := self._losses.pause(record.uid, now):
            times = self._losses.times(record.uid) + 1
            if times != self._reported_losses:
                self._reported_losses = times
                record.event("Warning", "BackOff", sandbox_backoff_message(times, self._runtime.sandbox_image))
            return pause
        self._losses.done(record.uid, now)
        self._is_lost = False
        return 0.0

    async def prepare(self, allocated: NodePod, now: float) -> None:
        """Make what is missing, and bring the content of volumes up to date. Raises MountProblem, CannotStart."""
        record = self._record
        self.take_address()
        if self._cgroups is not None:
            self._cgroups.ensure_pod(allocated)
        await self._runtime.prepare_pod(self._spec(allocated, await self._runtime_handler()))
        await self.set_up_network()
        try:
            await self._network.open_host_ports(record.pod, record.address)
        except OSError as problem:
            raise MountProblem(f"failed to open a host port: {problem}") from problem
        if record.volumes is None or now - self._mounted_at >= REFRESH_SECONDS:
            await self._mount(allocated)
            self._mounted_at = now

    async def _runtime_handler(self) -> str:
        """What the pod's RuntimeClass names; it never changes. Only container runtimes have several. Raises
        CannotStart."""
        name = self._record.pod.spec.runtime_class_name
        if name and self._handler is None and self._runtime.images is not None:
            try:
                found = await self._client.get(RUNTIME_CLASSES, name)
            except ApiError as problem:
                raise CannotStart(f'failed to get RuntimeClass "{name}": {problem.message}') from problem
            self._handler = str(found.get("handler", ""))
        return self._handler or ""

    def _spec(self, pod: NodePod, handler: str) -> PodSandboxSpec:
        return sandbox_spec(
            pod,
            handler,
            log_directory=str(self._files.logs(self._record.uid)),
            cgroup=str(self._cgroups.pod_of(pod)) if self._cgroups is not None else "",
            own_network=self._network.has_own_networks,
        )

    async def _mount(self, allocated: NodePod) -> None:
        """Volumes that are there already stay as they are if they cannot be brought up to date: the pod runs on."""
        try:
            self._record.volumes = await self.prepare_volumes(allocated)
        except MountProblem as problem:
            if self._record.volumes is None:
                raise
            self._record.event("Warning", "FailedMount", str(problem))

    def take_address(self) -> None:
        if not self._record.address:
            self._record.address = self._network.take_address(self._record.pod)

    async def set_up_network(self) -> None:
        """Raises MountProblem, because it is retried like a mount."""
        try:
            self._record.netns = await self._network.set_up(self._record.pod, self._record.address)
        except OSError as problem:
            raise MountProblem(f"failed to set up the network of the pod: {problem}") from problem

    async def prepare_volumes(self, pod: NodePod) -> dict[str, str]:
        """Where each volume is. Raises MountProblem."""
        return await self._volumes.prepare(pod, self._files.volumes(self._record.uid), self._record.address)

    def refresh_volumes(self) -> None:
        """The pod's labels or annotations have changed: files made of them are written again with the next sync."""
        self._mounted_at = 0.0

    def refresh_names(self, launches: LaunchBuilder) -> None:
        """Services or pods have changed: write the pod's hosts file again."""
        record = self._record
        if record.address and not record.pod.spec.host_network and record.launches and not self._removed:
            launches.write_hosts(record.pod, record.address)

    async def release(self) -> None:
        """A pod that has ended keeps only its logs and termination messages until it is deleted."""
        await self._runtime.stop_pod(self._record.uid)
        if self._cgroups is not None:
            await asyncio.to_thread(self._cgroups.remove, self._cgroups.pod_of(self._record.pod))
        self._network.release(self._record.uid)
        self._volumes.forget(self._record.uid)
        unmount_below(self._files.pod(self._record.uid))
        await self.remove_content()

    async def remove_content(self) -> None:
        """Remove what the containers have written, unless one still runs. Claims, host paths and images are elsewhere,
        and stay."""
        uid = self._record.uid
        if not any(run.running for run in self._record.runs.values()):
            for directory in (self._files.volumes(uid), self._files.layers(uid)):
                await asyncio.to_thread(remove_directory, directory)

    async def remove(self) -> None:
        """Remove everything of the pod."""
        self._removed = True
        await self.release()
        await self._runtime.remove_pod(self._record.uid)
        await asyncio.to_thread(remove_directory, self._files.pod(self._record.uid))


def sandbox_spec(pod: NodePod, handler: str, *, log_directory: str, cgroup: str, own_network: bool) -> PodSandboxSpec:
    """What the runtime makes before the first container. Raises InvalidContainer for a host name that is too long."""
    spec, context = pod.spec, pod.spec.security_context or PodSecurityContext()
    fs_group = () if context.fs_group is None else (context.fs_group,)
    host_network = spec.host_network or not own_network
    return PodSandboxSpec(
        uid=pod.metadata.uid,
        name=pod.metadata.name,
        namespace=pod.metadata.namespace,
        hostname="" if spec.host_network else kernel_name_of(pod),
        labels=dict(pod.metadata.labels),
        annotations=dict(pod.metadata.annotations),
        log_directory=log_directory,
        cgroup=cgroup,
        sysctls={each.name: each.value for each in context.sysctls},
        host_network=host_network,
        host_pid=spec.host_pid,
        host_ipc=spec.host_ipc,
        shared_processes=bool(spec.share_process_namespace),
        privileged=any(
            each.security_context is not None and each.security_context.privileged for each in containers_of(pod)
        ),
        uid_of_user=context.run_as_user,
        gid_of_user=context.run_as_group,
        groups=(*fs_group, *context.supplemental_groups),
        handler=handler,
        own_users=spec.host_users is False,
    )


def sandbox_backoff_message(times: int, image: str) -> str:
    message = f"Back-off restarting the sandbox of the pod, which has ended {how_often(times)} by itself"
    if not image:
        return message
    return f"{message}; see the sandbox image {image} in the configuration of the container runtime: it must not exit"
