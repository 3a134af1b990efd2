"""Services that pods can reach: an address of this node for each, from which connections go on to the endpoints.

A service's own `clusterIP` is the same in every cluster, and several clusters may live on one machine, so it cannot be
given to the machine. Instead every service gets an address that only this node uses; names and the environment of
containers say that one. It forwards TCP, in this process, to an endpoint that is drawn anew for each connection.

Endpoints are those of the service's slices and, because an API server refuses loopback addresses there, the pods of
this node that the service selects and that have such an address.
"""

import asyncio
import contextlib
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping

from kohort.kube.log import Log
from kohort.node.names.hosts import is_served
from kohort.node.network import AddressBook
from kohort.objects.core import Service, ServicePort
from kohort.objects.discovery import EndpointSlice
from kohort.objects.nodepods import NodePod

CHUNK = 65536
Backend = tuple[str, int]
Port = tuple[str, int]
"""A service by UID, and one of its ports."""
_log = Log(part="node")


def backends(
    services: Iterable[Service], slices: Iterable[EndpointSlice], pods: Iterable[tuple[NodePod, str]]
) -> dict[Port, list[Backend]]:
    """Where connections to services go."""
    by_service: dict[tuple[str, str], list[EndpointSlice]] = defaultdict(list)
    for each in slices:
        by_service[each.metadata.namespace, each.service_name].append(each)
    local = [(pod, address) for pod, address in pods if address.startswith("127.") and pod.ready]
    found: dict[Port, list[Backend]] = {}
    for service in services:
        own = by_service[service.metadata.namespace, service.metadata.name]
        for port in service.spec.ports:
            if port.protocol == "TCP":
                given = [*_of_slices(own, port), *_of_pods(service, port, local)]
                found[service.metadata.uid, port.port] = sorted(set(given))
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


class Forwarding:
    def __init__(self, book: AddressBook) -> None:
        self._book = book
        self._servers: dict[Port, asyncio.Server] = {}
        self._backends: Mapping[Port, list[Backend]] = {}
        self._refused: set[Port] = set()
        """Ports that could not be listened on."""
        self._known: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def address(self, service: Service) -> str:
        """Where this node forwards a service, empty if it does not."""
        if not is_served(service):
            return ""
        try:
            return self._book.take(service.metadata.uid)
        except (OSError, OverflowError):
            return ""

    async def refresh(self, services: Iterable[Service], found: Mapping[Port, list[Backend]]) -> None:
        """Forward these services and no others."""
        self._backends = found
        wanted = {each.metadata.uid: each for each in services if is_served(each)}
        ports = {(uid, port.port) for uid, each in wanted.items() for port in each.spec.ports if port.protocol == "TCP"}
        for key in self._servers.keys() - ports:
            self._servers.pop(key).close()
        for uid in self._known - wanted.keys():
            self._book.release(uid)
        self._known = set(wanted)
        self._refused &= ports
        for key in ports - self._servers.keys() - self._refused:
            if address := self.address(wanted[key[0]]):
                await self._listen(key, address)

    def close(self) -> None:
        for server in self._servers.values():
            server.close()
        for task in self._tasks:
            task.cancel()

    async def _listen(self, key: Port, address: str) -> None:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                await self._carry(key, reader, writer)
            finally:
                self._tasks.discard(task)

        try:
            self._servers[key] = await asyncio.start_server(handle, address, key[1])
        except OSError as problem:
            self._refused.add(key)
            _log.warning("a port of a service is not forwarded", address=address, port=key[1], problem=str(problem))

    async def _carry(self, key: Port, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        candidates = list(self._backends.get(key, ()))
        random.shuffle(candidates)
        for address, port in candidates:
            with contextlib.suppress(OSError):
                onward_reader, onward_writer = await asyncio.open_connection(address, port)
                await asyncio.gather(_copy(reader, onward_writer), _copy(onward_reader, writer))
                return
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()
