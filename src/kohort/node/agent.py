"""The node agent: one worker for each pod that is bound to this node, and what the workers share.

`Agent.__init__` is the only place that knows all parts of a node; each part gets the few others that it needs.
"""

import asyncio
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from kohort.kube.controller import Requeue, unthrottled
from kohort.kube.log import Log
from kohort.kube.manager import Manager
from kohort.kube.private_files import private_directory
from kohort.kube.resources import ENDPOINT_SLICES, NODES, PODS, SERVICES, Key
from kohort.node import single_agent_lock, stale_state_cleanup
from kohort.node.api_server_address import ApiServerAddress
from kohort.node.cgroups import Cgroups
from kohort.node.checkpoint import WriteObserver, unobserved
from kohort.node.container_launcher import ContainerLauncher
from kohort.node.container_starter import ContainerStarter
from kohort.node.container_stopper import ContainerStopper
from kohort.node.devices.interface import Devices
from kohort.node.directory_images import DirectoryImages
from kohort.node.eviction import EvictionManager
from kohort.node.heartbeat import Heartbeat
from kohort.node.launch_builder import LaunchBuilder
from kohort.node.machine_info import Machine
from kohort.node.metrics import NodeMetrics
from kohort.node.names.name_directory import NameDirectory
from kohort.node.node_state import NodeState
from kohort.node.pod_admission import PodAdmission
from kohort.node.pod_files import PodFiles
from kohort.node.pod_network import AddressPlan, PodNetwork
from kohort.node.pod_record import PodRecord
from kohort.node.pod_registry import PodRegistry
from kohort.node.pod_sandbox import PodSandbox
from kohort.node.pod_status_reporter import PodStatusReporter
from kohort.node.pod_worker import PodWorker
from kohort.node.resize.actuation import Actuator, CgroupActuator, RecordOnlyActuator
from kohort.node.resize.allocation import Allocations
from kohort.node.resize.pod_resize import PodResize
from kohort.node.resize.resize_and_admission import ResizeQueue
from kohort.node.resource_usage import UsageSampler
from kohort.node.runtimes.interface import ImageSource, Instance, Runtime, parse_container_key
from kohort.node.security_context import unenforced, unenforced_by_runtime
from kohort.node.volumes import ConfigSources, PodVolumes
from kohort.objects.core import Node, Service
from kohort.objects.discovery import EndpointSlice
from kohort.objects.meta import ObjectMeta
from kohort.objects.node_pods import NodePod
from kohort.resources import BURSTABLE, CPU, SPEC, requests, stored_qos_class
from kohort.rules.node_feature_gates import ALL_ON, NodeGates

WORKERS = 16
MARKERS = ("records", single_agent_lock.LOCK, "runtime")
"""One of these is in every directory that an agent has used."""
_log = Log(part="node")


class NodeOptions(msgspec.Struct, frozen=True):
    """How a node is configured."""

    name: str
    directory: Path
    """Volumes, logs and records of pods."""
    labels: Mapping[str, str] = {}
    capacity: Mapping[str, str] = {}
    """Overrides what is measured."""
    api_server: str = ""
    """The URL at which this machine reaches the API server."""
    stop_pods: bool = False
    """Stop the pods when the agent stops in an orderly way."""
    gates: NodeGates = ALL_ON
    no_limits_reason: str = "containers are simulated"
    """Reported by a node without cgroups."""
    device_plugins: Path | None = None
    """Where device plugins register; None for a node without them."""
    secrets_in_memory: bool = False
    """Mount a file system in memory for volumes with Secrets and tokens, if the agent is root."""


