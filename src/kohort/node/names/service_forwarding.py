"""Services that pods can reach: what is sent to their addresses goes on to the endpoints, through this process.

| who asks                            | at which address                                                              |
|-------------------------------------|-------------------------------------------------------------------------------|
| pods with a network of their own    | the `clusterIP`, see `service_network`; that of the API server too            |
| other processes of this machine     | one that only this node uses: a `clusterIP` is the same in every cluster, and |
|                                     | several clusters may live on one machine, so the machine cannot have it       |
| all of them, by a node port         | the address of the node                                                       |

Endpoints are those of the service's slices and, because an API server refuses loopback addresses there, the pods of
this node that the service selects and that have such an address.
"""

import asyncio
import socket
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kohort.kube.log import Log
from kohort.node.names.endpoint_choice import Backend, EndpointChoice, affinity_seconds
from kohort.node.names.etc_hosts import API_SERVER, is_served
from kohort.node.names.service_proxy import TcpForwarder, UdpForwarder
from kohort.node.pod_addresses import AddressBook
from kohort.node.service_network import ServiceNetwork, bound
from kohort.objects.core import Service, ServicePort
from kohort.objects.discovery import EndpointSlice
from kohort.objects.node_pods import NodePod

LOOPBACK = "127.0.0.1"
NODE_PORT_TYPES = ("NodePort", "LoadBalancer")
KINDS = {"TCP": socket.SOCK_STREAM, "UDP": socket.SOCK_DGRAM}
Port = tuple[str, str, int]
"""A service by UID, and one of its ports."""


class ListenAddress(NamedTuple):
    """Where to listen for a port of a service."""

    port: Port
    inside: bool
    """In the network of services, or outside of it."""
    address: str
    number: int


_log = Log(part="node")


def backends(
    services: Iterable[Service],
    slices: Iterable[EndpointSlice],
    pods: Iterable[tuple[NodePod, str]],
    api_server: tuple[str, str] = ("", ""),
) -> dict[Port, list[Backend]]:
    """Where connections to services go. The API server is where this node has found it, for it may be at an address
    that no slice can say."""
    by_service: dict[tuple[str, str], list[EndpointSlice]] = defaultdict(list)
    for each in slices:
        by_service[each.metadata.namespace, each.service_name].append(each)
    local = [(pod, address) for pod, address in pods if address.startswith("127.") and pod.ready]
    found: dict[Port, list[Backend]] = {}
    for service in services:
        own = by_service[service.metadata.namespace, service.metadata.name]
        for port in service.spec.ports:
            if port.protocol in KINDS:
                given = [*_of_slices(own, port), *_of_pods(service, port, local)]
                if (service.metadata.namespace, service.metadata.name) == API_SERVER and api_server[0]:
                    given = [(api_server[0], int(api_server[1]))]
                found[service.metadata.uid, port.protocol, port.port] = sorted(set(given))
    return found


def _of_slices(slices: Iterable[EndpointSlice], port: ServicePort) -> Iterable[Backend]:
    for each in slices:
        number = next((one.port for one in each.ports or () if (one.name or "") == port.name), None)
        for endpoint in each.endpoints or ():
            if number and endpoint.conditions.ready is not False:
                yield from ((address, number) for address in endpoint.addresses or ())


def _of_pods(service: Service, port: ServicePort, pods: Iterable[tuple[NodePod, str]]) -> Iterable[Backend]:
    selector = service.spec.selector
    for pod, address in pods:
        if pod.metadata.namespace != service.metadata.namespace or not selector:
            continue
        if selector.items() <= pod.metadata.labels.items():
            target = port.target_port or port.port
            if isinstance(target, str):
                names = {one.name: one.container_port for each in pod.spec.containers or () for one in each.ports}
                target = names.get(target, 0)
            if target:
                yield address, target


def _is_ipv4(service: Service) -> bool:
    return ":" not in service.spec.cluster_ip


