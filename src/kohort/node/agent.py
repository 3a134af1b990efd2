"""The node agent: which pods are here, who looks after each, and what they share."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from kohort.kube.controller import Requeue, restless
from kohort.kube.log import Log
from kohort.kube.manager import Manager
from kohort.kube.private_files import private_directory
from kohort.kube.resources import ENDPOINT_SLICES, NODES, PODS, SERVICES, Key
from kohort.node import address_blocks, machine_info, single_agent_lock, stale_state_cleanup
from kohort.node.cgroups import Cgroups, find_parent, usable_parent, why_no_limits
from kohort.node.checkpoint import Witness, nobody
from kohort.node.container_spec import parsed_id
from kohort.node.eviction import Evictions
from kohort.node.heartbeat import Heartbeat
from kohort.node.host_ports import HostPorts
from kohort.node.metrics import NodeMetrics
from kohort.node.names.name_directory import Directory
from kohort.node.node_context import Surroundings
from kohort.node.pod_addresses import AddressBook
from kohort.node.pod_network_namespaces import Namespaces
from kohort.node.pod_worker import PodWorker
from kohort.node.resize.actuation import Actuator
from kohort.node.resize.allocation import Allocations
from kohort.node.resize.queue import Resizes
from kohort.node.runtimes.interface import Instance, Runtime
from kohort.node.service_network import ServiceNetwork
from kohort.node.volumes import Sources, Volumes
from kohort.objects.core import Node, Service
from kohort.objects.discovery import EndpointSlice
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.objects.node_pods import NodePod
from kohort.objects.quantity import Quantity
from kohort.resources import BURSTABLE, CPU, SPEC, Settings, requests, stored_qos_class
from kohort.resources.cgroups import DEFAULT_SETTINGS
from kohort.rules.node_feature_gates import ALL_ON, NodeGates
from kohort.rules.resize_decision import NodeFacts
from kohort.rules.resize_queue import PERIODIC_SECONDS, Trigger

WORKERS = 16
MARKERS = ("records", single_agent_lock.LOCK, "runtime")
"""One of these is in every directory that an agent has used."""
_log = Log(part="node")


class Agent:
    def __init__(
        self,
        manager: Manager,
        name: str,
        directory: Path,
        runtime: Runtime,
        *,
        cgroup_parent: Path | None = None,
        cgroups: bool = True,
        labels: Mapping[str, str] | None = None,
        capacity: Mapping[str, str] | None = None,
        api_server: str = "",
        witness: Witness = nobody,
        stop_pods: bool = False,
        own_networks: bool = False,
        addresses: AddressBook | None = None,
        serve_names: bool = False,
        settings: Settings = DEFAULT_SETTINGS,
        gates: NodeGates = ALL_ON,
    ) -> None:
        """`own_networks` gives every pod a network namespace, if that is permitted; `addresses` are what pods get
        otherwise, unless the machine is to be asked what it permits; `serve_names` runs a name server and forwards
        services."""
        private_directory(directory, MARKERS)
        self.name = self.hostname = name
        self.runtime = runtime
        self.gates = gates
        self.workers: dict[Key, PodWorker] = {}
        self.port = 0
        self._instances: dict[str, Instance] = {}
        self._stop_pods = stop_pods
        self._began = False
        self._api_server = api_server
        self._host = machine_info.outward_address(urlsplit(api_server).hostname or "")
        self._size = {**machine_info.capacity(directory), **(capacity or {})}
        self._pods = manager.informer(PODS, NodePod, field_selector=f"spec.nodeName={name}")
        self._services = manager.informer(SERVICES, Service)
        self._slices = manager.informer(ENDPOINT_SLICES, EndpointSlice)
        self._controller = manager.controller("node-pods", self.reconcile, workers=WORKERS, pace=restless)
        tree = _tree(cgroup_parent, witness) if cgroups else None
        networks = _networks(directory) if own_networks else None
        self.limits = tree is not None
        self._unlimited = "" if tree is not None else why_no_limits() if cgroups else "containers are simulated"
        if addresses is None:
            addresses, networks = _addresses(f"{name} {directory}", directory / "records" / "addresses", networks)
        self.names = self._directory_of_names(directory, addresses, networks, serve=serve_names)
        self.node = self._surroundings(manager, directory, Allocations(directory / "records", witness), addresses)
        self.node.namespaces = networks
        self.node.host_ports = HostPorts() if networks is not None else None
        self.node.cgroups, self.node.settings = tree, settings
        self.node.actuator = Actuator(tree, self.node.allocations, settings) if tree is not None else None
        self.metrics = NodeMetrics(manager.metrics.registry)
        self.resizes = Resizes(self.node.allocations, self.workers, self.facts, self.metrics)
        identity = single_agent_lock.identity(directory)
        self.heartbeat = Heartbeat(
            manager.client, name, identity, labels or {}, self._status, self._conditions, self._tell
        )
        manager.prepare(lambda: single_agent_lock.check(manager.client, name, identity))
        self.evictions = Evictions(
            self.node, self.workers, self.heartbeat.changed, lambda: self.resizes.go_through("node_changed")
        )
        self._plug_into(manager)

    def _directory_of_names(
        self, directory: Path, addresses: AddressBook, networks: Namespaces | None, *, serve: bool
    ) -> Directory:
        record = directory / "records" / "service-addresses"
        return Directory(
            self._services,
            self._slices,
            self._addressed,
            lambda: self.node.api_server,
            self._rewrite_names,
            AddressBook.for_node(f"{self.name} {directory} services", record) if serve else None,
            ServiceNetwork(networks, addresses, directory / "records" / "service-network")
            if networks and serve
            else None,
            self._host,
            self._report_restored,
        )

    def _surroundings(
        self, manager: Manager, directory: Path, allocations: Allocations, addresses: AddressBook
    ) -> Surroundings:
        sources = Sources(manager.client)
        allocatable = {key: Quantity.parse(value) for key, value in machine_info.allocatable(self._size).items()}
        return Surroundings(
            name=self.name,
            client=manager.client,
            runtime=self.runtime,
            recorder=manager.recorder("kubelet"),
            allocations=allocations,
            directory=directory,
            addresses=addresses,
            sources=sources,
            volumes=Volumes(manager.client, sources, allocatable, directory / "images"),
            allocatable=allocatable,
            memory=int(Quantity.parse(self._size["memory"]).value),
            host=self._host,
            wake=self._controller.enqueue,
            facts=self.facts,
            others=self._others,
            services=lambda pod: self.names.services(pod.metadata.namespace, outside=pod.spec.host_network),
            hosts=self.names.hosts,
            resolv_conf=self.names.resolv_conf,
            judge=lambda: self.resizes.go_through("pod_updated"),
            freed=self._freed,
            actuated=lambda seconds, done: self.metrics.observe_attempt(seconds, done),
            admitted=lambda pod: self.metrics.count_admission(pod),
            images=directory / "images",
        )

    def _plug_into(self, manager: Manager) -> None:
        self._controller.watches(self._pods, when=_matters)
        self._pods.on_change(self._notice_readiness)
        self.runtime.on_exit(self._exited)
        manager.prepare(self._recover)
        manager.prepare(self.names.start)
        manager.background("node-names", self.names.run)
        manager.background("node-heartbeat", self.heartbeat.run)
        manager.background("node-pressure", self.evictions.run)
        manager.background("node-retries", self._retry)
        manager.background("node-orphans", self._end_orphans)
        manager.clean_up(self._close)
        if self.node.allocations.recovered_from_previous:
            place = str(self.node.directory)
            _log.error("a record of this node was damaged; its last good version was taken", directory=place)

    # Pods

    async def reconcile(self, key: Key) -> Requeue | None:
        pod = self._pods.get(key)
        worker = self.workers.get(key)
        if worker is not None and (pod is None or pod.metadata.uid != worker.uid):
            await worker.abandon()
            self._forget(key, worker)
            worker = None
        if pod is None:
            return None
        known = worker.address if worker is not None else ""
        if worker is None:
            worker = PodWorker(self.node, pod, self._instances)
            if pod.finished and not pod.metadata.deleting:
                worker.finished = True  # known for its logs only
                self.workers[key] = worker
                return None
            worker.take_over()
            self.workers[key] = worker
        self._refresh_api_server()
        if worker.pod.metadata.labels != pod.metadata.labels or (
            worker.pod.metadata.annotations != pod.metadata.annotations
        ):
            worker.refresh_volumes()
        answer = await worker.sync(pod)
        if worker.address != known:
            self.names.notice()
        self._weigh()
        return answer

    def worker(self, namespace: str, name: str) -> PodWorker | None:
        return self.workers.get(Key(namespace, name))

    def _forget(self, key: Key, worker: PodWorker) -> None:
        self.workers.pop(key, None)
        self.resizes.forget(worker)
        self.node.allocations.forget(self._known())
        self._weigh()
        self._freed("pods_removed")

    def _weigh(self) -> None:
        """The Burstable tier weighs what its pods were allocated, from the moment they were."""
        if self.node.cgroups is None:
            return
        total = 0
        for worker in self.workers.values():
            if worker.admitted and not worker.finished and stored_qos_class(worker.pod) == BURSTABLE:
                amount = requests(worker.allocated(), SPEC).get(CPU)
                total += amount.milli if amount is not None else 0
        self.node.cgroups.weigh_burstable(total)

    def _known(self) -> set[str]:
        """Pods that are bound here, and those that are gone from the API but not from here."""
        return {each.uid for each in self.workers.values()} | {pod.metadata.uid for pod in self._pods.list()}

    def _others(self, uid: str) -> Iterable[NodePod]:
        return [
            worker.pod
            for worker in self.workers.values()
            if worker.uid != uid and not worker.finished and not worker.refused
        ]

    def _freed(self, why: str) -> None:
        triggers: dict[str, Trigger] = {
            "pods_removed": "pods_removed",
            "pod_terminated": "pod_terminated",
            "pod_resized": "pod_resized",
        }
        self.resizes.go_through(triggers[why])

    def _exited(self, instance: Instance) -> None:
        uid, _, _ = parsed_id(instance.id)
        self._instances[instance.id] = instance
        for worker in self.workers.values():
            if worker.uid == uid:
                worker.exited(instance)

    async def _recover(self) -> None:
        self._began = True
        self._instances = await self.runtime.instances()

    async def _end_orphans(self) -> None:
        """What is left of pods that were deleted while nobody looked. New ones may come while this takes its time."""
        for id, instance in list(self._instances.items()):
            if parsed_id(id)[0] not in self._known():
                if instance.running:
                    await self.runtime.signal(id, 9)
                else:
                    await self.runtime.remove(id)
        if self.node.cgroups is not None:
            for uid, path in self.node.cgroups.pods().items():
                if uid not in self._known():
                    self.node.cgroups.kill(path)
                    await asyncio.to_thread(self.node.cgroups.remove, path)
        if self.node.namespaces is not None:
            services = {self.names.network.uid} if self.names.network is not None else set()
            self.node.namespaces.remove_all(but=self._known() | services)
        self.node.allocations.forget(self._known())
        orphaned = stale_state_cleanup.orphaned_directories(self.node.directory, self._known())
        await asyncio.to_thread(stale_state_cleanup.remove_directories, orphaned)
        for pod in self._pods.list():
            if pod.status.pod_ip and not pod.finished and not pod.spec.host_network:
                self.node.addresses.take(pod.metadata.uid, pod.status.pod_ip)
        self.node.addresses.release_orphans()
        await asyncio.Event().wait()

    async def _close(self) -> None:
        """What this node has taken of the machine is given back when no pod is left that could need it. One that was
        refused before it began has taken nothing, and what it finds is not its own."""
        if not self._began:
            self.names.give_up_addresses()
            self.node.addresses.close()
            return
        for_good = self._stop_pods or self._is_empty()
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await self.runtime.close(stop=for_good)
        self.names.close(for_good=for_good)
        if self.node.host_ports is not None:
            self.node.host_ports.close_all()
        if for_good:
            self.node.addresses.release_all()
            stale_state_cleanup.unmount_volumes(self.node.directory)
            if self.node.namespaces is not None:
                self.node.namespaces.remove_all()
        self.names.give_up_addresses()
        self.node.addresses.close()
        await self.heartbeat.leave()

    def _is_empty(self) -> bool:
        """No pod runs here, and none shall: sure only when somebody has looked."""
        if not self.heartbeat.registered.is_set() or any(each.running for each in self._instances.values()):
            return False
        over = all(each.finished or each.refused for each in self.workers.values())
        return over and all(pod.finished for pod in self._pods.list())

    # Names

    def _rewrite_names(self) -> None:
        for worker in self.workers.values():
            with contextlib.suppress(OSError):
                worker.refresh_names()

    def _notice_readiness(self, old: NodePod | None, new: NodePod | None) -> None:
        """Names and services follow those who are ready, which the API server may not be able to say: it does not take
        every address in endpoints."""
        if (old is not None and old.ready) != (new is not None and new.ready):
            self.names.notice()

    def _addressed(self) -> list[tuple[NodePod, str]]:
        """Pods as they were last reported, with their addresses."""
        return [
            (self._pods.get(key) or each.pod, each.address)
            for key, each in self.workers.items()
            if each.address and not each.finished
        ]

    def _refresh_api_server(self) -> None:
        """Where containers find the API server: what it says itself, else where we found it."""
        for each in self._slices.list("default"):
            if each.service_name == "kubernetes" and each.endpoints and each.ports:
                endpoint = each.endpoints[0]
                addresses = endpoint.addresses
                if addresses and endpoint.conditions.ready is not False:
                    self.node.api_server = (addresses[0], str(each.ports[0].port))
                    return
        found = urlsplit(self._api_server)
        self.node.api_server = (found.hostname or "", str(found.port or 443)) if found.hostname else ("", "")

    # The node itself

    def facts(self) -> NodeFacts:
        pressure = self.evictions.pressure.words
        return NodeFacts(self.node.allocatable, self.gates, cgroup_v2=self.limits, pressure=pressure)

    def _status(self) -> JsonObject:
        features = self.gates.declared(limits=self.limits)
        return machine_info.node_status(
            self.hostname, self._size, self.node.host, self.port, self.runtime.name, features
        )

    def _conditions(self, now: str) -> list[JsonObject]:
        return machine_info.node_conditions(now, pressure=self.evictions.pressure, unlimited=self._unlimited)

    def _tell(self, node: Node, reason: str, message: str) -> None:
        self.node.recorder.normal(NODES, node, reason, message)

    def _report_restored(self, restored: list[str]) -> None:
        message = f"Restored what another program had deleted from the network of this node: {', '.join(restored)}"
        _log.warning("restored what another program had deleted from the network of this node", what=restored)
        node = Node(metadata=ObjectMeta(name=self.name))
        self.node.recorder.warning(NODES, node, "NetworkRestored", message)

    async def _retry(self) -> None:
        while True:
            await asyncio.sleep(PERIODIC_SECONDS)
            self.resizes.go_through("periodic_retry")


def _tree(wanted: Path | None, witness: Witness) -> Cgroups | None:
    """The cgroups of this node, if there can be any. Raises NoLimits when those that are wanted cannot be used."""
    parent = usable_parent(wanted) if wanted is not None else find_parent()
    if parent is None:
        return None
    tree = Cgroups(parent, witness)
    tree.prepare()
    return tree


def _networks(directory: Path) -> Namespaces | None:
    if not Namespaces.permitted():
        return None
    networks = Namespaces(directory / "networks")
    networks.prepare()
    return networks


def _addresses(seed: str, record: Path, networks: Namespaces | None) -> tuple[AddressBook, Namespaces | None]:
    """What this machine permits to be given out. Without a free block that can be routed, pods share its network."""
    if networks is not None:
        try:
            return AddressBook.for_node(seed, record, own_networks=True), networks
        except address_blocks.NoFreeBlock as problem:
            _log.warning("pods share the network of this machine", problem=str(problem))
    return AddressBook.for_node(seed, record), None


def _matters(old: NodePod | None, new: NodePod | None) -> bool:
    """Most changes of a pod's status are our own reports."""
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
        or (bool(new.spec.readiness_gates) and old.status.conditions != new.status.conditions)
    )
