"""The network of pods: an address for each, a network namespace if this machine permits it, and host ports."""

import asyncio
from collections.abc import Collection
from pathlib import Path

import msgspec

from kohort.kube.log import Log
from kohort.node.address_blocks import NoFreeBlock
from kohort.node.api_server_address import ApiServerAddress
from kohort.node.host_ports import HostPorts
from kohort.node.pod_addresses import AddressBook
from kohort.node.pod_network_namespaces import NetworkNamespaces, raise_loopback, same_namespace
from kohort.node.pod_record import PodRecord
from kohort.node.service_network import ServiceNetwork
from kohort.objects.node_pods import NodePod

_log = Log(part="node")


class AddressPlan(msgspec.Struct, frozen=True):
    """What this machine permits to give out."""

    pods: AddressBook
    namespaces: NetworkNamespaces | None = None
    """Network namespaces of pods, if each has its own."""
    services: AddressBook | None = None
    """For services and the name server; None if the node has neither."""
    service_network: ServiceNetwork | None = None

    @staticmethod
    def of_machine(node: str, directory: Path, *, own_networks: bool) -> "AddressPlan":
        """`own_networks` gives every pod a network namespace, if that is permitted. Without a free block that can be
        routed, pods share the network of the machine."""
        records = directory / "records"
        namespaces = _namespaces(directory) if own_networks else None
        pods = _routed_addresses(f"{node} {directory}", records / "addresses") if namespaces is not None else None
        if pods is None:
            namespaces, pods = None, AddressBook.for_node(f"{node} {directory}", records / "addresses")
        services = AddressBook.for_node(f"{node} {directory} services", records / "service-addresses")
        network = ServiceNetwork(namespaces, pods, records / "service-network") if namespaces is not None else None
        return AddressPlan(pods, namespaces, services, network)


def _namespaces(directory: Path) -> NetworkNamespaces | None:
    if not NetworkNamespaces.permitted():
        return None
    namespaces = NetworkNamespaces(directory / "networks")
    namespaces.prepare()
    return namespaces


def _routed_addresses(seed: str, record: Path) -> AddressBook | None:
    try:
        return AddressBook.for_node(seed, record, own_networks=True)
    except NoFreeBlock as problem:
        _log.warning("no free block of addresses; pods share the network of this machine", problem=str(problem))
        return None


class AdoptedNetworks:
    """Connects network namespaces that a container runtime makes: what its CNI plugin asks for."""

    def __init__(self, plan: AddressPlan) -> None:
        self._plan = plan

    def has(self, uid: str) -> bool:
        return self._plan.pods.has(uid)

    def connect(self, uid: str, namespace: str) -> str:
        """Returns the address of the pod. Raises OSError."""
        if self._plan.namespaces is None:
            raise OSError("pods of this node share the network of the machine")
        address = self._plan.pods.take(uid, "")
        self._plan.namespaces.adopt(uid, namespace, address)
        return address

    def disconnect(self, uid: str, namespace: str) -> None:
        """A namespace of an earlier sandbox of the pod is not the one that the pod has now."""
        if self._plan.namespaces is not None and same_namespace(self._plan.namespaces.path(uid), namespace):
            self._plan.namespaces.remove(uid)

    def raise_loopback(self, namespace: str) -> None:
        raise_loopback(namespace)


class PodNetwork:
    def __init__(self, host: str, plan: AddressPlan, api_server: ApiServerAddress) -> None:
        """`host` is the address of the machine."""
        self.host = host
        self._plan = plan
        self._api_server = api_server
        self._host_ports = HostPorts() if plan.namespaces is not None else None

    @property
    def has_own_networks(self) -> bool:
        """Whether every pod has a network of its own, unless it asks for the machine's."""
        return self._plan.namespaces is not None

    def take_address(self, pod: NodePod) -> str:
        """The address of a pod; the same as before if it had one."""
        if pod.spec.host_network:
            return self.host
        return self._plan.pods.take(pod.metadata.uid, pod.status.pod_ip)

    async def set_up(self, pod: NodePod, address: str) -> str:
        """The path of the pod's network namespace, made if missing; empty if it shares the machine's. Raises
        OSError."""
        if self._plan.namespaces is None or pod.spec.host_network:
            return ""
        host, port = self._api_server.current()
        relay = (host, int(port)) if host.startswith("127.") else None
        return await self._plan.namespaces.ensure(pod.metadata.uid, address, relay)

    async def open_host_ports(self, pod: NodePod, address: str) -> None:
        """Raises OSError."""
        if self._host_ports is not None:
            await self._host_ports.open(pod, address)

    async def connect(self, pod: PodRecord, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a port of a pod: at its own address, or on localhost for programs that only listen there. The
        localhost of the machine is that of a pod only if the pod shares its network: any user may make a pod that the
        node rejects, and would reach every service of the machine. Raises OSError."""
        own = self._plan.namespaces if not pod.pod.spec.host_network else None
        if pod.finished or not pod.address or (own is not None and not pod.netns):
            raise ConnectionError("the pod has no network: it has not started yet, or has ended")
        try:
            return await asyncio.open_connection(pod.address, port)
        except OSError:
            if own is not None:
                return await own.connect(pod.uid, "127.0.0.1", port)
            if pod.address == "127.0.0.1":
                raise
            return await asyncio.open_connection("127.0.0.1", port)

    def release(self, uid: str) -> None:
        if self._host_ports is not None:
            self._host_ports.close(uid)
        if self._plan.namespaces is not None:
            self._plan.namespaces.remove(uid)
        self._plan.pods.release(uid)

    def release_orphans(self, known: Collection[str], bound: Collection[NodePod]) -> None:
        """Remove namespaces of pods that are not known any more, and keep the addresses only of pods that are bound."""
        if self._plan.namespaces is not None:
            services = {self._plan.service_network.uid} if self._plan.service_network is not None else set()
            self._plan.namespaces.remove_all(but={*known, *services})
            for uid in filter(self._plan.pods.has, services):
                self._plan.pods.take(uid)  # its network stays, so its address does
        for pod in bound:
            if pod.status.pod_ip and not pod.finished and not pod.spec.host_network:
                self._plan.pods.take(pod.metadata.uid, pod.status.pod_ip)
        self._plan.pods.release_orphans()

    def close(self) -> None:
        """Keep what pods need that run on without the agent."""
        if self._host_ports is not None:
            self._host_ports.close_all()
        self._plan.pods.close()

    def remove_all(self) -> None:
        """For a node without pods: give back all addresses and namespaces."""
        self._plan.pods.release_all()
        if self._plan.namespaces is not None:
            self._plan.namespaces.remove_all()
