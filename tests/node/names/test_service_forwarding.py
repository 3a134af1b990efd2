"""Services that pods of a node reach."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Network

import msgspec
import pytest
from tests.builders import pod

from kohort.node.names.service_forwarding import Forwarding, backends
from kohort.node.pod_addresses import AddressBook
from kohort.objects.core import Service
from kohort.objects.discovery import EndpointSlice
from kohort.objects.json_types import Json
from kohort.objects.node_pods import NodePod


def service(**spec: Json) -> Service:
    whole = {"clusterIP": "10.96.0.9", "selector": {"app": "web"}, **spec}
    return msgspec.convert({"metadata": {"name": "web", "namespace": "ns", "uid": "s1"}, "spec": whole}, Service)


def slice_with(*addresses: str, ready: bool = True, port: int = 8080) -> EndpointSlice:
    document = {
        "metadata": {"name": "web-1", "namespace": "ns", "labels": {"kubernetes.io/service-name": "web"}},
        "endpoints": [{"addresses": list(addresses), "conditions": {"ready": ready}}],
        "ports": [{"name": "http", "port": port}],
    }
    return msgspec.convert(document, EndpointSlice)


PORT = {"name": "http", "port": 80, "protocol": "TCP", "targetPort": "web"}


def test_connections_go_to_ready_endpoints() -> None:
    web = service(ports=[PORT])
    found = backends([web], [slice_with("198.18.1.1"), slice_with("198.18.1.2", ready=False)], [])
    assert found == {("s1", "TCP", 80): [("198.18.1.1", 8080)]}


def test_pods_with_loopback_addresses_are_found_without_slices() -> None:
    web = service(ports=[PORT])
    ports = [{"name": "web", "containerPort": 9090}]
    ready = pod("a", "ns").labels(app="web").container("c", ports=ports).ready().as_view(NodePod)
    other = pod("b", "ns").labels(app="else").container("c", ports=ports).ready().as_view(NodePod)
    late = pod("c", "ns").labels(app="web").container("c", ports=ports).as_view(NodePod)
    local = [(ready, "127.20.0.1"), (other, "127.20.0.2"), (late, "127.20.0.3")]
    assert backends([web], [], local) == {("s1", "TCP", 80): [("127.20.0.1", 9090)]}
    assert backends([web], [], [(ready, "198.18.0.1")]) == {("s1", "TCP", 80): []}, "those are in slices"


def test_udp_is_forwarded_and_what_is_neither_is_not() -> None:
    udp, other = service(ports=[{**PORT, "protocol": "UDP"}]), service(ports=[{**PORT, "protocol": "SCTP"}])
    assert backends([udp], [slice_with("198.18.1.1")], []) == {("s1", "UDP", 80): [("198.18.1.1", 8080)]}
    assert backends([other], [slice_with("198.18.1.1")], []) == {}


class Repeater(asyncio.DatagramProtocol):
    """Answers with what was said and by whom, as it sees it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.transport.sendto(b"%s %d" % (data.upper(), addr[1]), addr)  # type: ignore[attr-defined]


async def test_everything_from_one_sender_goes_one_way() -> None:
    loop = asyncio.get_running_loop()
    target, _ = await loop.create_datagram_endpoint(Repeater, local_addr=("127.0.0.1", 0))
    backend = target.get_extra_info("sockname")
    forwarding = Forwarding(AddressBook(IPv4Network("127.99.8.0/29")))
    dns = service(ports=[{**PORT, "protocol": "UDP", "port": 18053}])
    await forwarding.refresh([dns], {("s1", "UDP", 18053): [backend]})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.setblocking(False)
        await loop.sock_connect(asking, (forwarding.address(dns), 18053))
        answers = []
        for _ in range(3):
            await loop.sock_sendall(asking, b"who")
            answers.append(await asyncio.wait_for(loop.sock_recv(asking, 100), 10))
    forwarding.close()
    target.close()
    assert all(each.startswith(b"WHO ") for each in answers)
    assert len({*answers}) == 1, "one socket for one sender"


@asynccontextmanager
async def named_servers(*names: bytes) -> AsyncIterator[dict[bytes, tuple[str, int]]]:
    """Servers that say their name to everybody."""
    async with contextlib.AsyncExitStack() as stack:
        found = {}
        for name in names:

            async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter, name: bytes = name) -> None:
                writer.write(name)
                writer.close()

            server = await asyncio.start_server(speak, "127.0.0.1", 0)
            stack.callback(server.close)
            found[name] = server.sockets[0].getsockname()
        yield found


async def heard(address: str, port: int, client: str = "127.0.0.1") -> bytes:
    reader, writer = await asyncio.open_connection(address, port, local_addr=(client, 0))
    try:
        return await reader.read()
    finally:
        writer.close()


STICKY = {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 100}}}
KEY = ("s1", "TCP", 18081)


