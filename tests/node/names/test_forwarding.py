"""Services that pods of a node reach."""

import asyncio
import contextlib
from ipaddress import IPv4Network

import msgspec
from tests.builders import pod

from kohort.node.names.forwarding import Forwarding, backends
from kohort.node.network import AddressBook
from kohort.objects.core import Service
from kohort.objects.discovery import EndpointSlice
from kohort.objects.jsontypes import Json
from kohort.objects.nodepods import NodePod


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
    assert found == {("s1", 80): [("198.18.1.1", 8080)]}


def test_pods_with_loopback_addresses_are_found_without_slices() -> None:
    web = service(ports=[PORT])
    ports = [{"name": "web", "containerPort": 9090}]
    ready = pod("a", "ns").labels(app="web").container("c", ports=ports).ready().as_view(NodePod)
    other = pod("b", "ns").labels(app="else").container("c", ports=ports).ready().as_view(NodePod)
    late = pod("c", "ns").labels(app="web").container("c", ports=ports).as_view(NodePod)
    local = [(ready, "127.20.0.1"), (other, "127.20.0.2"), (late, "127.20.0.3")]
    assert backends([web], [], local) == {("s1", 80): [("127.20.0.1", 9090)]}
    assert backends([web], [], [(ready, "198.18.0.1")]) == {("s1", 80): []}, "those are in slices"


def test_udp_is_not_forwarded() -> None:
    assert backends([service(ports=[{**PORT, "protocol": "UDP"}])], [slice_with("198.18.1.1")], []) == {}


async def test_a_connection_is_carried_both_ways_and_ends_with_the_service() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        writer.close()

    target = await asyncio.start_server(echo, "127.0.0.1", 0)
    number = target.sockets[0].getsockname()[1]
    forwarding = Forwarding(AddressBook(IPv4Network("127.99.7.0/29")))
    web = service(ports=[{**PORT, "port": 18080}])
    await forwarding.refresh([web], {("s1", 18080): [("127.0.0.1", 1), ("127.0.0.1", number)]})
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