class Agent:
    def __init__(
        self,
        manager: Manager,
        options: NodeOptions,
        runtime: Runtime,
        addresses: AddressPlan,
        cgroups: Cgroups | None = None,
        observer: WriteObserver = unobserved,
    ) -> None:
        """`observer` is called before every write to a record."""
        private_directory(options.directory, MARKERS)
        self._options = options
        self.runtime = runtime
        self._instances: dict[str, Instance] = {}
        self._workers: dict[Key, PodWorker] = {}
        self._began = False
        self.client = manager.client
        self._controller = manager.controller("node-pods", self.reconcile, workers=WORKERS, pace=unthrottled)
        self.recorder = manager.recorder("kubelet")
        bound = manager.informer(PODS, NodePod, field_selector=f"spec.nodeName={options.name}")

        machine = Machine.measure(options.name, options.directory, options.api_server, options.capacity)
        reason = "" if cgroups is not None else options.no_limits_reason
        self.state = NodeState(machine, runtime.name, options.gates, reason, runtime.version)
        self.pods = PodRegistry(bound)
        self.files = PodFiles(options.directory)
        self.cgroups = cgroups
        self.metrics = NodeMetrics(manager.metrics.registry)

        self.allocations = Allocations(options.directory / "records", observer)
        self._actuator = _actuator(cgroups, self.allocations, runtime)
        self.resizes = ResizeQueue(self.allocations, self.pods, self.state, self.metrics)

        api_server = ApiServerAddress(manager.informer(ENDPOINT_SLICES, EndpointSlice), options.api_server)
        self.network = PodNetwork(machine.address, addresses, api_server)
        self.names = self._name_directory(manager, api_server, addresses)
        sources, images = ConfigSources(manager.client), options.directory / "images"
        directories = images if runtime.images is None else None
        in_memory = options.secrets_in_memory
        self._volumes = PodVolumes(manager.client, sources, machine, directories, secrets_in_memory=in_memory)
        self._launches = LaunchBuilder(machine, self.files, sources, self.names, api_server)

        identity = single_agent_lock.identity(options.directory)
        self.heartbeat = Heartbeat(manager.client, self.state, identity, options.labels, self.recorder)
        if options.device_plugins is not None:
            self.state.devices = self._serve_plugins(manager, options.device_plugins, observer)
        source: ImageSource = runtime.images if runtime.images is not None else DirectoryImages(images)
        self._launcher = ContainerLauncher(
            runtime, source, self._launches, self.state.devices, self.allocations, cgroups, self.files
        )
        self.evictions = EvictionManager(
            self.state, self.pods, self.files, cgroups, runtime, self.heartbeat, self.resizes
        )
        self.usage = UsageSampler(options.name, self.pods, cgroups, runtime)
        manager.prepare(lambda: single_agent_lock.check(manager.client, options.name, identity))
        self._register(manager)

    def _name_directory(self, manager: Manager, api_server: ApiServerAddress, addresses: AddressPlan) -> NameDirectory:
        return NameDirectory(
            manager.informer(SERVICES, Service),
            manager.informer(ENDPOINT_SLICES, EndpointSlice),
            self.pods.addressed,
            api_server.current,
            self._rewrite_names,
            addresses.services,
            addresses.service_network,
            self.state.machine.address,
            self._report_restored,
        )

    def _serve_plugins(self, manager: Manager, directory: Path, observer: WriteObserver) -> Devices:
        from kohort.node.devices.service import serve_plugins

        records, changed = self._options.directory / "records", self.heartbeat.changed
        return serve_plugins(manager, directory, records, changed, observer, self.pods.is_gone)

    def _register(self, manager: Manager) -> None:
        self._controller.watches(self.pods.bound, when=_needs_sync)
        self.pods.bound.on_change(self._notice_readiness)
        self.runtime.on_exit(self._container_exited)
        self.runtime.on_sandbox_lost(self._sandbox_lost)
        self.runtime.on_change(self._runtime_changed)
        manager.prepare(self._recover)
        manager.prepare(self.names.start)
        manager.background("node-names", self.names.run)
        manager.background("node-heartbeat", self.heartbeat.run)
        manager.background("node-pressure", self.evictions.run)
        manager.background("node-usage", self.usage.run)
        manager.background("node-retries", self.resizes.retry)
        manager.background("node-orphans", self._remove_orphans)
        manager.clean_up(self._close)
        if self.allocations.recovered_from_previous:
            directory = str(self._options.directory)
            _log.error("a checkpoint was damaged; its previous version is used", directory=directory)

    # Pods

    async def reconcile(self, key: Key) -> Requeue | None:
        pod = self.pods.bound.get(key)
        worker = self._workers.get(key)
        if worker is not None and (pod is None or pod.metadata.uid != worker.record.uid):
            await worker.abandon()
            self._forget(key, worker.record)
            worker = None
        if pod is None:
            return None
        address = worker.record.address if worker is not None else ""
        if worker is None:
            worker = self._new_worker(pod)
            if pod.finished and not pod.metadata.deleting:
                worker.record.finished = True  # it is here only for its logs
                self._add(key, worker)
                await worker.sandbox.remove_content()  # of one that ended right before its agent
                return None
            worker.take_over()
            self._add(key, worker)
            await worker.recall_termination_messages()
        before = worker.record.pod.metadata
        if (before.labels, before.annotations) != (pod.metadata.labels, pod.metadata.annotations):
            worker.sandbox.refresh_volumes()
        requeue = await worker.sync(pod)
        if worker.record.address != address:
            self.names.notice()
        self._weigh_burstable()
        return requeue

    def _new_worker(self, pod: NodePod) -> PodWorker:
        fields = unenforced(pod, root=os.geteuid() == 0) if self.runtime.images is None else unenforced_by_runtime(pod)
        record = PodRecord(pod, self._instances, self.allocations, self.recorder, self._controller.enqueue, fields)
        stopper = ContainerStopper(record, self.runtime)
        sandbox = PodSandbox(record, self.network, self._volumes, self.cgroups, self.files, self.runtime, self.client)
        starter = ContainerStarter(record, sandbox, stopper, self._launcher, self.runtime)
        admission = PodAdmission(record, self.resizes, self.state.devices, self.runtime)
        resize = PodResize(record, stopper, self.allocations, self._actuator, self.resizes, self.state, self.metrics)
        reporter = PodStatusReporter(record, self.client, self.state, self.allocations, self.cgroups, self.files)
        return PodWorker(record, sandbox, starter, stopper, admission, self.resizes, resize, reporter)

    def _add(self, key: Key, worker: PodWorker) -> None:
        self._workers[key] = worker
        self.pods.add(worker.record)

    def _forget(self, key: Key, record: PodRecord) -> None:
        self._workers.pop(key, None)
        self.pods.remove(key)
        self.resizes.forget(record)
        self.allocations.forget(self.pods.known())
        self.state.devices.forget(self.pods.known())
        self._weigh_burstable()
        self.resizes.decide("pods_removed")

    def _weigh_burstable(self) -> None:
        """The cpu weight of the Burstable tier follows what is allocated to its pods."""
        if self.cgroups is None:
            return
        total = 0
        for record in self.pods.records():
            if record.admitted and not record.finished and stored_qos_class(record.pod) == BURSTABLE:
                amount = requests(record.allocated(), SPEC).get(CPU)
                total += amount.milli if amount is not None else 0
        self.cgroups.weigh_burstable(total)

    def _container_exited(self, instance: Instance) -> None:
        uid = parse_container_key(instance.id).pod_uid
        self._instances[instance.id] = instance
        for worker in self._workers.values():
            if worker.record.uid == uid:
                worker.container_exited(instance)

    def _sandbox_lost(self, uid: str) -> None:
        for worker in self._workers.values():
            if worker.record.uid == uid:
                worker.sandbox_lost()

    def _runtime_changed(self) -> None:
        self.state.runtime_problem = self.runtime.problem or self.runtime.network_problem
        self.state.runtime_version = self.runtime.version
        self.heartbeat.changed()
        if not self.state.runtime_problem:
            for worker in self._workers.values():
                worker.record.wake()

    # Names

    def _rewrite_names(self) -> None:
        for worker in self._workers.values():
            with contextlib.suppress(OSError):
                worker.sandbox.refresh_names(self._launches)

    def _notice_readiness(self, old: NodePod | None, new: NodePod | None) -> None:
        """Names and services depend on which pods are ready. EndpointSlices may not say so: the API server does not
        accept every address in them."""
        if (old is not None and old.ready) != (new is not None and new.ready):
            self.names.notice()
        if old is not None and new is not None and old.ready and not new.ready:
            worker = self._workers.get(Key(new.metadata.namespace, new.metadata.name))
            if worker is not None:
                worker.record.became_unready = True

    def _report_restored(self, restored: list[str]) -> None:
        message = f"Restored what another program had deleted from the network of this node: {', '.join(restored)}"
        _log.warning("restored what another program had deleted from the network of this node", what=restored)
        node = Node(metadata=ObjectMeta(name=self.state.machine.name))
        self.recorder.warning(NODES, node, "NetworkRestored", message)

    # Start and end of the agent

    async def _recover(self) -> None:
        self._began = True
        self._instances = await self.runtime.instances()

    async def _remove_orphans(self) -> None:
        """Remove what is left of pods that were deleted while no agent was running. New pods may come meanwhile."""
        for id, instance in list(self._instances.items()):
            if parse_container_key(id).pod_uid not in self.pods.known():
                if instance.running:
                    await self.runtime.stop(id, 0.0)
                else:
                    await self.runtime.remove(id)
        for uid in await self.runtime.pods():
            if uid not in self.pods.known():
                await self.runtime.remove_pod(uid)
        if self.cgroups is not None:
            ours = self.allocations.known() | stale_state_cleanup.pods_with_directories(self._options.directory)
            for path in self.cgroups.orphans(ours, self.pods.known()):
                self.cgroups.kill(path)
                await asyncio.to_thread(self.cgroups.remove, path)
        self.allocations.forget(self.pods.known())
        self.state.devices.forget(self.pods.known())
        orphaned = stale_state_cleanup.orphaned_directories(self._options.directory, self.pods.known())
        await asyncio.to_thread(stale_state_cleanup.remove_directories, orphaned)
        self.network.release_orphans(self.pods.known(), self.pods.bound.list())
        await asyncio.Event().wait()

    async def _close(self) -> None:
        """Give back what this node uses of the machine when no pod is left that needs it. An agent that failed before
        it began has taken nothing, and leaves alone what it finds."""
        if not self._began:
            self.names.give_up_addresses()
            self.network.close()
            return
        for_good = self._options.stop_pods or self._is_empty()
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await self.runtime.close(stop=for_good)
        self.names.close(for_good=for_good)
        if for_good:
            self.network.remove_all()
            stale_state_cleanup.unmount_volumes(self._options.directory)
        self.names.give_up_addresses()
        self.network.close()
        await self.heartbeat.leave()

    def _is_empty(self) -> bool:
        """No pod runs on this node and none is bound to it, as far as a complete list from the API shows."""
        if not self.heartbeat.registered.is_set() or any(each.running for each in self._instances.values()):
            return False
        over = all(each.finished or each.rejected for each in self.pods.records())
        return over and all(pod.finished for pod in self.pods.bound.list())


def _actuator(cgroups: Cgroups | None, allocations: Allocations, runtime: Runtime) -> Actuator:
    if cgroups is None:
        return RecordOnlyActuator(allocations)
    cgroups.directory_name = runtime.cgroup_name
    return CgroupActuator(cgroups, allocations, runtime)


def _needs_sync(old: NodePod | None, new: NodePod | None) -> bool:
    """Most changes of a pod's status are the agent's own reports."""
    if old is None or new is None:
        return True
    return (
        old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        or old.metadata.deletion_grace_period_seconds != new.metadata.deletion_grace_period_seconds
        or old.metadata.labels != new.metadata.labels
        or old.metadata.annotations != new.metadata.annotations
        or old.metadata.uid != new.metadata.uid
        or old.metadata.generation != new.metadata.generation
        or old.spec != new.spec
        or (old.ready and not new.ready)
        or (bool(new.spec.readiness_gates) and old.status.conditions != new.status.conditions)
    )