async def test_a_client_stays_with_its_endpoint_until_affinity_is_switched_off() -> None:
    async with named_servers(b"a", b"b", b"c", b"d") as servers:
        forwarding = Forwarding(AddressBook(IPv4Network("127.99.6.0/29")))
        sticky = service(ports=[{**PORT, "port": 18081}], **STICKY)
        free = service(ports=[{**PORT, "port": 18081}])
        address = forwarding.address(sticky)
        try:
            await forwarding.refresh([sticky], {KEY: [*servers.values()]})
            (first,) = {await heard(address, 18081) for _ in range(20)}
            others = {client: await heard(address, 18081, client) for client in (f"127.0.1.{n}" for n in range(1, 30))}
            assert len({*others.values()}) > 1, "every client has its own"
            assert {client: await heard(address, 18081, client) for client in others} == others
            await forwarding.refresh([free], {KEY: [*servers.values()]})
            assert len({await heard(address, 18081) for _ in range(60)}) > 1
            await forwarding.refresh([sticky], {KEY: [*servers.values()]})
            (again,) = {await heard(address, 18081) for _ in range(20)}
            left = [backend for name, backend in servers.items() if name != again]
            await forwarding.refresh([sticky], {KEY: left})
            (other,) = {await heard(address, 18081) for _ in range(20)}
            assert other != again and first in servers
        finally:
            forwarding.close()


async def test_a_node_port_leads_to_the_service_with_the_same_affinity() -> None:
    async with named_servers(b"a", b"b", b"c", b"d") as servers:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            number = probe.getsockname()[1]
        forwarding = Forwarding(AddressBook(IPv4Network("127.99.5.0/29")), node_address="127.0.0.1")
        ports = [{**PORT, "port": 18081, "nodePort": number}]
        web = service(type="NodePort", ports=ports, **STICKY)
        try:
            await forwarding.refresh([web], {KEY: [*servers.values()]})
            (name,) = {await heard("127.0.0.1", number) for _ in range(20)}
            assert await heard(forwarding.address(web), 18081) == name
            await forwarding.refresh([service(type="ClusterIP", ports=ports)], {KEY: [*servers.values()]})
            with pytest.raises(ConnectionRefusedError):
                await heard("127.0.0.1", number)
        finally:
            forwarding.close()


async def test_a_port_that_another_program_has_is_tried_again() -> None:
    async with named_servers(b"a") as servers:
        forwarding = Forwarding(AddressBook(IPv4Network("127.99.4.0/29")), node_address="127.0.0.1")
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            number = other.getsockname()[1]
            web = service(type="NodePort", ports=[{**PORT, "port": 18081, "nodePort": number}])
            await forwarding.refresh([web], {KEY: [*servers.values()]})
            assert forwarding.waiting
        try:
            await forwarding.refresh([web], {KEY: [*servers.values()]})
            assert not forwarding.waiting
            assert await heard("127.0.0.1", number) == b"a"
        finally:
            forwarding.close()


async def test_a_sender_whose_endpoint_is_gone_is_led_to_another() -> None:
    loop = asyncio.get_running_loop()
    targets = [(await loop.create_datagram_endpoint(Repeater, local_addr=("127.0.0.1", 0)))[0] for _ in range(2)]
    gone, other = (target.get_extra_info("sockname") for target in targets)
    forwarding = Forwarding(AddressBook(IPv4Network("127.99.3.0/29")))
    dns = service(ports=[{**PORT, "protocol": "UDP", "port": 18053}])
    await forwarding.refresh([dns], {("s1", "UDP", 18053): [gone]})
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.setblocking(False)
            await loop.sock_connect(asking, (forwarding.address(dns), 18053))
            await loop.sock_sendall(asking, b"who")
            assert await asyncio.wait_for(loop.sock_recv(asking, 100), 10)
            targets[0].close()
            await forwarding.refresh([dns], {("s1", "UDP", 18053): [other]})
            await loop.sock_sendall(asking, b"who")
            assert (await asyncio.wait_for(loop.sock_recv(asking, 100), 10)).startswith(b"WHO ")
    finally:
        forwarding.close()
        targets[1].close()


async def test_a_connection_is_carried_both_ways_and_ends_with_the_service() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        writer.close()

    target = await asyncio.start_server(echo, "127.0.0.1", 0)
    number = target.sockets[0].getsockname()[1]
    forwarding = Forwarding(AddressBook(IPv4Network("127.99.7.0/29")))
    web = service(ports=[{**PORT, "port": 18080}])
    await forwarding.refresh([web], {("s1", "TCP", 18080): [("127.0.0.1", 1), ("127.0.0.1", number)]})
    try:
        address = forwarding.address(web)
        assert address.startswith("127.99.7.")
        for _ in range(4):  # one of the two does not answer
            reader, writer = await asyncio.open_connection(address, 18080)
            writer.write(b"hello")
            writer.write_eof()
            assert await reader.read() == b"HELLO"
            writer.close()
        assert forwarding.address(service(clusterIP="None")) == ""
        await forwarding.refresh([], {})
        with contextlib.suppress(ConnectionRefusedError):
            await asyncio.open_connection(address, 18080)
            raise AssertionError("it still listens")
    finally:
        forwarding.close()
        target.close()