class Forwarding:
    def __init__(self, book: AddressBook, network: ServiceNetwork | None = None, node_address: str = "") -> None:
        """Node ports are served at `node_address`, if there is one, and at the loopback address."""
        self._book = book
        self._node_address = node_address
        self.network = network
        """Where services have the addresses that the cluster has given them, once it has started."""
        self._forwarders: dict[ListenAddress, TcpForwarder | UdpForwarder] = {}
        self._choices: dict[Port, EndpointChoice] = {}
        self._unheard: set[ListenAddress] = set()
        """Where listening has failed. It is tried again at every refresh, and logged once."""
        self._known: set[str] = set()
        self.incomplete = False
        """Whether pods may not reach services since the last refresh: it must be tried again soon."""

    def address(self, service: Service) -> str:
        """Where this node forwards a service for those without a network of their own, empty if it does not."""
        if not is_served(service):
            return ""
        try:
            return self._book.take(service.metadata.uid)
        except (OSError, OverflowError):
            return ""

    async def refresh(
        self, services: Iterable[Service], found: Mapping[Port, list[Backend]], *, check: bool = False
    ) -> list[str]:
        """Forward these services and no others; `check` that nothing of what leads to them is missing. Returns what
        another program had deleted and is restored, in words."""
        check, self.incomplete = check or self.incomplete, False
        offered = [each for each in services if each.cluster_address and _is_ipv4(each)]
        self._update_choices(offered, found)
        wanted = self._wanted(offered)
        for place in self._forwarders.keys() - wanted:
            self._forwarders.pop(place).close()
        known = {each.metadata.uid for each in offered}
        for uid in self._known - known:
            self._book.release(uid)
        self._known = known
        self._unheard &= wanted
        restored = await self._hold({each.cluster_address for each in offered}, check=check)
        for place in sorted(wanted - self._forwarders.keys()):
            await self._listen(place)
        return restored

    @property
    def waiting(self) -> bool:
        """Whether there are ports at which other programs listen."""
        return bool(self._unheard)

    def close(self) -> None:
        for forwarder in self._forwarders.values():
            forwarder.close()

    async def _hold(self, addresses: set[str], *, check: bool) -> list[str]:
        if (network := self._ready()) is None or (network.held == addresses and not check):
            return []
        try:
            return await asyncio.to_thread(network.hold, addresses)
        except OSError as problem:
            _log.warning("pods cannot reach services at their addresses; retrying", problem=str(problem))
            self.incomplete = True
            return []

    def _ready(self) -> ServiceNetwork | None:
        return self.network if self.network is not None and self.network.started else None

    def _wanted(self, offered: Iterable[Service]) -> set[ListenAddress]:
        found: set[ListenAddress] = set()
        for service in offered:
            for port in service.spec.ports:
                if port.protocol in KINDS:
                    found |= {place for place in self._places(service, port) if place.address}
        return found

    def _places(self, service: Service, port: ServicePort) -> Iterator[ListenAddress]:
        key = (service.metadata.uid, port.protocol, port.port)
        yield ListenAddress(key, False, self.address(service), port.port)
        if self._ready() is not None:
            yield ListenAddress(key, True, service.cluster_address, port.port)
        if port.node_port and service.spec.type in NODE_PORT_TYPES:
            for address in {self._node_address, LOOPBACK if self._node_address else ""}:
                yield ListenAddress(key, False, address, port.node_port)

    def _update_choices(self, offered: Iterable[Service], found: Mapping[Port, list[Backend]]) -> None:
        now = asyncio.get_running_loop().time
        before, self._choices = self._choices, {}
        for service in offered:
            for port in service.spec.ports:
                key = (service.metadata.uid, port.protocol, port.port)
                choice = self._choices[key] = before.get(key) or EndpointChoice(now)
                choice.update(list(found.get(key, ())), affinity_seconds(service))

    async def _listen(self, place: ListenAddress) -> None:
        address, port, protocol = place.address, place.number, place.port[1]
        forwarder = (TcpForwarder if protocol == "TCP" else UdpForwarder)(self._choices[place.port])
        try:
            if place.inside and self.network is not None:
                listening = self.network.listening(address, port, KINDS[protocol])
            else:
                listening = bound(address, port, KINDS[protocol])
            await forwarder.start(listening)
        except OSError as problem:
            if place not in self._unheard:
                _log.warning("failed to forward a port of a service", address=address, port=port, problem=str(problem))
            self._unheard.add(place)
            return
        self._unheard.discard(place)
        self._forwarders[place] = forwarder
