"""The devices of pods: given when a pod is admitted, recorded before any container starts, kept until the pod ends.

Each plugin is asked for one pod at a time; pods of other plugins do not wait for it. Devices that were chosen for a pod
are reserved until all of its devices are recorded, or until it does not get them.

A pod that is gone from the API, because it was deleted without a grace period, has no devices any more, though its
containers may still be ending. So it is with kubelet: the scheduler has given the devices to another pod, which would
be rejected for good.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from kohort.kube.resources import Key
from kohort.node.checkpoint import Checkpoint, WriteObserver, unobserved
from kohort.node.devices.container_use import DeviceUse, merged
from kohort.node.devices.device_choice import ContainerNeed, TooFew, choose, needs_of
from kohort.node.devices.interface import DeviceProblem
from kohort.node.devices.messages import ContainerAllocation
from kohort.node.devices.plugin import Plugin
from kohort.node.devices.registry import PluginRegistry
from kohort.node.grpc.status import RpcError
from kohort.objects.pods import Pod
from kohort.rules.pod_admission import Rejection, RejectionReason


class GivenDevices(msgspec.Struct, frozen=True):
    """Devices of one kind that a container has, and what the plugin said about their use."""

    ids: tuple[str, ...]
    use: ContainerAllocation


class PodDevices(msgspec.Struct, frozen=True):
    """Containers, resources, devices."""

    namespace: str
    name: str
    containers: dict[str, dict[str, GivenDevices]]


class NoDevices(Exception):
    """Why a pod does not get its devices."""


class DeviceAllocations:
    def __init__(
        self,
        registry: PluginRegistry,
        records: Path,
        observer: WriteObserver = unobserved,
        *,
        is_gone: Callable[[Key, str], bool] = lambda key, uid: False,
    ) -> None:
        """`is_gone` says whether the API does not have the pod with this UID any more."""
        self._registry = registry
        self._is_gone = is_gone
        self._given: Checkpoint[PodDevices] = Checkpoint(records / "devices.json", PodDevices, observer)
        self._asking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By resource: held while its plugin is asked."""
        self._reserved: dict[str, dict[str, set[str]]] = {}
        """By pod and resource: devices of pods that are being admitted."""

    def capacity(self) -> dict[str, str]:
        return self._registry.capacity()

    def allocatable(self) -> dict[str, str]:
        return self._registry.allocatable()

    async def admit(self, pod: Pod) -> Rejection | None:
        """Give a pod its devices, or say why not. A pod that has devices keeps them, whatever became of their plugin:
        it may be running already. Raises OSError if they cannot be recorded; then nothing is given, as when this is
        cancelled."""
        if self._given.get(pod.metadata.uid) is not None:
            return None
        needs = [
            need for need in needs_of(pod.spec) if any(self._registry.manages(resource) for resource in need.amounts)
        ]
        if not needs:
            return None
        own: dict[str, set[str]] = {}
        self._reserved[pod.metadata.uid] = own
        try:
            containers = await self._give(needs, own)
            given = PodDevices(pod.metadata.namespace, pod.metadata.name, containers)
            self._given.put(pod.metadata.uid, given)
        except (NoDevices, RpcError) as problem:
            return Rejection(RejectionReason.UNEXPECTED, f"Allocate failed due to {problem}, which is unexpected")
        finally:
            self._reserved.pop(pod.metadata.uid, None)
        return None

    async def before_start(self, uid: str, container: str) -> None:
        """To be called before each start of a container. Raises DeviceProblem."""
        for resource, given in self._of(uid, container).items():
            plugin = self._registry.plugin(resource)
            if plugin is None:
                continue  # it has answered before, and may be restarting
            try:
                await plugin.pre_start(given.ids)
            except RpcError as problem:
                raise DeviceProblem(f"device plugin of {resource}: {problem}") from problem

    def use(self, uid: str, container: str) -> DeviceUse:
        """What a container is started with."""
        return merged(given.use for _, given in sorted(self._of(uid, container).items()))

    def release(self, uid: str) -> None:
        """The pod has ended."""
        self._given.drop({uid})

    def forget(self, alive: set[str]) -> None:
        """Drop the records of pods that are not among `alive`."""
        self._given.drop({uid for uid in self._given.known() if uid not in alive})

    def pods(self) -> list[PodDevices]:
        return [given for uid in self._given.known() if (given := self._given.get(uid)) is not None]

    def _forget_gone(self) -> None:
        given = {uid: pod for uid in self._given.known() if (pod := self._given.get(uid)) is not None}
        self._given.drop({uid for uid, pod in given.items() if self._is_gone(Key(pod.namespace, pod.name), uid)})

    def _of(self, uid: str, container: str) -> dict[str, GivenDevices]:
        given = self._given.get(uid)
        return given.containers.get(container, {}) if given is not None else {}

    async def _give(
        self, needs: Iterable[ContainerNeed], own: dict[str, set[str]]
    ) -> dict[str, dict[str, GivenDevices]]:
        """Containers that start later take over devices of init containers that have ended. `own` is what the pod has
        so far, by resource."""
        containers: dict[str, dict[str, GivenDevices]] = {}
        reusable: dict[str, set[str]] = {}
        for need in needs:
            for resource, wanted in sorted(need.amounts.items()):
                if not self._registry.manages(resource):
                    continue
                kept = reusable.setdefault(resource, set())
                async with self._asking[resource]:
                    ids, plugin = await self._choose(resource, wanted, kept)
                    own.setdefault(resource, set()).update(ids)
                    containers.setdefault(need.container, {})[resource] = GivenDevices(ids, await plugin.allocate(ids))
                if need.passes_on:
                    kept.update(ids)
                else:
                    kept.difference_update(ids)
        return containers

    async def _choose(self, resource: str, wanted: int, kept: set[str]) -> tuple[tuple[str, ...], Plugin]:
        plugin = self._registry.plugin(resource)
        if plugin is None:
            raise NoDevices(f"no device plugin registered for {resource}")
        self._forget_gone()
        taken = {id for pod in self.pods() for each in pod.containers.values() for id in _ids(each, resource)}
        taken.update(id for reserved in self._reserved.values() for id in reserved.get(resource, ()))
        free = [each for each in self._registry.healthy(resource) if each.id not in taken]
        chosen = choose(resource, wanted, free, kept)
        if isinstance(chosen, TooFew):
            raise NoDevices(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {chosen.wanted}, Available: {chosen.available}"
            )
        available = sorted({each.id for each in free} | kept)
        must_include = sorted(set(chosen) & kept)
        return await plugin.preferred(available, must_include, wanted) or chosen, plugin


def _ids(given: dict[str, GivenDevices], resource: str) -> tuple[str, ...]:
    found = given.get(resource)
    return found.ids if found is not None else ()
