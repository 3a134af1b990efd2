"""What a pod has before its first container: an address, a network, a cgroup, volumes."""

import asyncio
import shutil

from kohort.node import emptydir
from kohort.node.container_spec import facts_of, pod_directory, write_pod_names
from kohort.node.pod_record import HeldPod
from kohort.node.volumes import REFRESH_SECONDS, MountProblem
from kohort.objects.node_pods import NodePod
from kohort.resources import pod_cgroup


class Sandbox:
    def __init__(self, held: HeldPod) -> None:
        self._held = held
        self._mounted_at = 0.0
        self._removed = False

    async def prepare(self, allocated: NodePod, now: float) -> None:
        """Make what is not there, and bring the content of volumes up to date. Raises MountProblem."""
        held = self._held
        self.take_address()
        await self.network()
        await self._open_ports()
        if held.node.cgroups is not None and not held.cgroup.is_dir():
            held.node.cgroups.create(held.cgroup, pod_cgroup(allocated, held.node.settings), inner=True)
        if held.places is None or now - self._mounted_at >= REFRESH_SECONDS:
            await self._mount(allocated)
            self._mounted_at = now

    async def _mount(self, allocated: NodePod) -> None:
        """What is there already stays as it is if it cannot be brought up to date: a pod that runs is not held up."""
        held = self._held
        try:
            held.places = await self.volumes(allocated)
        except MountProblem as problem:
            if held.places is None:
                raise
            held.event("Warning", "FailedMount", str(problem))

    def take_address(self) -> None:
        held = self._held
        if not held.address:
            known = held.pod.status.pod_ip
            shared = held.pod.spec.host_network
            held.address = held.node.host if shared else held.node.addresses.take(held.uid, known)

    async def network(self) -> None:
        """A network of its own, if pods have one here. Raises MountProblem, for it is tried again like a mount."""
        held = self._held
        if held.node.namespaces is None or held.pod.spec.host_network:
            return
        host, port = held.node.api_server
        relay = (host, int(port)) if host.startswith("127.") else None
        try:
            held.netns = await held.node.namespaces.ensure(held.uid, held.address, relay)
        except OSError as problem:
            raise MountProblem(f"failed to set up the network of the pod: {problem}") from problem

    async def _open_ports(self) -> None:
        held = self._held
        if held.node.host_ports is not None:
            try:
                await held.node.host_ports.open(held.pod, held.address)
            except OSError as problem:
                raise MountProblem(f"failed to open a host port: {problem}") from problem

    async def volumes(self, pod: NodePod) -> dict[str, str]:
        held = self._held
        facts = facts_of(held.node, held.pod, held.address)
        return await held.node.volumes.prepare(pod, pod_directory(held.node, held.uid) / "volumes", facts)

    def refresh_volumes(self) -> None:
        """The pod's labels or annotations have changed: files made of them follow at once."""
        self._mounted_at = 0.0

    def refresh_names(self) -> None:
        held = self._held
        if held.address and not held.pod.spec.host_network and held.launches and not self._removed:
            write_pod_names(held.node, held.pod, held.address)

    async def release(self) -> None:
        """A pod that has ended holds nothing; logs, and volumes on the disk, stay until it is deleted."""
        held = self._held
        if held.node.cgroups is not None:
            await asyncio.to_thread(held.node.cgroups.remove, held.cgroup)
        if held.node.host_ports is not None:
            held.node.host_ports.close(held.uid)
        if held.node.namespaces is not None:
            held.node.namespaces.remove(held.uid)
        held.node.addresses.release(held.uid)
        emptydir.unmount_all(pod_directory(held.node, held.uid) / "volumes")

    async def remove(self) -> None:
        """Nothing is left of it, and nothing comes back."""
        self._removed = True
        await self.release()
        await asyncio.to_thread(shutil.rmtree, pod_directory(self._held.node, self._held.uid), True)
